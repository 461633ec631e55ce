# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the Hub stores: blobs with their digests, and repositories made of commits, branches and tags."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import typing as t

CHUNK = 1 << 20
#: What a model repository keeps in LFS: these whatever their size, and everything from 10 MB.
LFS_SUFFIXES = (".safetensors", ".bin", ".gguf", ".pt")
LFS_THRESHOLD = 10_000_000


class StaleSource(Exception):
    """A file changed on disk after its digests were taken; serving it would be a lie nobody asked for."""


class Source(t.Protocol):
    """Where the bytes of a body come from."""

    @property
    def size(self) -> int:
        """Bytes in all."""
        raise NotImplementedError

    def chunks(self, start: int, end: int) -> t.Iterator[bytes]:
        """The bytes from start up to, not including, end."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Memory:
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def chunks(self, start: int, end: int) -> t.Iterator[bytes]:
        for at in range(start, end, CHUNK):
            yield self.data[at : min(at + CHUNK, end)]


@dataclasses.dataclass(frozen=True)
class File:
    path: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: str) -> File:
        seen = os.stat(path)
        return cls(path, seen.st_size, seen.st_mtime_ns)

    def open(self) -> t.BinaryIO:
        try:
            now = File.of(self.path)
        except OSError as exc:
            raise StaleSource(f"{self.path} can no longer be read: {exc.strerror}; rescan") from exc
        if now != self:
            raise StaleSource(f"{self.path} changed on disk since the last scan; rescan")
        return open(self.path, "rb")

    def chunks(self, start: int, end: int) -> t.Iterator[bytes]:
        with self.open() as stream:
            stream.seek(start)
            while start < end:
                chunk = stream.read(min(CHUNK, end - start))
                if not chunk:
                    raise StaleSource(f"{self.path} became shorter while it was sent")
                start += len(chunk)
                yield chunk


class Digests(t.NamedTuple):
    sha256: str
    git_sha1: str


def digest(source: Source) -> Digests:
    sha256, sha1 = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % source.size)
    for chunk in source.chunks(0, source.size):
        sha256.update(chunk)
        sha1.update(chunk)
    return Digests(sha256.hexdigest(), sha1.hexdigest())


@dataclasses.dataclass(frozen=True)
class Blob:
    """One version of one file. Tests make the Hub lie about it with ``dataclasses.replace``: ``size`` and ``sha256``
    are what the API claims, ``source`` is what is really sent."""

    source: Source
    lfs: bool
    size: int
    sha256: str
    #: for an LFS file git stores a small pointer text, and the API's ``oid`` is the pointer's
    oid: str
    pointer_size: int = 0

    @classmethod
    def of(cls, source: Source, lfs: bool, digests: t.Optional[Digests] = None) -> Blob:
        sha256, git_sha1 = digests or digest(source)
        if not lfs:
            return cls(source, False, source.size, sha256, git_sha1)
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {source.size}\n".encode()
        return cls(source, True, source.size, sha256, digest(Memory(pointer)).git_sha1, len(pointer))

    @property
    def etag(self) -> str:
        return f'"{self.sha256 if self.lfs else self.oid}"'


def is_lfs(path: str, size: int) -> bool:
    return size >= LFS_THRESHOLD or path.endswith(LFS_SUFFIXES)


#: What a commit may be made from: bytes, text, a path on disk, a ready blob; None removes the file.
Content = t.Union[bytes, str, "os.PathLike[str]", Blob, None]


def make_blob(path: str, content: t.Union[bytes, str, os.PathLike[str], Blob]) -> Blob:
    if isinstance(content, Blob):
        return content
    if isinstance(content, str):
        content = content.encode()
    source: Source = Memory(content) if isinstance(content, bytes) else File.of(os.fspath(content))
    return Blob.of(source, is_lfs(path, source.size))


Tree = t.Mapping[str, Blob]


@dataclasses.dataclass
class Repo:
    repo_id: str
    private: bool = False
    #: False, "auto" or "manual", as the API says it
    gated: t.Union[bool, str] = False
    #: names of the users who may read it when it is private or gated
    readers: set[str] = dataclasses.field(default_factory=set)
    commits: dict[str, Tree] = dataclasses.field(default_factory=dict)
    branches: dict[str, str] = dataclasses.field(default_factory=dict)
    tags: dict[str, str] = dataclasses.field(default_factory=dict)

    def commit(self, files: t.Mapping[str, Content], branch: str = "main", replace: bool = False) -> str:
        """Put files on top of the branch (or instead of all it has) and return the commit the branch now points to.

        The name of a commit follows from its content alone, so that a restarted Hub serves the same commits."""
        head = self.branches.get(branch) or self.branches.get("main", "")
        tree = {} if replace else dict(self.commits.get(head, {}))
        for path, content in files.items():
            if content is None:
                tree.pop(path, None)
            else:
                tree[path] = make_blob(path, content)
        listing = "".join(f"{blob.oid} {path}\n" for path, blob in sorted(tree.items()))
        sha = hashlib.sha1(f"{self.repo_id}\n{listing}".encode()).hexdigest()
        self.commits[sha] = tree
        self.branches[branch] = sha
        return sha

    def tag(self, name: str, sha: str) -> None:
        self.tags[name] = sha

    def resolve(self, revision: str) -> t.Optional[str]:
        """The commit that a branch, tag, full or abbreviated commit means; None when there is none."""
        for table in (self.branches, self.tags):
            if revision in table:
                return table[revision]
        if revision in self.commits:
            return revision
        if re.fullmatch(r"[0-9a-f]{7,39}", revision):
            hits = [sha for sha in self.commits if sha.startswith(revision)]
            return hits[0] if len(hits) == 1 else None
        return None
