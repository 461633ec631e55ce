# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The stages of a start, how long each may show no sign of progress, and which signs count in it."""

from __future__ import annotations

import typing

#: signs of progress (see ``_progress_signs.py``)
LOG, BAR, READ, FAULTS, CPU, VRAM, COMPILERS, CACHE, QUEUE = (
    "log",
    "bar",
    "read",
    "faults",
    "cpu",
    "vram",
    "compilers",
    "cache",
    # systemd has the start in its queue
    "queue",
)

#: signs that only work leaves behind
WORK = frozenset((LOG, BAR, READ, FAULTS, VRAM, COMPILERS, CACHE))

#: A process that waits for a peer in a busy loop burns CPU without end. Where CPU time is only a weak sign, it
#: stretches the budget by this factor and no further.
WEAK_FACTOR = 3.0


class Stage(typing.NamedTuple):
    """One stage; it is under way from the moment it is entered until a later one is."""

    name: str
    #: seconds without a sign that counts, before the start is taken as stalled
    budget_s: float
    #: signs that restart the budget
    full: frozenset[str]
    #: signs that only stretch it
    weak: frozenset[str]
    #: id of the ``watch`` row of the signature table that explains a stall here; empty: none in particular
    hang: str = ""


STAGES = (
    Stage("unit", 90, frozenset((LOG,)), frozenset((QUEUE,))),
    # imports: 15 to 25 s without a line on a fast host, minutes from a cold network file system
    Stage("process", 300, WORK | {CPU}, frozenset()),
    Stage("config", 300, WORK | {CPU}, frozenset()),
    Stage("engine", 300, WORK | {CPU}, frozenset()),
    # ranks wait for each other in busy loops from here on
    Stage("workers", 300, WORK, frozenset((CPU,))),
    # a communicator is set up in seconds; in the known deadlock every rank spins on CPU and GPU for ever
    Stage("nccl", 120, frozenset((LOG, BAR, VRAM)), frozenset(), "nccl_hang"),
    Stage("weights", 300, WORK, frozenset((CPU,)), "load_hang"),
    # an hour without a line was seen after the last shard of 805 GiB, with reads all the while
    Stage("repack", 900, WORK, frozenset((CPU,))),
    Stage("compile", 900, WORK, frozenset((CPU,))),
    Stage("kv_cache", 300, WORK, frozenset((CPU,))),
    Stage("warmup", 600, WORK, frozenset((CPU,)), "fi_autotune_hang"),
    # the journal shows nothing of a capture until it is over
    Stage("cuda_graphs", 600, WORK, frozenset((CPU,))),
    Stage("http", 180, WORK | {CPU}, frozenset()),
    Stage("model_listed", 60, frozenset((LOG,)), frozenset()),
    # the first request may compile kernels
    Stage("first_token", 300, WORK - {LOG}, frozenset((LOG, CPU))),
    Stage("known_answer", 120, frozenset((COMPILERS,)), frozenset((LOG, CPU))),
    Stage("ready", 0, frozenset(), frozenset()),
)

NAMES = tuple(stage.name for stage in STAGES)
ORDER = {name: index for index, name in enumerate(NAMES)}
BY_NAME = {stage.name: stage for stage in STAGES}


class StageTrack:
    """Where a start is and how long it was in each stage. It never goes back, a drafter's weights aside."""

    def __init__(self, first: str, t: float) -> None:
        self.name = first
        self._entered = t
        self._spent: dict[str, float] = {first: 0.0}

    def enter(self, name: str, t: float, *, again: bool = False) -> bool:
        """Move to ``name`` if that is ahead, or, with ``again``, back from ``repack`` to ``weights``."""
        ahead = ORDER[name] > ORDER[self.name]
        if not ahead and not (again and name == "weights" and self.name == "repack"):
            return False
        self._spent[self.name] += t - self._entered
        self._spent.setdefault(name, 0.0)
        self.name = name
        self._entered = t
        return True

    def seconds(self, t: float) -> tuple[tuple[str, float], ...]:
        """Every stage entered, in order, with the seconds spent in it up to ``t``."""
        running = {self.name: t - self._entered}
        return tuple((name, self._spent[name] + running.get(name, 0.0)) for name in NAMES if name in self._spent)

    def reached(self, name: str) -> bool:
        return ORDER[self.name] >= ORDER[name]


__all__ = (
    "BAR",
    "BY_NAME",
    "CACHE",
    "COMPILERS",
    "CPU",
    "FAULTS",
    "LOG",
    "NAMES",
    "ORDER",
    "QUEUE",
    "READ",
    "STAGES",
    "VRAM",
    "WEAK_FACTOR",
    "Stage",
    "StageTrack",
)
