# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._gpu import NvmlFault
from ansible_collections.modelfleet.serving.plugins.module_utils._nvml import BindingForeign, BindingMissing
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import GpuSample
from ansible_collections.modelfleet.serving.plugins.module_utils._source_gpu import GpuSource

NOT_SUPPORTED = NvmlFault("NotSupported", "Not Supported")
LOST = NvmlFault("GpuIsLost", "GPU is lost")
TOTAL = 97887 << 20


def memory(used: int) -> types.SimpleNamespace:
    return types.SimpleNamespace(total=TOTAL, used=used)


def process(pid: int, used: int | None) -> types.SimpleNamespace:
    return types.SimpleNamespace(pid=pid, usedGpuMemory=used)


class FakeNvml:
    """A card as a table from function to answer, or to the error it answers with."""

    def __init__(self, *cards: dict[str, t.Any], fault: Exception | None = None) -> None:
        self.cards = cards
        self.fault = fault
        self.opened = 0

    def open(self) -> None:
        self.opened += 1
        if self.fault:
            raise self.fault

    def call(self, function: str, *args: t.Any) -> t.Any:
        if function == "nvmlDeviceGetCount":
            return len(self.cards)
        if function == "nvmlDeviceGetHandleByIndex":
            return args[0]
        answer = self.cards[args[0]].get(function, NOT_SUPPORTED)
        if isinstance(answer, NvmlFault):
            raise answer
        return answer

    def close(self) -> None:
        pass


FULL = {
    "nvmlDeviceGetMemoryInfo_v2": memory(73 << 30),
    "nvmlDeviceGetUtilizationRates": types.SimpleNamespace(gpu=100),
    "nvmlDeviceGetPowerUsage": 140000,
    "nvmlDeviceGetComputeRunningProcesses_v3": [process(7, 70 << 30), process(8, 1 << 30), process(99, 5)],
}


@pytest.mark.parametrize(
    ("card", "expected"),
    [
        (FULL, GpuSample(0, 73 << 30, TOTAL, 100, 140000, 71 << 30)),
        ({}, GpuSample(0, None)),
        # an old driver knows version 1 only, and a container hides each process's memory
        (
            {
                "nvmlDeviceGetMemoryInfo": memory(5),
                "nvmlDeviceGetComputeRunningProcesses_v2": [process(7, None)],
            },
            GpuSample(0, 5, TOTAL, ours_bytes=0),
        ),
        ({**FULL, **dict.fromkeys(FULL, LOST)}, GpuSample(0, None)),
    ],
    ids=["full", "says nothing", "old", "lost"],
)
def test_read(card: dict[str, t.Any], expected: GpuSample) -> None:
    assert GpuSource(FakeNvml(card)).read({7, 8}) == (expected,)


@pytest.mark.parametrize(
    ("fault", "note"),
    [
        (NvmlFault("LibraryNotFound", "no such file"), ""),
        (BindingMissing(), "The GPUs are not watched: the Python library nvidia-ml-py is missing."),
        (BindingForeign("wrong pynvml."), "The GPUs are not watched: wrong pynvml."),
    ],
)
def test_a_host_without_is_asked_once(fault: Exception, note: str) -> None:
    nvml = FakeNvml(fault=fault)
    source = GpuSource(nvml)
    assert source.read(()) is None
    assert source.read(()) is None
    assert nvml.opened == 1
    assert source.note == note


def test_a_driver_without_cards() -> None:
    assert GpuSource(FakeNvml()).read(()) is None
