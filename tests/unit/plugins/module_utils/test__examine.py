# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json
import os
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils import _examine
from ansible_collections.modelfleet.serving.plugins.module_utils._examine import Examiner
from ansible_collections.modelfleet.serving.plugins.module_utils._kernel_waits import KernelWaits
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import ProcSample, Storage
from ansible_collections.modelfleet.serving.plugins.module_utils._peer_path import PeerPath
from ansible_collections.modelfleet.serving.plugins.module_utils._source_proc import ProcReader
from ansible_collections.modelfleet.serving.plugins.module_utils._stacks import Stack
from ansible_collections.modelfleet.serving.plugins.module_utils._status import Cause, Status
from ansible_collections.modelfleet.serving.plugins.module_utils._wait import View

PROCS = (
    ProcSample(1, 0, 1, "VLLM::APIServer", "S", 0.0),
    ProcSample(2, 1, 1, "VLLM::Worker_TP0", "D", 0.0),
)


class Waits(KernelWaits):
    def __init__(self) -> None:
        pass

    def blocked(self, procs: t.Iterable[ProcSample], storage: Storage | None) -> tuple[str, ...]:
        return tuple(f"{proc.name} waits" for proc in procs if proc.state == "D")


class Peers(PeerPath):
    def words(self) -> tuple[str, ...]:
        return ("IOMMU: on",)


class Run:
    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.asked: list[str] = []

    def __call__(self, arguments: t.Sequence[str]) -> tuple[int, str, str]:
        pid = int(arguments[-1])
        self.asked.append(f"{arguments[3]} {pid}")
        frame = {"name": "wait", "short_filename": "x.py", "line": pid}
        answer = [{"pid": pid, "thread_name": "MainThread", "frames": [frame]}]
        return self.status, json.dumps(answer), ""


def view(verdict: str = "stalled", stage: str = "nccl", cause: str = "nccl_hang", **changes: t.Any) -> View:
    status = Status(verdict, stage, cause=Cause(cause, "", "c", "r"))
    return dataclasses.replace(View(status, 300.0, 150, procs=PROCS, notes=("a note",)), **changes)


def examine(run: Run, seen: View) -> View:
    return Examiner(run, ProcReader(), Waits(), Peers()).examine(seen)


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_examine._stacks, "find_program", lambda own, foreign: "/x/py-spy")


def test_a_stalled_start_is_looked_into() -> None:
    run = Run()
    seen = examine(run, view())
    assert seen.examined == ("VLLM::Worker_TP0 waits", "IOMMU: on")
    assert run.asked == ["/x/py-spy 2", "/x/py-spy 1"]
    assert seen.stacks == (
        Stack(2, "VLLM::Worker_TP0", "MainThread", ("wait (x.py:2)",)),
        Stack(1, "VLLM::APIServer", "MainThread", ("wait (x.py:1)",)),
    )
    assert seen.notes == ("a note",)


@pytest.mark.parametrize("verdict", ["ready", "progressing", "slow", "dead"])
def test_no_other_one_is(verdict: str) -> None:
    run = Run()
    seen = view(verdict)
    assert examine(run, seen) == seen
    assert run.asked == []


def test_peers_are_no_matter_of_other_causes() -> None:
    assert examine(Run(), view(cause="no_progress")).examined == ("VLLM::Worker_TP0 waits",)


@pytest.mark.parametrize("stage", ["unit", "model_listed", "known_answer"])
def test_no_stacks_of_what_answers_or_does_not_run(stage: str) -> None:
    run = Run()
    assert examine(run, view(stage=stage)).stacks == ()
    assert run.asked == []


def test_what_fails_is_said() -> None:
    seen = examine(Run(status=124), view())
    assert seen.stacks == ()
    assert seen.notes == (
        "a note",
        "no stacks of VLLM::Worker_TP0 (pid 2): /x/py-spy did not answer within 5 s",
        "no stacks of VLLM::APIServer (pid 1): /x/py-spy did not answer within 5 s",
    )


def test_a_host_without_py_spy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_examine._stacks, "find_program", lambda own, foreign: "")
    seen = examine(Run(), view())
    assert seen.notes == (
        "a note",
        "no stacks: py-spy is neither on PATH nor in the environments of the tools and of vLLM",
    )
    assert examine(Run(), view(procs=())).notes == ("a note",)


def test_this_host() -> None:
    """With the real parts."""
    here = ProcReader().sample(os.getpid())
    assert here is not None
    seen = Examiner(Run(), ProcReader()).examine(view(procs=(here,)))
    assert seen.stacks[0].pid == os.getpid()
    assert seen.examined[0].startswith("IOMMU: ")
