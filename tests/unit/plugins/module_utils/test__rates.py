# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import (
    GroupUse,
    Observation,
    Paging,
    ProcSample,
    Storage,
    Totals,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._rates import Rates, RateWindow


def proc(pid: int, cpu_s: float = 0.0, state: str = "S", start: int = 1) -> ProcSample:
    return ProcSample(pid, 1, start, f"p{pid}", state, cpu_s)


def window(*looks: tuple[Observation, dict[str, float]]) -> Rates | None:
    rates = RateWindow()
    for seen, risen in looks:
        rates.feed(seen, risen)
    return rates.rates()


def test_nothing_before_enough_was_seen() -> None:
    assert RateWindow().rates() is None
    assert window((Observation(0.0), {})) is None
    assert window((Observation(0.0), {"read": 0.0}), (Observation(4.9), {"read": 9e9})) is None


def test_what_is_unknown_stays_so() -> None:
    assert window((Observation(0.0), {}), (Observation(10.0), {})) == Rates()


def test_everything() -> None:
    before = GroupUse(4, 2.0, "", 100, 10, 5.0, 1.0, 2.0, 3.0, 7, 8)
    after = GroupUse(4, 2.0, "a.slice", 200, 60, 25.0, 8.0, 2.5, 4.0, 7, 8)
    first = Observation(0.0, procs=(proc(1, 1.0), proc(2, 5.0)), group=before, paging=Paging(0, 100))
    last = Observation(
        10.0,
        procs=(proc(1, 10.0, "D"), proc(2, 6.0), proc(3, 99.0)),
        group=after,
        paging=Paging(50, 1100),
        compilers=3,
        storage=Storage("ext4", "/"),
    )
    assert window((first, {"read": 0.0, "cpu": 0.0}), (last, {"read": 500.0, "cpu": 7.0})) == Rates(
        read=50.0,
        cpu=2.0,
        busiest=("p1", 0.9),
        io_wait=0.7,
        memory_wait=0.05,
        cpu_wait=0.1,
        throttled=0.5,
        blocked=0.5,
        swapped_in=5.0,
        refaulted=100.0,
        compilers=3,
        cores=4,
        quota_cores=2.0,
        quota_of="a.slice",
        read_limit=7,
        read_ops_limit=8,
        storage=Storage("ext4", "/"),
    )


def test_cpu_of_the_processes_where_the_group_does_not_tell() -> None:
    rates = window((Observation(0.0), {"cpu": 1.0}), (Observation(10.0), {"cpu": 16.0}))
    assert rates is not None
    assert rates.cpu == 1.5


def test_only_the_last_half_minute_counts() -> None:
    looks = [(Observation(float(at)), {"read": 100.0 * min(at, 40)}) for at in range(0, 71, 2)]
    rates = window(*looks)
    assert rates is not None
    assert rates.read == 0.0
    rates = window(*looks[:21])
    assert rates is not None
    assert rates.read == 100.0


@pytest.mark.parametrize("field", ["cpu_s", "io_wait_s"])
def test_a_group_made_anew_is_no_rate(field: str) -> None:
    first, last = GroupUse(**t.cast("t.Any", {field: 9.0})), GroupUse(**t.cast("t.Any", {field: 1.0}))
    assert window((Observation(0.0, group=first), {}), (Observation(10.0, group=last), {})) == Rates()


def test_no_period_is_no_share() -> None:
    group = GroupUse(periods=5, throttled=1)
    assert window((Observation(0.0, group=group), {}), (Observation(10.0, group=group), {})) == Rates()


def test_states_of_one_process_and_of_a_sum() -> None:
    looks = [Observation(float(n * 3), procs=(proc(1, state="DSDD"[n]), proc(2, state="SDSS"[n]))) for n in range(4)]
    rates = window(*((look, {}) for look in looks))
    assert rates is not None
    assert rates.blocked == 0.75
    sums = [Observation(float(n * 3), totals=Totals(states={"T": n % 2, "S": 4})) for n in range(4)]
    rates = window(*((look, {}) for look in sums))
    assert rates is not None
    assert rates.stopped == 0.5
