# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""How fast the service reads, computes and waits at present: the rise of each counter over the last looks. Pure."""

from __future__ import annotations

import collections
import typing

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._observe import (
        GroupUse,
        Observation,
        Paging,
        ProcSample,
        Storage,
    )

#: A shard is read and then copied: shorter windows show the one or the other.
_WINDOW_S = 30.0
#: less than this says nothing
_LEAST_S = 5.0


class Rates(typing.NamedTuple):
    """None: not to be had, which is never the same as zero."""

    #: bytes a second from a disk or a network file system, by all processes
    read: typing.Optional[float] = None
    #: CPU seconds a second
    cpu: typing.Optional[float] = None
    #: (name, CPU seconds a second) of the process that computes most
    busiest: typing.Optional[tuple[str, float]] = None
    #: shares of the time, 0 to 1: some process waited for a disk, for memory, for a core
    io_wait: typing.Optional[float] = None
    memory_wait: typing.Optional[float] = None
    cpu_wait: typing.Optional[float] = None
    #: share of the quota's periods in which the service had to pause
    throttled: typing.Optional[float] = None
    #: share of the looks at which the process that is so most often was blocked (D), stopped (T)
    blocked: float = 0.0
    stopped: float = 0.0
    #: bytes a second that the host reads again for want of memory
    swapped_in: typing.Optional[float] = None
    refaulted: typing.Optional[float] = None
    compilers: int = 0
    #: limits, as in ``GroupUse``
    cores: typing.Optional[int] = None
    quota_cores: typing.Optional[float] = None
    quota_of: str = ""
    read_limit: typing.Optional[int] = None
    read_ops_limit: typing.Optional[int] = None
    storage: typing.Optional[Storage] = None
    #: weights are loading, and so many bytes of them a second
    loading: bool = False
    loaded: typing.Optional[float] = None


class _Mark(typing.NamedTuple):
    """What one look showed."""

    t: float
    risen: typing.Mapping[str, float]
    procs: tuple[ProcSample, ...]
    states: frozenset[tuple[str, int]]
    group: typing.Optional[GroupUse]
    paging: typing.Optional[Paging]
    compilers: int


class RateWindow:
    """Feed it every look."""

    def __init__(self) -> None:
        self._marks: collections.deque[_Mark] = collections.deque()
        self._storage: typing.Optional[Storage] = None

    def feed(self, seen: Observation, risen: typing.Mapping[str, float]) -> None:
        """``risen``: by how much the counters of the processes have risen since the beginning, by name of the sign."""
        self._storage = seen.storage or self._storage
        procs = seen.procs or ()
        if seen.procs is None and seen.totals is not None:
            states = frozenset((state, 0) for state, count in (seen.totals.states or {}).items() if count)
        else:
            states = frozenset((proc.state, proc.pid) for proc in procs)
        mark = _Mark(seen.t, dict(risen), procs, states, seen.group, seen.paging, seen.compilers or 0)
        self._marks.append(mark)
        while len(self._marks) > 2 and seen.t - self._marks[1].t >= _WINDOW_S:
            self._marks.popleft()

    def rates(self) -> typing.Optional[Rates]:
        """None as long as too little was seen."""
        if len(self._marks) < 2:
            return None
        first, last = self._marks[0], self._marks[-1]
        span = last.t - first.t
        if span < _LEAST_S:
            return None
        before, now = first.group, last.group
        cpu = _rate(before, now, "cpu_s", span)
        periods, throttled = _rate(before, now, "periods", 1.0), _rate(before, now, "throttled", 1.0)
        return Rates(
            read=_risen(first, last, "read", span),
            cpu=cpu if cpu is not None else _risen(first, last, "cpu", span),
            busiest=_busiest(first, last, span),
            io_wait=_rate(before, now, "io_wait_s", span),
            memory_wait=_rate(before, now, "memory_wait_s", span),
            cpu_wait=_rate(before, now, "cpu_wait_s", span),
            throttled=throttled / periods if periods and throttled is not None else None,
            blocked=self._share("D"),
            stopped=self._share("T"),
            swapped_in=_rate(first.paging, last.paging, "swapped_in", span),
            refaulted=_rate(first.paging, last.paging, "refaulted", span),
            compilers=last.compilers,
            cores=now.cores if now is not None else None,
            quota_cores=now.quota_cores if now is not None else None,
            quota_of=now.quota_of if now is not None else "",
            read_limit=now.read_limit if now is not None else None,
            read_ops_limit=now.read_ops_limit if now is not None else None,
            storage=self._storage,
        )

    def _share(self, state: str) -> float:
        counts = collections.Counter(pid for mark in self._marks for found, pid in mark.states if found == state)
        return max(counts.values(), default=0) / len(self._marks)


def _rate(before: typing.Any, now: typing.Any, field: str, span: float) -> typing.Optional[float]:
    old, new = getattr(before, field, None), getattr(now, field, None)
    # a group that was made anew counts from zero
    return None if old is None or new is None or new < old else (new - old) / span


def _risen(first: _Mark, last: _Mark, sign: str, span: float) -> typing.Optional[float]:
    if sign not in first.risen or sign not in last.risen:
        return None
    return (last.risen[sign] - first.risen[sign]) / span


def _busiest(first: _Mark, last: _Mark, span: float) -> typing.Optional[tuple[str, float]]:
    before = {(proc.pid, proc.start_ticks): proc.cpu_s for proc in first.procs}
    rates = [
        ((proc.cpu_s - before[proc.pid, proc.start_ticks]) / span, proc.name)
        for proc in last.procs
        if (proc.pid, proc.start_ticks) in before
    ]
    if not rates:
        return None
    cpu, name = max(rates)
    return name, cpu


__all__ = ("RateWindow", "Rates")
