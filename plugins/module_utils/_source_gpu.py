# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The GPUs during a start: memory, use and power, once a poll, and whose memory it is."""

from __future__ import annotations

import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._gpu import Nvml, NvmlFault
from ansible_collections.modelfleet.serving.plugins.module_utils._nvml import BindingForeign, BindingMissing
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import GpuSample

_MEMORY = ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo")
_PROCESSES = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")


class GpuSource:
    """Reads all GPUs of the host; a host without any is asked once and never again."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._handles: t.Optional[list[t.Any]] = None
        #: why the GPUs of a host that has some are not watched
        self.note = ""

    def read(self, pids: t.Collection[int]) -> t.Optional[tuple[GpuSample, ...]]:
        """None where there is no NVML; unknown values are None."""
        if self._handles is None:
            self._handles = self._open()
        if not self._handles:
            return None
        return tuple(self._sample(index, handle, pids) for index, handle in enumerate(self._handles))

    def _open(self) -> list[t.Any]:
        try:
            self._nvml.open()
            return [
                self._nvml.call("nvmlDeviceGetHandleByIndex", index)
                for index in range(self._nvml.call("nvmlDeviceGetCount"))
            ]
        except NvmlFault:
            # a host without GPU or driver; gpu_facts is there to say why
            return []
        except BindingMissing:
            self.note = "The GPUs are not watched: the Python library nvidia-ml-py is missing."
        except BindingForeign as exc:
            self.note = f"The GPUs are not watched: {exc}"
        return []

    def _sample(self, index: int, handle: t.Any, pids: t.Collection[int]) -> GpuSample:
        memory = self._first(_MEMORY, handle)
        rates = self._first(("nvmlDeviceGetUtilizationRates",), handle)
        processes = self._first(_PROCESSES, handle)
        return GpuSample(
            index=index,
            memory_used_bytes=None if memory is None else memory.used,
            memory_total_bytes=None if memory is None else memory.total,
            utilization_percent=None if rates is None else rates.gpu,
            power_mw=self._first(("nvmlDeviceGetPowerUsage",), handle),
            ours_bytes=None
            if processes is None
            else sum(entry.usedGpuMemory or 0 for entry in processes if entry.pid in pids),
        )

    def _first(self, functions: t.Sequence[str], handle: t.Any) -> t.Any:
        for function in functions:
            try:
                return self._nvml.call(function, handle)
            except NvmlFault:
                continue
        return None


__all__ = ("GpuSource",)
