# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The words of the transfer layer: what is to be fetched, how hard to try, what may go wrong, what has been moved.

The layer from the bottom up: :mod:`_http` and folders give bytes, a :class:`_supply.Supplier` brings one file from one
source, :mod:`_flow` is the loop that all of them pour their bytes through, :mod:`_partial` the file that grows, and
:mod:`_fetch` goes through the sources until a file has the published digest.
"""

from __future__ import annotations

import threading
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import RemoteFile


class FetchError(Exception):
    """A file could not be had; the text says what was tried and what to do."""

    def __init__(self, message: str, lacks: bool = False) -> None:
        super().__init__(message)
        #: the source just does not have the file
        self.lacks = lacks


class Stopped(FetchError):
    """Somebody asked for an end; partial files stay."""


class ContentError(FetchError):
    """What a source sends is not what is published."""


class StorageError(FetchError):
    """The disk under the snapshot refused."""


class Interruption(Exception):
    """A transfer broke off in a way that another try may mend."""

    def __init__(self, reason: str, wait: float | None = None, leave: bool = False) -> None:
        super().__init__(reason)
        #: seconds that the source asks to be left alone
        self.wait = wait
        #: another source is the better next try: this one is gone, silent or slow
        self.leave = leave


class WrongSize(Interruption):
    """The source has another size for the file than the listing."""


class Refused(Exception):
    """The source will not give this file, however often it is asked."""

    def __init__(self, reason: str, lacks: bool = False) -> None:
        super().__init__(reason)
        #: it just does not have the file, which is no fault
        self.lacks = lacks


class NotYet(Exception):
    """The source is getting the file itself: ask again in ``wait`` seconds."""

    def __init__(self, wait: float, mark: str = "") -> None:
        super().__init__(f"not yet, in {wait:.0f} s")
        self.wait = wait
        #: changes while the source gets on
        self.mark = mark


class Stop(threading.Event):
    """The wish for an end. Set by a failure as well; asked for by a signal or the clock."""

    asked = False
    reason = "stopped"

    def ask(self, reason: str = "stopped") -> None:
        self.asked, self.reason = True, reason
        self.set()

    def ask_after(self, seconds: float) -> None:
        """Begin the time in which the work has to be done."""
        timer = threading.Timer(seconds, self.ask, [f"the timeout of {seconds:g} s was over"])
        timer.daemon = True
        timer.start()


class Policy(t.NamedTuple):
    """How hard to try. A file may fail ``retries`` times, and once more for every ``bytes_per_retry`` it got."""

    retries: int = 8
    #: the same for a source that others come after
    source_retries: int = 2
    bytes_per_retry: int = 64 << 20
    backoff: float = 1.0
    max_backoff: float = 30.0
    #: the longest a server's Retry-After is obeyed, and the longest while another source could be asked
    max_wait: float = 600.0
    max_source_wait: float = 10.0
    connect_timeout: float = 10.0
    #: seconds without a byte, and the window of min_rate
    stall_timeout: float = 60.0
    #: bytes a second below which a connection is given up for a new one
    min_rate: int = 10 * 1024


class Job(t.NamedTuple):
    file: RemoteFile
    partial: str
    target: str


#: how a file was brought
DOWNLOAD = "download"
REFLINK = "reflink"
LINK = "link"
COPY = "copy"
WITHOUT_COPY = (REFLINK, LINK)


class Done(t.NamedTuple):
    """A file that has its final name."""

    job: Job
    mtime_ns: int
    inode: int
    source: str = ""
    method: str = DOWNLOAD


class Meter:
    """What the workers have moved, for the progress line."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.downloaded = 0
        self.retries = 0
        self.message = ""
        #: bytes in place by path, of files begun in this run
        self.current: dict[str, int] = {}
        self.finished: list[Done] = []

    def at(self, path: str, offset: int, moved: int = 0) -> None:
        with self._lock:
            self.current[path] = offset
            self.downloaded += moved

    def retry(self, message: str) -> None:
        with self._lock:
            self.retries += 1
            self.message = message

    def say(self, message: str) -> None:
        with self._lock:
            self.message = message

    def done(self, done: Done) -> None:
        with self._lock:
            self.finished.append(done)


class Limiter:
    """Keeps the sum of all workers under ``rate`` bytes a second; 0 is no limit."""

    def __init__(self, rate: int, clock: t.Callable[[], float], sleep: t.Callable[[float], object]) -> None:
        self._rate, self._clock, self._sleep = rate, clock, sleep
        self._lock = threading.Lock()
        self._free_at = clock()

    def take(self, count: int) -> None:
        if not self._rate:
            return
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now) + count / self._rate
            wait = self._free_at - now
        # a second of credit would come out as a burst; a tenth keeps the rate even
        if wait > 0.1:
            self._sleep(wait)


_T = t.TypeVar("_T")


def storage(path: str, operation: t.Callable[[], _T]) -> _T:
    """Run a disk operation; its OSError becomes a :class:`StorageError`, so that it can't pass for a network error."""
    try:
        return operation()
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise StorageError(
            f"Writing {path} failed: {reason}. What was downloaded stays there and is used by the next run."
        ) from exc


__all__ = (
    "COPY",
    "DOWNLOAD",
    "LINK",
    "REFLINK",
    "WITHOUT_COPY",
    "ContentError",
    "Done",
    "FetchError",
    "Interruption",
    "Job",
    "Limiter",
    "Meter",
    "NotYet",
    "Policy",
    "Refused",
    "Stop",
    "Stopped",
    "StorageError",
    "WrongSize",
    "storage",
)
