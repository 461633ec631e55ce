# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The fold of one start: a sequence of observations into stage, progress, ETA and verdict. Pure; no clock, no io."""

from __future__ import annotations

import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._bottleneck import bottlenecks
from ansible_collections.modelfleet.serving.plugins.module_utils._causes import (
    cause_of_death,
    children,
    exit_of,
    from_hit,
    named,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._cycles import SCHEDULED
from ansible_collections.modelfleet.serving.plugins.module_utils._ending import End, EndWatch
from ansible_collections.modelfleet.serving.plugins.module_utils._eta import ShardClock
from ansible_collections.modelfleet.serving.plugins.module_utils._log_fold import LogFold, News
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import Storage
from ansible_collections.modelfleet.serving.plugins.module_utils._oom import OomWatch
from ansible_collections.modelfleet.serving.plugins.module_utils._progress_signs import ProgressSigns, StallClock
from ansible_collections.modelfleet.serving.plugins.module_utils._rates import RateWindow
from ansible_collections.modelfleet.serving.plugins.module_utils._readiness import Readiness
from ansible_collections.modelfleet.serving.plugins.module_utils._stages import BY_NAME, LOG, QUEUE, StageTrack
from ansible_collections.modelfleet.serving.plugins.module_utils._status import Cause, Cycle, JudgeConfig, Status
from ansible_collections.modelfleet.serving.plugins.module_utils._vllm_log import parse_line, presentable

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._observe import Observation, ProcSample

#: A line after which no server comes up is followed by the end of its process within seconds; the root cause may
#: stand a few lines below it.
_GRACE_S = 3.0
#: processes that are named at most
_NAMED = 4
#: bottlenecks that are named in one breath
_JOINED = 2


class Start:
    """Feed it every observation of one start in order; each answer is the whole truth so far."""

    def __init__(self, config: JudgeConfig, oom_kills: int = 0) -> None:
        self._config = config
        self._log = LogFold()
        self._ends = EndWatch()
        self._ready = Readiness(config)
        self._shards = ShardClock()
        self._pass = 0
        self._ending_since: typing.Optional[float] = None
        self._stages: typing.Optional[StageTrack] = None
        self._began = 0.0
        #: of its first and last line
        self._times: tuple[typing.Optional[float], typing.Optional[float]] = (None, None)
        self._signs: ProgressSigns
        self._rates = RateWindow()
        self._stall: StallClock
        self._oom = OomWatch(oom_kills)
        self._left: tuple[ProcSample, ...] = ()

    @property
    def stop_requested(self) -> bool:
        """The server was told to stop, before anything failed."""
        return self._log.stop is not None

    def feed(self, observation: Observation) -> Status:
        t = observation.t
        if self._stages is None:
            self._begin(observation)
        news = self._log.feed(observation.log, observation.log_partial)
        self._note_times(observation)
        end = self._ends.feed(observation)
        signal = exit_of(self._log, end)[1]
        self._oom.feed(observation, end, signal, complained=self._log.specific is not None)
        self._left = tuple(proc for proc in observation.procs or () if proc.state not in ("Z", "X"))
        self._ready.feed(observation.http, t)
        entered = self._advance(observation, news)
        signs = self._signs.feed(observation, news.lines, len(news.bars))
        self._rates.feed(observation, self._signs.risen)
        if self._ends.coming:
            signs |= {QUEUE}
        self._stall.feed(t, self._track.name, entered, signs)
        self._weights(t, news)
        if self._ends.coming:
            # whatever ended is over: what counts is the start that is on its way
            self._ending_since = None
        elif self._ending_since is None and (self._log.ending or self._log.stop or self._log.main_exception):
            self._ending_since = t
        elif self._ending_since is not None and (entered or news.bars):
            # others are still at work: nothing is over before they stop as well
            self._ending_since = t
        return self._status(t, end)

    def close(self, t: float) -> tuple[Cycle, Cause]:
        """What became of it, now that another start has begun."""
        cause = self._cause_of_death(self._ends.end)
        code, signal = exit_of(self._log, self._ends.end)
        began, last = self._times
        cycle = Cycle(
            cause.id,
            cause.line,
            self._track.name,
            code,
            signal,
            started_at=began,
            seconds=last - began if began is not None and last is not None else t - self._began,
            log_tail=self._tail(cause),
            served=self._log.serving or self._ends.up,
        )
        return cycle, cause

    @property
    def oom_kills(self) -> int:
        return self._oom.counted

    @property
    def limit_hit(self) -> bool:
        """systemd refuses to start it as often as that."""
        return "sd_limit" in self._log.seen

    def _note_times(self, seen: Observation) -> None:
        for record in seen.log:
            # the pause before a restart is no part of the start
            if record.at is not None and record.side != "kernel" and not SCHEDULED.search(record.text):
                self._times = (self._times[0] if self._times[0] is not None else record.at, record.at)

    # -- where it is

    @property
    def _track(self) -> StageTrack:
        if self._stages is None:
            raise RuntimeError("the judge was asked before it saw anything")
        return self._stages

    def _begin(self, seen: Observation) -> None:
        waits = seen.unit is not None and not seen.unit.main_pid and not seen.procs
        self._began = seen.t
        self._stages = StageTrack("unit" if waits else "process", seen.t)
        self._signs = ProgressSigns(seen.t)
        self._stall = StallClock(seen.t, self._config.stall_timeouts)

    def _advance(self, seen: Observation, news: News) -> bool:
        """Enter the stages that this look shows; whether any was new."""
        entered = False
        told_by_log = news.lines and (self._log.said or seen.unit is None)
        if seen.procs or (seen.unit is not None and seen.unit.main_pid) or told_by_log:
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
            settled = t - end.t >= end.settle_s or (log.specific is not None and end.exit_code is not None)
            return self._say(t, "dead", cause, self._death_evidence(end), final=settled, end=end)
        if self._ends.coming and not self._stall.run_out(t, "unit"):
            return self._say(t, "progressing", None, (self._queue(), *self._progress_evidence(t)))
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
            held_up = self._bottlenecks()
            first = ", ".join(held_up[:_JOINED]) or None
            said = (*((first,) if first else ()), slow, *held_up[_JOINED:], *self._progress_evidence(t))
            return self._say(t, "slow", None, said, bottleneck=first)
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
        return self._shards.slow_because(t, self._unit_bytes(), forecast.shard_s)

    def _bottlenecks(self) -> tuple[str, ...]:
        rates = self._rates.rates()
        if rates is None:
            return ()
        storage = Storage(self._log.checkpoint_fs) if self._log.checkpoint_fs else rates.storage
        interval, unit = self._shards.interval_s(), self._unit_bytes()
        loading = self._track.name == "weights"
        loaded = unit / interval if loading and interval and unit else None
        return bottlenecks(rates._replace(storage=storage, loading=loading, loaded=loaded))

    def _unit_bytes(self) -> typing.Optional[float]:
        """Bytes that one unit of the bar stands for, as far as is known."""
        total = self._bytes_total() if self._pass == 1 else None
        return total / self._shards.total if total and self._shards.total else None

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
        return self._cause_of_stall(stage), (words, *self._peers(), *self._progress_evidence(t), *self._gpus())

    def _workers(self) -> int:
        return sum(proc.name.startswith("VLLM::Worker") for proc in self._left)

    def _misses_peers(self) -> bool:
        """Some of the ranks have to come from other hosts."""
        return 0 < self._workers() < self._log.world_size

    def _peers(self) -> tuple[str, ...]:
        """Who has to meet, and who of them is here."""
        log = self._log
        if self._track.name not in ("workers", "nccl") or not log.world_size:
            return ()
        here = f"{self._workers()} worker processes are on this host" if self._workers() else ""
        there = ", the others must come from other hosts" if self._misses_peers() else ""
        ranks = f"{log.world_size} ranks are to meet at {log.world_address}" if log.world_address else ""
        return (", ".join(words for words in (ranks, here) if words) + there,)

    def _gpus(self) -> tuple[str, ...]:
        """What the GPUs do meanwhile, in figures."""
        signs = self._signs
        said = []
        if signs.utilization:
            said.append(f"{_span(signs.utilization)} %")
        if signs.power_mw:
            said.append(f"{_span([round(power / 1000) for power in signs.power_mw])} W")
        return (f"GPUs at {', '.join(said)}",) if said else ()

    def _cause_of_stall(self, stage: str) -> Cause:
        if "D" in self._signs.frozen:
            return self._finding("process_blocked")
        if self._log.specific is not None:
            return from_hit(self._log.specific)
        if stage == "nccl" and self._misses_peers() and not self._signs.spinning:
            return self._finding("peers_missing")
        hang = BY_NAME[stage].hang
        if hang and hang in self._log.seen and not self._shards.done:
            cause = named(hang, self._last_line())
            # the table can only say what such a silence may mean
            return cause._replace(cause=self._finding("gpu_spin").cause) if self._signs.spinning else cause
        if self._ends.coming:
            return self._finding("unit_queued")
        by_stage = {"unit": "unit_not_started", "workers": "peers_missing", "first_token": "no_first_token"}
        if self._signs.spinning:
            return self._finding("gpu_spin")
        if stage == "http" and self._log.serving:
            return self._finding("http_silent")
        return self._finding(by_stage.get(stage, "no_progress"))

    def _cause_of_death(self, end: typing.Optional[End]) -> Cause:
        return cause_of_death(self._log, end, self._oom.killed)

    def _finding(self, name: str) -> Cause:
        return named(name, self._last_line())

    def _queue(self) -> str:
        """What systemd is about to do with the unit, and which other units that waits for."""
        unit = self._ends.unit
        job = unit.job if unit is not None else ""
        waits = ", ".join(name.replace("/", " (") + ")" for name in unit.waits_for) if unit is not None else ""
        return f"systemd has a {job} job for the unit" + (f", which waits for {waits}" if waits else "")

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
        said += children(log.generic)
        if self._ends.up:
            said.append("/health answered 200 before")
        said += self._oom.evidence(self._ends.unit)
        left = self._left_behind(end)
        if left:
            said.append(left)
        return tuple(said)

    def _left_behind(self, end: typing.Optional[End]) -> str:
        """Engine and workers outlive their server, and hold its GPU memory."""
        if end is not None and end.how == "unit" and end.exit_code is None:
            return ""
        names = [f"{proc.name} (pid {proc.pid})" for proc in self._left if proc.name.startswith("VLLM::")]
        if not names:
            return ""
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        held = f", {self._signs.ours / 2**30:.1f} GiB of GPU memory" if self._signs.ours else ""
        return f"still there: {', '.join(names[:_NAMED])}{more}{held}"

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
        bottleneck: typing.Optional[str] = None,
    ) -> Status:
        drawn = self._log.weights
        files = drawn is not None and drawn.files
        total = self._bytes_total() if self._pass <= 1 else None
        done = None
        if total and self._track.reached("repack"):
            done = total
        elif total and self._shards.total:
            done = int(total * self._shards.done / self._shards.total)
        code, signal = exit_of(self._log, end)
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
            bottleneck=bottleneck,
            evidence=evidence,
            exit_code=code,
            signal=signal,
            final=final,
            log_tail=self._tail(cause),
        )

    def _tail(self, cause: typing.Optional[Cause]) -> tuple[str, ...]:
        lines = [presentable(parse_line(line).text) for line in self._log.tail]
        if cause is not None and cause.line and cause.line not in lines:
            lines = [cause.line, *lines[1:]]
        return tuple(lines)


def _span(values: typing.Sequence[int]) -> str:
    least, most = min(values), max(values)
    return f"{least}" if least == most else f"{least} to {most}"


__all__ = ("Start",)
