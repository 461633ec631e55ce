# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Files from a folder of this host: an NFS mount, a cache of huggingface_hub, or what was carried in on a disk."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._adopt import (
    WAYS,
    Wanted,
    bring,
    foresee,
    link_problem,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._flow import Flow
from ansible_collections.modelfleet.serving.plugins.module_utils._folder import Folder, Found, resolve
from ansible_collections.modelfleet.serving.plugins.module_utils._hashing import hasher
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import Listing, RemoteFile
from ansible_collections.modelfleet.serving.plugins.module_utils._partial import Partial, publish
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import ListingError, Offer
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import (
    COPY,
    LINK,
    ContentError,
    Done,
    Interruption,
    Refused,
)


class FolderSource:
    """One folder."""

    def __init__(self, path: str, adopt: str, wanted: Wanted) -> None:
        self.name = path
        self._ways = WAYS[adopt]
        self._wanted = wanted

    def listing(self, repo_id: str, revision: str, pinned: bool) -> Listing:
        commit = revision if pinned else resolve(self.name, repo_id, revision)
        if not commit:
            raise ListingError(f"it is no cache of huggingface_hub that knows what {revision} of {repo_id} is")
        listing = Folder(self.name, repo_id, commit).listing()
        if listing is None:
            raise ListingError(
                "nothing in it says what the commit consists of: no manifest of modelfleet.serving and no "
                f"trees/{commit}.json of huggingface_hub 1.22 or newer"
            )
        return listing

    def offers(self, repo_id: str, commit: str, snapshot: str, into: str) -> t.Callable[[RemoteFile], Offer | None]:
        folder = Folder(self.name, repo_id, commit)
        no_reflink: dict[int, str] = {}

        def offer(file: RemoteFile) -> Offer | None:
            found = folder.find(file, f"{snapshot}/{file.path}")
            if found is None:
                return None
            way = foresee(found.path, found.seen, into, self._ways, self._wanted, no_reflink)
            return Offer(self.name, way.method, way.note)

        return offer

    def supplier(self, repo_id: str, commit: str, flow: Flow) -> FolderSupplier:
        return FolderSupplier(self.name, Folder(self.name, repo_id, commit), self._ways, self._wanted, flow)


class FolderSupplier:
    method = COPY
    waits = False

    def __init__(self, name: str, folder: Folder, ways: t.Sequence[str], wanted: Wanted, flow: Flow) -> None:
        self.name = name
        self._folder = folder
        self._ways = ways
        self._wanted = wanted
        self._flow = flow
        #: ways that did not go, by device
        self._closed: set[tuple[str, int]] = set()

    def abort(self) -> None:
        """Nothing to end: a dead mount cannot be made to answer."""

    def _find(self, part: Partial) -> Found:
        found = self._folder.find(part.job.file, part.job.target)
        if found is None:
            raise Refused(f"has no such file of {part.job.file.size} bytes", lacks=True)
        return found

    def adopt(self, part: Partial) -> Done | None:
        found = self._find(part)
        for way in self._ways:
            into = os.path.dirname(part.job.partial)
            if (way, found.seen.st_dev) in self._closed:
                continue
            if way == LINK and link_problem(found.path, found.seen, into, self._wanted):
                continue
            name = f"{part.job.partial}.{way}"
            fd = bring(found.path, name, way)
            if fd is None:
                self._closed.add((way, found.seen.st_dev))
            else:
                try:
                    return self._prove(part, found, fd, name, way)
                finally:
                    os.close(fd)
                    # not proved; or, where both names were of one file already, left as it is by rename
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name)
        return None

    def _prove(self, part: Partial, found: Found, fd: int, name: str, way: str) -> Done:
        """Hash what was brought, not the origin, which may change meanwhile."""
        file = part.job.file
        digest = hasher(file)
        buffer = self._flow.buffer
        at = 0
        try:
            while True:
                self._flow.check_stop(part)
                count = os.preadv(fd, [buffer], at)
                if not count:
                    break
                digest.update(buffer[:count])
                at += count
                self._flow.meter.at(file.path, at)
        except OSError as exc:
            raise Refused(f"reading {found.path} failed: {exc.strerror}") from None
        if digest.hexdigest() != file.digest:
            raise ContentError(
                f"{file.path}: the content is wrong: expected {file.algorithm} {file.digest}, "
                f"found {digest.hexdigest()}, in {at} bytes at {found.path}."
            )
        return publish(part.job, fd, name, self.name, way)

    def stream(self, part: Partial) -> None:
        found = self._find(part)
        try:
            with open(found.path, "rb", buffering=0) as handle:
                handle.seek(part.offset)

                def read(space: memoryview) -> memoryview:
                    return space[: handle.readinto(space) or 0]

                self._flow.pour(read, part, self.name, found.path)
        except OSError as exc:
            raise Interruption(f"reading {found.path} failed: {exc.strerror}", leave=True) from None
        if part.offset < part.job.file.size:
            raise Interruption(f"{found.path} ended at byte {part.offset}", leave=True)


__all__ = ("FolderSource", "FolderSupplier")
