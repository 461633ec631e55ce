# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The server's HTTP side, asked in steps: health, then the models, then tokens.

Each step is asked only when the one before it is good. Tokens are asked for in a thread: an engine that hangs never
answers, and whoever waits for it must go on seeing that its process is stopped or gone.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import typing as t
import urllib.parse

from ansible_collections.modelfleet.serving.plugins.module_utils._garbage import fingerprint
from ansible_collections.modelfleet.serving.plugins.module_utils._known_answer import (
    FIRST_TOKEN_LENGTH,
    KnownAnswer,
    Question,
    Search,
    fault,
    first_token,
    read_answer,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import Completion, HttpSample

#: seconds; a listening server answers these at once or its event loop is stuck
STATUS_TIMEOUT = 2.0
#: of a body; a list of models or a short completion is far below it
BODY_BYTES = 4 * 1024 * 1024


class Endpoint(t.NamedTuple):
    """Where a server listens."""

    scheme: str
    host: str
    port: int
    #: path in front of ``/health``, without a slash at its end
    prefix: str = ""
    #: path of a Unix socket, instead of host and port
    unix_socket: str = ""


class Reply(t.NamedTuple):
    """An HTTP answer. ``body`` is parsed JSON, or None where it is not JSON."""

    status: int
    body: t.Any
    text: str


class NoReply(Exception):
    """Nothing came back: refused, reset, timed out, not HTTP."""


class Client(t.Protocol):
    """Asks the server."""

    def ask(self, method: str, path: str, body: t.Optional[t.Mapping[str, t.Any]], timeout: float) -> Reply:
        """Raises :class:`NoReply` when there is no answer to be had."""


def parse_url(url: str) -> Endpoint:
    """``http://host:port/prefix`` or ``unix:/path/of/socket``. Raises ValueError with a sentence."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "unix":
        path = parts.path if not parts.netloc else f"/{parts.netloc}{parts.path}"
        if not path.strip("/"):
            raise ValueError(f"The URL {url!r} names no socket; it must read unix:/path/of/socket.")
        return Endpoint("http", "localhost", 80, unix_socket=path)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"The URL {url!r} must begin with http:// or https:// and name a host, or read unix:/path.")
    if parts.username or parts.password:
        raise ValueError("The URL must not contain a user name or password; vLLM knows API keys only.")
    try:
        port = parts.port
    except ValueError as exc:
        raise ValueError(f"The URL {url!r} has no valid port: {exc}.") from exc
    path = parts.path.rstrip("/")
    return Endpoint(parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), path)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class HttpClient:
    """The real client.

    ``http.client`` and not ``open_url``: a probe of this host's own server must never go through a proxy that the
    environment names nor follow a redirect with the key, and it runs in two threads, which ``open_url``'s global opener
    does not allow.
    """

    def __init__(
        self, endpoint: Endpoint, api_key: t.Optional[str] = None, tls: t.Optional[ssl.SSLContext] = None
    ) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._headers = {"Content-Type": "application/json", "Connection": "close"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"

    def ask(self, method: str, path: str, body: t.Optional[t.Mapping[str, t.Any]], timeout: float) -> Reply:
        connection = self._connect(timeout)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, self._endpoint.prefix + path, payload, self._headers)
            answer = connection.getresponse()
            data = answer.read(BODY_BYTES)
        except (OSError, http.client.HTTPException) as exc:
            raise NoReply(_words(exc, timeout)) from exc
        finally:
            connection.close()
        text = data.decode("utf-8", "replace")
        parsed = None
        with contextlib.suppress(ValueError):
            parsed = json.loads(text)
        return Reply(answer.status, parsed, text)

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        there = self._endpoint
        if there.unix_socket:
            return _UnixConnection(there.unix_socket, timeout)
        if there.scheme == "https":
            return http.client.HTTPSConnection(there.host, there.port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(there.host, there.port, timeout=timeout)


def tls_context(validate: bool, ca_path: t.Optional[str]) -> ssl.SSLContext:
    """Raises OSError when ``ca_path`` cannot be read, ssl.SSLError (an OSError) when it holds no certificate."""
    context = ssl.create_default_context(cafile=ca_path)
    if not validate:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class Plan(t.NamedTuple):
    """What is to be asked of a server."""

    #: the name that must be listed and that tokens are asked of; None for the first one listed
    model: t.Optional[str] = None
    completion: bool = True
    #: makes the question once the model's name is known
    known: t.Optional[t.Callable[[str], KnownAnswer]] = None
    search: t.Optional[Search] = None
    #: seconds for one request for tokens
    timeout: float = 120.0


class TokenJob:
    """Asks for a token, then for the known answer, in a thread of its own."""

    def __init__(self, client: Client, plan: Plan, model: str, done: threading.Event) -> None:
        self._client = client
        self._plan = plan
        self._model = model
        self._done = done
        self.began = time.monotonic()
        self.result: t.Optional[Completion] = None
        # a daemon: the module must be able to end while a hung server still owes the answer
        self.thread = threading.Thread(target=self._work, name="first-token", daemon=True)

    def _work(self) -> None:
        try:
            self.result = self._sequence()
        finally:
            self._done.set()

    def _sequence(self) -> Completion:
        plan = self._plan
        # one token when a known answer follows: it also keeps the first request's warm-up out of the measured rate
        first = self._ask(first_token(self._model, 1 if plan.known else FIRST_TOKEN_LENGTH), None)
        if plan.known is None or first.error:
            return first
        known = plan.known(self._model)
        answer = first
        for _attempt in range(max(1, known.attempts)):
            answer = self._ask(known.question, known)
            if answer.answer_ok:
                break
        return answer

    def _ask(self, question: Question, known: t.Optional[KnownAnswer]) -> Completion:
        began = time.monotonic()
        try:
            reply = self._client.ask("POST", question.path, question.body, self._plan.timeout)
        except NoReply as exc:
            return Completion(None, seconds=time.monotonic() - began, error=f"POST {question.path}: {exc}")
        seconds = time.monotonic() - began
        if reply.status != 200:
            return Completion(
                reply.status, seconds=seconds, error=f"POST {question.path}: {reply.status} {reply.text[:300].strip()}"
            )
        try:
            answer = read_answer(reply.body)
        except ValueError as exc:
            return Completion(reply.status, seconds=seconds, error=f"POST {question.path}: {exc}")
        if known is None:
            error = "" if answer.completion_tokens or answer.text else "the server answered without a token"
            return Completion(200, answer.text, answer.completion_tokens, seconds, error)
        wrong = fault(answer, reply.body, known, self._plan.search)
        return Completion(
            200, answer.text, answer.completion_tokens, seconds, wrong, not wrong, fingerprint(answer.tokens)
        )


class HttpSource:
    """One :class:`HttpSample` a look; remembers the answer once there is one."""

    def __init__(self, client: Client, plan: Plan, done: t.Optional[threading.Event] = None) -> None:
        self._client = client
        self._plan = plan
        #: set whenever a request for tokens has ended, to cut a pause short
        self.done = done or threading.Event()
        self._job: t.Optional[TokenJob] = None
        self._last: t.Optional[Completion] = None

    @property
    def busy(self) -> bool:
        return self._job is not None and self._job.result is None

    def look(self) -> HttpSample:
        try:
            health = self._client.ask("GET", "/health", None, STATUS_TIMEOUT).status
        except NoReply as exc:
            return HttpSample(health=0, error=f"GET /health: {exc}", **self._tokens(None))
        if health != 200:
            return HttpSample(health=health, **self._tokens(None))
        status, models, error = self._models()
        wanted = self._plan.model
        ask_of = wanted if wanted in (models or ()) else (models[0] if models and wanted is None else None)
        return HttpSample(health, error, models, status, **self._tokens(ask_of))

    def forget(self) -> None:
        """The server is another one now (restarted): what the last one answered says nothing."""
        self._job = None
        self._last = None

    def _models(self) -> tuple[t.Optional[int], t.Optional[tuple[str, ...]], str]:
        try:
            reply = self._client.ask("GET", "/v1/models", None, STATUS_TIMEOUT)
        except NoReply as exc:
            return None, None, f"GET /v1/models: {exc}"
        if reply.status != 200:
            return reply.status, None, f"GET /v1/models: {reply.status} {reply.text[:200].strip()}"
        try:
            return 200, tuple(str(entry["id"]) for entry in reply.body["data"]), ""
        except (KeyError, TypeError):
            return 200, None, f"GET /v1/models: not a list of models: {reply.text[:200].strip()}"

    def _tokens(self, model: t.Optional[str]) -> dict[str, t.Any]:
        """``completion`` and ``asked_s`` of the sample; starts a request when ``model`` is given and none is needed."""
        job = self._job
        if job is not None and job.result is not None:
            self._last, self._job, job = job.result, None, None
            self.done.clear()
        settled = self._last is not None and (not self._last.error or self._last.answer_ok is False)
        if job is None and model is not None and self._plan.completion and not settled:
            job = self._job = TokenJob(self._client, self._plan, model, self.done)
            job.thread.start()
        return {"completion": self._last, "asked_s": time.monotonic() - job.began if job else None}


def _words(exc: Exception, timeout: float) -> str:
    if isinstance(exc, (TimeoutError, socket.timeout)):
        return f"no answer within {timeout:g} s"
    if isinstance(exc, ConnectionRefusedError):
        return "connection refused"
    if isinstance(exc, http.client.RemoteDisconnected):
        return "the server closed the connection without an answer"
    return f"{type(exc).__name__}: {exc}" if not isinstance(exc, OSError) else exc.strerror or str(exc)


__all__ = (
    "Client",
    "Endpoint",
    "HttpClient",
    "HttpSource",
    "NoReply",
    "Plan",
    "Reply",
    "TokenJob",
    "parse_url",
    "tls_context",
)
