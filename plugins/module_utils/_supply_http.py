# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Files by HTTP: from the Hub, from a mirror that speaks as the Hub does, and from a host that shares what it has."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl
import typing as t
import zlib

from ansible_collections.modelfleet.serving.plugins.module_utils._flow import MIN_BLOCK, Flow, Read
from ansible_collections.modelfleet.serving.plugins.module_utils._http import (
    Answer,
    Http,
    origin_of,
    redact,
    retry_after,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import RemoteFile
from ansible_collections.modelfleet.serving.plugins.module_utils._partial import Partial
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import (
    DOWNLOAD,
    Done,
    Interruption,
    NotYet,
    Refused,
    WrongSize,
)

#: answers worth another try; 401 and 403 from another origin are signed URLs that expired
RETRY_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})
#: by which a peer that says "not yet" shows that it gets on: any text, which changes while bytes arrive there
PROGRESS_HEADER = "X-Modelfleet-Progress"


class WebSupplier:
    """The Hub or a mirror."""

    method = DOWNLOAD
    waits = False

    def __init__(
        self, name: str, make_client: t.Callable[[], Http], url_of: t.Callable[[RemoteFile], str], flow: Flow
    ) -> None:
        self.name = name
        self._make_client = make_client
        self._client: Http | None = None
        self._url_of = url_of
        self._flow = flow

    def adopt(self, part: Partial) -> Done | None:
        return None

    def abort(self) -> None:
        if self._client is not None:
            self._client.abort()

    def stream(self, part: Partial) -> None:
        if self._client is None:
            # not before it is needed: a source that is never asked need not be able to answer
            self._client = self._make_client()
        client = self._client
        url = self._url_of(part.job.file)
        wanted = {"Range": f"bytes={part.offset}-"} if part.offset else {}
        try:
            answer = client.get(url, wanted)
        except ssl.SSLCertVerificationError as exc:
            raise Refused(
                f"the certificate of {redact(url)} is not trusted: {exc.verify_message}. Put the "
                "authority that signed it into the host's trust store (update-ca-certificates)."
            ) from None
        except (OSError, http.client.HTTPException) as exc:
            self._flow.check_stop(part)
            raise Interruption(f"{words(exc)} while asking {redact(url)}", leave=is_gone(exc)) from None
        try:
            self._check_head(part, answer)
            where = redact(answer.url)
            self._flow.pour(self._reader(part, answer), part, self.name, where)
            self._flow.check_stop(part)
            if part.offset < part.job.file.size:
                _ended_early(part, answer)
        except BaseException:
            client.drop(origin_of(answer.url))
            raise

    def _check_head(self, part: Partial, answer: Answer) -> None:
        where = redact(answer.url)
        if answer.status == 416:
            part.restart()
            raise Interruption(f"{where} does not have the rest of the file, begun again")
        if answer.status in RETRY_STATUS or (answer.status in (401, 403) and answer.elsewhere):
            raise self._try_again(answer, where)
        if answer.status not in (200, 206):
            raise Refused(refusal(answer), lacks=answer.status == 404)
        if answer.status == 200 or not answer.headers.get("Content-Range", "").startswith(f"bytes {part.offset}-"):
            if answer.status == 206:
                part.restart()
                raise Interruption(f"{where} sent another range than asked for, begun again")
            # no Range support there: the whole file comes again
            part.restart()
        size = None if answer.headers.get("Content-Encoding") else answer.size()
        if size is not None and size != part.job.file.size:
            raise WrongSize(_wrong_size(part, answer, size))

    def _try_again(self, answer: Answer, where: str) -> Exception:
        return Interruption(f"status {answer.status} from {where}", retry_after(answer.headers))

    def _reader(self, part: Partial, answer: Answer) -> Read:
        """Reads of the body whose failure is an :class:`Interruption`."""
        read = _plain(answer) if _identity(answer) else _unzipped(answer)

        def guarded(space: memoryview) -> memoryview:
            try:
                return read(space)
            except (OSError, ValueError, http.client.HTTPException, zlib.error) as exc:
                self._flow.check_stop(part)
                text = f"{words(exc)} from {redact(answer.url)} at byte {part.offset}"
                raise Interruption(text, leave=is_timeout(exc)) from None

        return guarded


class PeerSupplier(WebSupplier):
    """A host that shares a snapshot it has, or is getting."""

    waits = True

    def _try_again(self, answer: Answer, where: str) -> Exception:
        wait = retry_after(answer.headers)
        if answer.status == 503 and wait is not None:
            return NotYet(wait, answer.headers.get(PROGRESS_HEADER, ""))
        return super()._try_again(answer, where)


def _identity(answer: Answer) -> bool:
    return bool(answer.headers.get("Content-Encoding", "identity") == "identity")


def _plain(answer: Answer) -> Read:
    return lambda space: space[: answer.response.readinto(space)]


def _unzipped(answer: Answer) -> Read:
    """Some proxies compress although they were asked not to."""
    response = answer.response
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def read(space: memoryview) -> memoryview:
        while not unzip.eof:
            raw = unzip.unconsumed_tail or response.read(MIN_BLOCK)
            data = unzip.decompress(raw, len(space))
            if data or not raw:
                return memoryview(data)
        return memoryview(b"")

    return read


def _ended_early(part: Partial, answer: Answer) -> None:
    """The body is over before the file is: a lost connection, or a complete answer that is too short."""
    if answer.response.length or (answer.response.length is None and not answer.response.chunked):
        raise Interruption(f"connection lost at byte {part.offset} from {redact(answer.url)}")
    found = part.offset
    part.restart()
    raise WrongSize(_wrong_size(part, answer, found))


def is_timeout(exc: BaseException) -> bool:
    return isinstance(exc, TimeoutError) or "timed out" in str(exc)


def is_gone(exc: BaseException) -> bool:
    """No connection could be made, or nothing came over it."""
    unreachable = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN)
    refused = isinstance(exc, (ConnectionRefusedError, socket.gaierror))
    return refused or is_timeout(exc) or getattr(exc, "errno", None) in unreachable


def words(exc: BaseException) -> str:
    """What a network exception says, which for some is only their name."""
    if is_timeout(exc):
        return "no byte in time"
    return redact(getattr(exc, "strerror", None) or str(exc) or type(exc).__name__)


def _wrong_size(part: Partial, answer: Answer, size: int) -> str:
    file = part.job.file
    page = answer.headers.get_content_type() == "text/html" and not file.path.endswith((".html", ".htm"))
    hint = " It sent an HTML page: a login page of a proxy or portal, most likely." if page else ""
    return (
        f"expected {file.size} bytes as listed by the Hub, found {size} bytes at {redact(answer.url)}.{hint} "
        "The copy there is truncated or damaged; nothing of it was put into the snapshot."
    )


class Refusal(t.NamedTuple):
    """Why the Hub refuses a file, by its own error code or else by the status, and what to do."""

    code: str
    status: int
    text: str


REFUSALS = (
    Refusal("GatedRepo", 401, "the repository is gated: accept its licence on its page, and set token of that account"),
    Refusal("GatedRepo", 403, "the token's account is not on the repository's access list: accept its licence there"),
    Refusal("RepoNotFound", 0, "the repository does not exist, or the token may not see it"),
    Refusal("RevisionNotFound", 0, "the commit does not exist there any more"),
    Refusal("EntryNotFound", 0, "the commit does not have the file any more"),
    Refusal("", 401, "the token is missing, wrong or expired"),
    Refusal("", 403, "the token may not read it"),
    Refusal("", 404, "it is not there"),
)


def refusal(answer: Answer) -> str:
    """Explain a final refusal."""
    code = answer.headers.get("X-Error-Code", "")
    why = next(
        (row.text for row in REFUSALS if row.code in ("", code) and row.status in (0, answer.status)),
        answer.headers.get("X-Error-Message") or "no reason given",
    )
    return f"{redact(answer.url)} refused with status {answer.status}: {why}."


__all__ = ("PROGRESS_HEADER", "PeerSupplier", "WebSupplier", "is_timeout", "refusal", "words")
