# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""huggingface_hub behind one door: the listing of a commit, the address of a file, the headers that authenticate.

This is the only file that imports the library, and it does so when the network is needed, not before: the import takes
half a second, and a run with nothing to do must not pay for it. Keep in step with the doc fragment ``_hub``.

Releases differ in their HTTP library (requests, httpx, httpx2), and their exceptions with it; so errors are told apart
by the names in their class hierarchy.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._flow import Flow
from ansible_collections.modelfleet.serving.plugins.module_utils._http import (
    Http,
    origin_of,
    redact,
    retry_after,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    GIT_SHA1,
    SHA256,
    Listing,
    RemoteFile,
    listed_file,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import Offer
from ansible_collections.modelfleet.serving.plugins.module_utils._supply_http import WebSupplier
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import (
    DOWNLOAD,
    FetchError,
    Policy,
)

HAS_HUGGINGFACE_HUB = importlib.util.find_spec("huggingface_hub") is not None
#: the oldest release this is tested with
MINIMUM_VERSION = "0.34"
LIBRARY_URL = "https://pypi.org/project/huggingface-hub/"
LISTING_TIMEOUT = 30.0
#: a listing is small: no use in trying for as long as for the bytes
LISTING_RETRIES = 4

#: read by the library when it is imported; the account and settings of whoever uses this host are not ours
ENVIRONMENT = {
    "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
}


#: a revision that is pinned
COMMIT = re.compile(r"[0-9a-f]{40}")
#: what helps whenever the Hub does not answer, unless it is done already
PIN = (
    " If the snapshot is complete, set revision to its commit (model.revision in a profile), and the Hub is not asked."
)


class HubError(Exception):
    """The Hub could not be asked, or said no; the text says what to do."""

    def __init__(self, message: str, passing: bool = False) -> None:
        super().__init__(message)
        #: it could not be asked, so that others may know
        self.passing = passing


class LibraryMissing(HubError, FetchError):
    """huggingface_hub is not installed for this interpreter. Other sources may do without it."""

    def __init__(self, purpose: str) -> None:
        super().__init__(f"huggingface_hub, required {purpose}, is not installed for {sys.executable}", passing=True)
        self.purpose = purpose
        self.remedy = (
            f"To install it there: {sys.executable} -m pip install 'huggingface_hub>={MINIMUM_VERSION}'. Or let the "
            "role modelfleet.serving.host_tools make an environment that has it, and set ansible_python_interpreter to "
            "the fact host_tools_python."
        )


class Hint(t.NamedTuple):
    """An error by a class name of its hierarchy and, where not None, HTTP status and whether a token was sent."""

    name: str
    status: int | None
    token: bool | None
    text: str


#: the first row that fits counts: GatedRepoError is a RepositoryNotFoundError
HINTS = (
    Hint(
        "GatedRepoError",
        None,
        False,
        "{repo} is gated: accept its licence on {endpoint}/{repo} and set token to a token of that account.",
    ),
    Hint(
        "GatedRepoError",
        None,
        True,
        "{repo} is gated and the token's account is not on its access list: accept its licence on {endpoint}/{repo}.",
    ),
    Hint(
        "RepositoryNotFoundError",
        None,
        False,
        "There is no repository {repo} at {endpoint}, or it is private: check repo_id, or set token.",
    ),
    Hint(
        "RepositoryNotFoundError",
        None,
        True,
        "There is no repository {repo} at {endpoint}, or the token may not see it: check repo_id and the token.",
    ),
    Hint("RevisionNotFoundError", None, None, "{repo} at {endpoint} has no branch, tag or commit {revision}."),
    Hint("DisabledRepoError", None, None, "{repo} has been disabled at {endpoint}."),
    Hint("HFValidationError", None, None, "{repo} is not a valid repository name: {error}"),
    Hint(
        "OfflineModeIsEnabled",
        None,
        None,
        "HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set in the host's environment, so {endpoint} may not be asked.{pin}",
    ),
    Hint("HfHubHTTPError", 401, True, "{endpoint} does not accept the token: it is wrong, expired or of another Hub."),
    Hint("HfHubHTTPError", 401, False, "{endpoint} wants a token for {repo}: set token."),
    Hint("HfHubHTTPError", 403, None, "{endpoint} forbids access to {repo}: check the rights of the token."),
    Hint(
        "HfHubHTTPError",
        429,
        None,
        "{endpoint} limits requests from this address, {tries} times in a row: wait, or set token for a higher limit."
        "{pin}",
    ),
    Hint("HfHubHTTPError", None, None, "{endpoint} answered with status {status}, {tries} times: {error}.{pin}"),
    Hint(
        "ValueError",
        None,
        None,
        "{endpoint} did not answer as a Hub does: is the address right? Is a proxy or login portal between? ({error})."
        "{pin}",
    ),
    Hint(
        "Exception",
        None,
        None,
        "{endpoint} could not be reached, {tries} times: {error}. Check the address, and on the host: name resolution, "
        "route, firewall and proxy (https_proxy).{pin}",
    ),
)
RETRY_STATUS = (408, 425, 429, 500, 502, 503, 504)


def explain(exc: BaseException, words: t.Mapping[str, t.Any], token: str) -> str:
    """The text for ``exc``, without secrets."""
    names = {cls.__name__ for cls in type(exc).__mro__}
    status = status_of(exc)
    pin = "" if COMMIT.fullmatch(words["revision"]) else PIN
    for hint in HINTS:
        if hint.name in names and hint.status in (None, status) and hint.token in (None, bool(token)):
            return redact(hint.text.format(**{**words, "status": status, "error": _words(exc), "pin": pin}), token)
    raise exc


def _words(exc: BaseException) -> str:
    """One line for an exception: what the system said at the bottom of it, or else its own first line."""
    said = ""
    link: BaseException | None = exc
    while link is not None:
        said = getattr(link, "strerror", None) or said
        link = link.__cause__ or link.__context__
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return said or (lines[0] if lines else type(exc).__name__)


def status_of(exc: BaseException) -> int | None:
    return getattr(getattr(exc, "response", None), "status_code", None)


def worth_retrying(exc: BaseException) -> bool:
    """A passing trouble, such as the client itself does not retry for a listing."""
    names = {cls.__name__ for cls in type(exc).__mro__}
    status = status_of(exc)
    if status is not None:
        return status in RETRY_STATUS
    return not names & {"HFValidationError", "OfflineModeIsEnabled"}


class Hub:
    """One Hub, asked with one token."""

    def __init__(
        self,
        endpoint: str,
        token: str,
        policy: Policy,
        sleep: t.Callable[[float], object] = time.sleep,
        report: t.Callable[[str], None] = lambda message: None,
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        self.name = redact(self.endpoint)
        self._token = token
        self._policy = policy
        self._sleep = sleep
        self._report = report
        self._library: t.Any = None

    def listing(self, repo_id: str, revision: str, pinned: bool = False, patient: bool = True) -> Listing:
        """All files of the commit that ``revision`` names, by one request. Not ``patient``: others may be asked."""
        library = self._load(f"to list {repo_id}")
        api = library.HfApi(endpoint=self.endpoint, token=self._token or False)
        tries = 0
        while True:
            tries += 1
            try:
                info = api.model_info(repo_id, revision=revision, files_metadata=True, timeout=LISTING_TIMEOUT)
                break
            except Exception as exc:
                words = {"repo": repo_id, "revision": revision, "endpoint": self.endpoint, "tries": tries}
                text = explain(exc, words, self._token)
                passing = worth_retrying(exc)
                if tries > (LISTING_RETRIES if patient else 1) or not passing:
                    # the library's own text holds URLs with their query
                    raise HubError(text, passing) from None
                if self._wait(exc, tries, text):
                    raise HubError(text) from None
        files = tuple(remote_file(item) for item in info.siblings or ())
        return Listing(info.sha, files, bool(info.gated))

    def file_url(self, repo_id: str, commit: str, path: str) -> str:
        library = self._load("to download")
        url: str = library.hf_hub_url(repo_id, path, revision=commit, endpoint=self.endpoint)
        return url

    def http(self) -> Http:
        """A client for files, which sends the token to this Hub alone."""
        library = self._load("to download")
        headers = library.utils.build_hf_headers(token=self._token or False, library_name="modelfleet.serving")
        authorization = headers.pop("authorization", "")
        home = origin_of(self.endpoint)
        return Http(self._policy.stall_timeout, headers, authorization, home, self._policy.connect_timeout)

    def offers(self, repo_id: str, commit: str, snapshot: str, into: str) -> t.Callable[[RemoteFile], Offer | None]:
        return lambda file: Offer(self.name, DOWNLOAD)

    def supplier(self, repo_id: str, commit: str, flow: Flow) -> WebSupplier:
        return WebSupplier(self.name, self.http, lambda file: self.file_url(repo_id, commit, file.path), flow)

    def _load(self, purpose: str) -> t.Any:
        if self._library is None:
            if not HAS_HUGGINGFACE_HUB:
                raise LibraryMissing(purpose)
            os.environ.update(ENVIRONMENT)
            os.environ.pop("HF_DEBUG", None)
            import huggingface_hub
            import huggingface_hub.utils

            self._library = huggingface_hub
        return self._library

    def _wait(self, exc: BaseException, tries: int, text: str) -> bool:
        """Whether the wait was ended by a stop."""
        wait = min(self._policy.backoff * 2 ** (tries - 1), self._policy.max_backoff)
        told = retry_after(getattr(getattr(exc, "response", None), "headers", {}))
        self._report(text)
        return bool(self._sleep(wait if told is None else min(told, self._policy.max_wait)))


def remote_file(item: t.Any) -> RemoteFile:
    """A file of the library's listing in our form."""
    digest = item.lfs.sha256 if item.lfs else item.blob_id
    if item.size is None or not digest:
        raise HubError(
            f"The listing has no size or digest for {item.rfilename}, so that it could not be verified: "
            "the endpoint is a mirror that leaves them out. Use another endpoint."
        )
    try:
        return listed_file(item.rfilename, item.size, SHA256 if item.lfs else GIT_SHA1, digest)
    except ValueError as exc:
        raise HubError(f"The endpoint does not list as the Hub does: {exc}. Is it a faithful mirror?") from None


__all__ = (
    "HAS_HUGGINGFACE_HUB",
    "LIBRARY_URL",
    "MINIMUM_VERSION",
    "Hub",
    "HubError",
    "LibraryMissing",
    "explain",
    "remote_file",
    "status_of",
    "worth_retrying",
)
