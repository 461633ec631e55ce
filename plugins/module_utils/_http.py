# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""HTTP as the downloads need it: streaming, kept-alive connections, and a secret that never leaves its origin.

The standard library alone, so that it behaves the same beside every release of huggingface_hub (requests, httpx and
httpx2 by turns) and costs a third of their processor time.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import http.client
import re
import socket
import ssl
import time
import typing as t
import urllib.parse
import urllib.request

REDIRECTS = (301, 302, 303, 307, 308)
MAX_REDIRECTS = 5
_SECRETS_IN_URLS = (
    # the query of a signed URL is as good as a token
    (re.compile(r"(\w+://[^\s?#'\"<>]*)[?#][^\s'\"<>]*?(?=[.,;:)\]]*(?:[\s'\"<>]|$))"), r"\1"),
    (re.compile(r"(\w+://)[^\s/@'\"<>]*@"), r"\1"),
)


class Origin(t.NamedTuple):
    scheme: str
    host: str
    port: int


def origin_of(url: str) -> Origin:
    """Scheme, host and port of ``url``; ValueError when it is no http(s) URL."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{redact(url)} is not an http or https URL")
    return Origin(parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))


def redact(text: str, secret: str = "") -> str:
    """``text`` fit to be shown: URLs without query and credentials, and without ``secret``."""
    if secret:
        text = text.replace(secret, "********")
    for pattern, replacement in _SECRETS_IN_URLS:
        text = pattern.sub(replacement, text)
    return text


class Headers(t.Protocol):
    """Header fields, whatever class the HTTP library has for them."""

    def get(self, name: str, default: str, /) -> str:
        """Value of a field, whatever its case."""


def retry_after(headers: Headers, now: float | None = None) -> float | None:
    """Seconds a server asks to be left alone (``Retry-After``, or ``t=`` of ``RateLimit``); None when it does not."""
    value = headers.get("Retry-After", "").strip()
    if value.isdigit():
        return float(value)
    if value:
        when = email.utils.parsedate_tz(value)
        if when is not None:
            return max(0.0, email.utils.mktime_tz(when) - (time.time() if now is None else now))
    limited = re.search(r";\s*r=0\b.*?;\s*t=(\d+)", headers.get("RateLimit", ""))
    return float(limited.group(1)) if limited else None


class Answer(t.NamedTuple):
    """The head of a response; the body is still to be read from ``response``."""

    status: int
    headers: http.client.HTTPMessage
    response: http.client.HTTPResponse
    #: where the body comes from, after redirects
    url: str
    #: redirected away from the origin that was asked
    elsewhere: bool

    def size(self) -> int | None:
        """Size of the whole file as this answer has it; None when it does not say."""
        total = re.fullmatch(r"bytes \d+-\d+/(\d+)", self.headers.get("Content-Range", ""))
        if total:
            return int(total.group(1))
        return self.response.length if self.status == 200 else None


class Http:
    """Connections of one worker, one an origin. Not to be shared between threads."""

    def __init__(
        self,
        timeout: float,
        headers: t.Mapping[str, str],
        authorization: str = "",
        home: Origin | None = None,
        connect_timeout: float = 10.0,
        proxies: t.Mapping[str, str] | None = None,
    ) -> None:
        self._timeout = timeout
        self._connect_timeout = min(connect_timeout, timeout)
        self._headers = {"Accept-Encoding": "identity", **headers}
        self._authorization = authorization
        #: the only origin that may see the authorization
        self._home = home
        self._connections: dict[Origin, http.client.HTTPConnection] = {}
        #: the connections' own; http.client forgets a socket that the server will close
        self._sockets: dict[Origin, socket.socket] = {}
        #: those of the environment unless given
        self._proxies = urllib.request.getproxies() if proxies is None else proxies
        self._tls: ssl.SSLContext | None = None

    def get(self, url: str, headers: t.Mapping[str, str]) -> Answer:
        """GET ``url``, following redirects. Raises OSError, http.client.HTTPException or ValueError."""
        asked = origin_of(url)
        for _hop in range(MAX_REDIRECTS):
            origin = origin_of(url)
            response = self._request(origin, url, headers)
            location = response.headers.get("Location")
            if response.status not in REDIRECTS or not location:
                return Answer(response.status, response.headers, response, url, origin != asked)
            self.finish(response, origin)
            url = urllib.parse.urljoin(url, location)
        raise http.client.HTTPException(f"more than {MAX_REDIRECTS} redirects, the last to {redact(url)}")

    def head(self, url: str) -> Answer:
        """HEAD ``url``, without following redirects: whether the origin would hand it out."""
        origin = origin_of(url)
        response = self._request(origin, url, {}, "HEAD")
        return Answer(response.status, response.headers, response, url, False)

    def finish(self, response: http.client.HTTPResponse, origin: Origin) -> None:
        """Take a short rest of a body off the connection, so that it can be used again; drop it after a long one."""
        if response.length is None or response.length > 65536:
            self.drop(origin)
        else:
            response.read()

    def drop(self, origin: Origin) -> None:
        self._sockets.pop(origin, None)
        connection = self._connections.pop(origin, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        for origin in list(self._connections):
            self.drop(origin)

    def abort(self) -> None:
        """Make the thread that waits for these connections fail, or read an end; called from another thread."""
        for sock in list(self._sockets.values()):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    # -- one request --------------------------------------------------------------------

    def _request(
        self, origin: Origin, url: str, extra: t.Mapping[str, str], method: str = "GET"
    ) -> http.client.HTTPResponse:
        headers = {**self._headers, **extra}
        if self._authorization and origin == self._home:
            headers["Authorization"] = self._authorization
        reused = origin in self._connections
        try:
            return self._send(method, origin, url, headers)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, http.client.CannotSendRequest):
            self.drop(origin)
            if not reused:
                raise
            # the server closed an idle connection: that is no failure of the request
            return self._send(method, origin, url, headers)
        except (OSError, http.client.HTTPException):
            self.drop(origin)
            raise

    def _send(self, method: str, origin: Origin, url: str, headers: t.Mapping[str, str]) -> http.client.HTTPResponse:
        connection = self._connections.get(origin)
        if connection is None:
            connection = self._connect(origin)
            connection.connect()
            connection.sock.settimeout(self._timeout)
            self._connections[origin], self._sockets[origin] = connection, connection.sock
        parts = urllib.parse.urlsplit(url)
        target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        proxy = self._proxy(origin) if origin.scheme == "http" else None
        if proxy is not None:
            target = urllib.parse.urlunsplit((*parts[:4], ""))
            headers = {**headers, **_proxy_authorization(proxy)}
        connection.request(method, target, headers=dict(headers))
        return connection.getresponse()

    def _connect(self, origin: Origin) -> http.client.HTTPConnection:
        proxy = self._proxy(origin)
        host, port = (proxy.hostname or "", proxy.port or 80) if proxy else (origin.host, origin.port)
        if origin.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self._connect_timeout)
        if self._tls is None:
            self._tls = ssl.create_default_context()
        secure = http.client.HTTPSConnection(host, port, timeout=self._connect_timeout, context=self._tls)
        if proxy:
            secure.set_tunnel(origin.host, origin.port, headers=_proxy_authorization(proxy))
        return secure

    def _proxy(self, origin: Origin) -> urllib.parse.SplitResult | None:
        url = self._proxies.get(origin.scheme)
        if not url or urllib.request.proxy_bypass(origin.host):
            return None
        return urllib.parse.urlsplit(url if "://" in url else f"http://{url}")


def _proxy_authorization(proxy: urllib.parse.SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    pair = f"{urllib.parse.unquote(proxy.username)}:{urllib.parse.unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


__all__ = ("Answer", "Http", "Origin", "origin_of", "redact", "retry_after")
