# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Hub's own JSON and errors: pure functions from a request and the catalog to an answer."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import typing as t
import urllib.parse

from hub.catalog import Catalog
from hub.content import Blob, Memory, Repo, Source, Tree

Json = dict[str, t.Any]
EPOCH = "2026-01-01T00:00:00.000Z"


@dataclasses.dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: t.Mapping[str, str]
    token: t.Optional[str]
    #: http://HOST:PORT as the client reached this server
    origin: str
    body: bytes = b""


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict[str, str]
    source: Source
    #: the part of the source that is sent
    start: int = 0
    end: int = 0

    @classmethod
    def of(cls, status: int, data: bytes, headers: t.Mapping[str, str]) -> Answer:
        return cls(status, {"Content-Length": str(len(data)), **headers}, Memory(data), 0, len(data))

    @classmethod
    def json(cls, data: t.Any, status: int = 200, headers: t.Optional[t.Mapping[str, str]] = None) -> Answer:
        text = json.dumps(data).encode()
        return cls.of(status, text, {"Content-Type": "application/json; charset=utf-8", **(headers or {})})


class Refusal(Exception):
    """An error answer, in the form the client maps to its exceptions (X-Error-Code, X-Error-Message)."""

    def __init__(
        self, status: int, code: t.Optional[str], message: str, headers: t.Optional[t.Mapping[str, str]] = None
    ) -> None:
        super().__init__(message)
        extra = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {}), **(headers or {})}
        self.answer = Answer.json({"error": message}, status, extra)


# -- who may see what ------------------------------------------------------------------------------------------------


def open_repo(catalog: Catalog, request: Request, repo_id: str) -> Repo:
    """The repository, when it exists for this caller. A private one does not exist for others."""
    user = _user(catalog, request)
    repo = catalog.repos.get(repo_id)
    if repo is None or (repo.private and user not in repo.readers):
        raise Refusal(401 if request.token is None else 404, "RepoNotFound", "Repository not found")
    return repo


def check_content_access(catalog: Catalog, request: Request, repo: Repo) -> None:
    """Gated repositories list for everybody and give their content to readers only."""
    if not repo.gated or _user(catalog, request) in repo.readers:
        return
    message = f"Access to model {repo.repo_id} is restricted"
    if request.token is None:
        raise Refusal(401, "GatedRepo", f"{message}. You must have access to it and be authenticated to access it.")
    raise Refusal(403, "GatedRepo", f"{message} and you are not in the authorized list.")


def _user(catalog: Catalog, request: Request) -> t.Optional[str]:
    if request.token is None:
        return None
    if request.token not in catalog.users:
        raise Refusal(401, None, "Invalid credentials in Authorization header")
    return catalog.users[request.token]


def find_commit(repo: Repo, revision: str) -> tuple[str, Tree]:
    sha = repo.resolve(revision)
    if sha is None:
        raise Refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
    return sha, repo.commits[sha]


# -- answers ---------------------------------------------------------------------------------------------------------


def whoami(catalog: Catalog, request: Request) -> Answer:
    user = _user(catalog, request)
    if user is None:
        raise Refusal(401, None, "Invalid username or password.")
    auth = {"type": "access_token", "accessToken": {"displayName": "lab", "role": "read"}}
    return Answer.json(
        {"type": "user", "id": _object_id(user), "name": user, "fullname": user, "orgs": [], "auth": auth}
    )


def refs(repo: Repo) -> Answer:
    def listing(names: t.Mapping[str, str], kind: str) -> list[Json]:
        return [{"name": n, "ref": f"refs/{kind}/{n}", "targetCommit": sha} for n, sha in names.items()]

    return Answer.json(
        {"branches": listing(repo.branches, "heads"), "tags": listing(repo.tags, "tags"), "converts": []}
    )


def model_info(request: Request, repo: Repo, revision: str) -> Answer:
    sha, tree = find_commit(repo, revision)
    blobs = request.query.get("blobs", "").lower() in ("true", "1")
    info = {
        "_id": _object_id(repo.repo_id),
        "id": repo.repo_id,
        "modelId": repo.repo_id,
        "author": repo.repo_id.split("/")[0],
        "sha": sha,
        "lastModified": EPOCH,
        "createdAt": EPOCH,
        "private": repo.private,
        "gated": repo.gated,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "tags": [],
        "siblings": [_sibling(path, blob, blobs) for path, blob in sorted(tree.items())],
        "usedStorage": sum(blob.size for blob in tree.values()),
    }
    return Answer.json(info, headers={"X-Repo-Commit": sha})


def tree_page(request: Request, repo: Repo, revision: str, folder: str, page_size: int) -> Answer:
    sha, tree = find_commit(repo, revision)
    entries = list_folder(tree, folder, request.query.get("recursive", "").lower() in ("true", "1"))
    if folder and not entries:
        raise Refusal(404, "EntryNotFound", f"{folder} does not exist on {revision}")
    first = int(request.query.get("cursor", "0"))
    last = first + min(int(request.query.get("limit", page_size)), page_size)
    headers = {"X-Repo-Commit": sha}
    if last < len(entries):
        following = urllib.parse.urlencode({**request.query, "cursor": last})
        headers["Link"] = f'<{request.origin}{request.path}?{following}>; rel="next"'
    return Answer.json(entries[first:last], headers=headers)


def list_folder(tree: Tree, folder: str, recursive: bool) -> list[Json]:
    """Entries below a folder, directories included, as the tree API orders and shows them."""
    prefix = f"{folder}/" if folder else ""
    entries: dict[str, Json] = {}
    for path, blob in tree.items():
        if not path.startswith(prefix):
            continue
        parts = path[len(prefix) :].split("/")
        for depth in range(1, len(parts)):
            name = prefix + "/".join(parts[:depth])
            if recursive or depth == 1:
                oid = hashlib.sha1(name.encode()).hexdigest()
                entries[name] = {"type": "directory", "oid": oid, "size": 0, "path": name}
        if recursive or len(parts) == 1:
            entries[path] = tree_entry(path, blob)
    return [entries[name] for name in sorted(entries)]


def paths_info(request: Request, repo: Repo, revision: str) -> Answer:
    sha, tree = find_commit(repo, revision)
    try:
        asked = json.loads(request.body or b"{}")["paths"]
    except ValueError:  # older clients send a form
        asked = urllib.parse.parse_qs(request.body.decode()).get("paths", [])
    found = [tree_entry(path, tree[path]) for path in asked if path in tree]
    return Answer.json(found, headers={"X-Repo-Commit": sha})


def tree_entry(path: str, blob: Blob) -> Json:
    entry: Json = {"type": "file", "oid": blob.oid, "size": blob.size, "path": path}
    if blob.lfs:
        entry["lfs"] = {"oid": blob.sha256, "size": blob.size, "pointerSize": blob.pointer_size}
    return entry


def _sibling(path: str, blob: Blob, blobs: bool) -> Json:
    entry: Json = {"rfilename": path}
    if blobs:
        entry.update(size=blob.size, blobId=blob.oid)
        if blob.lfs:
            entry["lfs"] = {"sha256": blob.sha256, "size": blob.size, "pointerSize": blob.pointer_size}
    return entry


def file_headers(sha: str, blob: Blob) -> dict[str, str]:
    headers = {"X-Repo-Commit": sha, "ETag": blob.etag, "Accept-Ranges": "bytes"}
    if blob.lfs:
        headers.update({"X-Linked-Etag": blob.etag, "X-Linked-Size": str(blob.size)})
    return headers


def content(source: Source, headers: t.Mapping[str, str], wanted: t.Optional[str], if_range: t.Optional[str]) -> Answer:
    """The bytes of a file, or the one range of them that was asked for (RFC 9110, single ranges only)."""
    head = {"Content-Type": "application/octet-stream", "Accept-Ranges": "bytes", **headers}
    size = source.size
    part = re.fullmatch(r"bytes=(\d*)-(\d*)", (wanted or "").replace(" ", ""))
    if part is None or part.group(0) == "bytes=-" or if_range not in (None, head.get("ETag")):
        head["Content-Length"] = str(size)
        return Answer(200, head, source, 0, size)
    first, last = part.groups()
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last) + 1, size) if first and last else size
    if start >= end:
        return Answer.of(416, b"", {**head, "Content-Range": f"bytes */{size}"})
    head.update({"Content-Length": str(end - start), "Content-Range": f"bytes {start}-{end - 1}/{size}"})
    return Answer(206, head, source, start, end)


def _object_id(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:24]
