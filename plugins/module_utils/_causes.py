# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Which of all that was said and seen is the cause of an end. Pure."""

from __future__ import annotations

import re
import typing

from ansible_collections.modelfleet.serving.plugins.module_utils import _findings, _signatures
from ansible_collections.modelfleet.serving.plugins.module_utils._exit_words import (
    BY_CODE,
    SYSTEMD_STATUSES,
    SystemdStatus,
    signal_name,
    signal_words,
    status_words,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._status import Cause
from ansible_collections.modelfleet.serving.plugins.module_utils._vllm_log import parse_line, presentable

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._ending import End
    from ansible_collections.modelfleet.serving.plugins.module_utils._log_fold import Hit, LogFold

_BY_STEP = {row.name: row for row in SYSTEMD_STATUSES}
#: how a program complains that no row knows
_COMPLAINT = re.compile(
    r"(?:error|exception|fatal|panic|abort)|\b(?:cannot|can't|could not|unable|failed|failure|refused|denied|invalid|"
    r"missing|no such|not found|killed)\b",
    re.IGNORECASE,
)


def from_hit(hit: Hit, line: str = "") -> Cause:
    return Cause(hit.row.id, presentable(line or hit.line), hit.row.cause, hit.row.remedy)


def named(name: str, line: str) -> Cause:
    """The finding or signature of this id."""
    known = _findings.BY_ID.get(name) or _signatures.BY_ID[name]
    return Cause(known.id, presentable(line), known.cause, known.remedy)


def complaint(log: LogFold) -> str:
    """The last of the program's last lines that reads like a complaint, where no row of the table matched one."""
    lines = [parse_line(line).text for line in log.said]
    return next((line for line in reversed(lines) if _COMPLAINT.search(line)), "")


def cause_of_death(log: LogFold, end: typing.Optional[End], oom_killed: bool) -> Cause:
    """``oom_killed``: the kernel ended a process of the service for want of memory, before any complaint."""
    specific = log.specific
    if oom_killed and (specific is None or specific.row.id not in ("k_oom", "sd_oom")):
        return named("k_oom", "")
    if log.stop is not None:
        return from_hit(log.stop)
    if specific is not None:
        return from_hit(specific)
    if end is not None and end.finding and not (end.finding == "unit_not_started" and _ran(log)):
        return named(end.finding, log.last_line if end.how == "http" else "")
    return _unspecific(log, end)


def _ran(log: LogFold) -> bool:
    """systemd forgets a unit that ended well and that nothing refers to; the journal does not."""
    return log.generic is not None or bool(log.said)


def _unspecific(log: LogFold, end: typing.Optional[End]) -> Cause:
    generic = log.generic
    refused = _not_started(log, end)
    if refused is not None:
        return refused
    said = log.main_exception or log.exception
    if generic is not None and generic.row.side == "service":
        return from_hit(generic, log.exception)
    said = said or complaint(log)
    if generic is not None and generic.row.side == "kernel":
        return from_hit(generic)
    if generic is not None and generic.row.id == "sd_control":
        return from_hit(generic, said)
    if said and _failed(log, end):
        return _in_words(named("sd_exit", said), log, end)
    if generic is not None:
        return _in_words(from_hit(generic), log, end)
    if end is not None and end.how in ("engine", "http"):
        return named("engine_dead", "")
    if end is not None and end.signal is not None:
        return _in_words(named("sd_kill", ""), log, end)
    return _in_words(named("sd_done" if end is not None and end.exit_code == 0 else "sd_exit", ""), log, end)


def exit_of(log: LogFold, end: typing.Optional[End]) -> tuple[typing.Optional[int], typing.Optional[str]]:
    """Exit status and name of the signal, as far as either is known."""
    if end is not None and end.exit_code is not None:
        return end.exit_code, end.signal
    if log.exited is None:
        return None, None
    how, status, _name = log.exited
    return (128 + status, signal_name(status)) if how == "sd_kill" else (status, None)


def _in_words(cause: Cause, log: LogFold, end: typing.Optional[End]) -> Cause:
    """With the status or signal of this end, instead of a list of those there are."""
    code, signal = exit_of(log, end)
    if cause.id == "sd_kill" and signal is not None:
        return cause._replace(cause=f"a signal ended the main process: {signal_words(signal)}")
    if cause.id == "sd_exit" and code:
        remedy = "what it wrote last; no known failure matches it"
        return cause._replace(cause=f"the main process ended by itself with {status_words(code)}", remedy=remedy)
    return cause


def _failed(log: LogFold, end: typing.Optional[End]) -> bool:
    """It ended by itself and with a status that is not 0, so that its last complaint is why."""
    if log.main_exception or log.exception:
        return True
    if log.exited is not None:
        return log.exited[0] == "sd_exit"
    return end is not None and end.signal is None and bool(end.exit_code)


def _not_started(log: LogFold, end: typing.Optional[End]) -> typing.Optional[Cause]:
    """systemd could not start the program: by its own line, or by the status that it gave instead of the program."""
    row: typing.Optional[SystemdStatus] = None
    line = ""
    if log.generic is not None and log.generic.row.id == "sd_spawn":
        row, line = _BY_STEP.get(log.generic.groups.get("step") or ""), log.generic.line
    elif log.exited is not None and log.exited[0] == "sd_exit":
        row = BY_CODE.get(log.exited[1])
        if row is not None and row.name != log.exited[2]:
            row = None
        line = log.generic.line if log.generic is not None else ""
    elif end is not None and end.by_systemd and end.exit_code is not None and not log.said:
        row = BY_CODE.get(end.exit_code)
    if row is None:
        return None
    cause = f"systemd could not start the program: status {row.code}/{row.name}, it could not {row.failed}"
    return Cause("sd_exit", presentable(line), cause, row.remedy)


def children(hit: typing.Optional[Hit]) -> list[str]:
    """The exit statuses that vLLM gives for its children: ``{'EngineCore': -9}``."""
    if hit is None or hit.row.id != "engine_init_failed":
        return []
    pairs = [pair.partition(":") for pair in (hit.groups.get("p") or "").strip("{}").split(",") if ":" in pair]
    return [
        f"{name.strip(chr(39) + ' ')} ended by {signal_name(-int(code))}"
        for name, _colon, code in pairs
        if code.strip().lstrip("-").isdigit() and int(code) < 0
    ]


__all__ = ("cause_of_death", "children", "complaint", "exit_of", "from_hit", "named")
