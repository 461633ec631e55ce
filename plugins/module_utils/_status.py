# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What a judge is asked (:class:`JudgeConfig`) and what it answers (:class:`Status`)."""

from __future__ import annotations

import dataclasses
import datetime
import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._forecast import Forecast, Span


class Cause(typing.NamedTuple):
    """Why a start failed or stands still: a row of the signature table, or something seen from outside."""

    #: id of the signature (``oom_weights``), or of an outside finding (``process_stopped``)
    id: str
    #: the log line that said it, without prefix and colours; empty when no log said it
    line: str
    cause: str
    remedy: str


class Cycle(typing.NamedTuple):
    """One start that is over, in a series of starts."""

    #: id of its cause, and the line that said it
    cause: str
    line: str
    #: the last stage it reached
    stage: str
    exit_code: typing.Optional[int] = None
    signal: typing.Optional[str] = None
    #: first line of it, seconds since the epoch; None where the log has no times
    started_at: typing.Optional[float] = None
    seconds: typing.Optional[float] = None
    log_tail: tuple[str, ...] = ()
    #: it answered requests before it ended
    served: bool = False

    @property
    def words(self) -> str:
        ended = f"ended by {self.signal}" if self.signal else f"exit status {self.exit_code}"
        how = "ended" if self.signal is None and self.exit_code is None else ended
        after = f" after {self.seconds:.0f} s" if self.seconds is not None else ""
        return f"{how}{after} in stage {self.stage}: {self.cause}" + (f": {self.line}" if self.line else "")

    def like(self, other: Cycle) -> bool:
        return (self.cause, self.line, self.exit_code, self.signal) == (
            other.cause,
            other.line,
            other.exit_code,
            other.signal,
        )

    def as_result(self) -> dict[str, typing.Any]:
        started = None
        if self.started_at is not None:
            moment = datetime.datetime.fromtimestamp(self.started_at, datetime.timezone.utc)
            started = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        return {
            "started_at": started,
            "seconds": None if self.seconds is None else round(self.seconds, 1),
            "stage": self.stage,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "cause": self.cause,
            "line": self.line,
        }


@dataclasses.dataclass(frozen=True)
class JudgeConfig:
    """What this start must reach, and how patient to be."""

    #: seconds without a sign of progress, per stage; stages that are missing here have the default of the stage table
    stall_timeouts: typing.Mapping[str, float] = dataclasses.field(default_factory=dict)
    #: served model name that ``/v1/models`` must list; None when it does not matter
    expected_model: typing.Optional[str] = None
    want_completion: bool = True
    want_known_answer: bool = False
    #: size of all shards, where a manifest knows it
    checkpoint_bytes: typing.Optional[int] = None
    #: what earlier starts of the same kind took
    forecast: Forecast = dataclasses.field(default_factory=lambda: Forecast(()))
    #: seconds a shard takes by the profile or the last start; None when nothing is expected
    expected_shard_s: typing.Optional[float] = None
    #: how often systemd may bring the service back before that counts as dead
    restarts_allowed: int = 0


@dataclasses.dataclass(frozen=True)
class Status:
    """Where the server is, and whether that is good, after one more observation."""

    #: ready, progressing, slow, stalled or dead
    verdict: str
    stage: str
    #: (name, seconds spent in it) of every stage entered, in order; the last one is still running
    stages: tuple[tuple[str, float], ...] = ()
    shards_done: typing.Optional[int] = None
    shards_total: typing.Optional[int] = None
    bytes_done: typing.Optional[int] = None
    bytes_total: typing.Optional[int] = None
    #: seconds until the weights are loaded; None when unknown
    eta_s: typing.Optional[float] = None
    #: seconds until ready; None when no earlier start tells
    ready_eta: typing.Optional[Span] = None
    #: which start tells
    eta_basis: str = ""
    cause: typing.Optional[Cause] = None
    #: what a slow start waits for; None when that does not show, or when it is not slow
    bottleneck: typing.Optional[str] = None
    evidence: tuple[str, ...] = ()
    exit_code: typing.Optional[int] = None
    #: name of the signal that ended the process, such as SIGKILL
    signal: typing.Optional[str] = None
    restarts: int = 0
    #: the starts that are over, where systemd has brought the service back
    cycles: tuple[Cycle, ...] = ()
    #: the wait should end now
    final: bool = False
    #: the last lines that matter
    log_tail: tuple[str, ...] = ()

    def as_result(self) -> dict[str, typing.Any]:
        """The keys that the module returns and the replay prints."""
        return {
            "verdict": self.verdict,
            "stage": self.stage,
            "stages": [{"name": name, "seconds": round(seconds, 1)} for name, seconds in self.stages],
            "shards_done": self.shards_done,
            "shards_total": self.shards_total,
            "bytes_done": self.bytes_done,
            "bytes_total": self.bytes_total,
            "eta_s": None if self.eta_s is None else round(self.eta_s, 1),
            "ready_eta_s": None if self.ready_eta is None else round(self.ready_eta.likely, 1),
            "ready_eta_range_s": None if self.ready_eta is None else [round(s, 1) for s in self.ready_eta[1:]],
            "eta_basis": self.eta_basis,
            "cause": None if self.cause is None else self.cause._asdict(),
            "bottleneck": self.bottleneck,
            "evidence": list(self.evidence),
            "exit_code": self.exit_code,
            "signal": self.signal,
            "restarts": self.restarts,
            "cycles": [cycle.as_result() for cycle in self.cycles],
            "log_tail": list(self.log_tail),
        }


__all__ = ("Cause", "Cycle", "JudgeConfig", "Status")
