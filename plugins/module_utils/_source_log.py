# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""A log that grows by lines, and one that is a file.

A source gives only what is new since it was last read, and never more than a bounded amount at once. What the lines
mean is not known here.
"""

from __future__ import annotations

import errno
import os
import stat
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord

#: bytes of a file taken in one look, and at once
FILE_BYTES = 8 * 1024 * 1024
BLOCK_BYTES = 512 * 1024
#: of a line longer than this (somebody's prompt, a table of numbers) the beginning and the end are kept
LONGEST_LINE = 16 * 1024
LINE_HEAD = 12 * 1024
#: by these bytes at its start a file is known to be the same
HEAD_BYTES = 256


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
        """Everything new, up to the source's bound. A record may have many lines."""


class FileSource:
    """Follows a log file from ``offset`` on, through rotation (by renaming or copying), truncation and replacement.

    A line ends at LF or CR: a bar that redraws itself never writes the former.
    """

    def __init__(self, path: str, offset: int = 0, limit: int = FILE_BYTES) -> None:
        self._path = path
        self._offset = offset
        self._limit = limit
        self._handle: t.Optional[t.BinaryIO] = None
        self._head = b""
        self._rest = b""

    def read(self) -> LogReading:
        notes: list[str] = []
        records: list[LogRecord] = []
        left = self._limit
        try:
            while left > 0:
                data = self._new_bytes(min(left, BLOCK_BYTES), notes)
                left -= len(data)
                if not data:
                    break
                records += self._ended(data)
        except OSError as exc:
            # not yet written to is the usual reason, and then it appears by itself
            notes.append(f"The log file {self._path} could not be read: {exc.strerror or exc}")
        return LogReading(
            tuple(records), partial=self._rest.decode("utf-8", "replace"), notes=tuple(notes), more=left <= 0
        )

    def close(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _ended(self, data: bytes) -> list[LogRecord]:
        """The lines that end in this block, as one record; what follows them waits for its end."""
        data = self._rest + data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        self._rest = shorten(data[end:])
        if not end:
            return []
        # CR LF becomes an empty line, which costs less than to look for two characters
        text = shorten(data[:end].replace(b"\r", b"\n"))
        return [LogRecord("", raw=text[:-1])]

    def _new_bytes(self, size: int, notes: list[str]) -> bytes:
        if self._handle is None:
            self._open(self._offset)
        handle = t.cast(t.BinaryIO, self._handle)
        if self._truncated(handle):
            # copytruncate, or a service started anew with StandardOutput=truncate:
            notes.append(f"{self._path} was truncated and is read from its start again.")
            self._begin(handle, 0)
            self._rest = b""
        data = handle.read(size)
        if not data and self._replaced(handle):
            notes.append(f"{self._path} was replaced (rotated) and is read from its start.")
            self.close()
            # what the old file left unfinished will not be finished in the new one
            ending = b"\n" if self._rest else b""
            self._open(0)
            data = ending + t.cast(t.BinaryIO, self._handle).read(size)
        return data

    def _open(self, offset: int) -> None:
        # not to wait for the writer of a pipe that somebody named as the log file
        descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "it is not a regular file")
        self._handle = open(descriptor, "rb", buffering=0)  # noqa: SIM115  kept, to read a rotated file to its end
        self._begin(self._handle, offset)

    def _begin(self, handle: t.BinaryIO, offset: int) -> None:
        size = os.fstat(handle.fileno()).st_size
        # a file shorter than it was when its size was noted has been rotated since
        handle.seek(offset if offset <= size else 0)
        self._head = b""

    def _truncated(self, handle: t.BinaryIO) -> bool:
        """Whether it is shorter than what was read of it, or begins differently: it may have grown as long again."""
        head = os.pread(handle.fileno(), HEAD_BYTES, 0)
        before, self._head = self._head, head
        return os.fstat(handle.fileno()).st_size < handle.tell() or not head.startswith(before)

    def _replaced(self, handle: t.BinaryIO) -> bool:
        ours = os.fstat(handle.fileno())
        try:
            there = os.stat(self._path)
        except OSError:
            # moved away and not yet made again: the old file may still grow
            return False
        return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)


def shorten(text: bytes) -> bytes:
    """Every line that is too long without its middle, in whatever portions it was read."""
    if len(text) <= LONGEST_LINE:
        return text
    parts = []
    at = 0
    while len(text) - at > LONGEST_LINE:
        end = text.rfind(b"\n", at, at + LONGEST_LINE + 1) + 1
        if not end:
            end = text.find(b"\n", at) + 1 or len(text) + 1
            parts += [text[at : at + LINE_HEAD], text[end - 1 - (LONGEST_LINE - LINE_HEAD) : end]]
        else:
            parts.append(text[at:end])
        at = end
    return b"".join((*parts, text[at:]))


__all__ = ("FileSource", "LogReading", "LogSource", "shorten")
