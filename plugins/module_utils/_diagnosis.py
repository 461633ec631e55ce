# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""A view of a wait in words: the line while it goes on, the message and the data at its end. Pure."""

from __future__ import annotations

import dataclasses
import shlex
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._forecast import Span
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import GpuSample
from ansible_collections.modelfleet.serving.plugins.module_utils._redact import redact
from ansible_collections.modelfleet.serving.plugins.module_utils._stacks import Stack
from ansible_collections.modelfleet.serving.plugins.module_utils._wait import View

GIB = 1024**3
#: log lines in the failure message; the result has them all
MESSAGE_LINES = 5
LINE_LENGTH = 300
#: how finely a time that only grows is shown, so that a line changes when something moved and not with every look
ELAPSED_STEP = 30

#: keys of the result whose text is the collection's own: no secret can be in it, and no word of it may go
_OURS = ("id", "cause", "remedy", "verdict", "stage", "name", "signal", "unit_state", "started_at", "eta_basis")


class Target(t.NamedTuple):
    """What was watched, as the user named it."""

    unit: str = ""
    pid: int = 0
    log_file: str = ""
    url: str = ""

    @property
    def name(self) -> str:
        return self.unit or f"process {self.pid}"

    def next_command(self) -> str:
        """What a person would type now."""
        if self.unit:
            unit = shlex.quote(self.unit)
            return f"systemctl status {unit}; journalctl -u {unit} -b -e --no-pager -a"
        if self.log_file:
            return f"tail -n 100 {shlex.quote(self.log_file)}"
        return f"ps -o pid,ppid,stat,etime,args --pid {self.pid} --ppid {self.pid}"


def duration(seconds: float) -> str:
    """4m10s, 42s, 1h05m."""
    whole = int(round(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def spoken(span: Span) -> str:
    """``4m10s``, or ``3m20s to 6m00s`` where the limits lie apart."""
    low, high = duration(span.low), duration(span.high)
    return duration(span.likely) if span.high - span.low < max(10.0, 0.2 * span.likely) else f"{low} to {high}"


def vram(gpus: t.Sequence[GpuSample]) -> str:
    """``VRAM 73/96 GiB x8``; the range of what is used where the cards differ."""
    known = [gpu for gpu in gpus if gpu.memory_used_bytes is not None]
    if not known:
        return ""
    used = sorted({round((gpu.memory_used_bytes or 0) / GIB) for gpu in known})
    total = max((gpu.memory_total_bytes or 0) for gpu in known)
    shown = f"{used[0]}" if len(used) == 1 else f"{used[0]}-{used[-1]}"
    return f"VRAM {shown}{f'/{total / GIB:.0f}' if total else ''} GiB x{len(known)}"


def _done(view: View) -> str:
    status = view.status
    if status.shards_total:
        done = status.shards_done or 0
        return f" {done}/{status.shards_total} {100 * done // status.shards_total}%"
    if status.bytes_total and status.bytes_done:
        return f" {100 * status.bytes_done // status.bytes_total}%"
    return ""


def _evidence(view: View) -> tuple[str, ...]:
    """What the judge found, who has the port, what could not be looked at."""
    port = (view.foreign,) if view.foreign else ()
    return tuple(dict.fromkeys((*view.status.evidence, *view.examined, *port, *view.notes)))


def _reason(view: View) -> str:
    """The shortest true answer to "why": the log's own words, what was seen, what such a failure means."""
    status = view.status
    said = (status.cause.line, *status.evidence[:1], status.cause.cause) if status.cause else status.evidence[:1]
    return next((words for words in said if words), "")


def progress_line(view: View) -> str:
    """One line for people: ``weights 89/119 75%  ETA 4m10s  VRAM 73/96 GiB x8  slow: disk 310 MB/s``."""
    status = view.status
    if status.verdict == "ready":
        rate = tokens_per_second(view)
        return f"ready after {duration(view.elapsed_s)}" + (f"  {rate:.1f} tokens/s" if rate else "")
    if status.verdict in ("dead", "stalled"):
        reason = _reason(view)
        return redact(f"{status.verdict} at {status.stage}" + (f": {reason}" if reason else ""))[:LINE_LENGTH]
    parts = [status.stage + (_done(view) if status.stage == "weights" else "")]
    in_stage = status.stages[-1][1] if status.stages else 0.0
    if status.eta_s is not None and status.stage == "weights":
        parts.append(f"ETA {duration(status.eta_s)}")
    if status.ready_eta is not None:
        parts.append(f"ready in {spoken(status.ready_eta)}")
    elif status.eta_s is None and in_stage >= ELAPSED_STEP:
        parts.append(f"for {duration(in_stage // ELAPSED_STEP * ELAPSED_STEP)}")
    parts.append(vram(view.gpus))
    if status.verdict == "slow":
        parts.append(f"slow: {_reason(view)}" if _reason(view) else "slow")
    elif view.foreign:
        parts.append(view.foreign)
    return redact("  ".join(part for part in parts if part))[:LINE_LENGTH]


def tokens_per_second(view: View) -> t.Optional[float]:
    answer = view.completion
    if answer is None or answer.status != 200 or not answer.completion_tokens or answer.seconds <= 0:
        return None
    return round(answer.completion_tokens / answer.seconds, 2)


def as_progress(view: View) -> dict[str, t.Any]:
    """What the progress file holds."""
    status = view.status
    used = [gpu.memory_used_bytes for gpu in view.gpus if gpu.memory_used_bytes is not None]
    return {
        "line": progress_line(view),
        "verdict": status.verdict,
        "stage": status.stage,
        "seconds": round(view.elapsed_s, 1),
        "shards_done": status.shards_done,
        "shards_total": status.shards_total,
        "eta_s": status.eta_s,
        "ready_eta_s": status.ready_eta.likely if status.ready_eta is not None else None,
        "vram_min_bytes": min(used, default=None),
        "vram_max_bytes": max(used, default=None),
        "gpus": len(view.gpus),
        "evidence": redact(next(iter(_evidence(view)), "")),
    }


def as_result(view: View, secrets: t.Collection[str] = ()) -> dict[str, t.Any]:
    """What the module returns, secrets taken out."""
    answer = view.completion
    result = {
        "changed": False,
        **view.status.as_result(),
        "elapsed_s": round(view.elapsed_s, 1),
        "looks": view.looks,
        "timed_out": view.timed_out,
        "unit_state": view.unit_state or None,
        "tokens_per_second": tokens_per_second(view),
        "answer": answer.text if answer and answer.status == 200 else None,
        "fingerprint": answer.fingerprint if answer else None,
        "gpus": [dataclasses.asdict(gpu) for gpu in view.gpus],
        "stacks": [stack.as_result() for stack in view.stacks],
    }
    result["evidence"] = list(_evidence(view))
    return t.cast("dict[str, t.Any]", _scrub(result, secrets))


def _scrub(value: t.Any, secrets: t.Collection[str]) -> t.Any:
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, dict):
        return {
            key: item if key in _OURS and isinstance(item, str) else _scrub(item, secrets)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_scrub(item, secrets) for item in value]
    return value


def _headline(target: Target, view: View) -> str:
    status = view.status
    after = duration(view.elapsed_s)
    if view.timed_out:
        return f"{target.name} was not ready within the limit of {after}: {status.verdict} at stage {status.stage}."
    ending = ""
    if status.signal:
        ending = f", ended by {status.signal}"
    elif status.exit_code is not None:
        ending = f", exit status {status.exit_code}"
    return f"{target.name} is {status.verdict} at stage {status.stage}{ending} (watched for {after})."


def _one_a_process(stacks: t.Sequence[Stack]) -> list[Stack]:
    """The first of each, which is the main thread's."""
    return list({stack.pid: stack for stack in reversed(stacks)}.values())[::-1]


def message(target: Target, view: View, secrets: t.Collection[str] = ()) -> str:
    """The diagnosis: verdict, stage, cause, remedy, evidence, the lines that matter, what to type next."""
    status = view.status

    def foreign(text: str) -> str:
        """What others wrote, or may have."""
        return redact(text, secrets)

    lines = [foreign(_headline(target, view))]
    if status.cause is not None:
        lines.append(f"Cause ({status.cause.id}): {status.cause.cause}")
        if status.cause.line:
            lines.append(foreign(f"  said: {status.cause.line[:LINE_LENGTH]}"))
        if status.cause.remedy:
            lines.append(f"Remedy: {status.cause.remedy}")
    evidence = _evidence(view)
    if evidence:
        lines += ["Evidence:", *(foreign(f"  - {item}") for item in evidence)]
    shown = _one_a_process(view.stacks)
    if shown:
        lines += ["Stacks, innermost first:", *(foreign(f"  {stack.words[:LINE_LENGTH]}") for stack in shown)]
    if status.log_tail:
        tail = status.log_tail[-MESSAGE_LINES:]
        lines += ["Log lines that matter:", *(foreign(f"  {line[:LINE_LENGTH]}") for line in tail)]
    lines.append(foreign(f"Next: {target.next_command()}"))
    return "\n".join(lines)


__all__ = (
    "Target",
    "as_progress",
    "as_result",
    "duration",
    "message",
    "progress_line",
    "tokens_per_second",
    "vram",
)
