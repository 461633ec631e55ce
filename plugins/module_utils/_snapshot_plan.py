# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Which files of a snapshot are right, wrong or missing, what that costs, and whether there is room for it.

Pure but for :class:`SnapshotIO`, which is the world of all of hf_snapshot.
"""

from __future__ import annotations

import contextlib
import fnmatch
import types
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._leftovers import Leftover
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    Listing,
    Manifest,
    Record,
    RemoteFile,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._names import (
    REPO_ID,
    snapshot_path,
    unsafe_name,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._safetensors import (
    INDEX_SUFFIX,
    HeaderError,
    index_map,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import Offer
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import (
    WITHOUT_COPY,
)

#: made beside the files: our folder, lock, manifest and its successor, the folder of partial files
EXTRA_INODES = 5


class SnapshotError(Exception):
    """The task cannot be done; the text says why. ``result`` goes to the user with it."""

    def __init__(self, message: str, result: t.Mapping[str, t.Any] | None = None) -> None:
        super().__init__(message)
        self.result = dict(result or {})


class Look(t.NamedTuple):
    """What ``lstat`` says about a path."""

    #: file, link, directory or other
    kind: str
    size: int
    mtime_ns: int
    inode: int


class Room(t.NamedTuple):
    """The file system that would take the files."""

    #: nearest existing folder above the snapshot
    folder: str
    free_bytes: int
    #: None where the file system makes inodes as needed
    free_inodes: int | None
    #: why nothing can be written there, or empty
    problem: str = ""


class Step(t.NamedTuple):
    """What is to be done for one file."""

    file: RemoteFile
    #: a key of :data:`ACTIONS`
    action: str
    reason: str
    #: bytes of it that an earlier run already has in its partial file
    partial: int = 0
    #: how it is expected to come
    offer: Offer | None = None

    @property
    def shared(self) -> bool:
        """It will come without a second copy of its bytes."""
        return self.offer is not None and self.offer.method in WITHOUT_COPY

    @property
    def cost(self) -> int:
        """Bytes that are to be written for it."""
        return 0 if self.shared else self.file.size - self.partial


class Origin(t.NamedTuple):
    """Where a file came from, and how."""

    source: str
    method: str


class Moved(t.NamedTuple):
    """What a transfer has done."""

    downloaded: int = 0
    retries: int = 0
    origins: t.Mapping[str, Origin] = types.MappingProxyType({})
    sources: t.Sequence[t.Mapping[str, t.Any]] = ()


#: what happens to a file, and what its entry in "before" of the diff says
ACTIONS = {
    "keep": "{size} bytes, {algorithm} {digest}",
    "adopt": "{size} bytes, not recorded",
    "download": "absent",
    "repair": "wrong: {reason}",
}
TRANSFERS = ("download", "repair")


class Request(t.NamedTuple):
    """The module's options, as far as they decide something here."""

    repo_id: str
    revision: str
    root: str
    endpoint: str
    allow: tuple[str, ...]
    ignore: tuple[str, ...]
    state: str
    verify: str
    reserve_bytes: int


class Plan(t.NamedTuple):
    snapshot: str
    listing: Listing
    steps: tuple[Step, ...]
    #: marks of the files that are right
    records: t.Mapping[str, Record]
    #: what the manifest on the disk said when the plan was made
    manifest: Manifest | None
    #: notes for huggingface_hub that files in place lack
    notes: t.Mapping[str, str] = types.MappingProxyType({})
    #: what interrupted downloads left, and nobody will use
    leftovers: tuple[Leftover, ...] = ()

    @property
    def transfers(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.action in TRANSFERS)

    @property
    def bytes_missing(self) -> int:
        return sum(step.cost for step in self.transfers)

    @property
    def changed(self) -> bool:
        done = self.manifest is not None and self.manifest.complete
        return not done or bool(self.notes or self.leftovers) or any(step.action != "keep" for step in self.steps)


class SnapshotIO(t.Protocol):
    """The world outside: Hub, disk, clock."""

    def listing(self, repo_id: str, revision: str, root: str) -> Listing:
        """Ask the Hub, or another that knows."""

    def check_access(self, repo_id: str, commit: str, path: str) -> None:
        """Raise when the Hub would not hand out this file."""

    def manifest(self, snapshot: str) -> Manifest | None:
        """The manifest on the disk."""

    def save(self, snapshot: str, manifest: Manifest) -> None:
        """Write the manifest."""

    def look(self, path: str) -> Look | None:
        """None when nothing is there."""

    def digests(self, snapshot: str, files: t.Sequence[RemoteFile]) -> t.Mapping[str, str]:
        """The digest each file has on the disk, or what keeps it from being read."""

    def header_problem(self, path: str) -> str:
        """What is wrong with a safetensors file, by its header; empty when nothing is."""

    def read_text(self, path: str) -> str:
        """A small file."""

    def partial_size(self, snapshot: str, file: RemoteFile) -> int:
        """Bytes an earlier run left of the file."""

    def room(self, snapshot: str) -> Room:
        """Room for the snapshot."""

    def lock(self, snapshot: str) -> contextlib.AbstractContextManager[None]:
        """Keep other runs out."""

    def offers(self, repo_id: str, commit: str, snapshot: str) -> t.Callable[[RemoteFile], Offer | None]:
        """How a file would come, as far as that is known beforehand; None for one that no source has."""

    def transfer(self, plan: Plan, request: Request, on_records: t.Callable[[t.Mapping[str, Record]], None]) -> Moved:
        """Bring what the plan wants."""

    def now(self) -> int:
        """Seconds since the epoch."""

    def remove(self, snapshot: str) -> None:
        """Remove the snapshot."""

    def half_removed(self, snapshot: str) -> tuple[Leftover, ...]:
        """What a removal that was killed has left of the snapshot."""

    def clean(self, snapshot: str) -> None:
        """Remove what transfers leave behind."""

    def read_notes(self, snapshot: str, paths: t.Iterable[str]) -> t.Mapping[str, str]:
        """The text of those that are there."""

    def write_notes(self, snapshot: str, notes: t.Mapping[str, str]) -> None:
        """Write notes, by path."""

    def leftovers(self, plan: Plan) -> tuple[Leftover, ...]:
        """What interrupted downloads left in the snapshot and the plan does not use."""

    def discard(self, leftovers: t.Iterable[Leftover]) -> None:
        """Remove leftovers."""


def select(files: t.Iterable[RemoteFile], allow: t.Sequence[str], ignore: t.Sequence[str]) -> tuple[RemoteFile, ...]:
    """The files that the patterns choose, by huggingface_hub's rules: shell patterns over the whole path."""

    def matches(path: str, patterns: t.Sequence[str]) -> bool:
        return any(
            fnmatch.fnmatchcase(path, pattern + "*" if pattern.endswith("/") else pattern) for pattern in patterns
        )

    return tuple(
        file for file in sorted(files) if (not allow or matches(file.path, allow)) and not matches(file.path, ignore)
    )


def check_request(request: Request) -> None:
    if not REPO_ID.fullmatch(request.repo_id) or "--" in request.repo_id or ".." in request.repo_id:
        raise SnapshotError(f"repo_id {request.repo_id!r} is not of the form OWNER/NAME, such as moonshotai/Kimi-K2.5.")
    if not request.root.startswith("/"):
        raise SnapshotError(f"root {request.root!r} is not an absolute path.")
    if not request.revision:
        raise SnapshotError("revision is empty: give a branch, tag or commit.")


class Finding(t.NamedTuple):
    """What a look at one file tells. ``right`` None: only its content can tell."""

    right: bool | None
    reason: str
    missing: bool = False


def first_look(file: RemoteFile, look: Look | None, record: Record | None, verify: str) -> Finding:
    """Judge a file by its directory entry."""
    if look is None:
        return Finding(False, "not there", missing=True)
    if look.kind != "file":
        return Finding(False, f"is a {look.kind}, not a file")
    if look.size != file.size:
        return Finding(False, f"has {look.size} bytes, expected {file.size}")
    if verify == "full":
        return Finding(None, "")
    if record is None:
        return Finding(None, "not recorded")
    if (look.mtime_ns, look.inode) != (record.mtime_ns, record.inode):
        return Finding(None, "touched since it was recorded")
    return Finding(True, "as recorded")


def by_content(file: RemoteFile, finding: Finding, digest: str) -> Finding:
    """Judge a file by the digest of its content."""
    if digest != file.digest:
        return Finding(False, f"expected {file.algorithm} {file.digest}, found {digest}")
    return Finding(True, f"{finding.reason}, content is right" if finding.reason else "content is right")


def make_plan(request: Request, listing: Listing, manifest: Manifest | None, io: SnapshotIO) -> Plan:
    """Compare what is there with what is published."""
    snapshot = snapshot_path(request.root, request.repo_id, listing.commit)
    files = _selection(request, listing)
    # the same path with another digest cannot be: a commit's content is fixed
    old = manifest.records if manifest is not None else {}
    looks = {file.path: io.look(f"{snapshot}/{file.path}") for file in files}
    findings = {file.path: first_look(file, looks[file.path], old.get(file.path), request.verify) for file in files}
    _check_folders(snapshot, findings, io)
    unproven = [file for file in files if findings[file.path].right is None]
    digests = io.digests(snapshot, unproven) if unproven else {}
    for file in unproven:
        findings[file.path] = by_content(file, findings[file.path], digests[file.path])
    if request.verify != "stat":
        _check_headers(snapshot, files, findings, io)
    records = dict(old)
    steps = []
    for file in files:
        step, record = _step(file, findings[file.path], looks[file.path], old.get(file.path), io.now())
        if record is None:
            records.pop(file.path, None)
            step = step._replace(partial=io.partial_size(snapshot, file))
        else:
            records[file.path] = record
        steps.append(step)
    return Plan(snapshot, listing, tuple(steps), records, manifest)


def _selection(request: Request, listing: Listing) -> tuple[RemoteFile, ...]:
    files = select(listing.files, request.allow, request.ignore)
    if not files:
        what = "no file" if not listing.files else f"none of its {len(listing.files)} files matches the patterns"
        raise SnapshotError(f"{request.repo_id} at commit {listing.commit} gives nothing to download: {what}.")
    for file in files:
        problem = unsafe_name(file.path)
        if problem:
            raise SnapshotError(
                f"{request.repo_id} at commit {listing.commit} has a file named {file.path!r}, which {problem}. "
                "Leave it out by ignore_patterns, and ask who published it why."
            )
    return files


def _check_folders(snapshot: str, findings: dict[str, Finding], io: SnapshotIO) -> None:
    """A file behind a link is not the snapshot's: the link may lead anywhere, and does not travel with the folder."""
    folders = {path: [path[:end] for end, char in enumerate(path) if char == "/"] for path in findings}
    looks = {
        folder: io.look(f"{snapshot}/{folder}") for folder in {name for names in folders.values() for name in names}
    }
    links = {folder for folder, look in looks.items() if look is not None and look.kind == "link"}
    for path, names in folders.items():
        for folder in links.intersection(names):
            findings[path] = Finding(False, f"lies behind {folder}, which is a link")


def _check_headers(snapshot: str, files: t.Iterable[RemoteFile], findings: dict[str, Finding], io: SnapshotIO) -> None:
    for file in files:
        if findings[file.path].right and file.path.endswith(".safetensors"):
            problem = io.header_problem(f"{snapshot}/{file.path}")
            if problem:
                findings[file.path] = Finding(False, problem)


def _step(
    file: RemoteFile, finding: Finding, look: Look | None, record: Record | None, now: int
) -> tuple[Step, Record | None]:
    if not finding.right or look is None:
        return Step(file, "download" if finding.missing else "repair", finding.reason), None
    if record is not None and (record.mtime_ns, record.inode) == (look.mtime_ns, look.inode):
        return Step(file, "keep", finding.reason), record
    return Step(file, "adopt", finding.reason), Record(look.mtime_ns, look.inode, now)


def check_room(request: Request, plan: Plan, room: Room) -> None:
    """Refuse, before the first byte, what cannot fit."""
    steps = plan.transfers
    what = f"{request.repo_id} at commit {plan.listing.commit} into {plan.snapshot}"
    if room.problem:
        raise SnapshotError(f"Cannot put {what}: {room.problem}. Nothing was downloaded.")
    wanted = plan.bytes_missing + request.reserve_bytes
    # leftovers go first
    free = room.free_bytes + sum(item.size for item in plan.leftovers)
    if wanted > free:
        raise SnapshotError(
            f"Not enough room to put {what}: {_amount(plan.bytes_missing)} to download and "
            f"{_amount(request.reserve_bytes)} to keep free (reserve_bytes) make {_amount(wanted)}, but the file "
            f"system of {room.folder} has {_amount(free)} free: {_amount(wanted - free)} short. "
            "Nothing was downloaded. Free space there, or choose another root."
        )
    inodes = len(steps) + len({step.file.path.rpartition("/")[0] for step in steps}) + EXTRA_INODES
    if room.free_inodes is not None and inodes > room.free_inodes:
        raise SnapshotError(
            f"Not enough inodes to put {what}: {inodes} are needed, but the file system of {room.folder} has "
            f"{room.free_inodes} free. Nothing was downloaded. Remove files there, or choose another root."
        )


def _amount(count: int) -> str:
    return f"{count / (1 << 30):.2f} GiB ({count} bytes)" if count >= 1 << 30 else f"{count} bytes"


def index_problem(snapshot: str, plan: Plan, io: SnapshotIO) -> str:
    """What an index of the selection promises and the snapshot does not hold, or empty."""
    chosen = {step.file.path for step in plan.steps}
    published = {file.path for file in plan.listing.files}
    for path in sorted(chosen):
        if not path.endswith(INDEX_SUFFIX):
            continue
        folder = path.rpartition("/")[0]
        try:
            names = set(index_map(io.read_text(f"{snapshot}/{path}")).values())
        except HeaderError as exc:
            return f"{path}: {exc}"
        needed = {f"{folder}/{name}" if folder else name for name in names}
        if needed - published:
            return f"{path} names {some(needed - published)} that the commit does not have: published incomplete"
        # an index without any of its files is a choice (configuration only), with some of them an oversight
        if needed & chosen and needed - chosen:
            return f"{path} names {some(needed - chosen)} that the patterns leave out"
    return ""


def some(names: t.Collection[str]) -> str:
    return f"{len(names)} file{'s' if len(names) > 1 else ''} (first: {min(names)})"


__all__ = (
    "ACTIONS",
    "TRANSFERS",
    "Finding",
    "Look",
    "Moved",
    "Origin",
    "Plan",
    "Request",
    "Room",
    "SnapshotError",
    "SnapshotIO",
    "Step",
    "by_content",
    "check_request",
    "check_room",
    "first_look",
    "index_problem",
    "make_plan",
    "select",
    "some",
)
