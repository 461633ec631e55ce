# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The world that hf_snapshot works on: the disk, and the sources that files come from."""

from __future__ import annotations

import contextlib
import http.client
import os
import time
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._adopt import Wanted
from ansible_collections.modelfleet.serving.plugins.module_utils._disk import Disk
from ansible_collections.modelfleet.serving.plugins.module_utils._fetch import Fetcher, fetch_all
from ansible_collections.modelfleet.serving.plugins.module_utils._flow import Flow
from ansible_collections.modelfleet.serving.plugins.module_utils._hub import Hub, HubError
from ansible_collections.modelfleet.serving.plugins.module_utils._listing import find_listing
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    Listing,
    Record,
    RemoteFile,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._names import COMMIT
from ansible_collections.modelfleet.serving.plugins.module_utils._partial import partial_path
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_plan import (
    Moved,
    Origin,
    Plan,
    Request,
    SnapshotError,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_progress import Progress
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import Ledger, Offer, Source
from ansible_collections.modelfleet.serving.plugins.module_utils._supply_folder import FolderSource
from ansible_collections.modelfleet.serving.plugins.module_utils._supply_http import refusal
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import (
    Done,
    Job,
    Limiter,
    Meter,
    Policy,
    Stop,
    StorageError,
    storage,
)

#: seconds between two writes of the manifest while files arrive
RECORD_INTERVAL = 2.0


class SnapshotWorld(Disk):
    """The real :class:`SnapshotIO`."""

    def __init__(
        self,
        hub: Hub | None,
        sources: t.Sequence[Source],
        progress: Progress,
        policy: Policy,
        workers: int,
        max_rate: int,
        lock_timeout: float,
        stop: Stop,
    ) -> None:
        """``hub`` None: the Hub may not be asked."""
        super().__init__(progress, lock_timeout, stop)
        self._hub = hub
        self._before_hub = tuple(sources)
        self._sources: tuple[Source, ...] = (*sources, hub) if hub else (*sources,)
        self._policy = policy
        self._workers = workers
        self._max_rate = max_rate

    def listing(self, repo_id: str, revision: str, root: str) -> Listing:
        pinned = COMMIT.fullmatch(revision) is not None
        self._progress.show("list", f"listing {repo_id} {revision}")
        # where nobody else can be asked, what was carried in may say itself what it is
        alone = pinned and self._hub is None
        here: tuple[Source, ...] = (FolderSource(root.rstrip("/"), "copy", Wanted()),) if alone else ()
        others = tuple(source for source in here if source.name not in [other.name for other in self._before_hub])
        return find_listing(self._hub, (*self._before_hub, *others), repo_id, revision, pinned)

    def check_access(self, repo_id: str, commit: str, path: str) -> None:
        if self._hub is None or self._before_hub:
            # others may have all the files
            return
        client = self._hub.http()
        try:
            answer = client.head(self._hub.file_url(repo_id, commit, path))
        except (OSError, http.client.HTTPException):
            # the transfer has its own retries, and its own words for a Hub that is gone
            return
        finally:
            client.close()
        if answer.status in (401, 403, 404):
            raise HubError(f"{path}: {refusal(answer)}")

    def offers(self, repo_id: str, commit: str, snapshot: str) -> t.Callable[[RemoteFile], Offer | None]:
        into = self.room(snapshot).folder
        each = [source.offers(repo_id, commit, snapshot, into) for source in self._sources]
        return lambda file: next((offer for offer in (ask(file) for ask in each) if offer is not None), None)

    def transfer(self, plan: Plan, request: Request, on_records: t.Callable[[t.Mapping[str, Record]], None]) -> Moved:
        meter = Meter()
        limiter = Limiter(self._max_rate, time.monotonic, self._stop.wait)
        ledger = Ledger([source.name for source in self._sources], self._policy.stall_timeout)
        jobs = [self._job(plan, step.file) for step in plan.transfers]
        for job in jobs:
            _make_folders(plan.snapshot, job)
        total = sum(step.file.size for step in plan.steps)
        before = total - sum(job.file.size for job in jobs)
        recorded = 0
        last = seen_progress = time.monotonic()

        def tick(final: bool = False) -> None:
            nonlocal recorded, last, seen_progress
            if ledger.last_progress() > seen_progress:
                seen_progress = ledger.last_progress()
                self.show_life(plan.snapshot)
            finished = list(meter.finished)
            if len(finished) > recorded and (final or time.monotonic() - last > RECORD_INTERVAL):
                on_records({item.job.file.path: self._record(item) for item in finished[recorded:]})
                recorded, last = len(finished), time.monotonic()
            kept = len(plan.steps) - len(jobs)
            self._progress.show_work(
                "download", meter, kept + len(finished), len(plan.steps), before, total, meter.downloaded
            )

        def make_fetcher() -> Fetcher:
            flow = Flow(self._policy, meter, limiter, self._stop, count=ledger.count)
            suppliers = [source.supplier(request.repo_id, plan.listing.commit, flow) for source in self._sources]
            return Fetcher(suppliers, ledger, self._policy, meter, self._stop)

        self._progress.restart()
        try:
            fetch_all(jobs, self._workers, make_fetcher, self._stop, tick)
        finally:
            # also on the way out of a failure: what is whole need not be hashed again. The failure matters more than
            # a disk too full for the record
            with contextlib.suppress(StorageError):
                tick(final=True)
        origins = {done.job.file.path: Origin(done.source, done.method) for done in meter.finished}
        return Moved(meter.downloaded, meter.retries, origins, ledger.result())

    def _job(self, plan: Plan, file: RemoteFile) -> Job:
        return Job(file, partial_path(plan.snapshot, file), f"{plan.snapshot}/{file.path}")

    def _record(self, done: Done) -> Record:
        return Record(done.mtime_ns, done.inode, self.now())


def _make_folders(snapshot: str, job: Job) -> None:
    storage(job.partial, lambda: os.makedirs(os.path.dirname(job.partial), exist_ok=True))
    folder = snapshot
    for part in job.file.path.split("/")[:-1]:
        folder = f"{folder}/{part}"
        if os.path.islink(folder):
            raise SnapshotError(
                f"{folder} is a link, so that {job.file.path} would leave the snapshot. Remove the link and run again."
            )
        storage(folder, lambda path=folder: os.makedirs(path, exist_ok=True))  # type: ignore[misc]


__all__ = ("SnapshotWorld",)
