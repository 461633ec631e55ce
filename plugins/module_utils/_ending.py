# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""How a server's end shows from outside: its unit, its processes, its exit status, its ``/health``."""

from __future__ import annotations

import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._exit_words import (
    signal_name,
    signal_of,
    status_words,
)

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._observe import (
        HttpSample,
        Observation,
        ProcSample,
        UnitState,
    )

_CLD_EXITED = 1
#: after this many seconds without an answer from a server that answered before, it is gone
_GONE_S = 15.0
#: the last lines of a log arrive after the end of the process that wrote them
_SETTLE_S = 1.5
#: a unit that does not run may be about to be started by whoever started this watch
_UNSTARTED_S = 4.0
_DOWN = ("inactive", "failed", "deactivating")
#: jobs of systemd after which the unit runs
COMING_JOBS = ("start", "restart", "try-restart", "reload-or-start", "verify-active")


class End(typing.NamedTuple):
    """The server is over, and how that showed."""

    #: first seen at
    t: float
    #: ``exit``, ``unit``, ``engine`` or ``http``
    how: str
    sentence: str
    #: as a shell would give it; None when unknown
    exit_code: typing.Optional[int] = None
    signal: typing.Optional[str] = None
    #: id of a finding or signature that names this end better than an exit status can
    finding: str = ""
    #: seconds after which this is the last word
    settle_s: float = _SETTLE_S
    #: systemd itself gave the status: it could not start the program
    by_systemd: bool = False


class _Unloaded(typing.NamedTuple):
    """What a unit that systemd cannot start looks like."""

    load_states: tuple[str, ...]
    sentence: str
    finding: str


_UNLOADED = (
    _Unloaded(("not-found",), "systemd does not know the unit", "unit_not_found"),
    _Unloaded(("masked",), "the unit is masked", "unit_masked"),
    _Unloaded(("bad-setting", "error"), "systemd cannot load the unit", "unit_bad"),
)
_REFUSED = {"condition": "sd_condition", "assert": "sd_assert"}


class EndWatch:
    """Looks for the end in each observation. The first one found stays, unless the unit is started after all."""

    def __init__(self) -> None:
        self.end: typing.Optional[End] = None
        self.unit: typing.Optional[UnitState] = None
        self.up = False
        self._was_active = False
        self._engines: dict[tuple[int, int], str] = {}
        self._missing: dict[tuple[int, int], str] = {}
        self._silent_since: typing.Optional[float] = None

    def feed(self, seen: Observation) -> typing.Optional[End]:
        found = (
            self._unit(seen.t, seen.unit)
            or self._exit(seen)
            or self._http(seen.t, seen.http)
            or self._engine(seen.t, seen.procs)
        )
        before = self.end
        if before is not None and before.settle_s == _UNSTARTED_S and seen.unit is not None:
            # not an end of anything that ran
            self.end = found._replace(t=before.t) if found is not None and found.finding == before.finding else found
        elif found is not None and (before is None or (before.exit_code is None and found.exit_code is not None)):
            self.end = found if before is None else found._replace(t=before.t, finding=found.finding or before.finding)
        return self.end

    @property
    def coming(self) -> bool:
        """systemd has a job that starts the unit."""
        unit = self.unit
        return unit is not None and unit.active_state in _DOWN and unit.job in COMING_JOBS

    # -- the unit

    def _unit(self, t: float, unit: typing.Optional[UnitState]) -> typing.Optional[End]:
        if unit is None:
            return None
        self.unit = unit
        if self.coming:
            return None
        end = self._of_state(t, unit)
        self._was_active = self._was_active or unit.active_state in ("active", "activating", "reloading")
        return end

    def _of_state(self, t: float, unit: UnitState) -> typing.Optional[End]:
        ended = _ended(t, unit)
        if unit.sub_state.startswith("auto-restart"):
            return ended("the service ended{words}; systemd starts it again")
        if unit.active_state == "failed":
            return ended("the service failed{words}, result " + unit.result)
        if unit.active_state == "deactivating":
            if unit.job:
                return ended(f"systemd was told to {unit.job} the service ({unit.sub_state})", finding="sd_stopping")
            return ended("the service is ending{words} (" + unit.sub_state + ")")
        if unit.active_state != "inactive":
            return None
        if self._was_active or unit.exec_main_code:
            # an exit on record: it ran before this watch began, and nothing is bringing it back
            return ended("the service ended{words}, result " + unit.result)
        return _never_ran(t, unit)

    # -- the rest

    @staticmethod
    def _exit(seen: Observation) -> typing.Optional[End]:
        if seen.exit_code is not None:
            words = f"the server ended with {status_words(seen.exit_code)}"
            return End(seen.t, "exit", words, seen.exit_code, signal_of(seen.exit_code))
        if seen.gone:
            return End(seen.t, "exit", "the server's process is gone, its status is unknown")
        return None

    def _http(self, t: float, http: typing.Optional[HttpSample]) -> typing.Optional[End]:
        if http is None or http.health is None:
            return None
        if http.health == 200:
            self.up, self._silent_since = True, None
        elif self.up and http.health in (500, 503):
            return End(t, "http", f"/health answers {http.health} after 200: the engine died")
        elif self.up and http.health == 0:
            self._silent_since = t if self._silent_since is None else self._silent_since
            if t - self._silent_since >= _GONE_S:
                return End(t, "http", "nothing answers any more where /health did", finding="server_gone")
        return None

    def _engine(self, t: float, procs: typing.Optional[tuple[ProcSample, ...]]) -> typing.Optional[End]:
        """An engine or worker that was there and is not: seen in two looks, since a look is no snapshot."""
        if procs is None:
            return None
        alive = {(proc.pid, proc.start_ticks): proc for proc in procs if proc.state not in ("Z", "X")}
        gone = {key: name for key, name in self._engines.items() if key not in alive}
        lost = [key for key in gone if key in self._missing]
        self._missing = gone
        for key, proc in alive.items():
            if proc.name.startswith(("VLLM::EngineCor", "VLLM::Worker")):
                self._engines[key] = proc.name
        if not lost or not alive:
            return None
        return End(t, "engine", f"{self._engines[lost[0]]} (pid {lost[0][0]}) is gone while the server still runs")


def _ended(t: float, unit: UnitState) -> typing.Callable[..., End]:
    """Makes the end of a unit of which a process has run, with its exit status in words."""
    status, name = _unit_status(unit)
    words = ""
    if status is not None:
        words = f" with {status_words(status, by_systemd=name is None)}"
    by_systemd = name is None and status is not None and status >= 200

    def end(sentence: str, **more: typing.Any) -> End:
        return End(t, "unit", sentence.replace("{words}", words), status, name, by_systemd=by_systemd, **more)

    return end


def _never_ran(t: float, unit: UnitState) -> End:
    for row in _UNLOADED:
        if unit.load_state in row.load_states:
            why = f": {unit.load_error}" if unit.load_error and row.finding == "unit_bad" else ""
            return End(t, "unit", row.sentence + why, finding=row.finding)
    if unit.failed_needs:
        failed = ", ".join(unit.failed_needs)
        return End(t, "unit", f"the unit needs what failed: {failed}", finding="sd_dependency", settle_s=_UNSTARTED_S)
    sentence = "the unit is not active, and no start of it is under way"
    finding = _REFUSED.get(unit.refused, "unit_not_started")
    return End(t, "unit", sentence, finding=finding, settle_s=_UNSTARTED_S)


def _unit_status(unit: UnitState) -> tuple[typing.Optional[int], typing.Optional[str]]:
    if not unit.exec_main_code:
        return None, None
    if unit.exec_main_code == _CLD_EXITED:
        return unit.exec_main_status, None
    return 128 + unit.exec_main_status, signal_name(unit.exec_main_status)


__all__ = ("COMING_JOBS", "End", "EndWatch")
