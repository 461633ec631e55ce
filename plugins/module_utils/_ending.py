# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""How a server's end shows from outside: its unit, its processes, its exit status, its ``/health``."""

from __future__ import annotations

import signal
import typing

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._observe import (
        HttpSample,
        Observation,
        ProcSample,
        UnitState,
    )

_CLD_EXITED = 1
#: names of statuses that systemd itself gives when it could not start the process
_SYSTEMD_STATUS = {
    200: "CHDIR, the working directory",
    203: "EXEC, the path of ExecStart=",
    209: "STDOUT, where the log goes",
    216: "GROUP, the group",
    217: "USER, the user",
    226: "NAMESPACE, a path of the sandbox options",
    238: "STATE_DIRECTORY, the state folder",
    239: "CACHE_DIRECTORY, the cache folder",
    243: "CREDENTIALS, a credential file",
}
_PLAIN_STATUS = {
    0: "as it does after an orderly stop, and also after its engine died",
    1: "a Python error",
    2: "a bad command line",
    126: "the command cannot be executed",
    127: "the command was not found",
}
#: after this many seconds without an answer from a server that answered before, it is gone
_GONE_S = 15.0


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
    #: id of a finding that names this end better than an exit status can
    finding: str = ""


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_of(exit_code: int) -> typing.Optional[str]:
    """The signal in an exit status: negative as Python gives it, above 128 as a shell does."""
    if exit_code < 0:
        return signal_name(-exit_code)
    return signal_name(exit_code - 128) if 128 < exit_code <= 128 + 64 else None


def status_words(exit_code: int, *, by_systemd: bool = False) -> str:
    """An exit status in words."""
    name = signal_of(exit_code)
    if by_systemd and exit_code in _SYSTEMD_STATUS:
        return f"status {exit_code} ({_SYSTEMD_STATUS[exit_code]})"
    if name is not None:
        return f"status {exit_code} ({name})"
    return f"status {exit_code} ({_PLAIN_STATUS[exit_code]})" if exit_code in _PLAIN_STATUS else f"status {exit_code}"


class EndWatch:
    """Looks for the end in each observation. The first one found stays."""

    def __init__(self) -> None:
        self.end: typing.Optional[End] = None
        self.restarts = 0
        self.restart_setting = ""
        self.up = False
        self._first_unit: typing.Optional[UnitState] = None
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
        if found is not None and (self.end is None or (self.end.exit_code is None and found.exit_code is not None)):
            self.end = found._replace(t=self.end.t) if self.end is not None else found
        return self.end

    def _unit(self, t: float, unit: typing.Optional[UnitState]) -> typing.Optional[End]:
        if unit is None:
            return None
        first = self._first_unit = self._first_unit or unit
        self.restart_setting = unit.restart
        self.restarts = max(self.restarts, unit.n_restarts - first.n_restarts)
        if unit.load_state == "not-found":
            return End(t, "unit", "systemd does not know the unit", finding="unit_not_found")
        status, name = self._unit_status(unit)
        words = "" if status is None else f" with {status_words(status, by_systemd=name is None)}"
        if self.restarts or unit.sub_state == "auto-restart":
            return End(t, "unit", f"the service ended{words}; systemd starts it again", status, name)
        if unit.active_state == "failed":
            return End(t, "unit", f"the service failed{words}, result {unit.result}", status, name)
        if unit.active_state == "deactivating":
            return End(t, "unit", f"the service is ending{words} ({unit.sub_state})", status, name)
        if unit.active_state == "inactive" and (self._was_active or status is not None):
            # an exit on record: it ran before this watch began, and nothing is bringing it back
            return End(t, "unit", f"the service ended{words}, result {unit.result}", status, name)
        self._was_active = self._was_active or unit.active_state in ("active", "activating", "reloading")
        return None

    @staticmethod
    def _unit_status(unit: UnitState) -> tuple[typing.Optional[int], typing.Optional[str]]:
        if not unit.exec_main_code:
            return None, None
        if unit.exec_main_code == _CLD_EXITED:
            return unit.exec_main_status, None
        return 128 + unit.exec_main_status, signal_name(unit.exec_main_status)

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


__all__ = ("End", "EndWatch", "signal_name", "signal_of", "status_words")
