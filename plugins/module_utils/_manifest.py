# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What a snapshot is: the files a commit publishes, and the record of those proved to be on this disk.

The manifest lies at ``<snapshot>/.modelfleet/manifest.json``. It holds the whole listing of the commit, so that a run
with a pinned commit needs no network, and for each file proved on this disk the marks by which a later run knows that
nobody touched it since: modification time and inode.
"""

from __future__ import annotations

import json
import re
import typing as t

#: raised when a reader of today could not understand what is written
SCHEMA = 1
#: our own folder inside a snapshot; no published file may lie in it
OWN_DIR = ".modelfleet"
MANIFEST = f"{OWN_DIR}/manifest.json"

#: algorithm of a published digest: LFS content, or what git itself stores
SHA256 = "sha256"
GIT_SHA1 = "git_sha1"
DIGESTS = {SHA256: re.compile(r"[0-9a-f]{64}"), GIT_SHA1: re.compile(r"[0-9a-f]{40}")}


class RemoteFile(t.NamedTuple):
    """A file as the Hub lists it."""

    path: str
    size: int
    #: :data:`SHA256` or :data:`GIT_SHA1`
    algorithm: str
    digest: str


class Record(t.NamedTuple):
    """The marks of a file on this disk whose content was proved."""

    mtime_ns: int
    inode: int
    #: seconds since the epoch
    verified_at: int


class Listing(t.NamedTuple):
    """All files of one commit."""

    commit: str
    files: tuple[RemoteFile, ...]
    #: reading the files needs an accepted licence
    gated: bool = False


class Manifest(t.NamedTuple):
    repo_id: str
    endpoint: str
    listing: Listing
    records: t.Mapping[str, Record]
    #: the run that wrote this had every file of its selection in place
    complete: bool = False


def listed_file(path: t.Any, size: t.Any, algorithm: str, digest: t.Any) -> RemoteFile:
    """A file as somebody else lists it. ValueError for one that cannot be: digests become names on the disk."""
    if not (isinstance(path, str) and isinstance(size, int) and isinstance(digest, str)):
        raise ValueError(f"{path!r} is listed without path, size or digest")
    if size < 0 or not DIGESTS[algorithm].fullmatch(digest):
        raise ValueError(f"{path} is listed with size {size} and {algorithm} {digest[:80]!r}, which cannot be")
    return RemoteFile(path, size, algorithm, digest)


def to_json(manifest: Manifest) -> str:
    """The text of the manifest file; the same manifest always gives the same bytes."""
    files = []
    for file in sorted(manifest.listing.files):
        entry: dict[str, t.Any] = {"path": file.path, "size": file.size, file.algorithm: file.digest}
        record = manifest.records.get(file.path)
        if record is not None:
            entry.update(record._asdict())
        files.append(entry)
    content = {
        "schema": SCHEMA,
        "repo_id": manifest.repo_id,
        "commit": manifest.listing.commit,
        "endpoint": manifest.endpoint,
        "gated": manifest.listing.gated,
        "complete": manifest.complete,
        "files": files,
    }
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def from_json(text: str) -> Manifest | None:
    """The manifest in ``text``; None when it is damaged or of another schema, which means "prove everything again"."""
    try:
        content = json.loads(text)
        if content["schema"] != SCHEMA:
            return None
        files, records = [], {}
        for entry in content["files"]:
            algorithm = SHA256 if SHA256 in entry else GIT_SHA1
            files.append(listed_file(entry["path"], entry["size"], algorithm, entry[algorithm]))
            if "mtime_ns" in entry:
                records[entry["path"]] = Record(entry["mtime_ns"], entry["inode"], entry["verified_at"])
        listing = Listing(content["commit"], tuple(files), content["gated"])
        return Manifest(content["repo_id"], content["endpoint"], listing, records, content["complete"])
    except (ValueError, KeyError, TypeError):
        return None


__all__ = (
    "GIT_SHA1",
    "MANIFEST",
    "OWN_DIR",
    "SCHEMA",
    "SHA256",
    "Listing",
    "Manifest",
    "Record",
    "RemoteFile",
    "from_json",
    "listed_file",
    "to_json",
)
