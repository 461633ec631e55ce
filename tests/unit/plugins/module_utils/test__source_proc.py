# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._source_proc import (
    FamilySource,
    ProcReader,
    Stat,
    descend,
    exit_code,
    is_compiler,
    parse_io,
    parse_stat,
    process_name,
)


def stat_line(pid: int, comm: str, state: str = "S", ppid: int = 1, start: int = 1000, status: int = 0) -> str:
    fields = ["0"] * 50
    fields[0], fields[1] = state, str(ppid)
    fields[9], fields[11], fields[12], fields[19] = "7", "250", "50", str(start)
    fields[49] = str(status)
    return f"{pid} ({comm}) {' '.join(fields)}\n"


@pytest.mark.parametrize("comm", ["python3", "VLLM::EngineCor", "tmux: server", "a) (b", "(sd-pam)", ") R 1 1 1", ""])
def test_parse_stat_takes_any_command_name(comm: str) -> None:
    assert parse_stat(stat_line(42, comm, "D", 7, 4711, 256)) == Stat(42, comm, "D", 7, 7, 300, 4711, 256)


@pytest.mark.parametrize("text", ["", "42 python3 S 1", "42 (python3) S 1"])
def test_parse_stat_rejects_what_is_cut_short(text: str) -> None:
    with pytest.raises(ValueError, match="not a line of /proc/PID/stat"):
        parse_stat(text)


@pytest.mark.parametrize(("status", "code"), [(0, 0), (1 << 8, 1), (2 << 8, 2), (9, -9), (15, -15), (0x80 | 11, -11)])
def test_exit_code(status: int, code: int) -> None:
    assert exit_code(status) == code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rchar: 5\nwchar: 1\nread_bytes: 1941504\nwrite_bytes: 0\ncancelled_write_bytes: 0\n", 1941504),
        ("read_bytes: 0\n", 0),
        ("rchar: 5\n", None),
        ("", None),
    ],
)
def test_parse_io(text: str, expected: int | None) -> None:
    assert parse_io(text) == expected


@pytest.mark.parametrize(
    ("comm", "cmdline", "expected"),
    [
        ("VLLM::Worker_TP", b"VLLM::Worker_TP0\0\0\0", "VLLM::Worker_TP0"),
        ("vllm", b"/opt/vllm/bin/python3\0/opt/vllm/bin/vllm\0serve\0--api-key\0secret\0", "vllm"),
        ("kthreadd", b"", "kthreadd"),
        ("python3", b"VLLM::EngineCore", "VLLM::EngineCore"),
    ],
)
def test_process_name_never_shows_arguments(comm: str, cmdline: bytes, expected: str) -> None:
    assert process_name(comm, cmdline) == expected


@pytest.mark.parametrize("comm", ["nvcc", "cicc", "ptxas", "ninja", "cc1plus", "cudafe++", "g++", "gcc-12", "ld"])
def test_compilers(comm: str) -> None:
    assert is_compiler(comm)


@pytest.mark.parametrize("comm", ["python3", "vllm", "VLLM::EngineCor", "ldconfig", "gccgo", "assemble", ""])
def test_no_compilers(comm: str) -> None:
    assert not is_compiler(comm)


def test_descend() -> None:
    parents = {1: 0, 10: 1, 11: 10, 12: 11, 13: 10, 20: 1, 21: 20}
    assert descend([10], parents) == {10, 11, 12, 13}
    assert descend([99], parents) == {99}


class FakeProc:
    """A /proc of files."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.reader = ProcReader(str(root), ticks_per_second=100)

    def put(self, pid: int, comm: str, state: str = "S", ppid: int = 1, start: int = 1000, status: int = 0) -> None:
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(stat_line(pid, comm, state, ppid, start, status))
        (folder / "cmdline").write_bytes(comm.encode() + b"\0")
        (folder / "io").write_text(f"read_bytes: {pid * 10}\n")

    def drop(self, pid: int) -> None:
        for path in (self.root / str(pid)).iterdir():
            path.unlink()
        (self.root / str(pid)).rmdir()


@pytest.fixture
def proc(tmp_path: pathlib.Path) -> FakeProc:
    return FakeProc(tmp_path)


def test_sample(proc: FakeProc) -> None:
    proc.put(50, "VLLM::EngineCore", "T", 40, 4711)
    assert proc.reader.sample(50) == (50, 40, 4711, "VLLM::EngineCore", "T", 3.0, 500, 7)
    assert proc.reader.sample(51) is None


def test_sample_without_permission_to_see_the_disk_reads(proc: FakeProc) -> None:
    proc.put(50, "python3")
    (proc.root / "50" / "io").unlink()
    sample = proc.reader.sample(50)
    assert sample is not None
    assert sample.read_bytes is None


def test_family_keeps_what_a_killed_server_leaves_behind(proc: FakeProc) -> None:
    proc.put(40, "vllm")
    proc.put(41, "VLLM::EngineCore", ppid=40)
    proc.put(60, "sshd")
    source = FamilySource(40, proc.reader)
    family = source.read()
    assert [member.pid for member in family.procs] == [40, 41]
    assert (family.ended, family.exit_code) == (False, None)

    proc.drop(40)
    proc.put(41, "VLLM::EngineCore", ppid=1)
    family = source.read()
    assert [member.pid for member in family.procs] == [41]
    assert (family.ended, family.exit_code) == (True, None)

    # the number comes back as something else
    proc.put(41, "cron", start=2000)
    assert source.read().procs == ()


def test_family_reads_the_exit_status_of_a_zombie(proc: FakeProc) -> None:
    proc.put(40, "vllm")
    source = FamilySource(40, proc.reader)
    proc.put(40, "vllm", state="Z", status=1 << 8)
    assert source.read()[1:] == (True, 1)


def test_family_does_not_take_a_reused_process_id_for_the_server(proc: FakeProc) -> None:
    proc.put(40, "vllm", start=1000)
    source = FamilySource(40, proc.reader)
    proc.put(40, "cron", start=5000)
    assert source.read() == ((), True, None)


def test_family_of_a_process_that_never_was(proc: FakeProc) -> None:
    assert FamilySource(40, proc.reader).read() == ((), True, None)


def test_a_real_process() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    source = FamilySource(child.pid, ProcReader())
    try:
        family = source.read()
        assert [member.ppid for member in family.procs] == [os.getpid()]
        assert not family.ended
    finally:
        child.send_signal(signal.SIGKILL)
    for _attempt in range(100):
        if (family := source.read()).ended:
            break
        time.sleep(0.02)
    # a zombie until it is waited for, so the kernel still knows
    assert (family.ended, family.exit_code) == (True, -9)
    child.wait()
    assert source.read().ended
