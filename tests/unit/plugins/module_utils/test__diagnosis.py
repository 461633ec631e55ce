# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._diagnosis import (
    Target,
    as_progress,
    as_result,
    duration,
    message,
    progress_line,
    tokens_per_second,
    vram,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._findings import BY_ID
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import Completion, GpuSample
from ansible_collections.modelfleet.serving.plugins.module_utils._stacks import Stack
from ansible_collections.modelfleet.serving.plugins.module_utils._status import Cause, Status
from ansible_collections.modelfleet.serving.plugins.module_utils._wait import View

GIB = 1 << 30
CARDS = tuple(GpuSample(index, 73 * GIB, 96 * GIB) for index in range(8))
WEIGHTS = Status("progressing", "weights", (("config", 3.0), ("weights", 67.0)), 89, 119, eta_s=250.0)
TRUNCATED = Cause("st_truncated", "SafetensorError: incomplete metadata", "A shard is cut short.", "Download it again.")
UNIT = Target(unit="vllm@kimi.service")


def view(status: Status, **changes: t.Any) -> View:
    return dataclasses.replace(View(status, elapsed_s=70.04, looks=35), **changes)


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0, "0s"), (59.4, "59s"), (59.6, "1m00s"), (250, "4m10s"), (3900, "1h05m")]
)
def test_duration(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        (CARDS, "VRAM 73/96 GiB x8"),
        ((), ""),
        ((GpuSample(0, None),), ""),
        ((GpuSample(0, 10 * GIB), GpuSample(1, 20 * GIB), GpuSample(2, None)), "VRAM 10-20 GiB x2"),
    ],
)
def test_vram(gpus: tuple[GpuSample, ...], expected: str) -> None:
    assert vram(gpus) == expected


SLOW = dataclasses.replace(WEIGHTS, verdict="slow", evidence=("disk 310 MB/s",))
COMPILE = Status("progressing", "compile", (("compile", 95.0),))


@pytest.mark.parametrize(
    ("status", "changes", "expected"),
    [
        (WEIGHTS, {}, "weights 89/119 74%  ETA 4m10s"),
        (SLOW, {"gpus": CARDS}, "weights 89/119 74%  ETA 4m10s  VRAM 73/96 GiB x8  slow: disk 310 MB/s"),
        (dataclasses.replace(WEIGHTS, shards_total=None, bytes_done=1, bytes_total=4), {}, "weights 25%  ETA 4m10s"),
        # the time in a stage is shown coarsely, or every look would make a new line
        (COMPILE, {}, "compile  for 1m30s"),
        (COMPILE, {"gpus": CARDS[:1]}, "compile  for 1m30s  VRAM 73/96 GiB x1"),
        (Status("progressing", "unit", (("unit", 4.0),)), {"notes": ("no journal",)}, "unit"),
        (COMPILE, {"foreign": "port 1 is held by pid 2 (x)"}, "compile  for 1m30s  port 1 is held by pid 2 (x)"),
        (Status("dead", "weights", cause=TRUNCATED), {}, "dead at weights: SafetensorError: incomplete metadata"),
        (
            Status("dead", "weights", cause=TRUNCATED._replace(line=""), evidence=("it ended",)),
            {},
            "dead at weights: it ended",
        ),
        (Status("dead", "weights", cause=TRUNCATED._replace(line="")), {}, "dead at weights: A shard is cut short."),
        (Status("stalled", "nccl", evidence=("8 GPUs at 100 %",)), {}, "stalled at nccl: 8 GPUs at 100 %"),
        (Status("dead", "unit"), {}, "dead at unit"),
        (Status("ready", "ready"), {"completion": Completion(200, "x", 32, 0.5)}, "ready after 1m10s  64.0 tokens/s"),
        (Status("ready", "ready"), {}, "ready after 1m10s"),
    ],
)
def test_progress_line(status: Status, changes: dict[str, t.Any], expected: str) -> None:
    assert progress_line(view(status, **changes)) == expected


@pytest.mark.parametrize(
    ("completion", "expected"),
    [
        (None, None),
        (Completion(200, "x", 32, 0.5), 64.0),
        (Completion(200, "x", 0, 0.5), None),
        (Completion(200, "x", 32, 0.0), None),
        (Completion(500, "", 32, 0.5, "error"), None),
    ],
)
def test_tokens_per_second(completion: Completion | None, expected: float | None) -> None:
    assert tokens_per_second(view(WEIGHTS, completion=completion)) == expected


@pytest.mark.parametrize(
    ("target", "name", "command"),
    [
        (
            UNIT,
            "vllm@kimi.service",
            "systemctl status vllm@kimi.service; journalctl -u vllm@kimi.service -b -e --no-pager -a",
        ),
        (Target(pid=7, log_file="/var/log/my vllm.log"), "process 7", "tail -n 100 '/var/log/my vllm.log'"),
        (Target(pid=7), "process 7", "ps -o pid,ppid,stat,etime,args --pid 7 --ppid 7"),
    ],
)
def test_target(target: Target, name: str, command: str) -> None:
    assert (target.name, target.next_command()) == (name, command)


def test_message_is_the_diagnosis() -> None:
    status = Status(
        "dead",
        "weights",
        cause=TRUNCATED,
        evidence=("the main process has ended",),
        exit_code=1,
        log_tail=tuple(f"line {number}" for number in range(7)),
    )
    seen = view(status, notes=("no kernel log",), foreign="port 8000 is held by pid 50 (nginx)")
    assert message(UNIT, seen) == (
        "vllm@kimi.service is dead at stage weights, exit status 1 (watched for 1m10s).\n"
        "Cause (st_truncated): A shard is cut short.\n"
        "  said: SafetensorError: incomplete metadata\n"
        "Remedy: Download it again.\n"
        "Evidence:\n"
        "  - the main process has ended\n"
        "  - port 8000 is held by pid 50 (nginx)\n"
        "  - no kernel log\n"
        "Log lines that matter:\n"
        "  line 2\n  line 3\n  line 4\n  line 5\n  line 6\n"
        "Next: systemctl status vllm@kimi.service; journalctl -u vllm@kimi.service -b -e --no-pager -a"
    )


@pytest.mark.parametrize(
    ("status", "changes", "headline"),
    [
        (
            Status("dead", "weights", exit_code=None, signal="SIGKILL"),
            {},
            "vllm@kimi.service is dead at stage weights, ended by SIGKILL (watched for 1m10s).",
        ),
        (
            WEIGHTS,
            {"timed_out": True},
            "vllm@kimi.service was not ready within the limit of 1m10s: progressing at stage weights.",
        ),
        (WEIGHTS, {}, "vllm@kimi.service is progressing at stage weights (watched for 1m10s)."),
    ],
)
def test_headline(status: Status, changes: dict[str, t.Any], headline: str) -> None:
    assert message(UNIT, view(status, **changes)).splitlines()[0] == headline


def test_result_has_no_secret_anywhere() -> None:
    cause = Cause("x", "key k3y-long refused", "c", "r")
    status = Status("dead", "config", cause=cause, evidence=("k3y-long",), log_tail=("k3y-long",))
    seen = view(status, completion=Completion(200, "k3y-long", 1, 1.0), notes=("k3y-long twice k3y-long",))
    result = as_result(seen, ["k3y-long"])
    assert "k3y-long" not in repr(result)
    assert "k3y-long" not in message(UNIT, seen, ["k3y-long"])
    assert result["evidence"] == ["***", "*** twice ***"]


def test_no_word_of_our_own_goes() -> None:
    """A remedy names options and variables; and a key may be an English word."""
    refused = BY_ID["http_refused"]
    status = Status("dead", "config", cause=Cause(refused.id, "", refused.cause, refused.remedy))
    assert f"Remedy: {refused.remedy}\n" in message(UNIT, view(status), ["server"])
    assert as_result(view(status), ["server"])["cause"]["remedy"] == refused.remedy
    assert "--api-key or VLLM_API_KEY" in refused.remedy


def test_result_keys() -> None:
    result = as_result(view(WEIGHTS, unit_state="active/running", gpus=CARDS[:1]))
    assert result["stages"] == [{"name": "config", "seconds": 3.0}, {"name": "weights", "seconds": 67.0}]
    assert (result["changed"], result["elapsed_s"], result["looks"], result["timed_out"]) == (False, 70.0, 35, False)
    assert result["unit_state"] == "active/running"
    assert (result["answer"], result["tokens_per_second"]) == (None, None)
    assert result["gpus"][0]["memory_used_bytes"] == 73 * GIB


STACKS = (
    Stack(3, "VLLM::Worker_TP0", "MainThread", ("recv (conn.py:1)", "get (mq.py:2)")),
    Stack(3, "VLLM::Worker_TP0", "loader", ("read (io.py:3)",)),
    Stack(1, "VLLM::APIServer", "MainThread", ("poll (k3y-long.py:4)",)),
)


def test_a_stalled_start_shows_what_was_looked_at() -> None:
    status = Status("stalled", "nccl", evidence=("no sign of progress",))
    seen = view(status, stacks=STACKS, examined=("IOMMU: on",), notes=("a note",))
    assert message(UNIT, seen, ["k3y-long"]).splitlines()[1:-1] == [
        "Evidence:",
        "  - no sign of progress",
        "  - IOMMU: on",
        "  - a note",
        "Stacks, innermost first:",
        "  VLLM::Worker_TP0 (pid 3), MainThread: recv (conn.py:1) < get (mq.py:2)",
        "  VLLM::APIServer (pid 1), MainThread: poll (***.py:4)",
    ]
    result = as_result(seen, ["k3y-long"])
    assert result["evidence"] == ["no sign of progress", "IOMMU: on", "a note"]
    assert result["stacks"][0] == {
        "pid": 3,
        "process": "VLLM::Worker_TP0",
        "thread": "MainThread",
        "frames": ["recv (conn.py:1)", "get (mq.py:2)"],
    }
    assert result["stacks"][2]["frames"] == ["poll (***.py:4)"]


def test_progress_state() -> None:
    cards = (GpuSample(0, 10 * GIB), GpuSample(1, 20 * GIB), GpuSample(2, None))
    assert as_progress(view(SLOW, gpus=cards)) == {
        "line": "weights 89/119 74%  ETA 4m10s  VRAM 10-20 GiB x2  slow: disk 310 MB/s",
        "verdict": "slow",
        "stage": "weights",
        "seconds": 70.0,
        "shards_done": 89,
        "shards_total": 119,
        "eta_s": 250.0,
        "ready_eta_s": None,
        "vram_min_bytes": 10 * GIB,
        "vram_max_bytes": 20 * GIB,
        "gpus": 3,
        "evidence": "disk 310 MB/s",
    }
