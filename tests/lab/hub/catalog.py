# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All repositories and users of a Hub, and the loading of both from a directory.

A root directory holds OWNER/NAME/files. Beside the owners may lie ``hub.json`` (users and access, written by people
or by the maker of the demo repositories) and ``.digests.json`` (written here, so that a restart reads no big file).
"""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

from hub.content import Blob, Content, Digests, File, Repo, digest, is_lfs

SETTINGS = "hub.json"
DIGESTS = ".digests.json"
#: not part of a repository although it may lie in its folder
NOT_CONTENT = frozenset({".git", ".cache"})


class DigestCache:
    """Digests of files on disk, kept by name, size and time of last change."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root, self._file = root, root / DIGESTS
        self._known: dict[str, list[t.Any]] = {}
        self._seen: dict[str, list[t.Any]] = {}
        try:
            self._known = json.loads(self._file.read_text())
        except (OSError, ValueError):
            self._known = {}

    def blob(self, path: pathlib.Path, repo_path: str) -> Blob:
        source = File.of(str(path))
        key = path.relative_to(self._root).as_posix()
        entry = self._known.get(key)
        if entry is None or entry[:2] != [source.size, source.mtime_ns]:
            entry = [source.size, source.mtime_ns, *digest(source)]
        self._seen[key] = entry
        return Blob.of(source, is_lfs(repo_path, source.size), Digests(*entry[2:]))

    def save(self) -> None:
        if self._seen == self._known:
            return
        partial = self._file.with_suffix(f".{os.getpid()}")
        try:
            partial.write_text(json.dumps(self._seen))
            os.replace(partial, self._file)
        except OSError:
            return  # a read-only root costs time at the next start, nothing else
        self._known = self._seen


class Catalog:
    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        #: token -> user name
        self.users: dict[str, str] = {}
        self.root: t.Optional[pathlib.Path] = None

    def repo(self, repo_id: str) -> Repo:
        """The repository of that name, made when it does not exist."""
        return self.repos.setdefault(repo_id, Repo(repo_id))

    def load(self, root: t.Union[str, os.PathLike[str]]) -> None:
        """Read, or read again, a root directory: a changed folder becomes a new commit on main."""
        self.root = pathlib.Path(root)
        cache = DigestCache(self.root)
        for folder in sorted(self.root.glob("[!.]*/[!.]*")):
            if folder.is_dir():
                files: dict[str, Content] = {name: cache.blob(folder / name, name) for name in _files(folder)}
                self.repo(folder.relative_to(self.root).as_posix()).commit(files, replace=True)
        cache.save()
        self._load_settings(self.root / SETTINGS)

    def _load_settings(self, path: pathlib.Path) -> None:
        if not path.exists():
            return
        settings = json.loads(path.read_text())
        self.users.update(settings.get("users", {}))
        for repo_id, access in settings.get("repos", {}).items():
            repo = self.repo(repo_id)
            repo.private, repo.gated = access.get("private", False), access.get("gated", False)
            repo.readers = set(access.get("readers", ()))


def _files(folder: pathlib.Path) -> t.Iterator[str]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - NOT_CONTENT)
        for name in sorted(names):
            yield (pathlib.Path(parent) / name).relative_to(folder).as_posix()
