# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import (
    Completion,
    GpuSample,
    HttpSample,
    Observation,
    UnitState,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._status import Status
from ansible_collections.modelfleet.serving.plugins.module_utils._wait import Patience, View, wait

UNIT = UnitState("loaded", "active", "running", "success", 161, 0, "no", 0, 0)


class World:
    """A clock that only moves when somebody sleeps or looks, and what is to be seen at each look."""

    def __init__(self, looks: int, cost: float = 0.0, backlog: int = 0, busy_until: float = 0.0) -> None:
        self.now = 1000.0
        self.cost = cost
        self.backlog = backlog
        self.busy_until = busy_until
        self.final_at = looks
        self.pauses: list[float] = []
        self.seen: list[Observation] = []
        self.told: list[View] = []
        self.extra: dict[int, Observation] = {}

    # the sources
    @property
    def more(self) -> bool:
        return len(self.seen) <= self.backlog

    @more.setter
    def more(self, value: bool) -> None:
        raise AttributeError

    @property
    def busy(self) -> bool:
        return self.now - 1000.0 < self.busy_until

    def observe(self, now: float) -> Observation:
        self.now += self.cost
        return self.extra.get(len(self.seen) + 1, Observation(t=now))

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    # the judge
    def feed(self, observation: Observation) -> Status:
        self.seen.append(observation)
        final = len(self.seen) == self.final_at
        return Status("ready" if final else "progressing", "ready" if final else "weights", final=final)

    def run(self, patience: Patience) -> View:
        return wait(self, self, patience, lambda: self.now, self.told.append)


def test_looks_until_the_status_is_final() -> None:
    world = World(looks=4, cost=0.5)
    view = world.run(Patience(poll_interval=2.0))
    assert (view.status.verdict, view.looks, view.timed_out) == ("ready", 4, False)
    assert world.pauses == [2.0, 2.0, 2.0]
    assert [observation.t for observation in world.seen] == [0.0, 2.5, 5.0, 7.5]
    assert view.elapsed_s == 8.0
    assert [told.looks for told in world.told] == [1, 2, 3, 4]


def test_a_server_that_is_ready_is_not_waited_for() -> None:
    world = World(looks=1)
    assert world.run(Patience()).looks == 1
    assert world.pauses == []


def test_time_limit_ends_with_a_last_look() -> None:
    world = World(looks=99)
    view = world.run(Patience(poll_interval=2.0, timeout=5.0))
    assert (view.timed_out, view.elapsed_s, view.status.verdict) == (True, 5.0, "progressing")
    assert world.pauses == [2.0, 2.0, 1.0]
    assert world.told[-1].timed_out


def test_final_at_the_limit_is_no_time_out() -> None:
    assert not World(looks=1).run(Patience(timeout=0.0)).timed_out


def test_a_limit_of_zero_looks_once() -> None:
    view = World(looks=2).run(Patience(timeout=0.0))
    assert (view.looks, view.timed_out) == (1, True)


def test_waiting_log_is_read_without_a_pause() -> None:
    world = World(looks=5, backlog=3)
    world.run(Patience(poll_interval=2.0))
    assert world.pauses == [2.0]


@pytest.mark.parametrize(
    ("busy_until", "backlog", "looks", "pauses"),
    [(0.0, 0, 1, 0), (0.0, 2, 3, 0), (0.5, 0, 4, 3), (100.0, 0, 6, 5)],
    ids=["nothing under way", "log waiting", "answer under way", "no answer comes"],
)
def test_one_look(busy_until: float, backlog: int, looks: int, pauses: int) -> None:
    world = World(looks=99, busy_until=busy_until, backlog=backlog)
    view = world.run(Patience(poll_interval=2.0, timeout=0.0, one_look=0.9))
    assert (view.looks, view.timed_out) == (looks, False)
    assert world.pauses == [0.2] * pauses


def test_view_keeps_what_the_last_look_saw() -> None:
    world = World(looks=3)
    answer = Completion(200, "Paris", 2, 0.5)
    gpus = (GpuSample(0, 5),)
    world.extra[1] = Observation(t=0, http=HttpSample(200, completion=answer), notes=("gone soon",))
    foreign = HttpSample(foreign="port 8000 is held by pid 50 (nginx)")
    world.extra[3] = Observation(t=2, unit=UNIT, gpus=gpus, http=foreign, notes=("no journal", "no journal"))
    view = world.run(Patience())
    assert view.completion == answer
    assert view.gpus == gpus
    assert view.unit_state == "active/running"
    assert view.notes == ("no journal",)
    assert view.foreign == "port 8000 is held by pid 50 (nginx)"
