# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Folds a log of any length into what it says: stages, bars, the first failure, an orderly stop. Constant memory."""

from __future__ import annotations

import collections
import re
import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._needles import Needles
from ansible_collections.modelfleet.serving.plugins.module_utils._signatures import SIGNATURES, Signature
from ansible_collections.modelfleet.serving.plugins.module_utils._stage_lines import STAGE_LINES, StageLine
from ansible_collections.modelfleet.serving.plugins.module_utils._stages import ORDER
from ansible_collections.modelfleet.serving.plugins.module_utils._vllm_log import (
    Bar,
    Line,
    is_echo,
    parse_bar,
    parse_line,
    pieces,
    strip_ansi,
)

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord

_TRACEBACK = "Traceback (most recent call last)"
#: frames only the server's main process has: when such a traceback ends, so does the process
_MAIN_FRAMES = ("/cli/main.py", "/bin/vllm", "_run_module_as_main", "openai/api_server.py")
#: a traceback whose end never came (its process died in the middle) is given up after so many lines
_TRACEBACK_LINES = 2000
_OPEN_TRACEBACKS = 32

#: Lines that come from being asked, or by the clock: access log and statistics. No sign of progress.
_ACCESS = re.compile(r'"[A-Z]+ (?P<path>/\S*) HTTP/[\d.]+" (?P<status>\d{3})')
_ACCESS_NEEDLE = " HTTP/1."
_STATISTICS = "Avg prompt throughput: "

_ROWS: tuple[typing.Union[Signature, StageLine], ...] = (*SIGNATURES, *STAGE_LINES)
_PATTERNS = tuple(re.compile(row.pattern, re.DOTALL) for row in _ROWS)


def _numbered() -> Needles:
    numbers: dict[str, list[int]] = {text: [] for text in (_TRACEBACK, _ACCESS_NEEDLE, _STATISTICS, "%|")}
    for number, row in enumerate(_ROWS):
        for needle in row.needles:
            numbers.setdefault(needle, []).append(number)
    return Needles(numbers)


_NEEDLES = _numbered()
_KERNEL_NAMES = ("vllm", "VLLM", "python", "pt_main", "ray::")
_CAUSES_KEPT = 16
_AUTHORS = (("EngineCore", "engine"), ("Worker", "workers"), ("VllmWorker", "workers"))
_CHECKPOINT_GIB = re.compile(r"Checkpoint size: ([\d.]+) GiB")


class Hit(typing.NamedTuple):
    """A signature and the line it was found on."""

    row: Signature
    proc: str
    line: str
    groups: typing.Mapping[str, typing.Optional[str]]
    #: how many stages the log had entered by then
    depth: int = 0


class News(typing.NamedTuple):
    """What one portion of the log added."""

    #: new lines that are neither a heartbeat, an answer to a request, nor statistics
    lines: int = 0
    #: a bar moved, also one that only redraws itself
    bars: tuple[Bar, ...] = ()
    #: stages entered, in the order of their lines
    stages: tuple[str, ...] = ()
    #: status of requests seen in the access log: (path, status)
    requests: tuple[tuple[str, int], ...] = ()


class _Traceback:
    """One traceback being read; ``main``: of the server's main process."""

    def __init__(self, bare: bool) -> None:
        self.bare = bare
        self.main = False
        self.lines = 0


class LogFold:
    """Feed it the log in order; it keeps what matters."""

    def __init__(self) -> None:
        #: first line that only says that something failed, first after which nothing comes up
        self.generic: typing.Optional[Hit] = None
        self.ending: typing.Optional[Hit] = None
        #: the orderly stop, where it was asked for before anything failed
        self.stop: typing.Optional[Hit] = None
        #: first exception of a traceback that is not a mere warning
        self.exception: str = ""
        #: exception that ended the main process
        self.main_exception: str = ""
        self.restarts = 0
        #: ``(status, name)`` of systemd's "Main process exited"
        self.exited: typing.Optional[tuple[str, int, str]] = None
        self.heartbeats = 0
        self.heartbeats_in_row = 0
        self.lines = 0
        self.last_line = ""
        self.serving = False
        self.seen: set[str] = set()
        self.last_bar: typing.Optional[Bar] = None
        self.weights: typing.Optional[Bar] = None
        #: 1 for the model, 2 for a drafter's weights
        self.weights_pass = 0
        self.checkpoint_bytes: typing.Optional[int] = None
        self.tail: collections.deque[str] = collections.deque(maxlen=5)
        #: the server's own last lines: systemd adds some of its own to those of a program that fails
        self.said: collections.deque[str] = collections.deque(maxlen=8)
        #: lines that name a cause, the first of each
        self._specific: list[Hit] = []
        self._furthest = 0
        self._depth = 0
        self._tracebacks: dict[str, _Traceback] = {}
        self._validation = False
        self._partial = ""
        self._reset_news()

    @property
    def specific(self) -> typing.Optional[Hit]:
        """The line that names the cause: the earliest of the last two stages, since a server that went on for longer
        after a complaint did not die of it.
        """
        late = [hit for hit in self._specific if hit.depth >= self._depth - 1]
        return next(iter(late or self._specific), None)

    # -- feeding

    def feed(self, records: typing.Iterable[LogRecord], partial: str = "") -> News:
        """Take in whole lines, and the unfinished text after them."""
        self._reset_news()
        for record in records:
            known = self._known_redraws(record.text)
            for index, piece in enumerate(pieces(record.text)):
                if index >= known or parse_bar(piece) is None:
                    self._line(piece, record.side)
            self._partial = ""
        if partial and partial != self._partial:
            self._unfinished(partial)
        self._partial = partial
        return News(self._new, tuple(self._bars), tuple(self._stages), tuple(self._requests))

    def _known_redraws(self, text: str) -> int:
        """How many pieces of a line were read as the unfinished text before it: a bar must not start over."""
        if not self._partial or not text.startswith(self._partial):
            return 0
        return len(pieces(self._partial)) - 1

    def _reset_news(self) -> None:
        self._new = 0
        self._bars: list[Bar] = []
        self._stages: list[str] = []
        self._requests: list[tuple[str, int]] = []

    def _unfinished(self, partial: str) -> None:
        parts = pieces(partial)
        drawn = parse_bar(parse_line(parts[-1]).text) if parts else None
        if drawn is not None:
            self._take_bar(drawn)
        elif parts:
            self._new += 1

    def _line(self, text: str, side: str) -> None:
        if not text or text.isspace():
            return
        self.lines += 1
        if not self._tracebacks and not self._validation and "\x1b" not in text and _NEEDLES.search(text) is None:
            self._moved(text, side)
            return
        text = strip_ansi(text)
        if _ACCESS_NEEDLE in text:
            self._access(text)
            return
        if _STATISTICS in text:
            return
        line = parse_line(text)
        if side == "service":
            self._traceback(line)
            self._author(line)
        rows = _NEEDLES.numbers(line.text)
        if not self._heartbeat(line, rows):
            self._moved(text, side)
        drawn = parse_bar(line.text)
        if drawn is not None:
            self._take_bar(drawn)
            return
        if not is_echo(line.text):
            self._match(line, side, rows)
        if side == "service":
            self._stage(line.text, rows)

    def _moved(self, text: str, side: str) -> None:
        self._new += 1
        self.heartbeats_in_row = 0
        self.last_line = text
        self.tail.append(text)
        if side == "service":
            self.said.append(text)

    def _access(self, text: str) -> None:
        match = _ACCESS.search(text)
        if match is not None:
            self._requests.append((match["path"], int(match["status"])))

    def _heartbeat(self, line: Line, rows: typing.Sequence[int]) -> bool:
        for number in rows:
            row = _ROWS[number]
            if isinstance(row, Signature) and row.kind == "heartbeat" and _PATTERNS[number].search(line.text):
                self.heartbeats += 1
                self.heartbeats_in_row += 1
                return True
        return False

    # -- what the lines say

    def _take_bar(self, drawn: Bar) -> None:
        if drawn == self.last_bar:
            return
        self.last_bar = drawn
        self._bars.append(drawn)
        if not drawn.weights:
            self._stage(drawn.desc, _NEEDLES.numbers(drawn.desc))
            return
        before = self.weights
        if before is None:
            self.weights_pass = 1
        elif drawn.done < before.done or drawn.total != before.total:
            if drawn.done > 0 and before.done < before.total:
                return  # another engine's bar in between
            self.weights_pass += 1
        self.weights = drawn
        self._enter("weights")

    def _enter(self, stage: str) -> None:
        self._stages.append(stage)
        if ORDER[stage] > self._furthest:
            self._furthest = ORDER[stage]
            self._depth += 1

    def _author(self, line: Line) -> None:
        """An engine or worker that writes is there, whatever it says."""
        for author, stage in _AUTHORS:
            if line.proc.startswith(author) and line.level:
                self._enter(stage)

    def _stage(self, text: str, rows: typing.Sequence[int]) -> None:
        for number in rows:
            row = _ROWS[number]
            if isinstance(row, StageLine) and _PATTERNS[number].search(text):
                self._enter(row.stage)
                self.seen.add(row.id)
                self.serving = self.serving or row.id == "ready"
                size = _CHECKPOINT_GIB.search(text) if row.id == "fs_type" else None
                if size is not None and float(size[1]) > 0:
                    self.checkpoint_bytes = int(float(size[1]) * 2**30)

    def _match(self, line: Line, side: str, rows: typing.Sequence[int]) -> None:
        if line.text.startswith("    "):
            return  # source text inside a traceback
        for number in rows:
            row = _ROWS[number]
            if not isinstance(row, Signature) or row.side != side:
                continue
            # uvicorn's own lines are told by their header, which is off by now
            found = _PATTERNS[number].search(line.text) or _PATTERNS[number].search(f"{line.level}:     {line.text}")
            if found is not None and self._counts(row, line, found):
                self._take_hit(Hit(row, line.proc, line.text.strip(), found.groupdict(), self._depth))
                return

    @staticmethod
    def _counts(row: Signature, line: Line, match: re.Match[str]) -> bool:
        """Whether a match means what its row says, in a line of this level and about this process."""
        if row.severity != "fatal":
            return True
        if line.level in ("DEBUG", "INFO") or (line.level == "WARNING" and not row.ends):
            return False
        groups = match.groupdict()
        name = groups.get("comm") or groups.get("comm2")
        return not (row.side == "kernel" and name and not name.startswith(_KERNEL_NAMES))

    def _take_hit(self, hit: Hit) -> None:
        row = hit.row
        self.seen.add(row.id)
        if row.kind == "shutdown":
            # only the server's own stop; a stop of the engine alone, or after a failure, is a failure
            if self.stop is None and self.generic is None and not self._specific and _is_stop(hit):
                self.stop = hit
            return
        if row.severity != "fatal" or (self.stop is not None and row.side == "service"):
            return
        if row.side == "systemd":
            self._systemd(hit)
        if row.rank == "specific":
            if len(self._specific) < _CAUSES_KEPT and all(hit.row.id != row.id for hit in self._specific):
                self._specific.append(hit)
        else:
            self.generic = self.generic or hit
        if row.ends:
            self.ending = self.ending or hit

    def _systemd(self, hit: Hit) -> None:
        groups = hit.groups
        if hit.row.id == "sd_restart":
            self.restarts = max(self.restarts, int(groups["n"] or 0))
        elif hit.row.id in ("sd_exit", "sd_kill"):
            self.exited = (hit.row.id, int(groups["s"] or 0), groups.get("n") or "")

    # -- tracebacks

    def _traceback(self, line: Line) -> None:
        text = line.text
        if self._validation:
            # pydantic says what is wrong one line below its exception
            self._validation = False
            if text.startswith("  ") and "rror, " in text:
                self._replace_exception(text.strip())
        if text.startswith(_TRACEBACK):
            if len(self._tracebacks) < _OPEN_TRACEBACKS:
                self._tracebacks[line.proc] = _Traceback(bare=not line.level)
            return
        current = self._tracebacks.get(line.proc)
        if current is None:
            return
        current.lines += 1
        if not text.strip() or text.startswith(" "):
            current.main = current.main or (current.bare and any(frame in text for frame in _MAIN_FRAMES))
            if current.lines > _TRACEBACK_LINES:
                del self._tracebacks[line.proc]
            return
        del self._tracebacks[line.proc]
        if line.level in ("", "ERROR", "CRITICAL") and self.stop is None:
            self._take_exception(text.strip(), current.main)

    def _take_exception(self, text: str, main: bool) -> None:
        if text.startswith("KeyboardInterrupt"):
            return
        self.exception = self.exception or text
        if main:
            self.main_exception = text
        self._validation = "validation error" in text

    def _replace_exception(self, text: str) -> None:
        if "validation error" in self.exception:
            self.exception = text
        if "validation error" in self.main_exception:
            self.main_exception = text


def _is_stop(hit: Hit) -> bool:
    if hit.row.id == "sh_trigger":
        return "API server" in hit.line
    return hit.row.id in ("sd_stopping", "sh_begun", "sh_interrupt", "sh_uv")


__all__ = ("Hit", "LogFold", "News")
