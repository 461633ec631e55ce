# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Whether GPUs of this host can reach each other over PCIe: what IOMMU and ACS do on the way. In words.

Peers on PCIe write into each other's memory. An IOMMU that translates, and bridges whose ACS sends such writes up to
the root, make them slow, and on many boards never complete: then the first collective of all ranks waits for ever.
"""

from __future__ import annotations

import os
import re
import struct
import typing as t

NVIDIA = "0x10de"
#: VGA and 3D controllers
_DISPLAY = ("0x0300", "0x0302")
#: kernel options that decide about it
_OPTIONS = re.compile(r"^(?:(?:amd_|intel_)?iommu|iommu\.\w+|pci|pcie_acs_override)=")
#: PCIe extended capabilities: where the list begins, and which one is ACS
_EXTENDED, _ACS = 0x100, 0x000D
#: of its control register: peer-to-peer requests, and completions, are sent up to the root
_REDIRECT = 0x04 | 0x08
_ADDRESS = re.compile(r"^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")


def acs_control(config: bytes) -> t.Optional[int]:
    """The ACS control register out of a device's configuration space; None where it has no ACS."""
    offset = _EXTENDED
    seen = set()
    while offset >= _EXTENDED and offset + 8 <= len(config) and offset not in seen:
        seen.add(offset)
        header, capabilities_control = struct.unpack_from("<II", config, offset)
        if header & 0xFFFF == _ACS:
            return capabilities_control >> 16
        offset = header >> 20 & 0xFFC
    return None


class PeerPath:
    """Reads ``/sys`` and ``/proc/cmdline`` below ``root``."""

    def __init__(self, root: str = "/") -> None:
        self._devices = os.path.join(root, "sys/bus/pci/devices")
        self._iommus = os.path.join(root, "sys/class/iommu")
        self._cmdline = os.path.join(root, "proc/cmdline")
        self._hmm = os.path.join(root, "sys/module/nvidia_uvm/parameters/uvm_disable_hmm")

    def words(self) -> tuple[str, ...]:
        gpus = self._gpus()
        hmm = _text(self._hmm)
        said = [self._iommu(gpus), self._acs(gpus)]
        if hmm.upper() in ("N", "0"):
            said.append("nvidia_uvm: HMM is on (uvm_disable_hmm=0)")
        return tuple(said)

    def _gpus(self) -> list[str]:
        return [
            name
            for name in _names(self._devices) or ()
            if _text(os.path.join(self._devices, name, "vendor")) == NVIDIA
            and _text(os.path.join(self._devices, name, "class")).startswith(_DISPLAY)
        ]

    def _iommu(self, gpus: t.Sequence[str]) -> str:
        options = [word for word in _text(self._cmdline).split() if _OPTIONS.match(word)]
        booted = f"; kernel options: {' '.join(options) or 'none about it'}"
        units = _names(self._iommus)
        if units is None:
            return f"IOMMU: not known, {self._iommus} cannot be read{booted}"
        if not units:
            return f"IOMMU: off{booted}"
        types = sorted({_text(os.path.join(self._devices, gpu, "iommu_group/type")) for gpu in gpus} - {""})
        if not types:
            how = "on; how it treats the GPUs is not known"
        elif types == ["identity"]:
            how = "on, but it passes the GPUs' traffic through (identity)"
        else:
            how = f"on, and it translates the GPUs' addresses ({', '.join(types)}): boot with iommu=off"
        return f"IOMMU: {how}{booted}"

    def _acs(self, gpus: t.Sequence[str]) -> str:
        if not gpus:
            return f"ACS: not known, there is no NVIDIA GPU in {self._devices}"
        bridges = sorted({bridge for gpu in gpus for bridge in self._above(gpu)})
        configs = {bridge: _bytes(os.path.join(self._devices, bridge, "config")) for bridge in bridges}
        short = [bridge for bridge, config in configs.items() if len(config) <= _EXTENDED]
        if not bridges:
            return "ACS: no PCIe bridge is seen above the GPUs, as in a virtual machine; its host decides"
        if len(short) == len(bridges):
            return f"ACS: not known, the configuration of {short[0]} can be read by root only"
        on = [bridge for bridge, config in configs.items() if (acs_control(config) or 0) & _REDIRECT]
        if not on:
            return f"ACS: off at the {len(bridges)} bridges above the GPUs"
        return (
            f"ACS: {len(on)} of {len(bridges)} bridges above the GPUs send traffic between GPUs up to the root "
            f"({', '.join(on[:4])}{' ...' if len(on) > 4 else ''}): turn ACS off"
        )

    def _above(self, gpu: str) -> list[str]:
        path = os.path.realpath(os.path.join(self._devices, gpu))
        return [part for part in path.split(os.sep)[:-1] if _ADDRESS.match(part)]


def _names(folder: str) -> t.Optional[list[str]]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return None


def _text(path: str) -> str:
    return _bytes(path).decode("utf-8", "replace").strip()


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as handle:
            return handle.read()
    except OSError:
        return b""


__all__ = ("PeerPath", "acs_control")
