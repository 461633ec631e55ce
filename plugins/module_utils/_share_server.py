# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The share: a read-only HTTP server for the verified files of the snapshots under one root.

Runs in a unit of its own, from an archive of this and the modules it imports (``_share_io``), with the standard library
alone. File content goes from page cache to socket by ``sendfile``, so that one process fills a fast link.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.server
import json
import os
import signal
import socket
import socketserver
import stat
import struct
import sys
import threading
import time
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    OWN_DIR,
    Manifest,
    RemoteFile,
    from_json,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._names import snapshot_path
from ansible_collections.modelfleet.serving.plugins.module_utils._share_rules import (
    LARGE,
    PROGRESS_HEADER,
    RETRY_SECONDS,
    Presence,
    Sending,
    Target,
    Turns,
    Unsatisfiable,
    authorised,
    parse_range,
    parse_target,
)

#: seconds for a request to arrive, and without a byte taken by the receiver
REQUEST_TIMEOUT = 20.0
SEND_TIMEOUT = 60.0
#: bytes in one go; a share that sends does not count as idle, and this is how often it notices
PIECE = 16 << 20
#: seconds that an authorised connection may wait for its next request
KEEP_ALIVE = 120.0


class Config(t.NamedTuple):
    """What a share is told; the file it stands in is removed once it runs."""

    root: str
    #: the only repository that is served; empty for all under the root
    repo_id: str
    address: str
    port: int
    token_sha256: str
    #: this host's place in the order of the hosts; None outside a fleet
    place: int | None
    max_connections: int
    idle_timeout: int
    #: shown in the unit's status, where the module finds it again
    fingerprint: str


class Shelf(t.NamedTuple):
    """The manifest of a snapshot as it was when last looked at."""

    stamp: tuple[int, int, int]
    raw: bytes
    manifest: Manifest
    files: t.Mapping[str, RemoteFile]


class Opened(t.NamedTuple):
    """A file to be sent; the receiver of ``handle`` closes it."""

    handle: t.BinaryIO
    size: int
    digest: str


def open_beneath(folder: int, parts: t.Sequence[str], flags: int = 0) -> int:
    """Open a path below an open folder. No part of it may be a link, whatever was put there since."""
    held = os.dup(folder)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=held)
            os.close(held)
            held = below
        # O_NONBLOCK: a pipe by that name must not stop the thread
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | flags, dir_fd=held)
    finally:
        os.close(held)


class Store:
    """The snapshots under the root, as far as they may be shown."""

    def __init__(self, root: str) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._shelves: dict[tuple[str, str], Shelf] = {}

    def shelf(self, target: Target) -> Shelf | None:
        """The manifest that holds now. Records are added to it while a download runs, so it is looked at each time."""
        try:
            fd = self._open(target, [OWN_DIR, "manifest.json"])
        except OSError:
            return None
        key = (target.repo_id, target.commit)
        with os.fdopen(fd, "rb") as handle:
            seen = os.fstat(handle.fileno())
            stamp = (seen.st_ino, seen.st_mtime_ns, seen.st_size)
            known = self._shelves.get(key)
            if known is not None and known.stamp == stamp:
                return known
            raw = handle.read()
        manifest = from_json(raw.decode("utf-8", "replace"))
        if manifest is None or (manifest.repo_id, manifest.listing.commit) != key:
            return None
        shelf = Shelf(stamp, raw, manifest, {file.path: file for file in manifest.listing.files})
        self._shelves[key] = shelf
        return shelf

    def file(self, target: Target) -> Opened | None:
        """The file, if it is the one that was verified; None otherwise."""
        shelf = self.shelf(target)
        record = shelf.manifest.records.get(target.path) if shelf else None
        if shelf is None or record is None:
            return None
        try:
            fd = self._open(target, target.path.split("/"))
        except OSError:
            return None
        seen = os.fstat(fd)
        file = shelf.files[target.path]
        marks = (seen.st_mtime_ns, seen.st_ino, seen.st_size)
        if not stat.S_ISREG(seen.st_mode) or marks != (record.mtime_ns, record.inode, file.size):
            os.close(fd)
            return None
        return Opened(os.fdopen(fd, "rb", buffering=0), file.size, file.digest)

    def progress(self, target: Target) -> str:
        """Changes while a run of hf_snapshot gets on: it sets the time of its lock then."""
        try:
            fd = self._open(target, [OWN_DIR, "lock"])
        except OSError:
            return ""
        with contextlib.closing(os.fdopen(fd)):
            return f"{os.fstat(fd).st_mtime_ns:x}"

    def at_work(self, target: Target) -> bool:
        """Whether a run of hf_snapshot holds the lock of the snapshot. Only asks: takes no lock itself."""
        try:
            fd = self._open(target, [OWN_DIR, "lock"])
        except OSError:
            return False
        try:
            # struct flock of Linux: type, whence, start, length, process
            answer = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except OSError:
            return False
        finally:
            os.close(fd)
        return bool(struct.unpack("hhqqi", answer)[0] != fcntl.F_UNLCK)

    def _open(self, target: Target, parts: t.Sequence[str]) -> int:
        folder = snapshot_path("", target.repo_id, target.commit).strip("/").split("/")
        return open_beneath(self._root, [*folder, *parts])


class Share(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """The server: a thread a connection, and no more connections than allowed."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, config: Config, log: t.Callable[[str], None]) -> None:
        self.address_family = socket.AF_INET6 if ":" in config.address else socket.AF_INET
        self.config = config
        self.store = Store(config.root)
        self.log = log
        self.turns = Turns(time.monotonic)
        self.presence = Presence(time.monotonic)
        self.lock = threading.Lock()
        self.bytes_sent = 0
        self.last_used = time.monotonic()
        self._slots = threading.Semaphore(config.max_connections)
        self._open = 0
        super().__init__((config.address, config.port), Handler)

    def process_request(self, request: t.Any, client_address: t.Any) -> None:
        if self._slots.acquire(blocking=False):
            with self.lock:
                self._open += 1
            super().process_request(request, client_address)
            return
        with contextlib.suppress(OSError):
            request.settimeout(1.0)
            request.sendall(
                b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            # a request that was not read would turn the end into a reset, and the answer would be lost
            request.shutdown(socket.SHUT_WR)
            request.settimeout(0.2)
            request.recv(1 << 16)
        self.shutdown_request(request)

    def process_request_thread(self, request: t.Any, client_address: t.Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self.lock:
                self._open -= 1
            self._slots.release()

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        kind, error = sys.exc_info()[:2]
        if not isinstance(error, OSError):
            self.log(f"{client_address[0]}: {getattr(kind, '__name__', kind)}: {error}")

    def used(self) -> None:
        self.last_used = time.monotonic()

    def idle_seconds(self) -> float:
        return time.monotonic() - self.last_used


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    server: Share
    protocol_version = "HTTP/1.1"
    server_version = "modelfleet-share"
    sys_version = ""
    timeout = REQUEST_TIMEOUT
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002 - the name is the base class's
        """Nothing: requests carry the token, and there are thousands of them."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        # the base class answers requests that it can't read with a page that repeats them
        self.close_connection = True
        self._refuse(code)

    def _answer(self, body: bool) -> None:
        # before anything else of the request is looked at
        if not authorised(self.headers.get("Authorization", ""), self.server.config.token_sha256):
            self.close_connection = True
            self._refuse(401, ("WWW-Authenticate", "Bearer"))
            return
        self.server.used()
        self.connection.settimeout(KEEP_ALIVE)
        target = parse_target(self.path)
        if target is None or self.server.config.repo_id not in ("", target.repo_id):
            self._refuse(404)
        elif target.path:
            self._file(target, body)
        else:
            self._manifest(target, body)

    def _manifest(self, target: Target, body: bool) -> None:
        shelf = self.server.store.shelf(target)
        if shelf is None:
            self._not_here(target)
            return
        self._head(200, ("Content-Type", "application/json"), ("Content-Length", str(len(shelf.raw))))
        if body:
            self.wfile.write(shelf.raw)

    def _file(self, target: Target, body: bool) -> None:
        opened = self.server.store.file(target)
        if opened is None:
            self._not_here(target)
            return
        with opened.handle:
            try:
                span = parse_range(self.headers.get("Range", ""), opened.size)
            except Unsatisfiable:
                self._refuse(416, ("Content-Range", f"bytes */{opened.size}"))
                return
            start, end = span or (0, opened.size)
            if not body:
                self._file_head(opened, start, end, partial=span is not None)
            elif opened.size < LARGE or target.place is None:
                self._send(target, opened, start, end, span is not None, None)
            else:
                self._in_turn(target, opened, start, end, span is not None)

    def _in_turn(self, target: Target, opened: Opened, start: int, end: int, partial: bool) -> None:
        """Send a large file to one of those who want it."""
        turns = self.server.turns
        sending = self._locked(turns.admit, target._replace(place=None), target.place)
        if sending is None:
            # what was sent to others is what the asker waits for
            self._not_yet(f"{self.server.bytes_sent:x}", turns.retry_seconds())
            return
        whole = False
        try:
            self._send(target, opened, start, end, partial, sending)
            whole = end == opened.size
        finally:
            self._locked(turns.done, sending, whole)

    def _locked(self, function: t.Callable[..., t.Any], *args: t.Any) -> t.Any:
        with self.server.lock:
            return function(*args)

    def _file_head(self, opened: Opened, start: int, end: int, partial: bool) -> None:
        fields = [
            ("Content-Type", "application/octet-stream"),
            ("Content-Length", str(end - start)),
            ("Accept-Ranges", "bytes"),
            ("ETag", f'"{opened.digest}"'),
        ]
        if partial:
            fields.append(("Content-Range", f"bytes {start}-{end - 1}/{opened.size}"))
        self._head(206 if partial else 200, *fields)

    def _send(
        self, target: Target, opened: Opened, start: int, end: int, partial: bool, sending: Sending | None
    ) -> None:
        self._file_head(opened, start, end, partial)
        self.connection.settimeout(SEND_TIMEOUT)
        began = time.monotonic()
        at = start
        while at < end:
            moved = self.connection.sendfile(opened.handle, at, min(end - at, PIECE))
            if not moved:
                # the file was cut off behind our back: the length that was announced can't be kept
                self.close_connection = True
                raise ConnectionAbortedError(f"{target.path} ended at byte {at}")
            at += moved
            if sending is not None:
                sending.moved += moved
            self.server.used()
            with self.server.lock:
                self.server.bytes_sent += moved
        self.connection.settimeout(KEEP_ALIVE)
        if end - start >= LARGE:
            self.server.log(
                f"{self.client_address[0]}: {target.path} bytes {start}-{end - 1} in {time.monotonic() - began:.1f} s"
            )

    def _not_here(self, target: Target) -> None:
        """Nothing to send. Only those behind a host in the order wait for it, so that nobody waits in a circle."""
        place = self.server.config.place
        if place is not None and target.place is not None and place < target.place:
            at_work = self.server.store.at_work(target)
            if self._locked(self.server.presence.expected, (target.repo_id, target.commit), at_work):
                self._not_yet(self.server.store.progress(target))
                return
        self._refuse(404)

    def _not_yet(self, progress: str, wait: int = RETRY_SECONDS) -> None:
        self._refuse(503, ("Retry-After", str(wait)), (PROGRESS_HEADER, progress))

    def _refuse(self, status: int, *fields: tuple[str, str]) -> None:
        self._head(status, ("Content-Length", "0"), *fields)

    def _head(self, status: int, *fields: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()


def notify(state: str) -> None:
    """Tell systemd, if it asked to be told."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        channel.connect("\0" + address[1:] if address.startswith("@") else address)
        channel.sendall(state.encode())


def status_text(host: str, port: int, fingerprint: str) -> str:
    """The unit's status line; ``_share`` reads it again."""
    return f"listening on {f'[{host}]' if ':' in host else host}:{port}, settings {fingerprint}"


def serve(config: Config, log: t.Callable[[str], None], stop: threading.Event) -> None:
    """Serve until told to stop, or not asked for anything for long enough."""
    with Share(config, log) as share:
        host, port = t.cast("tuple[str, int]", share.server_address[:2])
        # everything was read by now, so what started this may clear up
        worker = threading.Thread(target=share.serve_forever, kwargs={"poll_interval": 0.5}, daemon=True)
        worker.start()
        notify(f"READY=1\nSTATUS={status_text(host, port, config.fingerprint)}")
        log(f"serving {config.repo_id or 'all snapshots'} of {config.root} on {host} port {port}")
        why = "stopped"
        while not stop.wait(1.0):
            if share.idle_seconds() > config.idle_timeout:
                why = f"nothing was asked for {config.idle_timeout} s"
                break
        notify("STOPPING=1")
        share.shutdown()
        log(f"end: {why}; {share.bytes_sent} bytes sent")


def main(arguments: t.Sequence[str]) -> int:
    """``arguments``: the path of a JSON file with the fields of :class:`Config`. Exit status of the process."""

    def log(line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    try:
        with open(arguments[0], encoding="utf-8") as handle:
            config = Config(**json.load(handle))
        serve(config, log, stop)
    except OSError as exc:
        log(f"cannot serve: {exc.strerror or exc}")
        return 1
    return 0


__all__ = ("Config", "Handler", "Share", "Store", "main", "notify", "open_beneath", "serve", "status_text")
