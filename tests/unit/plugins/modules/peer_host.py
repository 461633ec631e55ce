# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that shares a snapshot, with the faults that such a host can have: the other side of the protocol."""

from __future__ import annotations

import http.server
import pathlib
import re
import threading
import time
import typing as t
import urllib.parse

TARGET = re.compile(r"/acme/tiny/(?:manifest/([0-9a-f]{40})|resolve/([0-9a-f]{40})/(.+))")


class Peer:
    """Serves the folder of a snapshot on the loopback."""

    def __init__(self, snapshot: pathlib.Path, token: str = "") -> None:
        self.snapshot, self.token = snapshot, token
        #: paths that it does not have
        self.lacks: set[str] = set()
        #: "not yet" so many times, by path; for ever when negative
        self.not_yet: dict[str, int] = {}
        #: byte that is wrong, by path
        self.flip: dict[str, int] = {}
        #: bytes a second
        self.rate = 0.0
        #: connection cut after so many bytes of a file, by path
        self.cut: dict[str, int] = {}
        self.status = 0
        self.moves_on = False
        #: path, Range and Authorization of each request
        self.log: list[tuple[str, t.Optional[str], t.Optional[str]]] = []
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Peer:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def asked(self) -> list[str]:
        return [path for path, _range, _authorization in self.log]

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        peer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: t.Any) -> None:
                pass

            def do_GET(self) -> None:
                peer.answer(self)

        return Handler

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        match = TARGET.fullmatch(request.path)
        name = ".modelfleet/manifest.json" if match and match[1] else urllib.parse.unquote(match[3] if match else "")
        authorization = request.headers.get("Authorization")
        self.log.append((name, request.headers.get("Range"), authorization))
        if match is None or name in self.lacks:
            self._say(request, 404)
        elif self.status:
            self._say(request, self.status)
        elif authorization != (f"Bearer {self.token}" if self.token else None):
            self._say(request, 401)
        elif self.not_yet.get(name):
            self.not_yet[name] -= 1
            mark = {"X-Modelfleet-Progress": str(len(self.log))} if self.moves_on else {}
            self._say(request, 503, {"Retry-After": "0", **mark})
        else:
            self._send(request, name)

    def _say(
        self, request: http.server.BaseHTTPRequestHandler, status: int, headers: t.Optional[dict[str, str]] = None
    ) -> None:
        request.send_response(status)
        for key, value in {"Content-Length": "0", **(headers or {})}.items():
            request.send_header(key, value)
        request.end_headers()

    def _send(self, request: http.server.BaseHTTPRequestHandler, name: str) -> None:
        data = bytearray((self.snapshot / name).read_bytes())
        if name in self.flip:
            data[self.flip[name]] ^= 1
        start = int((request.headers.get("Range") or "bytes=0-")[6:-1])
        request.send_response(206 if start else 200)
        request.send_header("Content-Length", str(len(data) - start))
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        request.end_headers()
        end = max(start, self.cut.get(name, len(data)))
        step = int(self.rate / 20) if self.rate else len(data) or 1
        for at in range(start, end, step):
            request.wfile.write(data[at : min(at + step, end)])
            if self.rate:
                time.sleep(0.05)
        if end < len(data):
            request.close_connection = True
