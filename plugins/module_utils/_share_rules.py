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
LARGE = 16 << 20
#: large files that a share sends at the same time; enough to fill a link
MAX_SENDINGS = 4
#: bytes a second below which a sending hangs, once it had the seconds to begin
SLOW, BEGINNING = 1 << 20, 10.0
#: seconds that a receiver is given to hand a file on, at most
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


class Sending:
    """A file on its way to a receiver."""

    def __init__(self, file: t.Hashable, receiver: int, began: float) -> None:
        self.file, self.receiver, self.began = file, receiver, began
        #: bytes so far; the sender counts them
        self.moved = 0

    def gets_on(self, now: float) -> bool:
        passed = now - self.began
        return passed < BEGINNING or self.moved >= SLOW * passed


class _Sent(t.NamedTuple):
    receiver: int
    ended: float
    duration: float


class Turns:
    """Spreads large files over receivers that all want all of them from the same host.

    A file goes to one receiver, and to no other until that one had as long again, twice, to hand it on. Few files go
    out at the same time, so that each is there soon to be handed on. So the host sends about one copy of the whole
    while it passes through the fleet, and more where receivers are slow or gone.
    """

    def __init__(self, clock: t.Callable[[], float]) -> None:
        self._clock = clock
        self._sending: list[Sending] = []
        self._sent: dict[t.Hashable, _Sent] = {}
        self._last_duration = 0.0

    def admit(self, file: t.Hashable, receiver: int) -> Sending | None:
        """What is to be given to :meth:`done` when it is over; None when ``receiver`` has to wait for ``file``."""
        now = self._clock()
        # one that hangs, or whose receiver is dead, keeps nobody waiting; one that begins again takes its own place
        others = [
            item for item in self._sending if item.gets_on(now) and (item.file, item.receiver) != (file, receiver)
        ]
        sent = self._sent.get(file)
        handing_on = sent is not None and sent.receiver != receiver
        if (
            len(others) >= MAX_SENDINGS
            or any(item.file == file for item in others)
            or (handing_on and sent is not None and now - sent.ended < min(2 * sent.duration, HAND_ON_LIMIT))
        ):
            return None
        sending = Sending(file, receiver, now)
        self._sending.append(sending)
        return sending

    def done(self, sending: Sending, whole: bool) -> None:
        """``whole``: the receiver has the end of the file now."""
        self._sending.remove(sending)
        if whole:
            now = self._clock()
            self._last_duration = now - sending.began
            self._sent[sending.file] = _Sent(sending.receiver, now, self._last_duration)

    def retry_seconds(self) -> int:
        """When to ask again: at once (a client has its own least) where files take less than a second."""
        return RETRY_SECONDS if self._last_duration >= 1 else 0


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
    "BEGINNING",
    "HAND_ON_LIMIT",
    "LARGE",
    "MAX_SENDINGS",
    "PRESENCE_LIMIT",
    "PROGRESS_HEADER",
    "RETRY_SECONDS",
    "SLOW",
    "Presence",
    "Sending",
    "Span",
    "Target",
    "Turns",
    "Unsatisfiable",
    "authorised",
    "parse_range",
    "parse_target",
    "token_digest",
)
