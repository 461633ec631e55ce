# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Which signs of progress two looks at a server differ by, and since when there was none."""

from __future__ import annotations

import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._stages import (
    BAR,
    BY_NAME,
    CACHE,
    COMPILERS,
    CPU,
    FAULTS,
    LOG,
    READ,
    VRAM,
    WEAK_FACTOR,
)

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._observe import (
        GpuSample,
        Observation,
        ProcSample,
        Totals,
    )

_MIB = 2**20
#: A counter that rises by less than this a second does not count: an idle server that is asked for its health every
#: second burns some CPU too. In the slowest healthy load on record the engine had a twentieth of a core.
_LEAST_PER_S = {CPU: 0.05, READ: 4096.0, FAULTS: 0.0}
#: seconds over which a rise is taken, so that a short poll interval does not turn noise into a rate
_WINDOW_S = 2.0
_SPIN_PERCENT = 95
#: a process that is stopped or blocked, and uses nothing, for so long is not merely paused for a moment
_FROZEN_S = 10.0
#: CPU seconds a second that such a process may seem to use, and a service of which only the sum is known
_FROZEN_CPU = 0.01
_FROZEN_CPU_SUM = 0.03


class _Rise:
    """Rise of one counter that may also fall: a sum over processes does when one ends."""

    def __init__(self) -> None:
        self._since: typing.Optional[float] = None
        self._risen = 0.0

    def feed(self, t: float, by: typing.Optional[float], least_per_s: float) -> bool:
        """Whether the counter rose fast enough over the last window; ``by`` None: not looked at."""
        if by is None:
            return False
        if self._since is None:
            self._since = t
            return False
        self._risen += by
        span = t - self._since
        if span < _WINDOW_S:
            return False
        moved = self._risen > 0 and self._risen >= least_per_s * span
        self._since, self._risen = t, 0.0
        return moved


class ProgressSigns:
    """Compares each look with the one before."""

    def __init__(self, t: float) -> None:
        #: when each sign was last seen
        self.last: dict[str, float] = {}
        self.compilers = 0
        self.spinning = False
        self.vram: typing.Optional[int] = None
        #: of it, what the service's own processes hold
        self.ours: typing.Optional[int] = None
        self.vram_since = t
        self.utilization: tuple[int, ...] = ()
        self.power_mw: tuple[int, ...] = ()
        #: (pid or 0, name) of a process that stands still in state T or D, and since when
        self.frozen: dict[str, tuple[float, str]] = {}
        #: by how much each counter of the processes has risen so far
        self.risen: dict[str, float] = {}
        self._rises = {sign: _Rise() for sign in _LEAST_PER_S}
        self._procs: dict[tuple[int, int], ProcSample] = {}
        self._totals: typing.Optional[Totals] = None
        self._frozen_at: dict[tuple[str, int], tuple[float, float, int, int]] = {}
        self._cache: typing.Optional[int] = None

    def feed(self, seen: Observation, lines: int, bars: int) -> frozenset[str]:
        """The signs that this look shows."""
        signs = set()
        if lines:
            signs.add(LOG)
        if bars:
            signs.add(BAR)
        if seen.compilers is not None:
            self.compilers = seen.compilers
            if seen.compilers:
                signs.add(COMPILERS)
        if seen.cache_bytes is not None:
            if self._cache is not None and seen.cache_bytes > self._cache:
                signs.add(CACHE)
            self._cache = seen.cache_bytes
        if seen.gpus is not None and self._gpus(seen.t, seen.gpus):
            signs.add(VRAM)
        for sign, by in self._rise(seen).items():
            if by is not None:
                self.risen[sign] = self.risen.get(sign, 0.0) + by
            if self._rises[sign].feed(seen.t, by, _LEAST_PER_S[sign]):
                signs.add(sign)
        if self.spinning:
            # ranks that wait for each other keep CPU and GPU busy alike
            signs.discard(CPU)
        for sign in signs:
            self.last[sign] = seen.t
        return frozenset(signs)

    def _gpus(self, t: float, gpus: tuple[GpuSample, ...]) -> bool:
        known = [gpu.memory_used_bytes for gpu in gpus if gpu.memory_used_bytes is not None]
        held = [gpu.ours_bytes for gpu in gpus if gpu.ours_bytes is not None]
        self.ours = sum(held) if held else None
        self.utilization = tuple(gpu.utilization_percent for gpu in gpus if gpu.utilization_percent is not None)
        self.power_mw = tuple(gpu.power_mw for gpu in gpus if gpu.power_mw is not None)
        used = sum(known) if known else None
        moved = used is not None and self.vram is not None and abs(used - self.vram) >= _MIB
        if moved or self.vram is None:
            self.vram, self.vram_since = used, t
        self.spinning = bool(self.utilization) and min(self.utilization) >= _SPIN_PERCENT and not moved
        return moved

    def _rise(self, seen: Observation) -> dict[str, typing.Optional[float]]:
        if seen.procs is not None:
            return self._rise_of_procs(seen.t, seen.procs)
        if seen.totals is not None:
            return self._rise_of_totals(seen.t, seen.totals)
        return dict.fromkeys(_LEAST_PER_S)

    def _rise_of_procs(self, t: float, procs: tuple[ProcSample, ...]) -> dict[str, typing.Optional[float]]:
        first = not self._procs
        rises: dict[str, typing.Optional[float]] = {CPU: 0.0, READ: 0.0, FAULTS: 0.0}
        now = {(proc.pid, proc.start_ticks): proc for proc in procs}
        for key, proc in now.items():
            before = self._procs.get(key)
            for sign, field in ((CPU, "cpu_s"), (READ, "read_bytes"), (FAULTS, "majflt")):
                value, old = getattr(proc, field), getattr(before, field, None) or 0
                if value is not None and not first:
                    rises[sign] = (rises[sign] or 0.0) + max(0.0, value - old)
        self._procs = now
        self._watch_states(t, [(p.state, p.pid, p.name, p.cpu_s, p.read_bytes or 0, p.majflt or 0) for p in procs])
        return rises

    def _rise_of_totals(self, t: float, totals: Totals) -> dict[str, typing.Optional[float]]:
        before, self._totals = self._totals, totals
        rises: dict[str, typing.Optional[float]] = dict.fromkeys(_LEAST_PER_S)
        for sign, field in ((CPU, "cpu_s"), (READ, "read_bytes"), (FAULTS, "majflt")):
            value, old = getattr(totals, field), getattr(before, field, None)
            if value is not None:
                rises[sign] = 0.0 if old is None else max(0.0, value - old)
        if totals.states is not None:
            work = (totals.cpu_s or 0.0, totals.read_bytes or 0, totals.majflt or 0)
            self._watch_states(t, [(state, 0, "", *work) for state, count in totals.states.items() if count])
        return rises

    def _watch_states(self, t: float, looks: list[tuple[str, int, str, float, int, int]]) -> None:
        """Processes that are stopped (T) or blocked (D) at every look and use nothing meanwhile."""
        before, self._frozen_at = self._frozen_at, {}
        self.frozen = {}
        for state, pid, name, cpu_s, read_bytes, majflt in looks:
            if state not in ("T", "D"):
                continue
            since, cpu, read, faults = before.get((state, pid), (t, cpu_s, read_bytes, majflt))
            most = _FROZEN_CPU if pid else _FROZEN_CPU_SUM
            idle = cpu_s - cpu <= most * (t - since) and read_bytes <= read and majflt <= faults
            if not idle:
                since, cpu, read, faults = t, cpu_s, read_bytes, majflt
            self._frozen_at[state, pid] = (since, cpu, read, faults)
            if t - since >= _FROZEN_S:
                self.frozen.setdefault(state, (since, f"{name} (pid {pid})" if pid else "a process of the service"))


class StallClock:
    """How much of a stage's budget has passed without a sign that counts in it."""

    def __init__(self, t: float, budgets: typing.Mapping[str, float]) -> None:
        self._budgets = budgets
        self._full = t
        self._weak = t

    def feed(self, t: float, stage: str, entered: bool, signs: frozenset[str]) -> None:
        rule = BY_NAME[stage]
        if entered or signs & rule.full:
            self._full = self._weak = t
        elif signs & rule.weak:
            self._weak = t

    def silent_s(self, t: float) -> float:
        """Seconds since the last sign of any strength."""
        return t - self._weak

    def budget_s(self, stage: str) -> float:
        return float(self._budgets.get(stage, BY_NAME[stage].budget_s))

    def run_out(self, t: float, stage: str) -> bool:
        budget = self.budget_s(stage)
        return budget > 0 and (t - self._weak > budget or t - self._full > budget * WEAK_FACTOR)


__all__ = ("ProgressSigns", "StallClock")
