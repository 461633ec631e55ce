# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord
from ansible_collections.modelfleet.serving.plugins.module_utils._source_kernel import KernelSource, concerns

OOM = "Out of memory: Killed process 4711 (VLLM::EngineCor) total-vm:1kB, anon-rss:2kB"
CGROUP_OOM = "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/system.slice/vllm.service,task=vllm,pid=4711,uid=998"
XID = "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
XID_LOST = "NVRM: Xid (PCI:0000:c1:00): 79, pid='99', name=python3, GPU has fallen off the bus."
XID_OTHER = "NVRM: Xid (PCI:0000:01:00): 31, pid=99, name=python3, Ch 00000008"
XID_QUOTED = "NVRM: Xid (PCI:0000:01:00): 31, pid='99', name=python3, Ch 00000008"
NVRM = "NVRM: GPU at PCI:0000:c1:00: GPU-5f1d7b6c-0000-0000-0000-000000000000"
SEGV = "python3[4711]: segfault at 0 ip 00007f sp 00007f error 4 in _C.abi3.so"


@pytest.mark.parametrize(
    ("text", "pids", "expected"),
    [
        (OOM, {4711}, True),
        (OOM, {99}, False),
        # too late to know which processes the service had
        (OOM, set(), True),
        (CGROUP_OOM, {4711}, True),
        (CGROUP_OOM, {99}, False),
        (XID, {4711}, True),
        (XID_LOST, {4711}, True),
        (XID_OTHER, {4711}, False),
        (XID_QUOTED, {4711}, False),
        (XID_QUOTED, {99}, True),
        (NVRM, {4711}, True),
        (SEGV, {4711}, True),
        (SEGV, {99}, False),
        ("eth0: link up", {4711}, False),
    ],
)
def test_concerns(text: str, pids: set[int], expected: bool) -> None:
    assert concerns(text, pids) is expected


class FakeJournal:
    """Gives its replies one after the other."""

    def __init__(self, *replies: tuple[int, str, str]) -> None:
        self._replies = list(replies)
        self.asked: list[t.Sequence[str]] = []

    def __call__(self, command: t.Sequence[str]) -> tuple[int, str, str]:
        self.asked.append(command)
        return self._replies.pop(0)


def line(text: str, cursor: str) -> str:
    fields = {"__CURSOR": cursor, "__REALTIME_TIMESTAMP": "1700000001500000", "MESSAGE": text}
    return json.dumps({**fields, "_TRANSPORT": "kernel"})


def test_it_reads_since_the_start_and_then_on() -> None:
    run = FakeJournal((0, "\n".join((line("eth0: link up", "k1"), line(OOM, "k2"))), ""), (0, "", ""), (1, "", ""))
    source = KernelSource(run, 1700000000.4)
    source.pids.add(4711)
    assert source.read().records == (LogRecord(OOM, None, "kernel", 1700000001.5),)
    assert source.read().records == ()
    assert source.read() == ((), "", (), False)
    assert [asked[-1] for asked in run.asked] == ["--since=@1700000000", "--after-cursor=k2", "--after-cursor=k2"]
    assert run.asked[0][:2] == ["journalctl", "--dmesg"]


def test_who_may_not_read_it_is_told_so() -> None:
    why = "No journal files were opened due to insufficient permissions.\n"
    reading = KernelSource(FakeJournal((1, "", why)), 0.0).read()
    assert reading.records == ()
    assert reading.notes == (
        "The kernel's log could not be read: No journal files were opened due to insufficient permissions.",
    )
