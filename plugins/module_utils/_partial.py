# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""A file under way: it grows under a fixed name, so that a run killed anywhere goes on where it was.

The name comes from the content. What an earlier run left is hashed again before it is continued, and only what has the
published digest gets its final name.
"""

from __future__ import annotations

import itertools
import os
import stat
import typing as t
import zlib

from ansible_collections.modelfleet.serving.plugins.module_utils._hashing import BesideHash, Hash, hasher
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import OWN_DIR, RemoteFile
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import (
    DOWNLOAD,
    Done,
    Job,
    Stop,
    Stopped,
    storage,
)

BLOCK = 1 << 22
PARTIAL_DIR = f"{OWN_DIR}/partial"
#: in the place of a source's name: bytes that an earlier run left
EARLIER = "an earlier run"


def partial_path(snapshot: str, file: RemoteFile) -> str:
    """Where a file grows: named by its content, and by its path since two files may have the same content."""
    return f"{snapshot}/{PARTIAL_DIR}/{file.digest}-{zlib.crc32(file.path.encode('utf-8', 'surrogatepass')):08x}"


class Partial:
    """The partial file of a job, with the hash of what is in it and whose bytes these are.

    Not open at first; it may be closed and opened again, and hashes what is there once.
    """

    def __init__(self, job: Job, beside: bool = False) -> None:
        """``beside``: there are processors to spare for the digest."""
        self.job = job
        self.beside = beside
        self.offset = 0
        #: the sources of the bytes, in order
        self.givers: list[str] = []
        self._hash = self._new_hash()
        self._file: t.Any = None

    def _new_hash(self) -> Hash:
        fresh = hasher(self.job.file)
        return BesideHash(fresh) if self.beside else fresh

    def __enter__(self) -> Partial:
        """Have the file open at :attr:`offset`, which is where it ends."""
        self._file = storage(self.job.partial, lambda: open_private(self.job.partial))
        try:
            storage(self.job.partial, self._take_over)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._rest()
        self._file.close()

    def _rest(self) -> None:
        if isinstance(self._hash, BesideHash):
            self._hash.rest()

    def _take_over(self) -> None:
        """Go on where the file ends."""
        left = os.fstat(self._file.fileno()).st_size
        if self.offset and left == self.offset:
            self._file.seek(self.offset)
            return
        self._forget()
        self._file.seek(0)
        if left:
            self._hash_earlier()

    def _hash_earlier(self) -> None:
        """Hash what an earlier run left."""
        room = memoryview(bytearray(BLOCK))
        halves = itertools.cycle((room[: BLOCK // 2], room[BLOCK // 2 :]))
        while self.offset < self.job.file.size:
            buffer = next(halves)
            count = self._file.readinto(buffer[: self.job.file.size - self.offset])
            if not count:
                break
            self._hash.update(buffer[:count])
            self.offset += count
        self._file.truncate(self.offset)
        if self.offset:
            self.givers = [EARLIER]

    def _forget(self) -> None:
        self._rest()
        self._hash = self._new_hash()
        self.offset = 0
        self.givers = []

    def write(self, data: memoryview, giver: str) -> None:
        self._hash.update(data)
        self.offset += len(data)
        if giver not in self.givers:
            self.givers.append(giver)
        storage(self.job.partial, lambda: self._write_all(data))

    def _write_all(self, data: memoryview) -> None:
        while data:
            data = data[self._file.write(data) :]

    def restart(self) -> None:
        """Begin the file again: what is there cannot be continued."""
        self._file.seek(0)
        self._file.truncate(0)
        self._forget()

    def digest(self) -> str:
        return str(self._hash.hexdigest())

    def publish(self, source: str, method: str = DOWNLOAD) -> Done:
        """Give the proved content its final name, in one step and on stable storage."""
        return publish(self.job, self._file.fileno(), self.job.partial, source, method)


def check_stop(stop: Stop, part: Partial) -> None:
    if stop.is_set():
        file = part.job.file
        raise Stopped(
            f"{file.path}: {stop.reason} at {part.offset} of {file.size} bytes. What was downloaded is kept; run again "
            "to continue."
        )


def publish(job: Job, fd: int, path: str, source: str, method: str) -> Done:
    """Give the open file at ``path``, whose content is proved, the final name."""

    def rename() -> os.stat_result:
        os.fsync(fd)
        os.replace(path, job.target)
        folder = os.open(os.path.dirname(job.target), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return os.fstat(fd)

    seen = storage(job.target, rename)
    return Done(job, seen.st_mtime_ns, seen.st_ino, source, method)


def open_private(path: str) -> t.Any:
    """Open ``path`` for reading and writing, made if missing; never through a link that somebody put there."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileExistsError(17, "not a regular file", path)
    return os.fdopen(fd, "r+b", buffering=0)


__all__ = ("EARLIER", "PARTIAL_DIR", "Partial", "check_stop", "open_private", "partial_path", "publish")
