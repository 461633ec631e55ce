# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Folds a log of any length into what it says: stages, bars, the first failure, an orderly stop. Constant memory."""

from __future__ import annotations

import collections
import re
import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._log_kinds import (
    BAR,
    CONTINUED,
    CONTINUED_IN_MAIN,
    MATTERS,
    PLAIN,
    QUIET,
    REPEATS,
    Kinds,
    keys,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._signatures import SIGNATURES, Signature
from ansible_collections.modelfleet.serving.plugins.module_utils._stage_lines import STAGE_LINES, StageLine
from ansible_collections.modelfleet.serving.plugins.module_utils._stages import ORDER
from ansible_collections.modelfleet.serving.plugins.module_utils._tracebacks import TRACEBACK, Tracebacks
from ansible_collections.modelfleet.serving.plugins.module_utils._vllm_log import (
    ECHO_OF_LINES,
    Bar,
    Line,
    bar_before_record,
    is_echo,
    is_json_record,
    parse_bar,
    parse_line,
    plain_records,
)

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord

_ROWS: tuple[typing.Union[Signature, StageLine], ...] = (*SIGNATURES, *STAGE_LINES)
_SIGNATURES = len(SIGNATURES)
_PATTERNS = tuple(re.compile(row.pattern, re.DOTALL) for row in _ROWS)


def _numbered() -> dict[str, list[int]]:
    """Every text that makes a line worth reading, with the rows that want it."""
    numbers: dict[str, list[int]] = {text: [] for text in (TRACEBACK, ECHO_OF_LINES)}
    for number, row in enumerate(_ROWS):
        for needle in row.needles:
            numbers.setdefault(needle, []).append(number)
    return numbers


#: rows that tell uvicorn's own lines by their header, which is off when they are looked at
_OF_UVICORN = frozenset(number for number, row in enumerate(SIGNATURES) if "INFO:" in row.pattern)
_HEARTBEATS = frozenset(number for number, row in enumerate(SIGNATURES) if row.kind == "heartbeat")

#: what kind a line is depends on nothing but the line: every fold may use what another has found out
_KINDS = Kinds(_numbered())


def _marks(*kinds: int) -> bytes:
    """A table for ``bytes.translate``: 1 for these kinds, 0 for any other."""
    return bytes(1 if kind in kinds else 0 for kind in range(256))


_NEWS = _marks(PLAIN, CONTINUED, CONTINUED_IN_MAIN, BAR, MATTERS, REPEATS)
#: what has to be read while no traceback is open, and while one is
_CALM = _marks(BAR, MATTERS, REPEATS)
_INSIDE = _marks(PLAIN, BAR, MATTERS, REPEATS)

_KERNEL_NAMES = ("vllm", "VLLM", "python", "pt_main", "ray::")
#: of a line, how much is the server's own word
_ALL, _BEGINNING, _NONE = "all", "beginning", "none"
_CAUSES_KEPT = 16
#: lines kept to be shown
_TAIL = 5
_SAID = 8
#: the server itself tells that it was asked to stop
_OWN_STOPS = ("sh_trigger", "sh_begun", "sh_interrupt", "sh_uv")
_AUTHORS = (("EngineCore", "engine"), ("Worker", "workers"), ("VllmWorker", "workers"))
_WORLD = re.compile(r"world_size=(\d+) .*distributed_init_method=(\S+)")
_CHECKPOINT = re.compile(r"Filesystem type for checkpoints: (\S+?)\. Checkpoint size: ([\d.]+) GiB")


class _Portion(typing.NamedTuple):
    """Lines, by number: the text, what stands for it, its kind, and whether it is news (1) or not (0)."""

    lines: typing.Sequence[bytes]
    keys: typing.Sequence[bytes]
    kinds: bytes
    news: bytes
    side: str


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace")


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


class LogFold:
    """Feed it the log in order; it keeps what matters."""

    def __init__(self) -> None:
        #: first line that only says that something failed, first after which nothing comes up
        self.generic: typing.Optional[Hit] = None
        self.ending: typing.Optional[Hit] = None
        #: the orderly stop, where it was asked for before anything failed
        self.stop: typing.Optional[Hit] = None
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
        #: the file system that it lies on, in small letters; empty when unknown
        self.checkpoint_fs = ""
        #: how many ranks are to meet, and where; 0 and empty when unknown
        self.world_size = 0
        self.world_address = ""
        self.tail: collections.deque[str] = collections.deque(maxlen=_TAIL)
        #: the server's own last lines: systemd adds some of its own to those of a program that fails
        self.said: collections.deque[str] = collections.deque(maxlen=_SAID)
        #: lines that name a cause, the first of each
        self._specific: list[Hit] = []
        self._furthest = 0
        self._depth = 0
        self._tracebacks = Tracebacks()
        #: header of a record that repeats configuration over many lines: (process, time, source line)
        self._echo: typing.Optional[tuple[str, str, str]] = None
        self._partial = ""
        self._reset_news()

    @property
    def specific(self) -> typing.Optional[Hit]:
        """The line that names the cause: the earliest of the last two stages, since a server that went on for longer
        after a complaint did not die of it.
        """
        late = [hit for hit in self._specific if hit.depth >= self._depth - 1]
        return next(iter(late or self._specific), None)

    @property
    def exception(self) -> str:
        """The first exception of a traceback that is not a mere warning."""
        return self._tracebacks.exception

    @property
    def main_exception(self) -> str:
        """The exception that ended the main process."""
        return self._tracebacks.main_exception

    # -- feeding

    def feed(self, records: typing.Iterable[LogRecord], partial: str = "") -> News:
        """Take in ended lines (by CR or LF; a record may have many), and the unfinished text after them."""
        self._reset_news()
        for record in records:
            data = record.raw or record.text.encode("utf-8", "replace")
            self._data(data, record.side, "" if record.pid is None else str(record.pid))
        if partial and partial != self._partial:
            self._unfinished(partial)
        self._partial = partial
        return News(self._new, tuple(self._bars), tuple(self._stages))

    def _reset_news(self) -> None:
        self._new = 0
        self._bars: list[Bar] = []
        self._stages: list[str] = []

    def _unfinished(self, partial: str) -> None:
        drawn = parse_bar(parse_line(partial).text)
        if drawn is not None:
            self._take_bar(drawn, _KINDS.rows(keys(partial.encode("utf-8", "replace"))[0]))
        else:
            self._new += 1

    def _data(self, data: bytes, side: str, owner: str) -> None:
        """``owner``: who wrote the lines that do not say it, if that is known."""
        data = data.replace(b"\r", b"\n")
        by = keys(data)
        kinds = bytes(map(_KINDS.__getitem__, by))
        portion = _Portion(data.split(b"\n"), by, kinds, kinds.translate(_NEWS), side)
        calm, inside = kinds.translate(_CALM), kinds.translate(_INSIDE)
        at = 0
        while at < len(kinds):
            tracebacks = self._tracebacks
            stops = portion.news if tracebacks.asks else inside if tracebacks.busy else calm
            end = stops.find(1, at)
            end = end if end >= 0 else len(kinds)
            if tracebacks.busy and at < end:
                self._go_on(portion, at, end, owner)
            if at < end:
                self._pass_over(portion, at, end)
            if end < len(kinds) and kinds[end] == BAR:
                at = self._bar_states(portion, end)
            elif end < len(kinds):
                self._line(_decoded(portion.lines[end]), by[end], side, owner)
                at = end + 1
            else:
                at = end

    def _go_on(self, portion: _Portion, begin: int, end: int, owner: str) -> None:
        self._tracebacks.goes_on(portion.news.count(1, begin, end))
        at = portion.kinds.find(CONTINUED_IN_MAIN, begin, end)
        while at >= 0:
            self._tracebacks.in_main(parse_line(_decoded(portion.lines[at])).proc or owner)
            at = portion.kinds.find(CONTINUED_IN_MAIN, at + 1, end)

    def _pass_over(self, portion: _Portion, begin: int, end: int) -> None:
        """Lines that need no reading: they show that something goes on, and the newest are kept to be shown."""
        moved = portion.news.count(1, begin, end)
        self.lines += moved + portion.kinds.count(QUIET, begin, end)
        if not moved:
            return
        self._new += moved
        self.heartbeats_in_row = 0
        if moved == end - begin:
            newest = portion.lines[max(begin, end - _SAID) : end]
        else:
            news, at = portion.news, end
            for _newest in range(min(moved, _SAID)):
                at = news.rfind(1, begin, at)
            newest = [portion.lines[n] for n in range(at, end) if news[n]]
        texts = list(map(_decoded, newest))
        self.tail.extend(texts)
        if portion.side == "service":
            self.said.extend(texts)
        self.last_line = texts[-1]

    def _bar_states(self, portion: _Portion, begin: int) -> int:
        """Of the states of one bar in a row, the last one says it all; where the next line is."""
        by = portion.keys
        head = by[begin].partition(b"%|")[0] + b"%|"
        end = begin + 1
        while end < len(by) and portion.kinds[end] == BAR and by[end].startswith(head):
            end += 1
        drawn = parse_bar(parse_line(_decoded(portion.lines[end - 1])).text)
        if drawn is not None:
            self._take_bar(drawn, _KINDS.rows(by[end - 1]))
        self._pass_over(portion, begin, end)
        return end

    def _line(self, text: str, key: bytes, side: str, owner: str) -> None:
        self.lines += 1
        may_repeat = _KINDS[key] != MATTERS
        rows = _KINDS.rows(key)
        if "% Completed | " in text or "%|" in text:
            drawn = bar_before_record(text)
            if drawn is not None:
                self._take_bar(drawn, rows)
        if text[:1] == "{" and is_json_record(text):
            records = [parse_line(record) for record in plain_records(text)]
            # every one is to be read before it is asked whether any was one
            heartbeats = [self._record(record, rows, side, owner, may_repeat) for record in records]
            heartbeat = any(heartbeats)
        else:
            heartbeat = self._record(parse_line(text), rows, side, owner, may_repeat)
        if not heartbeat:
            self._new += 1
            self.heartbeats_in_row = 0
            self.last_line = text
            self.tail.append(text)
            if side == "service":
                self.said.append(text)

    def _record(self, line: Line, rows: typing.Sequence[int], side: str, owner: str, may_repeat: bool) -> bool:
        """Whether it is a heartbeat."""
        own = self._own_words(line) if may_repeat or self._echo else _ALL
        drawn = parse_bar(line.text) if own == _ALL and not line.level else None
        if drawn is not None:
            self._take_bar(drawn, rows)
            return False
        if side == "service":
            self._tracebacks.line(line, owner, self.stop is None)
            self._author(line)
        if own == _ALL:
            self._match(line, side, rows)
        if side == "service" and own != _NONE:
            self._stage(line.text, rows, beginning=own == _BEGINNING)
        return own == _ALL and self._heartbeat(line, rows)

    def _own_words(self, line: Line) -> str:
        """How much of a line is the server's own word. Any other word may be in what it repeats."""
        # a record of several lines has the same header on each of them
        header = (line.proc, line.stamp, line.origin)
        if header == self._echo:
            return _NONE
        if not is_echo(line.text):
            return _ALL
        self._echo = header if ECHO_OF_LINES in line.text else None
        return _BEGINNING

    def _heartbeat(self, line: Line, rows: typing.Sequence[int]) -> bool:
        if _HEARTBEATS.isdisjoint(rows) or not any(_PATTERNS[n].search(line.text) for n in rows if n in _HEARTBEATS):
            return False
        self.heartbeats += 1
        self.heartbeats_in_row += 1
        return True

    # -- what the lines say

    def _take_bar(self, drawn: Bar, rows: typing.Sequence[int]) -> None:
        if drawn == self.last_bar:
            return
        self.last_bar = drawn
        self._bars.append(drawn)
        if not drawn.weights:
            self._stage(drawn.desc, rows)
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
        if line.proc and line.level:
            for author, stage in _AUTHORS:
                if line.proc.startswith(author):
                    self._enter(stage)

    def _stage(self, text: str, rows: typing.Sequence[int], *, beginning: bool = False) -> None:
        for number in rows:
            if number < _SIGNATURES:
                continue
            pattern = _PATTERNS[number]
            if pattern.match(text) if beginning else pattern.search(text):
                row = STAGE_LINES[number - _SIGNATURES]
                self._enter(row.stage)
                self.seen.add(row.id)
                self.serving = self.serving or row.id == "ready"
                checkpoint = _CHECKPOINT.search(text) if row.id == "fs_type" else None
                if checkpoint is not None:
                    self._take_checkpoint(checkpoint[1], float(checkpoint[2]))
                world = _WORLD.search(text) if row.id == "worker_init" else None
                if world is not None:
                    self.world_size, self.world_address = int(world[1]), world[2]

    def _take_checkpoint(self, fs_type: str, gib: float) -> None:
        self.checkpoint_fs = "" if fs_type.lower() in ("unknown", "none") else fs_type.lower()
        if gib > 0:
            self.checkpoint_bytes = int(gib * 2**30)

    def _match(self, line: Line, side: str, rows: typing.Sequence[int]) -> None:
        if line.text.startswith("    "):
            return  # source text inside a traceback
        for number in rows:
            if number >= _SIGNATURES:
                return
            row = SIGNATURES[number]
            if row.side != side:
                continue
            found = _PATTERNS[number].search(line.text)
            if found is None and number in _OF_UVICORN:
                found = _PATTERNS[number].search(f"{line.level}:     {line.text}")
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
            if self._is_stop(hit):
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

    def _is_stop(self, hit: Hit) -> bool:
        """Whether the server was asked to stop; a stop of the engine alone, or after a failure, is a failure."""
        if self.generic is not None:
            return False
        if hit.row.side == "systemd":
            # says who asked, where the server's own line only says that it was asked; what it complained of before it
            # served was not its end either
            return (self.stop is None or self.stop.row.side != "systemd") and (self.serving or not self._specific)
        if hit.row.id == "sh_trigger" and "API server" not in hit.line:
            return False
        return self.stop is None and not self._specific and hit.row.id in _OWN_STOPS

    def _systemd(self, hit: Hit) -> None:
        groups = hit.groups
        if hit.row.id == "sd_restart":
            self.restarts = max(self.restarts, int(groups["n"] or 0))
        elif hit.row.id in ("sd_exit", "sd_kill"):
            self.exited = (hit.row.id, int(groups["s"] or 0), groups.get("n") or "")


__all__ = ("Hit", "LogFold", "News")
