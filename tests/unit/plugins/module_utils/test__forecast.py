# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Estimates against what recorded starts then took, and against starts made by the rates of the issue tracker."""

from __future__ import annotations

import json
import pathlib
import statistics
import sys
import typing

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._forecast import Forecast, Span, Start
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord, Observation
from ansible_collections.modelfleet.serving.plugins.module_utils._verdict import Judge, JudgeConfig, Status

RECORDINGS = pathlib.Path(__file__).parents[3] / "recordings"
sys.path.insert(0, str(RECORDINGS))
import replaying  # noqa: E402  # pylint: disable=wrong-import-position,import-error

PARTS = (0.25, 0.5, 0.75)
HEALTHY = ("cold", "plain", "killengine")
LAST = Start(
    {"process": 20.0, "weights": 600.0, "repack": 40.0, "compile": 100.0, "cuda_graphs": 60.0}, 60, "release 3"
)


class Estimate(typing.NamedTuple):
    at: float
    weights: float
    ready: typing.Optional[Span]


def estimates(statuses: typing.Iterable[tuple[float, Status]]) -> tuple[list[Estimate], float, float]:
    """What was said when each part of the weights was there, when they all were, and when it was ready."""
    said: list[Estimate] = []
    loaded = ready = 0.0
    for t, status in statuses:
        part = (status.shards_done or 0) / (status.shards_total or 1)
        while len(said) < len(PARTS) and PARTS[len(said)] <= part < 1 and status.eta_s is not None:
            said.append(Estimate(t, status.eta_s, status.ready_eta))
        loaded = loaded or (t if part >= 1 else 0.0)
        ready = ready or (t if status.verdict == "ready" else 0.0)
    return said, loaded, ready


def recorded(name: str, config: typing.Optional[JudgeConfig] = None) -> list[tuple[float, Status]]:
    folder = RECORDINGS / "vllm-0.20.0-h200"
    data = replaying.read_bytes(folder / f"{name}.log.gz")
    rows = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    watcher = Judge(config or replaying.wanted(data, rows))
    return [(seen.t, watcher.feed(seen)) for seen in replaying.observations_of_samples(data, rows, None)]


def made(total: int, shard_s: float, *, jitter: float = 0.0) -> list[tuple[float, Status]]:
    """A load as the tracker tells of it: looks every two seconds, shards that take turns in being slow and fast."""
    watcher = Judge(JudgeConfig())
    out = [(0.0, watcher.feed(Observation(t=0.0, log=(_record("Starting to load model /srv/models/kimi..."),))))]
    ends = [0.0]
    for number in range(total):
        ends.append(ends[-1] + shard_s * (1 + jitter * (1 if number % 3 == 0 else -0.5)))
    done = -1
    for t in range(2, int(ends[-1]) + 6, 2):
        now = sum(end <= t for end in ends) - 1
        bars = tuple(_bar(number, total, ends[number], shard_s) for number in range(done + 1, now + 1))
        done = now
        out.append((float(t), watcher.feed(Observation(t=float(t), log=bars))))
    return out


def _record(text: str) -> LogRecord:
    return LogRecord(f"(Worker_TP0 pid=7) INFO 05-15 03:15:47 [gpu_model_runner.py:4712] {text}")


def _bar(done: int, total: int, elapsed: float, shard_s: float) -> LogRecord:
    clock = f"{int(elapsed) // 60:02d}:{int(elapsed) % 60:02d}<00:00"
    shown = f"{100 * done // total}% Completed | {done}/{total} [{clock}, {shard_s:.2f}s/it]"
    return LogRecord(f"(Worker_TP0 pid=7) \rLoading safetensors checkpoint shards: {shown}")


def test_the_median_error_of_the_weights_is_at_most_15_percent() -> None:
    runs = [recorded(name) for name in HEALTHY]
    runs += [made(119, 9.0), made(64, 34.0), made(119, 9.0, jitter=0.5), made(64, 34.0, jitter=0.5)]
    errors = []
    for run in runs:
        said, loaded, _ready = estimates(run)
        # the recorded ones loaded so fast that a look can miss a part
        assert len(said) >= len(PARTS) - 1
        errors += [abs(estimate.weights - (loaded - estimate.at)) / (loaded - estimate.at) for estimate in said]
    assert statistics.median(errors) <= 0.15
    # the long ones are what people wait for
    assert max(errors[-4 * len(PARTS) :]) <= 0.15


def test_ready_is_foretold_from_the_start_before() -> None:
    warm = recorded("plain")[-1][1]
    before = Start(dict(warm.stages), warm.shards_total, "release 1")
    said, _loaded, ready = estimates(recorded("cold", JudgeConfig(want_completion=False, forecast=Forecast([before]))))
    errors = []
    for estimate in said:
        assert estimate.ready is not None
        assert estimate.ready.low <= ready - estimate.at <= estimate.ready.high
        errors.append(abs(estimate.ready.likely - (ready - estimate.at)) / (ready - estimate.at))
    assert statistics.median(errors) <= 0.15


def test_nothing_is_foretold_without_a_start_before() -> None:
    forecast = Forecast(())
    assert (forecast.basis, forecast.shard_s, forecast.stage("compile")) == ("", None, None)
    assert forecast.ready("compile", 10.0, None) is None
    assert forecast.slow_because("compile", 10_000.0) is None
    # not even with a bar: the stages after the weights are unknown
    said, _loaded, _ready = estimates(made(64, 34.0))
    assert [estimate.ready for estimate in said] == [None, None, None]


def test_one_start_before_is_taken_with_a_margin_and_two_for_their_range() -> None:
    assert Forecast([LAST]).stage("compile") == Span(100.0, 75.0, 125.0)
    slower = LAST._replace(stages={**LAST.stages, "compile": 400.0})
    assert Forecast([LAST, slower]).stage("compile") == Span(100.0, 75.0, 400.0)
    assert Forecast([LAST]).stage("nccl") == Span(0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("stage", "spent", "shown", "expected"),
    [
        ("compile", 40.0, None, Span(120.0, 80.0, 160.0)),
        ("compile", 130.0, None, Span(60.0, 45.0, 80.0)),
        ("weights", 500.0, Span(150.0, 140.0, 160.0), Span(350.0, 290.0, 410.0)),
        ("weights", 500.0, None, Span(300.0, 150.0, 500.0)),
        ("http", 1.0, None, Span(0.0, 0.0, 1.0)),
    ],
    ids=["within a stage", "a stage over its time", "the bar knows better", "no bar", "all that took time is over"],
)
def test_ready(stage: str, spent: float, shown: typing.Optional[Span], expected: Span) -> None:
    assert Forecast([LAST]).ready(stage, spent, shown) == expected


@pytest.mark.parametrize(
    ("stage", "spent", "words"),
    [
        ("compile", 180.0, None),
        ("compile", 188.0, "compile for 188 s, 100 s in release 3"),
        ("process", 50.0, None),
        ("process", 56.0, "process for 56 s, 20 s in release 3"),
        ("nccl", 1000.0, None),
    ],
)
def test_a_stage_is_slow_against_the_start_before(stage: str, spent: float, words: typing.Optional[str]) -> None:
    assert Forecast([LAST]).slow_because(stage, spent) == words


def test_a_shard_by_the_first_start_that_counted_them() -> None:
    assert Forecast([LAST._replace(shards=None), LAST]).shard_s == 10.0
