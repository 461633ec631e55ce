# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Where a folder on this host keeps the files of a commit, and what it says that the commit consists of.

Known are our own folders of snapshots, the cache and the local folders of huggingface_hub, and a plain folder with the
files in it. Nothing that a folder says is believed about content: every file is proved by its digest afterwards.
"""

from __future__ import annotations

import json
import os
import re
import stat
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._client_notes import TREE_FORMAT, tree_path
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    GIT_SHA1,
    MANIFEST,
    SHA256,
    Listing,
    Manifest,
    RemoteFile,
    from_json,
    listed_file,
)

#: where the files of a commit lie; the first that has a file counts
COMMIT_FOLDERS = (
    # a root of ours, and the folder "snapshots" of one
    "snapshots/{name}/{commit}",
    "{name}/{commit}",
    # HF_HOME, its hub folder, and one repository in that
    "hub/models--{name}/snapshots/{commit}",
    "models--{name}/snapshots/{commit}",
    "snapshots/{commit}",
    # just the files
    "",
)
#: a cache of huggingface_hub: content by digest, whatever commit it came with
CACHES = ("hub/models--{name}", "models--{name}", "")
COMMIT = re.compile(r"[0-9a-f]{40}")
#: folders of our snapshots of a repository, whose manifests know more content by digest
SIBLINGS = ("snapshots/{name}", "{name}")


class Found(t.NamedTuple):
    """A file of the right size, links resolved."""

    path: str
    seen: os.stat_result


class Folder:
    """A folder, as it is looked at for one repository and commit. Not to be shared between threads."""

    def __init__(self, root: str, repo_id: str, commit: str) -> None:
        self._root = root
        self._repo_id = repo_id
        self._commit = commit
        self._words = {"name": repo_id.replace("/", "--"), "commit": commit}
        self._by_digest: dict[str, list[str]] | None = None

    def find(self, file: RemoteFile, target: str) -> Found | None:
        """The file, as far as its size can tell; not ``target`` itself, which is what lacks it."""
        itself = os.path.realpath(target)
        for path in self._candidates(file):
            found = _regular(path)
            if found is not None and found.seen.st_size == file.size and found.path != itself:
                return found
        return None

    def _candidates(self, file: RemoteFile) -> t.Iterator[str]:
        for folder in COMMIT_FOLDERS:
            yield self._path(folder, file.path)
        for folder in CACHES:
            yield self._path(folder, f"blobs/{file.digest}")
        if self._by_digest is None:
            self._by_digest = self._read_siblings()
        yield from self._by_digest.get(file.digest, ())

    def _read_siblings(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for pattern in SIBLINGS:
            folder = self._path(pattern, "")
            for commit in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
                manifest = read_manifest(f"{folder}{commit}/{MANIFEST}")
                for file in manifest.listing.files if manifest else ():
                    found.setdefault(file.digest, []).append(f"{folder}{commit}/{file.path}")
        return found

    def listing(self) -> Listing | None:
        """What the commit consists of, if anything here says it."""
        for folder in COMMIT_FOLDERS:
            manifest = read_manifest(self._path(folder, MANIFEST))
            if manifest and (manifest.repo_id, manifest.listing.commit) == (self._repo_id, self._commit):
                return manifest.listing
        trees = [self._path(folder, tree_path(self._commit)) for folder in COMMIT_FOLDERS]
        trees += [self._path(folder, f"trees/{self._commit}.json") for folder in CACHES]
        listings = (read_tree(path, self._commit) for path in trees)
        return next((listing for listing in listings if listing is not None), None)

    def _path(self, pattern: str, name: str) -> str:
        return os.path.join(self._root, pattern.format(**self._words), name)


def resolve(root: str, repo_id: str, revision: str) -> str:
    """The commit that a cache of huggingface_hub knows a branch or tag by; empty where none does."""
    for folder in CACHES:
        path = os.path.join(root, folder.format(name=repo_id.replace("/", "--")), "refs", revision)
        text = (_read(path) or "").strip()
        if COMMIT.fullmatch(text):
            return text
    return ""


def _regular(path: str) -> Found | None:
    try:
        # a cache's files are links to its blobs, and these may be links into a store of all repositories
        real = os.path.realpath(path)
        seen = os.lstat(real)
    except (OSError, ValueError):
        return None
    return Found(real, seen) if stat.S_ISREG(seen.st_mode) else None


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as handle:
            return handle.read()
    except (OSError, ValueError):
        return None


def read_manifest(path: str) -> Manifest | None:
    text = _read(path)
    return None if text is None else from_json(text)


def read_tree(path: str, commit: str) -> Listing | None:
    """The listing that huggingface_hub (since 1.22) keeps beside what it downloads."""
    text = _read(path)
    try:
        tree = json.loads(text or "")
        if tree["format_version"] != TREE_FORMAT:
            return None
        files = []
        for name, info in tree["files"].items():
            lfs = info.get("lfs_sha256")
            files.append(listed_file(name, info["size"], SHA256 if lfs else GIT_SHA1, lfs or info["blob_id"]))
        return Listing(commit, tuple(files))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


__all__ = ("Folder", "Found", "read_manifest", "read_tree", "resolve")
