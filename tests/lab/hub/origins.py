# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The two origins: the hub (API, small files, redirects) and the cdn (bytes of LFS files by signed address)."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
import typing as t
import urllib.parse

from hub import dialect
from hub.catalog import Catalog
from hub.content import Blob
from hub.dialect import Answer, Refusal, Request

API = re.compile(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree|paths-info|refs)(?:/([^/]+)(?:/(.*))?)?)?")
RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
OBJECT = re.compile(r"/([^/]+/[^/]+)/([0-9a-f]{64})")
KIND_OF_VERB = {None: "info", "revision": "info", "tree": "tree", "paths-info": "paths", "refs": "refs"}


class Target(t.NamedTuple):
    """What a request is about, known before it is answered: faults and the log go by it."""

    kind: str
    subject: str


class Signer:
    """Addresses that work for a while, as the real cdn's do: whoever keeps or strips them is noticed."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._key = secrets.token_bytes(16)

    def query(self, path: str, name: str) -> str:
        expires = str(time.time() + self.seconds)
        signature = self._sign(path, expires)
        return urllib.parse.urlencode({"name": name, "Expires": expires, "Signature": signature})

    def check(self, path: str, query: t.Mapping[str, str]) -> None:
        expires, signature = query.get("Expires", "0"), query.get("Signature", "")
        if not hmac.compare_digest(self._sign(path, expires), signature):
            raise Refusal(403, None, "Access denied: the address is not signed")
        if float(expires) < time.time():
            raise Refusal(403, None, "Access denied: the signature has expired")

    def _sign(self, path: str, expires: str) -> str:
        return hmac.new(self._key, f"{path} {expires}".encode(), hashlib.sha256).hexdigest()


class CdnOrigin:
    def __init__(self, catalog: Catalog, signer: Signer) -> None:
        self._catalog, self._signer = catalog, signer

    def target(self, request: Request) -> Target:
        match = OBJECT.fullmatch(request.path)
        return Target("cdn", f"{match[1]}/{request.query.get('name', '')}" if match else request.path)

    def answer(self, request: Request, headers: t.Mapping[str, str]) -> Answer:
        match = OBJECT.fullmatch(request.path)
        if match is None:
            raise Refusal(404, None, "No such object")
        self._signer.check(request.path, request.query)
        blob = self._find(match[1], match[2], request.query.get("name", ""))
        return dialect.content(blob.source, {"ETag": blob.etag}, headers.get("Range"), headers.get("If-Range"))

    def _find(self, repo_id: str, sha256: str, name: str) -> Blob:
        for tree in self._catalog.repo(repo_id).commits.values():
            blob = tree.get(name)
            if blob is not None and blob.sha256 == sha256:
                return blob
        raise Refusal(404, None, "No such object")


class HubOrigin:
    def __init__(self, catalog: Catalog, signer: Signer, cdn: t.Callable[[Request], str], page_size: int) -> None:
        self._catalog, self._signer, self._cdn, self._page_size = catalog, signer, cdn, page_size

    def target(self, request: Request) -> Target:
        file = RESOLVE.fullmatch(request.path)
        if file:
            return Target("resolve", f"{file[1]}/{urllib.parse.unquote(file[3])}")
        api = API.fullmatch(request.path)
        if api:
            return Target(KIND_OF_VERB[api[2]], "/".join(filter(None, (api[1], urllib.parse.unquote(api[4] or "")))))
        return Target("whoami" if request.path == "/api/whoami-v2" else "other", request.path)

    def answer(self, request: Request, headers: t.Mapping[str, str]) -> Answer:
        file = RESOLVE.fullmatch(request.path)
        if file:
            return self._resolve(request, headers, file[1], *map(urllib.parse.unquote, file.group(2, 3)))
        api = API.fullmatch(request.path)
        if api:
            return self._api(request, *(part and urllib.parse.unquote(part) for part in api.groups()))
        if request.path == "/api/whoami-v2":
            return dialect.whoami(self._catalog, request)
        raise Refusal(404, None, "Not Found")

    def _api(
        self,
        request: Request,
        repo_id: str,
        verb: t.Optional[str],
        revision: t.Optional[str],
        rest: t.Optional[str],
    ) -> Answer:
        repo = dialect.open_repo(self._catalog, request, repo_id)
        revision = revision or "main"
        if verb == "refs":
            return dialect.refs(repo)
        if verb == "tree":
            return dialect.tree_page(request, repo, revision, (rest or "").strip("/"), self._page_size)
        if verb == "paths-info":
            return dialect.paths_info(request, repo, revision)
        return dialect.model_info(request, repo, revision)

    def _resolve(
        self, request: Request, headers: t.Mapping[str, str], repo_id: str, revision: str, name: str
    ) -> Answer:
        repo = dialect.open_repo(self._catalog, request, repo_id)
        dialect.check_content_access(self._catalog, request, repo)
        sha, tree = dialect.find_commit(repo, revision)
        blob = tree.get(name)
        if blob is None:
            raise Refusal(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": sha})
        head = dialect.file_headers(sha, blob)
        if not blob.lfs:
            return dialect.content(blob.source, head, headers.get("Range"), headers.get("If-Range"))
        path = f"/{repo_id}/{blob.sha256}"
        location = f"{self._cdn(request)}{path}?{self._signer.query(path, name)}"
        return Answer.of(302, b"Found. Redirecting", {**head, "Content-Type": "text/plain", "Location": location})
