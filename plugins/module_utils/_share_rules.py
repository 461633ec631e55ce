# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What a share decides about a request: who asks for what, whether they may have it, and whether now.

Pure: no socket, no disk, no clock of its own. The protocol, which the peers of hf_snapshot speak::

    GET /OWNER/NAME/manifest/COMMIT          the snapshot's manifest; files with a record are verified
    GET /OWNER/NAME/resolve/COMMIT/PATH      a verified file, or a range of it
    Authorization: Bearer TOKEN              with both

A base address may end in ``/~PLACE``, the asker's place in the order of the hosts. 401 is a wrong token, 404 "does not
have it", 503 with Retry-After "not yet: here, or at another peer, in a moment". What comes with a 503 as
:data:`PROGRESS_HEADER` changes as long as there is progress.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import typing as t
import urllib.parse

from ansible_collections.modelfleet.serving.plugins.module_utils._names import COMMIT, REPO_ID, unsafe_name

#: smaller files are handed to everybody at once: waiting would take longer than sending
LARGE = 64 << 20
#: seconds that a receiver is sent to wait for another one's copy, at most
HAND_ON_LIMIT = 60.0
#: seconds for which a host that was at work, or is about to be, is waited for
PRESENCE_LIMIT = 20.0
#: what Retry-After says
RETRY_SECONDS = 1
#: goes with a 503: any text, which changes while the wait is worth it
PROGRESS_HEADER = "X-Modelfleet-Progress"

_TARGET = re.compile(
    r"(?:/~(?P<place>\d{1,6}))?/(?P<repo>[^/]+(?:/[^/]+)?)/"
    r"(?:manifest/(?P<listed>[^/]+)|resolve/(?P<commit>[^/]+)/(?P<path>.+))"
)
_RANGE = re.compile(r"bytes=(\d{1,19})-(\d{0,19})", re.ASCII)


class Target(t.NamedTuple):
    """What a request asks for; ``path`` empty for the manifest."""

    repo_id: str
    commit: str
    path: str
    #: the asker's place in the order of the hosts; None when it does not say
    place: int | None


class Span(t.NamedTuple):
    """Bytes ``start`` up to, and without, ``end``."""

    start: int
    end: int


class Unsatisfiable(Exception):
    """A range that begins behind the end of the file."""


def parse_target(raw: str) -> Target | None:
    """What ``raw``, the request's target as it came, asks for; None for anything that no snapshot can have."""
    match = _TARGET.fullmatch(raw)
    if match is None:
        return None
    try:
        # decoded once, after splitting: an encoded slash does not make another folder
        repo_id = "/".join(_decode(part) for part in match["repo"].split("/"))
        commit = match["listed"] or match["commit"]
        path = "/".join(_decode(part) for part in (match["path"] or "").split("/"))
    except ValueError:
        return None
    if not REPO_ID.fullmatch(repo_id) or "--" in repo_id or ".." in repo_id or not COMMIT.fullmatch(commit):
        return None
    if path and unsafe_name(path):
        return None
    return Target(repo_id, commit, path, int(match["place"]) if match["place"] else None)


def _decode(part: str) -> str:
    text = urllib.parse.unquote_to_bytes(part).decode("utf-8", "strict")
    if "/" in text or "\0" in text:
        raise ValueError(part)
    return text


def parse_range(header: str, size: int) -> Span | None:
    """The range wanted of ``size`` bytes; None for all of it. A form that is not understood is ignored, as allowed."""
    match = _RANGE.fullmatch(header.strip())
    if match is None:
        return None
    start = int(match[1])
    end = min(int(match[2]) + 1, size) if match[2] else size
    if start >= size:
        raise Unsatisfiable(header)
    return Span(start, end) if start < end else None


def token_digest(token: str) -> str:
    """What a share knows of its token. Tokens are random and long, so that this gives nothing away."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def authorised(header: str, digest: str) -> bool:
    """Whether ``header`` carries the token, found out in a time that does not depend on how much of it is right."""
    scheme, _space, token = header.partition(" ")
    same = hmac.compare_digest(token_digest(token.strip()), digest)
    return same and scheme.lower() == "bearer"


class _Sending(t.NamedTuple):
    receiver: int
    began: float


class _Sent(t.NamedTuple):
    receiver: int
    ended: float
    duration: float


class Turns:
    """Makes a chain out of receivers that all want the same file from the same host.

    A large file goes to one receiver, and to no other until that one had as long again, twice, to hand it on. So a
    file leaves the host about once while it passes through the fleet, and again when the chain is slow or broken.
    Nobody waits longer than :data:`HAND_ON_LIMIT`.
    """

    def __init__(self, clock: t.Callable[[], float]) -> None:
        self._clock = clock
        self._sending: dict[t.Hashable, list[_Sending]] = {}
        self._sent: dict[t.Hashable, _Sent] = {}
        self._waiting: dict[tuple[t.Hashable, int], float] = {}

    def admit(self, file: t.Hashable, receiver: int) -> bool:
        """Whether ``receiver`` gets ``file`` now. If so, :meth:`done` has to follow."""
        now = self._clock()
        since = self._waiting.setdefault((file, receiver), now)
        if now - since < HAND_ON_LIMIT and self._busy(file, receiver, now):
            return False
        self._waiting.pop((file, receiver), None)
        self._sending.setdefault(file, []).append(_Sending(receiver, now))
        return True

    def _busy(self, file: t.Hashable, receiver: int, now: float) -> bool:
        sending = self._sending.get(file, [])
        if any(item.receiver != receiver and now - item.began < HAND_ON_LIMIT for item in sending):
            return True
        sent = self._sent.get(file)
        if sent is None or sent.receiver == receiver:
            return False
        return now - sent.ended < min(2 * sent.duration, HAND_ON_LIMIT)

    def done(self, file: t.Hashable, receiver: int, whole: bool) -> None:
        """A sending ended; ``whole`` if the receiver has the end of the file now."""
        now = self._clock()
        sending = self._sending.get(file, [])
        item = next((item for item in sending if item.receiver == receiver), None)
        if item is None:
            return
        sending.remove(item)
        if not sending:
            del self._sending[file]
        if whole:
            self._sent[file] = _Sent(receiver, now, now - item.began)


class Presence:
    """Whether what a host does not have can be expected of it soon."""

    def __init__(self, clock: t.Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[t.Hashable, float] = {}

    def expected(self, snapshot: t.Hashable, at_work: bool) -> bool:
        """``at_work``: a run of hf_snapshot holds the snapshot's lock. One that nobody asked about before may be
        about to begin, and one that just ended may be started again."""
        now = self._clock()
        if at_work or snapshot not in self._seen:
            self._seen[snapshot] = now
        return now - self._seen[snapshot] < PRESENCE_LIMIT


__all__ = (
    "HAND_ON_LIMIT",
    "LARGE",
    "PRESENCE_LIMIT",
    "PROGRESS_HEADER",
    "RETRY_SECONDS",
    "Presence",
    "Span",
    "Target",
    "Turns",
    "Unsatisfiable",
    "authorised",
    "parse_range",
    "parse_target",
    "token_digest",
)
