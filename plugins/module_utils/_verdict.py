# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The fold: a sequence of observations into stage, progress, ETA and verdict. Pure; no clock, no io."""

from __future__ import annotations

import typing

from ansible_collections.modelfleet.serving.plugins.module_utils import _findings, _signatures
from ansible_collections.modelfleet.serving.plugins.module_utils._ending import End, EndWatch, signal_name
from ansible_collections.modelfleet.serving.plugins.module_utils._eta import ShardClock
from ansible_collections.modelfleet.serving.plugins.module_utils._log_fold import Hit, LogFold, News
from ansible_collections.modelfleet.serving.plugins.module_utils._progress_signs import ProgressSigns, StallClock
from ansible_collections.modelfleet.serving.plugins.module_utils._readiness import Readiness
from ansible_collections.modelfleet.serving.plugins.module_utils._stages import BY_NAME, LOG, StageTrack
from ansible_collections.modelfleet.serving.plugins.module_utils._status import Cause, JudgeConfig, Status
from ansible_collections.modelfleet.serving.plugins.module_utils._vllm_log import parse_line, presentable

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._observe import Observation

#: A line after which no server comes up is followed by the end of its process within seconds; the root cause may
#: stand a few lines below it.
_GRACE_S = 3.0
#: the last lines of a log arrive after the end of the process that wrote them
_SETTLE_S = 1.5


class Judge:
    """Feed it every observation in order; each answer is the whole truth so far."""

    def __init__(self, config: JudgeConfig) -> None:
        self._config = config
        self._log = LogFold()
        self._ends = EndWatch()
        self._ready = Readiness(config)
        self._shards = ShardClock()
        self._pass = 0
        self._ending_since: typing.Optional[float] = None
        self._stages: typing.Optional[StageTrack] = None
        self._signs: ProgressSigns
        self._stall: StallClock

    @property
    def stop_requested(self) -> bool:
        """The server was told to stop, before anything failed."""
        return self._log.stop is not None

    def feed(self, observation: Observation) -> Status:
        t = observation.t
        if self._stages is None:
            self._begin(observation)
        news = self._log.feed(observation.log, observation.log_partial)
        end = self._ends.feed(observation)
        self._ready.feed(observation.http, t)
        entered = self._advance(observation, news)
        signs = self._signs.feed(observation, news.lines, len(news.bars))
        self._stall.feed(t, self._track.name, entered, signs)
        self._weights(t, news)
        if self._ending_since is None and (self._log.ending or self._log.stop or self._log.main_exception):
            self._ending_since = t
        return self._status(t, end)

    # -- where it is

    @property
    def _track(self) -> StageTrack:
        if self._stages is None:
            raise RuntimeError("the judge was asked before it saw anything")
        return self._stages

    def _begin(self, seen: Observation) -> None:
        waits = seen.unit is not None and not seen.unit.main_pid and not seen.procs
        self._stages = StageTrack("unit" if waits else "process", seen.t)
        self._signs = ProgressSigns(seen.t)
        self._stall = StallClock(seen.t, self._config.stall_timeouts)

    def _advance(self, seen: Observation, news: News) -> bool:
        """Enter the stages that this look shows; whether any was new."""
        entered = False
        if seen.procs or (seen.unit is not None and seen.unit.main_pid) or news.lines:
            entered = self._track.enter("process", seen.t)
        for stage in news.stages:
            again = self._log.weights_pass > 1 or "drafter" in self._log.seen
            entered = self._track.enter(stage, seen.t, again=again) or entered
        for stage in self._ready.stages(self._track.name):
            entered = self._track.enter(stage, seen.t) or entered
        return entered

    def _weights(self, t: float, news: News) -> None:
        bars = [drawn for drawn in news.bars if drawn.weights]
        if self._log.weights_pass != self._pass:
            self._pass = self._log.weights_pass
            self._shards = ShardClock()
            starts = [index for index, drawn in enumerate(bars) if drawn.done == 0]
            bars = bars[starts[-1] :] if starts else bars
        self._shards.feed(t, bars)

    # -- how that is

    def _status(self, t: float, end: typing.Optional[End]) -> Status:
        log = self._log
        if end is not None:
            cause = self._cause_of_death(end)
            settled = t - end.t >= _SETTLE_S or log.specific is not None
            return self._say(t, "dead", cause, self._death_evidence(end), final=settled, end=end)
        if self._ending_since is not None:
            cause = self._cause_of_death(None)
            if t - self._ending_since >= _GRACE_S:
                return self._say(t, "dead", cause, self._death_evidence(None), final=True)
            waits = "this line means that the server cannot come up; waiting for its end"
            return self._say(t, "progressing", cause, (waits, f"line: {cause.line}"))
        if self._ready.is_ready:
            return self._say(t, "ready", None, self._ready.evidence(), final=True)
        stalled = self._stalled(t)
        if stalled is not None:
            return self._say(t, "stalled", stalled[0], stalled[1], final=True)
        slow = self._slow(t)
        if slow is not None:
            return self._say(t, "slow", None, (slow, *self._progress_evidence(t)))
        doubt = self._ready.doubt()
        if doubt is not None:
            evidence = ("/health answers 200", doubt[1], *self._progress_evidence(t))
            return self._say(t, "progressing", self._finding(doubt[0]), evidence)
        return self._say(t, "progressing", None, self._progress_evidence(t))

    def _slow(self, t: float) -> typing.Optional[str]:
        forecast = self._config.forecast
        if self._track.name != "weights":
            return forecast.slow_because(self._track.name, self._in_stage(t))
        if self._pass != 1:
            return None
        total = self._bytes_total()
        unit = total / self._shards.total if total and self._shards.total else None
        return self._shards.slow_because(t, unit, forecast.shard_s)

    def _in_stage(self, t: float) -> float:
        return dict(self._track.seconds(t))[self._track.name]

    def _stalled(self, t: float) -> typing.Optional[tuple[Cause, tuple[str, ...]]]:
        stage = self._track.name
        refused = self._ready.refused(t)
        if refused is not None:
            return self._finding(refused[0]), (refused[1],)
        stopped = self._signs.frozen.get("T")
        if stopped is not None:
            since, name = stopped
            words = f"{name} has been stopped (state T) and used nothing for {t - since:.0f} s"
            return self._finding("process_stopped"), (words, *self._progress_evidence(t))
        if not self._stall.run_out(t, stage):
            return None
        budget = self._stall.budget_s(stage)
        words = f"no sign of progress that counts in stage {stage} within its budget of {budget:.0f} s"
        return self._cause_of_stall(stage), (words, *self._progress_evidence(t))

    def _cause_of_stall(self, stage: str) -> Cause:
        if "D" in self._signs.frozen:
            return self._finding("process_blocked")
        if self._log.specific is not None:
            return _from_hit(self._log.specific)
        hang = BY_NAME[stage].hang
        if hang and hang in self._log.seen and not self._shards.done:
            return _from_row(hang, self._last_line())
        by_stage = {"unit": "unit_not_started", "workers": "peers_missing", "first_token": "no_first_token"}
        if self._signs.spinning:
            return self._finding("gpu_spin")
        if stage == "http" and self._log.serving:
            return self._finding("http_silent")
        return self._finding(by_stage.get(stage, "no_progress"))

    def _cause_of_death(self, end: typing.Optional[End]) -> Cause:
        log = self._log
        if log.specific is not None:
            return _from_hit(log.specific)
        if log.stop is not None:
            return _from_hit(log.stop)
        if end is not None and end.finding:
            return self._finding(end.finding)
        said = log.main_exception or log.exception
        if log.generic is not None and log.generic.row.side == "service":
            return _from_hit(log.generic, log.exception)
        if said:
            return _from_row("sd_exit", said)
        if log.generic is not None:
            return _from_hit(log.generic)
        if end is not None and end.how in ("engine", "http"):
            return _from_row("engine_dead", "")
        if end is not None and end.signal is not None:
            return _from_row("sd_kill", "")
        return _from_row("sd_done" if end is not None and end.exit_code == 0 else "sd_exit", "")

    def _finding(self, name: str) -> Cause:
        finding = _findings.BY_ID[name]
        return Cause(finding.id, self._last_line(), finding.cause, finding.remedy)

    # -- in which words

    def _progress_evidence(self, t: float) -> tuple[str, ...]:
        signs = self._signs
        said = []
        if self._log.last_line:
            said.append(f"last log line {t - signs.last.get(LOG, t):.0f} s ago: {self._last_line()}")
        elif not self._log.lines:
            said.append("nothing in the log yet")
        if self._log.specific is not None:
            said.append(f"complained: {presentable(self._log.specific.line)}")
        if self._log.heartbeats_in_row:
            said.append(f"{self._log.heartbeats_in_row} heartbeats since, which say nothing about progress")
        if signs.compilers:
            said.append(f"{signs.compilers} compilers at work")
        moves = [f"{name} {t - at:.0f} s ago" for name, at in sorted(signs.last.items()) if name != LOG]
        if moves:
            said.append(f"last moves: {', '.join(moves)}")
        if signs.vram is not None:
            said.append(f"VRAM {signs.vram / 2**30:.1f} GiB, unchanged for {t - signs.vram_since:.0f} s")
        if signs.spinning:
            said.append(f"all GPUs at {min(signs.utilization)} % or more")
        said += [f"{name} in state {state} for {t - since:.0f} s" for state, (since, name) in signs.frozen.items()]
        return tuple(said)

    def _death_evidence(self, end: typing.Optional[End]) -> tuple[str, ...]:
        log = self._log
        said = [end.sentence] if end is not None else ["its log says that it cannot come up"]
        for hit in (log.specific, log.generic):
            if hit is not None:
                said.append(f"{hit.proc or hit.row.side}: {presentable(hit.line)}")
        said += _children(log.generic)
        if self._ends.up:
            said.append("/health answered 200 before")
        if self.restarts:
            said.append(f"restart loop: systemd has started it again {self.restarts} times")
        elif self._ends.restart_setting in ("always", "on-failure", "on-abnormal"):
            said.append(f"Restart={self._ends.restart_setting} of its unit decides whether it comes back")
        return tuple(said)

    @property
    def restarts(self) -> int:
        return max(self._ends.restarts, self._log.restarts)

    def _last_line(self) -> str:
        return presentable(parse_line(self._log.last_line).text)

    def _bytes_total(self) -> typing.Optional[int]:
        return self._config.checkpoint_bytes or self._log.checkpoint_bytes

    def _say(
        self,
        t: float,
        verdict: str,
        cause: typing.Optional[Cause],
        evidence: tuple[str, ...],
        *,
        final: bool = False,
        end: typing.Optional[End] = None,
    ) -> Status:
        drawn = self._log.weights
        files = drawn is not None and drawn.files
        total = self._bytes_total() if self._pass <= 1 else None
        done = None
        if total and self._track.reached("repack"):
            done = total
        elif total and self._shards.total:
            done = int(total * self._shards.done / self._shards.total)
        code, signal = _exit_of(end, self._log.exited)
        moving = verdict in ("progressing", "slow")
        weights = self._shards.span(t) if self._track.name == "weights" and moving else None
        ready = self._config.forecast.ready(self._track.name, self._in_stage(t), weights) if moving else None
        return Status(
            verdict=verdict,
            stage=self._track.name,
            stages=self._track.seconds(t),
            shards_done=int(self._shards.done) if files else None,
            shards_total=int(self._shards.total) if files else None,
            bytes_done=done,
            bytes_total=total,
            eta_s=weights.likely if weights is not None else None,
            ready_eta=ready,
            eta_basis=self._config.forecast.basis if ready is not None else "",
            cause=cause,
            evidence=evidence,
            exit_code=code,
            signal=signal,
            restarts=self.restarts,
            final=final,
            log_tail=self._tail(cause),
        )

    def _tail(self, cause: typing.Optional[Cause]) -> tuple[str, ...]:
        lines = [presentable(parse_line(line).text) for line in self._log.tail]
        if cause is not None and cause.line and cause.line not in lines:
            lines = [cause.line, *lines[1:]]
        return tuple(lines)


def _exit_of(
    end: typing.Optional[End], exited: typing.Optional[tuple[str, int, str]]
) -> tuple[typing.Optional[int], typing.Optional[str]]:
    if end is not None and end.exit_code is not None:
        return end.exit_code, end.signal
    if exited is None:
        return None, None
    how, status, _name = exited
    return (128 + status, signal_name(status)) if how == "sd_kill" else (status, None)


def _from_hit(hit: Hit, line: str = "") -> Cause:
    return Cause(hit.row.id, presentable(line or hit.line), hit.row.cause, hit.row.remedy)


def _from_row(name: str, line: str) -> Cause:
    row = _signatures.BY_ID[name]
    return Cause(row.id, presentable(line), row.cause, row.remedy)


def _children(hit: typing.Optional[Hit]) -> list[str]:
    """The exit statuses that vLLM gives for its children: ``{'EngineCore': -9}``."""
    if hit is None or hit.row.id != "engine_init_failed":
        return []
    pairs = [pair.partition(":") for pair in (hit.groups.get("p") or "").strip("{}").split(",") if ":" in pair]
    return [
        f"{name.strip(chr(39) + ' ')} ended by {signal_name(-int(code))}"
        for name, _colon, code in pairs
        if code.strip().lstrip("-").isdigit() and int(code) < 0
    ]


__all__ = ("Cause", "Judge", "JudgeConfig", "Status")
