# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""A host that shares its snapshots (the server is the module snapshot_share), as a source."""

from __future__ import annotations

import http.client
import typing as t
import urllib.parse

from ansible_collections.modelfleet.serving.plugins.module_utils._flow import Flow
from ansible_collections.modelfleet.serving.plugins.module_utils._http import (
    Http,
    origin_of,
    redact,
    retry_after,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import Listing, RemoteFile, from_json
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import ListingError, Offer
from ansible_collections.modelfleet.serving.plugins.module_utils._supply_http import (
    PeerSupplier,
    refusal,
    words,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import DOWNLOAD, Policy, Stop

#: a manifest of 5,000 files is about a megabyte
MAX_MANIFEST = 256 << 20


class PeerSource:
    """One host."""

    def __init__(self, url: str, token: str, policy: Policy, stop: Stop) -> None:
        self._url = url.rstrip("/")
        self.name = redact(self._url)
        self._token = token
        self._policy = policy
        self._stop = stop

    def _http(self) -> Http:
        authorization = f"Bearer {self._token}" if self._token else ""
        # a proxy is for the way out, not for the host next door
        return Http(
            self._policy.stall_timeout,
            {},
            authorization,
            origin_of(self._url),
            self._policy.connect_timeout,
            proxies={},
        )

    def supplier(self, repo_id: str, commit: str, flow: Flow) -> PeerSupplier:
        base = f"{self._url}/{repo_id}/resolve/{commit}/"
        return PeerSupplier(self.name, self._http, lambda file: base + urllib.parse.quote(file.path), flow)

    def offers(self, repo_id: str, commit: str, snapshot: str, into: str) -> t.Callable[[RemoteFile], Offer | None]:
        return lambda file: Offer(self.name, DOWNLOAD)

    def listing(self, repo_id: str, revision: str, pinned: bool) -> Listing:
        if not pinned:
            raise ListingError(f"a peer knows commits only, not what {revision} is")
        waited = 0.0
        while True:
            wait = self._ask(f"{self._url}/{repo_id}/manifest/{revision}", repo_id, revision)
            if isinstance(wait, Listing):
                return wait
            waited += max(wait, 1.0)
            if waited > self._policy.stall_timeout or self._stop.wait(max(wait, 1.0)):
                raise ListingError(f"it was waited for in vain for {waited:.0f} s")

    def _ask(self, url: str, repo_id: str, commit: str) -> Listing | float:
        """The listing, or how long to wait for it."""
        client = self._http()
        try:
            answer = client.get(url, {})
            if answer.status == 503:
                return retry_after(answer.headers) or 1.0
            if answer.status != 200:
                raise ListingError(refusal(answer).rstrip("."))
            text = answer.response.read(MAX_MANIFEST).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as exc:
            raise ListingError(f"{words(exc)} while asking {redact(url)}") from None
        finally:
            client.close()
        manifest = from_json(text)
        if manifest is None or (manifest.repo_id, manifest.listing.commit) != (repo_id, commit):
            raise ListingError(f"{redact(url)} has no manifest of {repo_id} at commit {commit}")
        return manifest.listing


__all__ = ("PeerSource",)
