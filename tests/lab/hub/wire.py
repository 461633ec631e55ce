# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HTTP on a socket: reads a request, lets a fault have its way, sends the answer."""

from __future__ import annotations

import dataclasses
import http.server
import os
import socket
import socketserver
import ssl
import struct
import sys
import threading
import time
import typing as t
import urllib.parse

from hub.content import File, Source, StaleSource
from hub.dialect import Answer, Refusal, Request
from hub.faults import Fault
from hub.lab_api import PREFIX, decode_files
from hub.requestlog import Entry

if t.TYPE_CHECKING:
    from hub.origins import CdnOrigin, HubOrigin
    from hub.server import Hub

LOGIN_PAGE = b"<!doctype html><html><head><title>Sign in</title></head><body>Please sign in.</body></html>\n"
#: a rate is kept by so many small writes a second
STEPS_PER_SECOND = 20
CUTS = ("drop", "reset", "stall")


@dataclasses.dataclass(frozen=True)
class Flipped:
    """A source with the lowest bit of one byte inverted."""

    source: Source
    at: int

    @property
    def size(self) -> int:
        return self.source.size

    def chunks(self, start: int, end: int) -> t.Iterator[bytes]:
        for chunk in self.source.chunks(start, end):
            if start <= self.at < start + len(chunk):
                damaged = bytearray(chunk)
                damaged[self.at - start] ^= 1
                yield bytes(damaged)
            else:
                yield chunk
            start += len(chunk)


def apply_fault(answer: Answer, fault: Fault) -> Answer:
    """The answer as the fault wants it, as far as head and bytes go. (Timing and cuts happen while sending.)"""
    if fault.action == "status":
        message = fault.message or f"Injected by the lab: {fault.status}"
        extra = {"X-Error-Message": message, **({"X-Error-Code": fault.error_code} if fault.error_code else {})}
        answer = Answer.json({"error": message}, fault.status, extra)
    elif fault.action == "html":
        answer = Answer.of(200, LOGIN_PAGE, {"Content-Type": "text/html; charset=utf-8"})
    elif fault.action == "flip":
        answer.source = Flipped(answer.source, fault.at or 0)
    elif fault.action == "truncate":
        _shorten(answer, fault.at or 0)
    for name, value in fault.headers.items():
        answer.headers.pop(name, None)
        if value is not None:
            answer.headers[name] = str(value)
    return answer


def _shorten(answer: Answer, size: int) -> None:
    """A well-formed answer, as if the file ended there."""
    answer.end = min(answer.end, size)
    answer.start = min(answer.start, answer.end)
    answer.headers["Content-Length"] = str(answer.end - answer.start)
    if "Content-Range" in answer.headers:
        answer.headers["Content-Range"] = f"bytes {answer.start}-{max(answer.end - 1, answer.start)}/{size}"


class Server(http.server.ThreadingHTTPServer):
    """Listens on one address for one origin. Stopping it also ends the connections that are open."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        hub: Hub,
        origin: t.Union[HubOrigin, CdnOrigin],
        tls: t.Optional[ssl.SSLContext] = None,
    ) -> None:
        self.hub, self.origin, self._tls = hub, origin, tls
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(address, Handler)

    def server_bind(self) -> None:
        # The inherited one asks DNS for the name of the address, which can take seconds where there is none.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def get_request(self) -> tuple[socket.socket, t.Any]:
        connection, address = super().get_request()
        if self._tls is not None:
            # the handshake is made by the connection's own thread, with its first read
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        with self._lock:
            for connection in self._open:
                _shut(connection)

    def process_request(self, request: t.Any, client_address: t.Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: t.Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # clients that hang up are what this server is for
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "modelfleet-lab-hub"
    sys_version = ""
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, *args: t.Any) -> None:
        """The request log is kept elsewhere."""

    def _handle(self) -> None:
        request = self._read_request()
        if request.path.startswith(PREFIX) and self.server.hub.is_hub(self.server):
            self._entry = Entry("lab", request.method, request.path, None, False, "")
            self._send(self._answer(lambda: self.server.hub.lab_api.answer(request)), None)
            return
        fault = self._begin(request)
        if fault is not None and fault.delay:
            self.server.hub.stopping.wait(fault.delay)
        if fault is not None and fault.action == "move":
            self._move(fault)
        if fault is not None and fault.action in CUTS and fault.at is None:
            self._cut(fault)
            return
        headers = dict(self.headers.items())
        if fault is not None and fault.action == "ignore_range":
            headers.pop("Range", None)
        answer = self._answer(lambda: self.server.origin.answer(request, headers))
        self._send(answer if fault is None else apply_fault(answer, fault), fault)

    do_GET = do_HEAD = do_POST = do_DELETE = _handle

    def _read_request(self) -> Request:
        url = urllib.parse.urlsplit(self.path)
        authorization = self.headers.get("Authorization", "")
        token = authorization[7:] if authorization.lower().startswith("bearer ") else None
        return Request(
            method=self.command,
            path=url.path,
            query=dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True)),
            token=token,
            origin=f"http://{self.headers.get('Host', '')}",
            body=self.rfile.read(int(self.headers.get("Content-Length") or 0)),
        )

    def _begin(self, request: Request) -> t.Optional[Fault]:
        hub, target = self.server.hub, self.server.origin.target(request)
        self._entry = hub.log.add(
            Entry(
                on=target.kind,
                method=self.command,
                subject=target.subject,
                range=self.headers.get("Range"),
                authorization="Authorization" in self.headers,
                agent=self.headers.get("User-Agent", ""),
            )
        )
        fault = hub.faults.pick(target.kind, self.command, target.subject)
        self._entry.fault = fault.id if fault else None
        return fault

    def _move(self, fault: Fault) -> None:
        files = {"moved.txt": f"{fault.fired}\n"} if fault.files is None else fault.files
        self.server.hub.repo(fault.repo).commit(decode_files(files), fault.branch)

    def _answer(self, make: t.Callable[[], Answer]) -> Answer:
        try:
            return make()
        except Refusal as refusal:
            return refusal.answer

    # -- sending ---------------------------------------------------------------------------------------------------

    def _send(self, answer: Answer, fault: t.Optional[Fault]) -> None:
        cut = fault if fault is not None and fault.action in CUTS else None
        rate = fault.rate if fault is not None and fault.action == "trickle" else self.server.hub.rate
        stop = answer.end if cut is None else min(answer.end, max(answer.start, cut.at or 0))
        try:
            self._send_head(answer)
            if self.command != "HEAD":
                self._send_body(answer.source, answer.start, stop, rate)
        except StaleSource as exc:
            self.log_error("%s", exc)
            self.close_connection = True  # the head has promised more than can be sent
        except OSError:
            self.close_connection = True  # the client went away
        if cut is not None:
            self._cut(cut)

    def _send_head(self, answer: Answer) -> None:
        self._entry.status = answer.status
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_body(self, source: Source, start: int, end: int, rate: t.Optional[float]) -> None:
        if isinstance(source, File) and not rate and not isinstance(self.connection, ssl.SSLSocket):
            self._send_file(source, start, end)
            return
        clock = time.monotonic()
        step = max(1, int(rate / STEPS_PER_SECOND)) if rate else end
        sent = 0
        for chunk in source.chunks(start, end):
            for at in range(0, len(chunk), step):
                piece = chunk[at : at + step]
                self.wfile.write(piece)
                sent += len(piece)
                self._entry.sent += len(piece)
                if rate and self.server.hub.stopping.wait(max(0, sent / rate - (time.monotonic() - clock))):
                    return

    def _send_file(self, source: File, start: int, end: int) -> None:
        with source.open() as stream:
            while start < end:
                sent = os.sendfile(self.connection.fileno(), stream.fileno(), start, min(end - start, 1 << 24))
                if sent == 0:
                    raise StaleSource(f"{source.path} became shorter while it was sent")
                start += sent
                self._entry.sent += sent

    def _cut(self, fault: Fault) -> None:
        """End the connection in the way the fault says."""
        self.close_connection = True
        if fault.action == "stall":
            self.server.hub.stopping.wait(fault.seconds)
        if fault.action == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.rfile.close()  # the last reference: only now the kernel sends the RST
        else:
            _shut(self.connection)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was closed already
