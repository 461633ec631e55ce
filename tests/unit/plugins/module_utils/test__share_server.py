# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import pathlib
import socket
import threading
import time
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils import _share_server
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    SHA256,
    Listing,
    Manifest,
    Record,
    RemoteFile,
    to_json,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._share_rules import PRESENCE_LIMIT, token_digest
from ansible_collections.modelfleet.serving.plugins.module_utils._share_server import Config, Share, main, serve

TOKEN = "0123456789abcdef0123456789abcdef"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPO = "acme/tiny"
#: larger than a socket takes at once, so that sending it takes several calls
BIG = os.urandom(1 << 16) * 64
FILES = {"config.json": b"{}", "sub/big file.bin": BIG, "not-yet.bin": b"still unverified", "empty": b""}


class Answer(t.NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class World:
    """A snapshot on the disk, and a share of it."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.snapshot = root / "snapshots" / "acme--tiny" / COMMIT
        self.records: dict[str, Record] = {}
        for path, content in FILES.items():
            (self.snapshot / path).parent.mkdir(parents=True, exist_ok=True)
            (self.snapshot / path).write_bytes(content)
        (self.snapshot / ".modelfleet").mkdir()
        (root / "secret").write_text("outside")
        self.share: Share
        self.log: list[str] = []

    def record(self, *paths: str) -> None:
        for path in paths:
            seen = (self.snapshot / path).stat()
            self.records[path] = Record(seen.st_mtime_ns, seen.st_ino, 1)
        files = tuple(
            RemoteFile(path, len(content), SHA256, hashlib.sha256(content).hexdigest())
            for path, content in FILES.items()
        )
        text = to_json(Manifest(REPO, "https://hub", Listing(COMMIT, files), self.records))
        new = self.snapshot / ".modelfleet" / "manifest.json.new"
        new.write_text(text)
        new.rename(self.snapshot / ".modelfleet" / "manifest.json")

    @contextlib.contextmanager
    def serving(self, **settings: t.Any) -> t.Iterator[Share]:
        config = Config(**{**defaults(self.root), **settings})
        with Share(config, self.log.append) as self.share:
            thread = threading.Thread(target=self.share.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
            thread.start()
            yield self.share
            self.share.shutdown()

    def ask(self, target: str, token: str = TOKEN, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.share.server_address[1], timeout=10)
        with contextlib.closing(connection):
            connection.request(method, target, headers={"Authorization": f"Bearer {token}", **headers})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())


def defaults(root: pathlib.Path) -> dict[str, t.Any]:
    return {
        "root": str(root),
        "repo_id": "",
        "address": "127.0.0.1",
        "port": 0,
        "token_sha256": token_digest(TOKEN),
        "place": None,
        "max_connections": 16,
        "idle_timeout": 60,
        "fingerprint": "abc",
    }


def resolve(path: str, place: str = "") -> str:
    return f"{place}/{REPO}/resolve/{COMMIT}/{path}"


MANIFEST = f"/{REPO}/manifest/{COMMIT}"


@pytest.fixture
def world(tmp_path: pathlib.Path) -> World:
    world = World(tmp_path)
    world.record("config.json", "sub/big file.bin", "empty")
    return world


def test_files_and_ranges(world: World) -> None:
    digest = hashlib.sha256(BIG).hexdigest()
    with world.serving():
        whole = world.ask(resolve("sub/big%20file.bin"))
        assert (whole.status, whole.body) == (200, BIG)
        assert (whole.headers["ETag"], whole.headers["Accept-Ranges"]) == (f'"{digest}"', "bytes")
        rest = world.ask(resolve("sub/big%20file.bin"), Range="bytes=1000001-")
        assert (rest.status, rest.body) == (206, BIG[1000001:])
        assert rest.headers["Content-Range"] == f"bytes 1000001-{len(BIG) - 1}/{len(BIG)}"
        middle = world.ask(resolve("sub/big%20file.bin"), Range="bytes=5-9")
        assert (middle.status, middle.body) == (206, BIG[5:10])
        behind = world.ask(resolve("sub/big%20file.bin"), Range=f"bytes={len(BIG)}-")
        assert (behind.status, behind.headers["Content-Range"]) == (416, f"bytes */{len(BIG)}")
        head = world.ask(resolve("config.json"), method="HEAD")
        assert (head.status, head.headers["Content-Length"], head.body) == (200, "2", b"")
        assert world.ask(resolve("empty")).body == b""
        listed = world.ask(MANIFEST)
        assert (listed.status, listed.headers["Content-Type"]) == (200, "application/json")
        assert [entry["path"] for entry in json.loads(listed.body)["files"] if "mtime_ns" in entry] == [
            "config.json",
            "empty",
            "sub/big file.bin",
        ]


def test_one_connection_serves_many_requests(world: World) -> None:
    with world.serving() as share:
        connection = http.client.HTTPConnection("127.0.0.1", share.server_address[1], timeout=10)
        with contextlib.closing(connection):
            for path, status in (("config.json", 200), ("missing", 404), ("sub/big%20file.bin", 200)):
                connection.request("GET", resolve(path), headers={"Authorization": f"Bearer {TOKEN}"})
                answer = connection.getresponse()
                answer.read()
                assert (answer.status, answer.will_close) == (status, False)


@pytest.mark.parametrize("target", [resolve("config.json"), MANIFEST, "/", resolve("missing")])
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}])
def test_nothing_without_the_token(world: World, target: str, headers: dict[str, str]) -> None:
    with world.serving() as share:
        connection = http.client.HTTPConnection("127.0.0.1", share.server_address[1], timeout=10)
        with contextlib.closing(connection):
            connection.request("GET", target, headers=headers)
            answer = connection.getresponse()
            assert (answer.status, answer.headers["WWW-Authenticate"], answer.read()) == (401, "Bearer", b"")
            assert answer.will_close


@pytest.mark.parametrize(
    "target",
    [
        resolve("not-yet.bin"),
        resolve("../../../secret"),
        resolve("%2e%2e/%2e%2e/%2e%2e/secret"),
        resolve(".modelfleet/manifest.json"),
        resolve("sub"),
        resolve("sub/"),
        f"/{REPO}/resolve/{'f' * 40}/config.json",
        f"/other/tiny/resolve/{COMMIT}/config.json",
        f"/{REPO}/manifest/{'f' * 40}",
        "/",
    ],
)
def test_what_is_not_verified_is_not_there(world: World, target: str) -> None:
    with world.serving():
        answer = world.ask(target)
        assert (answer.status, answer.body) == (404, b"")


def test_only_the_repository_that_is_shared(world: World) -> None:
    with world.serving(repo_id="acme/other"):
        assert world.ask(resolve("config.json")).status == 404
        assert world.ask(MANIFEST).status == 404
    with world.serving(repo_id=REPO):
        assert world.ask(resolve("config.json")).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "X"])
def test_it_only_reads(world: World, method: str) -> None:
    with world.serving():
        answer = world.ask(resolve("config.json"), method=method)
        assert (answer.status, answer.body) == (501, b"")


def test_a_file_is_there_as_soon_as_it_is_recorded(world: World) -> None:
    with world.serving():
        assert world.ask(resolve("not-yet.bin")).status == 404
        world.record("not-yet.bin")
        assert world.ask(resolve("not-yet.bin")).body == b"still unverified"


def _replaced_by_a_link(path: pathlib.Path, outside: pathlib.Path) -> None:
    path.unlink()
    path.symlink_to(outside)


def _folder_replaced_by_a_link(path: pathlib.Path, outside: pathlib.Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.symlink_to(path.parent.with_name("moved"))


def _touched(path: pathlib.Path, outside: pathlib.Path) -> None:
    os.utime(path, ns=(1, 1))


def _copied(path: pathlib.Path, outside: pathlib.Path) -> None:
    seen = path.stat()
    content = path.read_bytes()
    path.rename(path.with_name("old"))
    path.write_bytes(content)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def _cut_off(path: pathlib.Path, outside: pathlib.Path) -> None:
    seen = path.stat()
    os.truncate(path, 5)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def _made_a_pipe(path: pathlib.Path, outside: pathlib.Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _gone(path: pathlib.Path, outside: pathlib.Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    "change",
    [_replaced_by_a_link, _folder_replaced_by_a_link, _touched, _copied, _cut_off, _made_a_pipe, _gone],
)
def test_a_file_that_is_not_as_it_was_verified(
    world: World, change: t.Callable[[pathlib.Path, pathlib.Path], None]
) -> None:
    with world.serving():
        assert world.ask(resolve("sub/big%20file.bin")).status == 200
        change(world.snapshot / "sub" / "big file.bin", world.root / "secret")
        assert world.ask(resolve("sub/big%20file.bin")).status == 404


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"schema": 99}', '{"schema": 1, "files": [{}]}'])
def test_a_damaged_manifest_is_none(world: World, text: str) -> None:
    (world.snapshot / ".modelfleet" / "manifest.json").write_text(text)
    with world.serving():
        assert world.ask(MANIFEST).status == 404
        assert world.ask(resolve("config.json")).status == 404


def test_a_manifest_of_another_commit_is_none(world: World) -> None:
    other = world.snapshot.with_name("f" * 40)
    world.snapshot.rename(other)
    with world.serving():
        assert world.ask(f"/{REPO}/manifest/{'f' * 40}").status == 404


def test_who_waits_for_whom(world: World) -> None:
    with world.serving(place=2):
        behind = world.ask(resolve("not-yet.bin", "/~3"))
        assert (behind.status, behind.headers["Retry-After"]) == (503, "1")
        assert world.ask(f"/~3/{REPO}/manifest/{'f' * 40}").status == 503
        # those ahead, the host itself and strangers must not wait: they might be waited for
        for place in ("/~1", "/~2", ""):
            assert world.ask(resolve("not-yet.bin", place)).status == 404
    with world.serving(place=None):
        assert world.ask(resolve("not-yet.bin", "/~3")).status == 404


def test_a_run_that_is_over_is_not_waited_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [time.monotonic()]
    monkeypatch.setattr(_share_server.time, "monotonic", lambda: now[0])
    lock = world.snapshot / ".modelfleet" / "lock"
    lock.write_text("")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        # a lock of this process would not be one to itself
        with lock.open("r+") as handle:
            fcntl.lockf(handle, fcntl.LOCK_EX)
            os.write(write, b"x")
            time.sleep(60)
        os._exit(0)
    os.read(read, 1)
    with world.serving(place=0):
        first = world.ask(resolve("not-yet.bin", "/~1"))
        now[0] += 10 * PRESENCE_LIMIT
        os.utime(lock, ns=(7, 7))
        second = world.ask(resolve("not-yet.bin", "/~1"))
        assert (first.status, second.status) == (503, 503)
        # by this the asker knows that the wait is worth it
        assert first.headers["X-Modelfleet-Progress"] != second.headers["X-Modelfleet-Progress"] == "7"
        os.kill(child, 9)
        os.waitpid(child, 0)
        assert world.ask(resolve("not-yet.bin", "/~1")).status == 503
        now[0] += PRESENCE_LIMIT
        assert world.ask(resolve("not-yet.bin", "/~1")).status == 404


def test_a_large_file_goes_to_one_receiver_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_share_server, "LARGE", len(BIG))
    with world.serving(place=0) as share:
        connection = http.client.HTTPConnection("127.0.0.1", share.server_address[1], timeout=10)
        with contextlib.closing(connection):
            connection.request(
                "GET", resolve("sub/big%20file.bin", "/~1"), headers={"Authorization": f"Bearer {TOKEN}"}
            )
            answer = connection.getresponse()
            answer.read(1000)
            # 1 is still at it
            assert world.ask(resolve("sub/big%20file.bin", "/~2")).status == 503
            assert world.ask(resolve("config.json", "/~2")).status == 200
            # whoever has no place in the order, asks for a moment's look, or goes on, is not kept waiting
            assert world.ask(resolve("sub/big%20file.bin")).status == 200
            assert world.ask(resolve("sub/big%20file.bin", "/~2"), method="HEAD").status == 200
            assert world.ask(resolve("sub/big%20file.bin", "/~1"), Range=f"bytes={len(BIG) - 1}-").status == 206
            answer.read()
        assert any(line.startswith("127.0.0.1: sub/big file.bin bytes 0-") for line in world.log)


def test_more_connections_than_allowed_are_turned_away(world: World) -> None:
    with world.serving(max_connections=1) as share:
        held = socket.create_connection(("127.0.0.1", share.server_address[1]))
        with held:
            assert until(503, lambda: world.ask(resolve("config.json"))).headers["Retry-After"] == "1"
        assert until(200, lambda: world.ask(resolve("config.json"))).body == b"{}"


def until(status: int, ask: t.Callable[[], Answer]) -> Answer:
    deadline = time.monotonic() + 10
    answer = ask()
    while answer.status != status and time.monotonic() < deadline:
        time.sleep(0.01)
        answer = ask()
    assert answer.status == status
    return answer


def test_the_token_is_nowhere_in_the_log(world: World) -> None:
    with world.serving():
        world.ask(resolve("config.json"))
        world.ask(resolve("config.json"), token="wrong-token")
        with socket.create_connection(("127.0.0.1", world.share.server_address[1])) as raw:
            raw.sendall(f"GET /\xff{TOKEN} SPDY/9\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            assert raw.recv(1000) == b""
    assert not any(TOKEN in line or "wrong-token" in line for line in world.log)


def test_it_ends_when_nobody_asks(world: World) -> None:
    began = time.monotonic()
    serve(Config(**{**defaults(world.root), "idle_timeout": 1}), world.log.append, threading.Event())
    assert 1 <= time.monotonic() - began < 10
    assert world.log[-1] == "end: nothing was asked for 1 s; 0 bytes sent"


def test_systemd_is_told_where_it_listens(
    world: World, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(10)
        monkeypatch.setitem(os.environ, "NOTIFY_SOCKET", str(tmp_path / "notify"))
        thread = threading.Thread(target=serve, args=(Config(**defaults(world.root)), world.log.append, stop))
        thread.start()
        ready = channel.recv(1000).decode()
        stop.set()
        thread.join()
        assert channel.recv(1000) == b"STOPPING=1"
    assert ready.startswith("READY=1\nSTATUS=listening on 127.0.0.1:") and ready.endswith(", settings abc")
    assert world.log[-1] == "end: stopped; 0 bytes sent"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"root": "/nonexistent"}, "cannot serve: No such file or directory\n"),
        ({"address": "192.0.2.1"}, "cannot serve: Cannot assign requested address\n"),
    ],
)
def test_what_keeps_it_from_serving(
    world: World, settings: dict[str, t.Any], words: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**defaults(world.root), **settings}))
    assert main([str(tmp_path / "config.json")]) == 1
    assert capsys.readouterr().err == words
