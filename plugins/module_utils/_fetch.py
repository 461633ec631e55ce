# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The byte transfer: each file from the first source that gives what is published, resumed wherever it broke off.

huggingface_hub keeps nothing of a file that broke off (since 1.18), retries neither a TCP reset nor a 5xx, and checks
no content. Here a file has a partial file of a fixed name, goes on from the byte where it was, from the next source
where one is no good, and does not get its name before its digest is the published one.
"""

from __future__ import annotations

import collections
import threading
import time
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._hashing import cores
from ansible_collections.modelfleet.serving.plugins.module_utils._partial import EARLIER, Partial, check_stop
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import Ledger, Supplier
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import (
    WITHOUT_COPY,
    ContentError,
    Done,
    FetchError,
    Interruption,
    Job,
    Meter,
    NotYet,
    Policy,
    Refused,
    Stop,
    Stopped,
    StorageError,
    WrongSize,
)

#: a source that is waited for is asked again no sooner and no later
MIN_POLL, MAX_POLL = 0.2, 15.0
#: bytes from which on a file keeps a processor busy for a while
LONG = 1 << 26
#: seconds that workers get to notice a stop
STOP_GRACE = 5.0


class Fetcher:
    """One worker: takes files one by one, through its own connections to the sources."""

    def __init__(
        self, suppliers: t.Sequence[Supplier], ledger: Ledger, policy: Policy, meter: Meter, stop: Stop
    ) -> None:
        self._suppliers = suppliers
        self._ledger = ledger
        self._policy = policy
        self._meter = meter
        self._stop = stop

    def abort(self) -> None:
        """End all waits for the network; called from another thread."""
        for supplier in self._suppliers:
            supplier.abort()

    def fetch(self, part: Partial) -> Done:
        """Have the file in place. Raises :class:`FetchError`, or :class:`NotYet` for "take another file first"."""
        path = part.job.file.path
        waiting: dict[int, NotYet] = {}
        while True:
            left = [index for index in self._ledger.left(path) if index not in waiting]
            # who says "not yet" will have it: only others that share what they have are asked instead
            if waiting and not (left and self._suppliers[left[0]].waits):
                # where others that share have it the next time, the wait is over sooner
                peers = [index for index, supplier in enumerate(self._suppliers) if supplier.waits]
                self._ledger.may_have_it_later(path, peers)
                raise min(waiting.values(), key=lambda answer: answer.wait)
            if not left:
                raise FetchError(f"{path}: no source is left. {' '.join(self._ledger.reasons(path))}")
            index, alone = left[0], len(left) == 1 and not waiting
            try:
                return self._from(index, part, alone)
            except NotYet as answer:
                if self._ledger.not_yet(index, answer):
                    self._meter.say(f"{path}: waiting for {self._ledger.name(index)}, which is getting it")
                    waiting[index] = answer
            except (Stopped, StorageError):
                raise
            except FetchError as exc:
                self._leave(index, part, exc, alone)

    def _leave(self, index: int, part: Partial, exc: FetchError, alone: bool) -> None:
        """Give a source up for this file; with no other left, for good."""
        path = part.job.file.path
        reason = str(exc).replace(f"{path}: ", "", 1)
        if exc.lacks:
            self._ledger.lacks(index, path, reason)
        else:
            self._ledger.failed(index, path, reason, isinstance(exc, ContentError))
        others = [why for why in self._ledger.reasons(path) if not why.startswith(f"{self._ledger.name(index)}: ")]
        if not alone:
            (self._meter.say if exc.lacks else self._meter.retry)(f"{path}: {reason}")
        elif not others:
            raise exc
        else:
            kind = ContentError if isinstance(exc, ContentError) else FetchError
            raise kind(f"{path}: {reason.rstrip('.')}. Before that: {' '.join(others)}") from None

    def _from(self, index: int, part: Partial, alone: bool) -> Done:
        """The file from one source. ``alone``: no other is left, so that it gets all the patience."""
        supplier = self._suppliers[index]
        path = part.job.file.path
        try:
            done = supplier.adopt(part)
            if done is None:
                with part:
                    done = self._download(supplier, part, alone)
        except Refused as exc:
            raise FetchError(f"{path}: {exc}", exc.lacks) from None
        self._ledger.gave(index, part.job.file, done.method in WITHOUT_COPY)
        self._meter.done(done)
        return done

    def _download(self, supplier: Supplier, part: Partial, alone: bool) -> Done:
        file = part.job.file
        wrong = 0
        while True:
            self._meter.at(file.path, part.offset)
            self._fill(supplier, part, alone)
            found = part.digest()
            if found == file.digest:
                return part.publish(supplier.name, supplier.method)
            givers = part.givers
            part.restart()
            # where others had a hand in it, this source is not to blame: the whole file from it alone will show
            wrong += not (set(givers) - {supplier.name})
            if wrong > alone:
                raise ContentError(
                    f"{file.path}: the content is wrong{', twice' if alone else ''}: expected {file.algorithm} "
                    f"{file.digest}, found {found}, in {file.size} bytes from {supplier.name}. The copy at the source "
                    "or a proxy on the way is damaged; nothing of it was put into the snapshot."
                )
            self._blame(givers, supplier, file.path)
            self._meter.retry(f"{file.path}: wrong content, fetched once more")

    def _blame(self, givers: t.Sequence[str], supplier: Supplier, path: str) -> None:
        """Wrong content that an earlier run had no part in: the sources before this one may not add to it again."""
        if EARLIER not in givers:
            for index, other in enumerate(self._suppliers):
                if other.name in givers and other.name != supplier.name:
                    self._ledger.failed(index, path, "gave a part of a file that became wrong.")

    def _fill(self, supplier: Supplier, part: Partial, alone: bool) -> None:
        """Bring ``part`` to its full size, whatever it takes within the policy."""
        job, policy = part.job, self._policy
        retries = policy.retries if alone else min(policy.retries, policy.source_retries)
        failures = wrong_sizes = 0
        got = -part.offset
        while part.offset < job.file.size:
            check_stop(self._stop, part)
            begun = part.offset
            try:
                supplier.stream(part)
            except Interruption as exc:
                failures += 1
                got += max(0, part.offset - begun)
                wrong_sizes += isinstance(exc, WrongSize)
                if wrong_sizes > alone:
                    raise ContentError(f"{job.file.path}: {exc}") from None
                leave = not alone and (exc.leave or (exc.wait or 0) > policy.max_source_wait)
                if leave or failures > retries + max(0, got) // policy.bytes_per_retry:
                    kept = " What was downloaded is kept; run again to continue." if alone else ""
                    raise FetchError(
                        f"{job.file.path}: given up at {part.offset} of {job.file.size} bytes after {failures} "
                        f"failure{'s' if failures > 1 else ''}, the last: {exc}.{kept}"
                    ) from None
                self._pause(job, exc, failures)
            self._meter.at(job.file.path, part.offset)

    def _pause(self, job: Job, why: Interruption, failures: int) -> None:
        self._meter.retry(f"{job.file.path}: {why}")
        wait = min(self._policy.backoff * 2 ** (failures - 1), self._policy.max_backoff)
        if why.wait is not None:
            wait = min(max(why.wait, 0.0), self._policy.max_wait)
        self._stop.wait(wait)


class Line:
    """The files that wait for a worker, largest first; some not before a moment."""

    def __init__(self, jobs: t.Iterable[Job], stop: Stop, beside: bool = False) -> None:
        """``beside``: as of :class:`Partial`."""
        self._lock = threading.Lock()
        self._stop = stop
        order = sorted(jobs, key=lambda job: (-job.file.size, job.file.path))
        self._order = {job.file.path: number for number, job in enumerate(order)}
        self._fresh = collections.deque(Partial(job, beside) for job in order)
        #: those that were asked for in vain, and when they may be asked for again
        self._again: list[tuple[float, Partial]] = []
        self._taken = 0
        self._in_order = False

    def take(self) -> Partial | None:
        """The next file that is due, waiting for one where need be; None when there is no more, or at a stop."""
        while not self._stop.is_set():
            with self._lock:
                if not self._fresh and not self._again:
                    return None
                now = time.monotonic()
                part = self._due(now)
                if part is not None:
                    return part
                pause = min(moment for moment, _part in self._again) - now
            self._stop.wait(pause)
        return None

    def _due(self, now: float) -> Partial | None:
        """Two files that were not asked for yet, then one that was: by turns the first in order, which others get first
        too, and the one that was longest not asked for."""
        due = [entry for entry in self._again if entry[0] <= now]
        if self._fresh and (not due or self._taken < 2):
            self._taken += 1
            return self._fresh.popleft()
        if not due:
            return None
        self._taken = 0
        self._in_order = not self._in_order
        entry = min(due, key=self._place if self._in_order else lambda entry: entry[0])
        self._again.remove(entry)
        return entry[1]

    def _place(self, entry: tuple[float, Partial]) -> float:
        return self._order[entry[1].job.file.path]

    def is_left(self) -> bool:
        with self._lock:
            return bool(self._fresh or self._again)

    def put_back(self, part: Partial, wait: float) -> None:
        """Not now. The worker that heard it rests as well: with many files and many sources to ask for each, going on
        with the next at once would be a storm of questions."""
        wait = min(max(wait, MIN_POLL), MAX_POLL)
        with self._lock:
            self._again.append((time.monotonic() + wait, part))
        self._stop.wait(wait)


def fetch_all(
    jobs: t.Sequence[Job],
    workers: int,
    make_fetcher: t.Callable[[], Fetcher],
    stop: Stop,
    tick: t.Callable[[], None],
    interval: float = 0.5,
) -> None:
    """Fetch ``jobs``, largest first, ``workers`` at a time; ``tick`` is called while that goes on.

    The first failure stops the others within a block; what they have stays for the next run.
    """
    long = sum(job.file.size >= LONG for job in jobs)
    line = Line(jobs, stop, beside=cores() > min(workers, long))
    failures: list[BaseException] = []
    fetchers: list[Fetcher] = []

    def work() -> None:
        try:
            fetcher = make_fetcher()
            fetchers.append(fetcher)
            while True:
                part = line.take()
                if part is None:
                    return
                try:
                    fetcher.fetch(part)
                except NotYet as answer:
                    line.put_back(part, answer.wait)
        except BaseException as exc:
            failures.append(exc)
            stop.set()

    threads = [threading.Thread(target=work, daemon=True) for _number in range(min(workers, len(jobs)))]
    for thread in threads:
        thread.start()
    while not stop.is_set():
        alive = next((thread for thread in threads if thread.is_alive()), None)
        if alive is None:
            break
        alive.join(interval)
        tick()
    _end(threads, fetchers, tick)
    tick()
    # the stops are echoes of the first failure
    for failure in sorted(failures, key=lambda exc: isinstance(exc, Stopped)):
        raise failure
    if line.is_left():
        raise Stopped(
            f"The transfer ended before its last file: {stop.reason}. What was downloaded is kept; run again."
        )


def _end(threads: t.Sequence[threading.Thread], fetchers: t.Sequence[Fetcher], tick: t.Callable[[], None]) -> None:
    """Bring the workers home. One that does not come hangs in the network or a dead mount, and writes no more."""
    deadline = time.monotonic() + STOP_GRACE
    while any(thread.is_alive() for thread in threads) and time.monotonic() < deadline:
        for fetcher in list(fetchers):
            fetcher.abort()
        for thread in threads:
            thread.join(0.1)
        tick()


__all__ = ("LONG", "Fetcher", "Line", "fetch_all")
