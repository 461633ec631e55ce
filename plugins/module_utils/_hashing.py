# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Published digests, computed in the caller's thread or beside it.

A processor hashes about as fast as it receives and writes. Where there are more processors than files under way, a
thread of its own for the digest makes a single file half as fast again; where there are not, it only costs.
"""

from __future__ import annotations

import hashlib
import os
import queue
import threading
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import SHA256, RemoteFile

#: smaller blocks are hashed sooner than handed over
MIN_BESIDE = 1 << 20


class Hash(t.Protocol):
    """As hashlib's."""

    def update(self, data: memoryview, /) -> None:
        """Add ``data``."""

    def hexdigest(self) -> str:
        """Of all that was added."""


def hasher(file: RemoteFile) -> Hash:
    """A hash object that gives ``file.digest`` when it has seen the content."""
    if file.algorithm == SHA256:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class BesideHash:
    """A hash that works in a thread while its caller goes on; hashlib lets go of the interpreter meanwhile.

    ``data`` of an :meth:`update` has to stay as it is until the next one has returned: two buffers in turns will do.
    The thread is there from the first big block until :meth:`rest`.
    """

    def __init__(self, content: Hash) -> None:
        self._content = content
        self._blocks: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._under_way = False
        self._thread: threading.Thread | None = None

    def update(self, data: memoryview, /) -> None:
        self._wait()
        if len(data) < MIN_BESIDE:
            self._content.update(data)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        self._under_way = True
        self._blocks.put(data)

    def hexdigest(self) -> str:
        self._wait()
        return self._content.hexdigest()

    def rest(self) -> None:
        """Be done with all that was added, and need no thread until more is."""
        self._wait()
        if self._thread is not None:
            self._blocks.put(None)
            self._thread.join()
            self._thread = None

    def _wait(self) -> None:
        if self._under_way:
            self._under_way = False
            failure = self._results.get()
            if failure is not None:
                raise failure

    def _work(self) -> None:
        while True:
            data = self._blocks.get()
            if data is None:
                return
            try:
                self._content.update(data)
            except BaseException as exc:
                self._results.put(exc)
            else:
                self._results.put(None)


__all__ = ("BesideHash", "Hash", "cores", "hasher")
