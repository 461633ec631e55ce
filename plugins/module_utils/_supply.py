# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Where files come from: the order of the sources, and what is known in this run about each.

A source is a kind of :class:`Supplier` for each worker and one :class:`Standing` for all of them. Another kind (such as
Xet) is another Supplier. Pure but for the lock.
"""

from __future__ import annotations

import collections
import threading
import time
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._flow import Flow
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import Listing, RemoteFile
from ansible_collections.modelfleet.serving.plugins.module_utils._partial import Partial
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import Done, NotYet

#: files that a source may fail in a row, and files it may send wrong at all, before it is not asked again in this run
MAX_STRIKES = 3
MAX_LIES = 2
MAX_REASONS = 5


class Supplier(t.Protocol):
    """One source, for one worker."""

    #: as shown to people; without secrets
    name: str
    #: how its files come where they are not adopted
    method: str
    #: it may say :class:`NotYet`
    waits: bool

    def adopt(self, part: Partial) -> Done | None:
        """Bring the whole file without copying it; None where that can't be done."""

    def stream(self, part: Partial) -> None:
        """Append to the open ``part``, from its offset on.

        Returns at the end of what one request gives. Raises Interruption, Refused or NotYet.
        """

    def abort(self) -> None:
        """End a wait for the network; called from another thread."""


class ListingError(Exception):
    """A source does not say what a commit consists of; the text says why."""


class Offer(t.NamedTuple):
    """How a file is expected to come."""

    source: str
    method: str
    #: why not by a better method
    note: str = ""


class Source(t.Protocol):
    """One source, for the whole run."""

    name: str

    def listing(self, repo_id: str, revision: str, pinned: bool) -> Listing:
        """What a commit consists of; ``pinned``: the revision is one. Raises :class:`ListingError`."""

    def offers(self, repo_id: str, commit: str, snapshot: str, into: str) -> t.Callable[[RemoteFile], Offer | None]:
        """How files would come, as far as that can be said without asking anybody; None for one that surely won't.

        ``into``: the nearest folder above the snapshot that exists.
        """

    def supplier(self, repo_id: str, commit: str, flow: Flow) -> Supplier:
        """It, for one worker and one commit."""


class Standing:
    """What this run knows about a source."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files = 0
        self.bytes = 0
        self.failures = 0
        #: files that it just does not have
        self.lacking = 0
        self.reasons: list[str] = []
        #: why it is not asked any more
        self.given_up = ""
        self.strikes = 0
        self.lies = 0
        #: of a source that says "not yet": when it did last, and its last sign of progress
        self.asked_at = float("-inf")
        self.mark = ""
        self.progress_at = float("-inf")

    def result(self) -> dict[str, t.Any]:
        return {
            "source": self.name,
            "files": self.files,
            "bytes": self.bytes,
            "lacking": self.lacking,
            "failures": self.failures,
            "reasons": list(self.reasons),
            "given_up": self.given_up or None,
        }


class Ledger:
    """The standings of all sources, in their order, kept by all workers."""

    def __init__(
        self, names: t.Sequence[str], patience: float = 60.0, clock: t.Callable[[], float] = time.monotonic
    ) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._patience = patience
        self.standings = [Standing(name) for name in names]
        self._by_name = {standing.name: standing for standing in self.standings}
        #: by path, the sources that do not get another chance with it, and why
        self._barred: dict[str, dict[int, str]] = collections.defaultdict(dict)
        #: those of them that just do not have it
        self._lacking: dict[str, set[int]] = collections.defaultdict(set)

    def left(self, path: str) -> list[int]:
        """The sources to ask for a file, in order."""
        with self._lock:
            barred = self._barred.get(path, {})
            return [
                index for index, standing in enumerate(self.standings) if index not in barred and not standing.given_up
            ]

    def name(self, index: int) -> str:
        return self.standings[index].name

    def count(self, source: str, count: int) -> None:
        with self._lock:
            standing = self._by_name[source]
            standing.bytes += count
            standing.progress_at = self._clock()

    def gave(self, index: int, file: RemoteFile, without_copying: bool) -> None:
        """A file has been finished by the source."""
        with self._lock:
            standing = self.standings[index]
            standing.files += 1
            standing.strikes = 0
            if without_copying:
                standing.bytes += file.size

    def lacks(self, index: int, path: str, reason: str) -> None:
        with self._lock:
            self._barred[path][index] = reason
            self._lacking[path].add(index)
            self.standings[index].lacking += 1

    def may_have_it_later(self, path: str, sources: t.Collection[int]) -> None:
        """The file is waited for: those of ``sources`` that do not have it may get it meanwhile."""
        with self._lock:
            for index in self._lacking[path].intersection(sources):
                self._lacking[path].discard(index)
                del self._barred[path][index]
                self.standings[index].lacking -= 1

    def failed(self, index: int, path: str, reason: str, lie: bool = False) -> None:
        """The source is left for this file."""
        with self._lock:
            standing = self.standings[index]
            self._barred[path][index] = reason
            standing.failures += 1
            standing.strikes += 1
            standing.lies += lie
            if len(standing.reasons) < MAX_REASONS:
                standing.reasons.append(f"{path}: {reason}")
            if standing.lies >= MAX_LIES:
                self._give_up(standing, f"sent wrong content for {standing.lies} files")
            elif standing.strikes >= MAX_STRIKES:
                self._give_up(standing, f"failed for {standing.strikes} files in a row, the last: {reason}")

    def not_yet(self, index: int, answer: NotYet) -> bool:
        """Whether to go on waiting for the source."""
        with self._lock:
            standing = self.standings[index]
            now = self._clock()
            # who was not asked for a while was not waited for either
            if standing.mark != answer.mark or now - standing.asked_at > self._patience:
                standing.mark, standing.progress_at = answer.mark, now
            standing.asked_at = now
            if now - standing.progress_at <= self._patience:
                return True
            self._give_up(standing, f"was waited for, but got no further for {now - standing.progress_at:.0f} s")
            return False

    def _give_up(self, standing: Standing, why: str) -> None:
        standing.given_up = standing.given_up or why

    def last_progress(self) -> float:
        """When a byte came last, or a sign of progress from a source that is waited for."""
        with self._lock:
            return max((standing.progress_at for standing in self.standings), default=float("-inf"))

    def result(self) -> list[dict[str, t.Any]]:
        """The sources that had a part in this run."""
        with self._lock:
            return [
                standing.result()
                for standing in self.standings
                if standing.files or standing.bytes or standing.lacking or standing.failures or standing.given_up
            ]

    def reasons(self, path: str) -> list[str]:
        """Why no source is left for a file, a reason each."""
        with self._lock:
            barred = self._barred.get(path, {})
            return [
                f"{standing.name}: {(barred.get(index) or standing.given_up).rstrip('.')}."
                for index, standing in enumerate(self.standings)
                if index in barred or standing.given_up
            ]


__all__ = ("Ledger", "ListingError", "Offer", "Source", "Standing", "Supplier")
