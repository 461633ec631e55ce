# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The judge: one start after the other, as systemd brings a service back or somebody starts it anew. Pure.

Which restarts are waited for: none, unless ``restarts_allowed`` says otherwise. A start that failed is a failure even
where systemd repeats it: with a load of half an hour each, nobody wants to learn the cause after the third. With
restarts allowed, two starts that end by the same known cause are enough.
"""

from __future__ import annotations

import dataclasses
import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._cycles import AGAIN, ANEW, Part, Splitter
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import Observation
from ansible_collections.modelfleet.serving.plugins.module_utils._start import Start
from ansible_collections.modelfleet.serving.plugins.module_utils._status import Cause, Cycle, JudgeConfig, Status

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._observe import UnitState

#: a loop may have gone on for days
_CYCLES_KEPT = 20
#: causes that say only that something ended, so that two of them need not be the same
_VAGUE = ("sd_exit", "sd_kill", "sd_done", "sd_failed", "sd_restart", "engine_dead", "engine_failed")
_RESTARTING = ("always", "on-failure", "on-abnormal", "on-abort", "on-watchdog", "on-success")


class Judge:
    """Feed it every observation in order; each answer is the whole truth so far."""

    def __init__(self, config: JudgeConfig) -> None:
        self._config = config
        self._splitter = Splitter()
        self._start = Start(config)
        #: the starts that are over, since somebody last started it
        self._ended: list[tuple[Cycle, Cause]] = []
        #: of the restarts by systemd, those that were seen happening
        self._watched = 0
        self._looks = 0
        self._unit: typing.Optional[UnitState] = None
        #: the log has shown that the unit was started again, which systemd was asked about too early to show
        self._expects_another = False
        #: of the restarts that systemd counts, the last one that is known
        self._counter = 0
        self._anew_at: typing.Optional[float] = None

    @property
    def stop_requested(self) -> bool:
        """The server was told to stop, before anything failed."""
        return self._start.stop_requested

    def feed(self, observation: Observation) -> Status:
        self._looks += 1
        parts = self._parts(observation)
        for index, part in enumerate(parts[:-1]):
            # counted since the look before: it can only be the start that this look finds over
            ours = index == 0 and self._looks > 1
            self._start.feed(
                Observation(
                    t=observation.t,
                    log=part.records,
                    unit=self._unit,
                    oom_kills=observation.oom_kills if ours else None,
                    host_oom_kills=observation.host_oom_kills if ours else None,
                )
            )
            self._close(observation.t, part)
        rest = observation._replace(log=parts[-1].records)
        if len(parts) > 1 and self._is_old(observation.unit):
            # read before the log: this look at the unit is of the start before
            self._expects_another = True
            rest = Observation(t=rest.t, log=rest.log, log_partial=rest.log_partial, gpus=rest.gpus, notes=rest.notes)
        elif observation.unit is not None:
            self._unit = observation.unit
            self._counter = max(self._counter, observation.unit.n_restarts)
        return self._over_all(observation.t, self._start.feed(rest))

    # -- one start after the other

    def _parts(self, seen: Observation) -> list[Part]:
        parts = self._splitter.split(seen.log)
        unit, before = seen.unit, self._unit
        if unit is None:
            return parts
        if before is None:
            self._counter = unit.n_restarts
            return parts
        if self._is_another(unit, before):
            if not self._expects_another and len(parts) == 1:
                how = AGAIN if unit.n_restarts > self._counter else ANEW
                # no journal tells where the one ends and the other begins
                parts = [Part(parts[0].records, how, unit.n_restarts), Part(())]
            self._expects_another = False
        if unit.n_restarts < before.n_restarts:
            # counted from zero since somebody started it
            self._counter = unit.n_restarts
        return parts

    def _is_another(self, unit: UnitState, before: UnitState) -> bool:
        if unit.invocation_id and before.invocation_id:
            return unit.invocation_id != before.invocation_id
        return unit.n_restarts > max(self._counter, before.n_restarts)

    def _is_old(self, unit: typing.Optional[UnitState]) -> bool:
        before = self._unit
        if unit is None or before is None:
            return False
        if unit.invocation_id and before.invocation_id:
            return unit.invocation_id == before.invocation_id
        return unit.n_restarts == before.n_restarts

    def _close(self, t: float, part: Part) -> None:
        if part.how == ANEW:
            # what somebody started anew is another matter
            self._ended, self._watched, self._counter = [], 0, 0
            self._anew_at = t if self._looks > 1 else None
        else:
            self._ended = self._with(self._start.close(t))
            # a look at a log that is over, or at a unit that has long been in a loop, shows what was before
            self._watched += 1 if self._looks > 1 else 0
        self._counter = max(self._counter, part.counter)
        self._start = Start(self._config, self._start.oom_kills)

    def _with(self, ended: tuple[Cycle, Cause]) -> list[tuple[Cycle, Cause]]:
        """A start that served ended for a reason of its own: whatever was before has nothing to do with it."""
        return [ended] if ended[0].served else [*self._ended, ended][-_CYCLES_KEPT:]

    # -- all of them together

    def _over_all(self, t: float, status: Status) -> Status:
        unit = self._unit
        restarting = unit is not None and unit.sub_state.startswith("auto-restart")
        allowed = self._config.restarts_allowed
        status = dataclasses.replace(status, restarts=self._counter)
        if status.verdict == "ready":
            return status
        starts = list(self._ended)
        if status.verdict == "dead" and not self._gave_up():
            starts = self._with(self._start.close(t))
        over = status.verdict == "dead" or self._watched > allowed or (self._watched and _repeats(starts))
        if self._ended and over and (not restarting or self._watched >= allowed or _repeats(starts)):
            return self._loop(status, starts)
        evidence = self._evidence(restarting, status)
        if status.verdict == "dead" and restarting and self._watched < allowed:
            waits = f"systemd starts it again, restart {self._watched + 1} of {allowed} that are waited for"
            return dataclasses.replace(
                status, verdict="progressing", final=False, evidence=(waits, *status.evidence, *evidence)
            )
        cycles = tuple(cycle for cycle, _cause in self._ended)
        return dataclasses.replace(status, cycles=cycles, evidence=(*status.evidence, *evidence))

    def _gave_up(self) -> bool:
        """systemd does not start it any more: the present start is only its refusal."""
        return self._start.limit_hit

    def _loop(self, status: Status, starts: list[tuple[Cycle, Cause]]) -> Status:
        """The whole loop is dead, of what ended its first start; a later one may suffer from what that left behind."""
        last = starts[-1][0]
        restarting = self._unit is not None and self._unit.sub_state.startswith("auto-restart")
        seen = status.evidence if status.verdict == "dead" and not self._gave_up() else ()
        status = dataclasses.replace(status, verdict="dead")
        known = status.exit_code is not None and not self._gave_up()
        return dataclasses.replace(
            status,
            cause=next((cause for _cycle, cause in starts if cause.id not in _VAGUE), starts[0][1]),
            cycles=tuple(cycle for cycle, _cause in starts),
            exit_code=status.exit_code if known else last.exit_code,
            signal=status.signal if known else last.signal,
            stage=last.stage,
            evidence=(*_in_rows([cycle for cycle, _cause in starts]), *seen, *self._evidence(restarting, status)),
            log_tail=last.log_tail,
            # the present start may have its last words still to come
            final=status.final or self._gave_up() or self._watched > self._config.restarts_allowed,
        )

    def _evidence(self, restarting: bool, status: Status) -> tuple[str, ...]:
        unit = self._unit
        said = []
        if self._gave_up():
            limit = f" ({unit.start_limit} are allowed)" if unit is not None and unit.start_limit else ""
            said.append(f"systemd has given up: too many starts in a short time{limit}")
        elif self._ended:
            times = self._counter or len(self._ended)
            said.append(f"restart loop: systemd has started it again {times} time{'s' if times > 1 else ''}")
        if self._ended and status.verdict in ("progressing", "slow"):
            said.append(f"the start before this one: {self._ended[-1][0].words}")
        if status.verdict == "dead" and unit is not None and not self._gave_up():
            if restarting:
                after = f" after {unit.restart_sec}" if unit.restart_sec else ""
                said.append(f"Restart={unit.restart} of its unit brings it back{after}: systemctl stop ends that")
            elif unit.restart in _RESTARTING and unit.active_state == "deactivating" and not unit.job:
                said.append(f"Restart={unit.restart} of its unit decides whether it comes back")
        if self._anew_at is not None:
            said.append("somebody started it anew meanwhile: this is about the new start")
        return tuple(said)


def _repeats(starts: typing.Sequence[tuple[Cycle, Cause]]) -> bool:
    causes = [cause.id for _cycle, cause in starts[-2:]]
    return len(causes) == 2 and causes[0] == causes[1] and causes[0] not in _VAGUE


def _in_rows(cycles: typing.Sequence[Cycle]) -> list[str]:
    """A line for each start, one for those in a row that ended alike."""
    rows: list[tuple[int, int, Cycle]] = []
    for number, cycle in enumerate(cycles, 1):
        first = rows.pop()[0] if rows and rows[-1][2].like(cycle) else number
        rows.append((first, number, cycle))
    return [
        f"start{'' if first == last else 's'} {first}{'' if first == last else f' to {last}'} of {len(cycles)}: "
        f"{cycle.words}"
        for first, last, cycle in rows
    ]


__all__ = ("Cause", "Judge", "JudgeConfig", "Status")
