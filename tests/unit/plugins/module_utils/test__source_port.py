# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ipaddress
import os
import pathlib
import socket
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._source_port import (
    Listener,
    PortSource,
    local_address,
    parse_address,
    parse_table,
    takers,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._source_proc import ProcReader

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 42 1 0 100 0 0 10 0
   2: 0100007F:1F40 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 99 1 0 100 0 0 10 0
   3: broken
"""
V4 = ipaddress.ip_address("127.0.0.1")
V6 = ipaddress.ip_address("::1")
ANY4 = ipaddress.ip_address("0.0.0.0")
ANY6 = ipaddress.ip_address("::")
MAPPED = ipaddress.ip_address("::ffff:127.0.0.1")
OTHER = ipaddress.ip_address("10.77.0.11")


def test_parse_table_has_the_listening_sockets() -> None:
    assert parse_table(TABLE) == [Listener(V4, 8000, 4711), Listener(ANY4, 22, 42)]
    assert parse_table("") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0100007F", V4),
        ("0B004D0A", OTHER),
        ("00000000000000000000000001000000", V6),
        ("0000000000000000FFFF00000100007F", MAPPED),
    ],
)
def test_parse_address(text: str, expected: t.Any) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    ("bound", "asked", "expected"),
    [
        ([V4], V4, [0]),
        ([ANY4], V4, [0]),
        ([V4, ANY4], V4, [0]),
        # both listen there (SO_REUSEPORT): each gets some
        ([V4, V4], V4, [0, 1]),
        ([OTHER], V4, []),
        ([ANY6], V4, [0]),
        ([ANY6, ANY4], V4, [1]),
        ([MAPPED], V4, [0]),
        ([ANY4], V6, []),
        ([ANY6, V6], V6, [1]),
    ],
    ids=str,
)
def test_takers(bound: list[t.Any], asked: t.Any, expected: list[int]) -> None:
    listeners = [Listener(address, 8000, inode) for inode, address in enumerate(bound)]
    assert [listener.inode for listener in takers(listeners, asked, 8000)] == expected
    assert takers(listeners, asked, 8001) == []


def test_local_address() -> None:
    assert local_address("127.0.0.1") == V4
    assert local_address("localhost") in (V4, V6)
    # a documentation address is nobody's
    assert local_address("192.0.2.1") is None
    assert local_address("no.such.host.invalid") is None


class FakeProc:
    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        (root / "net").mkdir()

    def listen(self, *sockets: tuple[int, str]) -> None:
        rows = [f" 0: {where} 00000000:0000 0A 0:0 0:0 0 0 0 {inode} 1" for inode, where in sockets]
        (self.root / "net" / "tcp").write_text("\n".join(["header", *rows]) + "\n")

    def process(self, pid: int, name: str, *inodes: int) -> None:
        folder = self.root / str(pid)
        (folder / "fd").mkdir(parents=True)
        fields = ["S", "1", *["0"] * 48]
        (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}")
        (folder / "cmdline").write_bytes(name.encode())
        for number, inode in enumerate(inodes):
            (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")

    def source(self) -> PortSource:
        return PortSource(V4, 8000, ProcReader(str(self.root), 100), str(self.root))


@pytest.fixture
def proc(tmp_path: pathlib.Path) -> FakeProc:
    return FakeProc(tmp_path)


HERE = "0100007F:1F40"


@pytest.mark.parametrize(
    ("sockets", "expected"),
    [
        ([], ""),
        ([(1, HERE)], ""),
        ([(2, HERE)], "port 8000 is held by pid 50 (nginx)"),
        ([(1, HERE), (2, HERE)], "port 8000 is shared with pid 50 (nginx)"),
        ([(2, HERE), (3, HERE)], "port 8000 is held by pid 50 (nginx) and pid 60 (vllm)"),
        ([(2, "0100007F:1F41")], ""),
        # held by a process whose descriptors this user may not see
        ([(9, HERE)], ""),
    ],
)
def test_foreign(proc: FakeProc, sockets: list[tuple[int, str]], expected: str) -> None:
    proc.process(40, "vllm", 1, 7)
    proc.process(50, "nginx", 2)
    proc.process(60, "vllm", 3)
    proc.listen(*sockets)
    source = proc.source()
    assert source.foreign({40}) == expected
    assert source.foreign({40}) == expected


def test_foreign_follows_the_port_to_its_next_holder(proc: FakeProc) -> None:
    proc.process(40, "vllm", 1)
    proc.process(50, "nginx", 2)
    source = proc.source()
    proc.listen((2, HERE))
    assert source.foreign({40}) == "port 8000 is held by pid 50 (nginx)"
    proc.listen((1, HERE))
    assert source.foreign({40}) == ""
    # dead, and something else has taken its place
    proc.listen((2, HERE))
    assert source.foreign(()) == "port 8000 is held by pid 50 (nginx)"


def test_foreign_without_proc(tmp_path: pathlib.Path) -> None:
    assert PortSource(V4, 8000, ProcReader(str(tmp_path), 100), str(tmp_path)).foreign({1}) == ""


def test_real_sockets() -> None:
    script = (
        "import socket,sys; s=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1],flush=True); "
        "sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        port = int(child.stdout.readline())
        name = ProcReader().stat(child.pid)
        assert name is not None
        source = PortSource(V4, port, ProcReader())
        assert source.foreign({os.getpid()}) == f"port {port} is held by pid {child.pid} ({name.comm})"
        assert source.foreign({child.pid}) == ""
    finally:
        child.communicate()
    with socket.create_server(("127.0.0.1", 0)) as mine:
        assert PortSource(V4, mine.getsockname()[1], ProcReader()).foreign({os.getpid()}) == ""
