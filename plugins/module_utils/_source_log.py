# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What the service and those who run it write: the journal, a log file.

Every source gives only what is new since it was last read, as lines without their line end, and never more than a
bounded amount at once. What the lines mean is not known here.
"""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord
from ansible_collections.modelfleet.serving.plugins.module_utils._source_unit import RunCommand

#: journal entries taken at once; a start writes some hundreds, a service that answers requests any number
JOURNAL_ENTRIES = 5000
#: entries of a unit that is not of this boot's current start
HISTORY_ENTRIES = 500
FILE_BYTES = 8 * 1024 * 1024
#: an unfinished line longer than this is a bar that never ends its line; its newest state is at the end
PARTIAL_BYTES = 64 * 1024
FIELDS = "MESSAGE,_PID,_TRANSPORT,UNIT"


class LogReading(t.NamedTuple):
    """What appeared since the last read."""

    records: tuple[LogRecord, ...] = ()
    partial: str = ""
    notes: tuple[str, ...] = ()
    #: there is more already
    more: bool = False


class LogSource(t.Protocol):
    """Anything that grows by lines."""

    def read(self) -> LogReading:
        """Everything new, up to the source's bound."""


def split_lines(text: str) -> list[str]:
    """Lines of a message; vLLM ends those of multi-line records with CR LF."""
    return [line[:-1] if line.endswith("\r") else line for line in text.split("\n")]


# -- the journal ---------------------------------------------------------------------------------------------------


class JournalEntry(t.NamedTuple):
    """One entry of ``journalctl -o json``."""

    cursor: str
    records: tuple[LogRecord, ...]


def decode_message(value: t.Any) -> str:
    """The text of a journal field.

    Bytes that are not printable UTF-8, such as the CR of a progress bar, make the field an array of integers; a field
    assigned twice is an array of its values; one that was too long to show is null.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        if all(isinstance(item, int) for item in value):
            return bytes(item & 0xFF for item in value).decode("utf-8", "replace")
        return "\n".join(decode_message(item) for item in value)
    return ""


def parse_entry(line: str) -> t.Optional[JournalEntry]:
    """One line of ``journalctl -o json``; None for what is not an entry."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict) or "__CURSOR" not in fields:
        return None
    pid_text = decode_message(fields.get("_PID"))
    pid = int(pid_text) if pid_text.isdigit() else None
    if fields.get("_TRANSPORT") == "kernel":
        side = "kernel"
    elif "UNIT" in fields:
        # the manager's own entries about a unit name it in UNIT=; those of its processes in _SYSTEMD_UNIT=
        side = "systemd"
    else:
        side = "service"
    stamp = str(fields.get("__REALTIME_TIMESTAMP", ""))
    at = int(stamp) / 1e6 if stamp.isdigit() else None
    lines = split_lines(decode_message(fields.get("MESSAGE")).rstrip("\n"))
    return JournalEntry(
        cursor=str(fields["__CURSOR"]),
        records=tuple(LogRecord(text, pid, side, at) for text in lines),
    )


class JournalSource:
    """A unit's journal: from its current start on, then by cursor, so that later restarts are in it.

    What earlier starts wrote is left alone: a crash of last week must not be taken for one of the server that systemd
    has brought back since.
    """

    def __init__(self, unit: str, run_command: RunCommand, journalctl: str = "journalctl") -> None:
        self._unit = unit
        self._run = run_command
        self._base = [journalctl, "--output=json", "--all", "--quiet", "--no-pager", f"--output-fields={FIELDS}"]
        self._cursor = ""
        #: of the unit's current start, told by whoever reads its state
        self.invocation = ""

    def read(self) -> LogReading:
        limit, selection = self._selection()
        status, out, err = self._run([*self._base, f"--lines={limit}", *selection])
        entries = [entry for entry in map(parse_entry, out.splitlines()) if entry]
        if status != 0 and not entries:
            return LogReading(notes=(f"The journal of {self._unit} could not be read: {_reason(status, out, err)}",))
        if entries:
            self._cursor = entries[-1].cursor
        notes = (f"Only the last {limit} new journal entries were read.",) if len(entries) >= limit else ()
        return LogReading(tuple(record for entry in entries for record in entry.records), notes=notes)

    def _selection(self) -> tuple[int, list[str]]:
        by_unit = [f"--unit={self._unit}"]
        if self._cursor:
            return JOURNAL_ENTRIES, [*by_unit, f"--after-cursor={self._cursor}"]
        if self.invocation:
            # its processes' entries carry the first field, the manager's own about them the second
            return JOURNAL_ENTRIES, [
                f"_SYSTEMD_INVOCATION_ID={self.invocation}",
                "+",
                f"INVOCATION_ID={self.invocation}",
                "_PID=1",
            ]
        return HISTORY_ENTRIES, [*by_unit, "--boot"]


# -- a file --------------------------------------------------------------------------------------------------------


class FileSource:
    """Follows a log file from ``offset`` on, through rotation, truncation and replacement."""

    def __init__(self, path: str, offset: int = 0, limit: int = FILE_BYTES) -> None:
        self._path = path
        self._offset = offset
        self._limit = limit
        self._handle: t.Optional[t.BinaryIO] = None
        self._rest = b""

    def read(self) -> LogReading:
        notes: list[str] = []
        try:
            data = self._new_bytes(notes)
        except OSError as exc:
            # not yet written to is the usual reason, and then it appears by itself
            return LogReading(notes=(f"The log file {self._path} could not be read: {exc.strerror or exc}",))
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > PARTIAL_BYTES:
            self._rest = self._rest[-PARTIAL_BYTES:]
        texts = [line[:-1] if line.endswith(b"\r") else line for line in lines]
        return LogReading(
            tuple(LogRecord(text.decode("utf-8", "replace")) for text in texts),
            partial=self._rest.decode("utf-8", "replace"),
            notes=tuple(notes),
            more=len(data) >= self._limit,
        )

    def close(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _new_bytes(self, notes: list[str]) -> bytes:
        if self._handle is None:
            self._open(self._offset)
        handle = t.cast(t.BinaryIO, self._handle)
        if os.fstat(handle.fileno()).st_size < handle.tell():
            # copytruncate, or a service started anew with StandardOutput=truncate:
            notes.append(f"{self._path} was truncated and is read from its start again.")
            handle.seek(0)
            self._rest = b""
        data = handle.read(self._limit)
        if not data and self._replaced(handle):
            notes.append(f"{self._path} was replaced (rotated) and is read from its start.")
            self.close()
            # what the old file left unfinished will not be finished in the new one
            ending = self._rest + b"\n" if self._rest else b""
            self._rest = b""
            self._open(0)
            data = ending + t.cast(t.BinaryIO, self._handle).read(self._limit)
        return data

    def _open(self, offset: int) -> None:
        self._handle = open(self._path, "rb")  # noqa: SIM115  held open between reads, to read a rotated file to its end
        size = os.fstat(self._handle.fileno()).st_size
        # a file shorter than it was when its size was noted has been rotated since
        self._handle.seek(offset if offset <= size else 0)

    def _replaced(self, handle: t.BinaryIO) -> bool:
        ours = os.fstat(handle.fileno())
        try:
            there = os.stat(self._path)
        except OSError:
            # moved away and not yet made again: the old file may still grow
            return False
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)


def _reason(status: int, out: str, err: str) -> str:
    return (err or out).strip() or f"exit status {status}"


__all__ = (
    "FileSource",
    "JournalEntry",
    "JournalSource",
    "LogReading",
    "LogSource",
    "decode_message",
    "parse_entry",
    "split_lines",
)
