# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What the service and those who run it write into the journal.

Every source gives only what is new since it was last read, and never more than a bounded amount at once. What the
lines mean is not known here.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._journal_order import JournalOrder, Said
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord
from ansible_collections.modelfleet.serving.plugins.module_utils._source_log import LogReading
from ansible_collections.modelfleet.serving.plugins.module_utils._unit_block import RunCommand

#: journal entries taken at once; a start writes some hundreds, a service that answers requests any number
JOURNAL_ENTRIES = 5000
#: entries of a unit that is not of this boot's current start
HISTORY_ENTRIES = 500
FIELDS = "MESSAGE,_PID,_TRANSPORT,UNIT,INVOCATION_ID,_SYSTEMD_INVOCATION_ID"


def split_lines(text: str) -> list[str]:
    """Lines of a message; vLLM ends those of multi-line records with CR LF."""
    return [line[:-1] if line.endswith("\r") else line for line in text.split("\n")]


class JournalEntry(t.NamedTuple):
    """One entry of ``journalctl -o json``."""

    cursor: str
    records: tuple[LogRecord, ...]
    #: id of the unit's start that it belongs to
    invocation: str = ""


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
        invocation=decode_message(fields.get("INVOCATION_ID") or fields.get("_SYSTEMD_INVOCATION_ID")),
    )


#: an entry that holds one line of the access log
_ACCESS_ENTRY = re.compile(
    r'"MESSAGE":"(?:\([^()"\\]*\) )?INFO:     [^"\\]*\\"[A-Z]+ [^"\\\s]+ HTTP/[\d.]+\\" \d{3}[^"\\]*"'
)
_ACCESS_HINT = " HTTP/"
_CURSOR = re.compile(r'"__CURSOR":"([^"\\]+)"')


class Entries(t.NamedTuple):
    """What ``journalctl -o json`` gave."""

    said: tuple[Said, ...] = ()
    #: of the last entry; empty when there was none
    cursor: str = ""
    taken: int = 0

    @property
    def records(self) -> tuple[LogRecord, ...]:
        return tuple(record for entry in self.said for record in entry.records)


def parse_entries(out: str) -> Entries:
    """All entries, in order. Those of the access log, of which a busy server writes thousands, are left out unread."""
    # not splitlines: messages may hold U+2028 and the like
    lines = [line for line in out.split("\n") if line]
    said: list[Said] = []
    cursor, taken = "", 0
    for line in lines:
        if _ACCESS_HINT in line and _ACCESS_ENTRY.search(line):
            found = _CURSOR.search(line)
            cursor, taken = found[1] if found else cursor, taken + 1
            continue
        entry = parse_entry(line)
        if entry is not None:
            cursor, taken = entry.cursor, taken + 1
            manager = any(record.side == "systemd" for record in entry.records)
            said.append(Said(entry.records, entry.invocation, manager))
    return Entries(tuple(said), cursor, taken)


class JournalFiles:
    """Whether anything was written into any journal of this host: cheaper to see than to ask ``journalctl``."""

    def __init__(self, folders: t.Sequence[str] = ("/run/log/journal", "/var/log/journal")) -> None:
        self._folders = folders

    def mark(self) -> t.Optional[tuple[tuple[str, int, int], ...]]:
        """Differs whenever there is more. journald touches a file after each write; None where none can be seen."""
        found = []
        for folder in self._folders:
            for machine in _entries_of(folder):
                for file in _entries_of(machine.path):
                    # rotated away while we look: it will be missing next time, which is a difference too
                    with contextlib.suppress(OSError):
                        status = file.stat()
                        found.append((file.path, status.st_mtime_ns, status.st_size))
        return tuple(sorted(found)) or None


def _entries_of(folder: str) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def matches(unit: str) -> tuple[str, ...]:
    """What is by the unit or about it: as ``--unit``, and what systemd's own child said that was to become the program.

    By its user and the unit it names, as it may be gone before journald can see to which unit it belonged.
    """
    about = ("UNIT", "OBJECT_SYSTEMD_UNIT", "COREDUMP_UNIT")
    return (f"_SYSTEMD_UNIT={unit}", *(word for field in about for word in ("+", f"{field}={unit}", "_UID=0")))


class JournalSource:
    """A unit's journal: from its current start on, then by cursor, so that later restarts are in it.

    What earlier starts wrote is left alone, unless systemd itself has repeated them: a crash of last week must not be
    taken for one of the server that somebody has started since.
    """

    def __init__(
        self,
        unit: str,
        run_command: RunCommand,
        journalctl: str = "journalctl",
        files: t.Optional[JournalFiles] = None,
    ) -> None:
        self._unit = unit
        self._run = run_command
        self._base = [journalctl, "--output=json", "--all", "--quiet", "--no-pager", f"--output-fields={FIELDS}"]
        self._cursor = ""
        self._files = files or JournalFiles()
        self._read_at: t.Optional[tuple[t.Any, list[str]]] = None
        self._order = JournalOrder()
        #: when the unit's current start began, in systemd's own form, told by whoever reads its state
        self.since = ""
        #: systemd has restarted the unit: what its earlier starts of this boot wrote is wanted too
        self.looped = False

    def read(self) -> LogReading:
        limit, selection = self._selection()
        mark = self._files.mark()
        if mark is not None and self._read_at == (mark, selection) and not self._order.holds:
            return LogReading()
        status, out, err = self._run([*self._base, f"--lines={limit}", *selection])
        entries = parse_entries(out)
        if status != 0 and not entries.taken:
            return LogReading(notes=(f"The journal of {self._unit} could not be read: {_reason(status, out, err)}",))
        self._cursor = entries.cursor or self._cursor
        self._read_at = (mark, self._selection()[1])
        notes = (f"Only the last {limit} new journal entries were read.",) if entries.taken >= limit else ()
        return LogReading(tuple(self._order.arrange(entries.said)), notes=notes)

    def _selection(self) -> tuple[int, list[str]]:
        by_unit = list(matches(self._unit))
        if self._cursor:
            return JOURNAL_ENTRIES, [f"--after-cursor={self._cursor}", *by_unit]
        if self.looped:
            return JOURNAL_ENTRIES, ["--boot", *by_unit]
        if self.since:
            # not by the id of the start: the last words of a process that lived for milliseconds come without it
            return JOURNAL_ENTRIES, ["--boot", f"--since={self.since}", *by_unit]
        return HISTORY_ENTRIES, ["--boot", *by_unit]


def _reason(status: int, out: str, err: str) -> str:
    return (err or out).strip() or f"exit status {status}"


__all__ = (
    "Entries",
    "JournalEntry",
    "JournalFiles",
    "JournalSource",
    "decode_message",
    "parse_entries",
    "parse_entry",
    "split_lines",
)
