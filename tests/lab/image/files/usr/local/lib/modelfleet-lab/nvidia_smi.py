# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A table for people of what the emulated NVML says. Takes no options: programs ask NVML itself."""

from __future__ import annotations

import sys
import typing as t

import pynvml as nvml


def answer(function: t.Callable[..., t.Any], *arguments: t.Any, show: t.Callable[[t.Any], str] = str) -> str:
    """What a function says, or a dash if the card has no answer."""
    try:
        return show(function(*arguments))
    except nvml.NVMLError:
        return "-"


def main() -> int:
    """Print a row for each card, and one for each process on it."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as exc:
        print(f"NVML can't be used: {exc}", file=sys.stderr)
        return 9
    cuda = nvml.nvmlSystemGetCudaDriverVersion()
    print(f"driver {nvml.nvmlSystemGetDriverVersion()}, CUDA {cuda // 1000}.{cuda % 1000 // 10} (emulated)")
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            gpu = nvml.nvmlDeviceGetHandleByIndex(index)
            memory = nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2)
        except nvml.NVMLError as exc:
            print(f"{index}  {exc}")
            continue
        print(
            f"{index}  {nvml.nvmlDeviceGetPciInfo(gpu).busId}  {nvml.nvmlDeviceGetName(gpu)}"
            f"  {memory.used >> 20:>6} / {memory.total >> 20} MiB"
            f"  {answer(nvml.nvmlDeviceGetTemperatureV, gpu, nvml.NVML_TEMPERATURE_GPU)} C"
            f"  {answer(nvml.nvmlDeviceGetPowerUsage, gpu, show=lambda milliwatts: f'{milliwatts / 1000:.0f}')} W"
        )
        for process in nvml.nvmlDeviceGetComputeRunningProcesses(gpu):
            held = "-" if process.usedGpuMemory is None else f"{process.usedGpuMemory >> 20}"
            name = answer(nvml.nvmlSystemGetProcessName, process.pid)
            print(f"     pid {process.pid} {name}  {held} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
