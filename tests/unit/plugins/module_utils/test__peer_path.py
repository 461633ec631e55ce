# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import struct

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._peer_path import PeerPath, acs_control


def config(*capabilities: tuple[int, int], size: int = 4096) -> bytes:
    """A configuration space with these extended capabilities, each with its control register."""
    space = bytearray(size)
    for number, (kind, control) in enumerate(capabilities):
        offset = 0x100 + 0x20 * number
        following = offset + 0x20 if number + 1 < len(capabilities) else 0
        struct.pack_into("<IHH", space, offset, kind | 1 << 16 | following << 20, 0x7F, control)
    return bytes(space)


AER, ACS = 0x0001, 0x000D


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (config((AER, 0), (ACS, 0x1D)), 0x1D),
        (config((ACS, 0)), 0),
        (config((AER, 0xFFFF)), None),
        (config(), None),
        (config((ACS, 0x1D))[:64], None),
        (b"", None),
        # a list that leads back to its beginning
        (bytes(0x100) + struct.pack("<II", AER | 0x100 << 20, 0) + bytes(64), None),
        # a device that is lost answers with ones
        (b"\xff" * 4096, None),
    ],
)
def test_acs_control(space: bytes, expected: int | None) -> None:
    assert acs_control(space) == expected


class Host:
    """Two GPUs, each below a bridge of its own and one they share."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.devices = root / "sys/bus/pci/devices"
        self.devices.mkdir(parents=True)

    def gpus(self, bridge: bytes = b"", group: str = "") -> Host:
        for number in (1, 2):
            above = self.root / f"sys/devices/pci0000:00/0000:00:01.0/0000:0{number}:00.0"
            gpu = above / f"0000:1{number}:00.0"
            gpu.mkdir(parents=True)
            (gpu / "vendor").write_text("0x10de\n", encoding="ascii")
            (gpu / "class").write_text("0x030200\n", encoding="ascii")
            if group:
                (gpu / "iommu_group").mkdir()
                (gpu / "iommu_group" / "type").write_text(group + "\n", encoding="ascii")
            for device in (above, gpu):
                (self.devices / device.name).symlink_to(device)
            (above / "config").write_bytes(bridge)
        root_port = self.root / "sys/devices/pci0000:00/0000:00:01.0"
        (root_port / "config").write_bytes(config((ACS, 0)))
        (self.devices / root_port.name).symlink_to(root_port)
        return self

    def iommu(self, *units: str, cmdline: str = "quiet") -> Host:
        for unit in units:
            (self.root / "sys/class/iommu" / unit).mkdir(parents=True)
        (self.root / "sys/class/iommu").mkdir(parents=True, exist_ok=True)
        (self.root / "proc").mkdir(exist_ok=True)
        (self.root / "proc/cmdline").write_text(cmdline + "\n", encoding="ascii")
        return self

    def words(self) -> tuple[str, ...]:
        return PeerPath(str(self.root)).words()


def test_all_off(tmp_path: pathlib.Path) -> None:
    host = (
        Host(tmp_path).gpus(config((AER, 0), (ACS, 0x11))).iommu(cmdline="quiet amd_iommu=off iommu=off root=/dev/sda")
    )
    assert host.words() == (
        "IOMMU: off; kernel options: amd_iommu=off iommu=off",
        "ACS: off at the 3 bridges above the GPUs",
    )


def test_all_on(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path).gpus(config((ACS, 0x1D)), "DMA-FQ").iommu("ivhd0", "ivhd1")
    hmm = tmp_path / "sys/module/nvidia_uvm/parameters"
    hmm.mkdir(parents=True)
    (hmm / "uvm_disable_hmm").write_text("N\n", encoding="ascii")
    assert host.words() == (
        "IOMMU: on, and it translates the GPUs' addresses (DMA-FQ): boot with iommu=off; kernel options: none about it",
        "ACS: 2 of 3 bridges above the GPUs send traffic between GPUs up to the root (0000:01:00.0, 0000:02:00.0): "
        "turn ACS off",
        "nvidia_uvm: HMM is on (uvm_disable_hmm=0)",
    )


def test_passed_through(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path).gpus(config(), "identity").iommu("dmar0", cmdline="iommu=pt")
    assert host.words()[0] == "IOMMU: on, but it passes the GPUs' traffic through (identity); kernel options: iommu=pt"


def test_not_by_root(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path).gpus(bytes(64)).iommu("dmar0")
    (tmp_path / "sys/devices/pci0000:00/0000:00:01.0/config").write_bytes(bytes(64))
    assert host.words() == (
        "IOMMU: on; how it treats the GPUs is not known; kernel options: none about it",
        "ACS: not known, the configuration of 0000:00:01.0 can be read by root only",
    )


def test_a_virtual_machine(tmp_path: pathlib.Path) -> None:
    host = Host(tmp_path).iommu()
    gpu = tmp_path / "sys/devices/pci0000:00/0000:00:05.0"
    gpu.mkdir(parents=True)
    (gpu / "vendor").write_text("0x10de", encoding="ascii")
    (gpu / "class").write_text("0x030000", encoding="ascii")
    (host.devices / gpu.name).symlink_to(gpu)
    assert host.words()[1] == ("ACS: no PCIe bridge is seen above the GPUs, as in a virtual machine; its host decides")


def test_nothing_can_be_read(tmp_path: pathlib.Path) -> None:
    assert PeerPath(str(tmp_path)).words() == (
        f"IOMMU: not known, {tmp_path}/sys/class/iommu cannot be read; kernel options: none about it",
        f"ACS: not known, there is no NVIDIA GPU in {tmp_path}/sys/bus/pci/devices",
    )


def test_this_machine() -> None:
    said = PeerPath().words()
    assert said[0].startswith("IOMMU: ")
    assert said[1].startswith("ACS: ")
