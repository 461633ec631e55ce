# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Processes as ``/proc`` shows them. A process that vanishes while it is read is simply not in the answer."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import ProcSample

#: what a JIT compile of kernels runs, by command name as the kernel keeps it (15 characters)
COMPILERS = frozenset(
    (
        "nvcc",
        "cicc",
        "ptxas",
        "fatbinary",
        "cudafe++",
        "nvlink",
        "ninja",
        "cc1",
        "cc1plus",
        "gcc",
        "g++",
        "c++",
        "cc",
        "clang",
        "clang++",
        "as",
        "ld",
        "ld.gold",
        "ld.lld",
        "collect2",
        "lto1",
        "hipcc",
    )
)
#: g++-12, x86_64-linux-gnu-gcc ...
_COMPILER_STEMS = ("gcc-", "g++-", "clang-", "clang++-", "x86_64-linux-gn", "aarch64-linux-g")


class Stat(t.NamedTuple):
    """The fields of ``/proc/<pid>/stat`` that matter here."""

    pid: int
    comm: str
    state: str
    ppid: int
    majflt: int
    #: user and system time, clock ticks
    ticks: int
    start_ticks: int
    #: wait status, as in waitpid(2); tells something only of a zombie, and only to a caller who may trace the process
    exit_status: t.Optional[int] = None


def parse_stat(text: str) -> Stat:
    """Read one line of ``/proc/<pid>/stat``. Raises ValueError when it is not one.

    The command name stands in parentheses and may itself contain blanks and parentheses: it ends at the last one.
    """
    head, opened, rest = text.partition("(")
    comm, closed, tail = rest.rpartition(")")
    fields = tail.split()
    if not opened or not closed or len(fields) < 20:
        raise ValueError(f"not a line of /proc/PID/stat: {text!r}")
    return Stat(
        pid=int(head),
        comm=comm,
        state=fields[0],
        ppid=int(fields[1]),
        majflt=int(fields[9]),
        ticks=int(fields[11]) + int(fields[12]),
        start_ticks=int(fields[19]),
        exit_status=int(fields[49]) if len(fields) > 49 else None,
    )


def exit_code(wait_status: int) -> int:
    """A waitpid(2) status as Python's ``returncode``: the exit status, or the negative signal number."""
    signal = wait_status & 0x7F
    return -signal if signal else (wait_status >> 8) & 0xFF


def parse_io(text: str) -> t.Optional[int]:
    """``read_bytes`` of ``/proc/<pid>/io``: what really came from a disk, page faults of mapped files included."""
    for line in text.splitlines():
        key, _separator, value = line.partition(":")
        if key == "read_bytes" and value.strip().isdigit():
            return int(value)
    return None


def process_name(comm: str, cmdline: bytes) -> str:
    """vLLM titles its processes ``VLLM::Worker_TP0``; ``comm`` keeps only 15 characters of that."""
    title = cmdline.split(b"\0", 1)[0].decode("utf-8", "replace").strip()
    return title if title.startswith("VLLM::") else comm


def is_compiler(comm: str) -> bool:
    return comm in COMPILERS or comm.startswith(_COMPILER_STEMS)


def descend(roots: t.Iterable[int], parents: t.Mapping[int, int]) -> set[int]:
    """``roots`` and every process below them, from a mapping of process to parent."""
    children: dict[int, list[int]] = {}
    for pid, ppid in parents.items():
        children.setdefault(ppid, []).append(pid)
    found: set[int] = set()
    todo = list(roots)
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(children.get(pid, ()))
    return found


class ProcReader:
    """Reads ``/proc``; ``root`` and the clock rate are given by tests."""

    def __init__(self, root: str = "/proc", ticks_per_second: t.Optional[int] = None) -> None:
        self._root = root
        self._rate = ticks_per_second or os.sysconf("SC_CLK_TCK")

    def seconds(self, ticks: int) -> float:
        return ticks / self._rate

    def stat(self, pid: int) -> t.Optional[Stat]:
        try:
            return parse_stat(self._read(pid, "stat").decode("utf-8", "replace"))
        except (OSError, ValueError):
            return None

    def everyone(self) -> dict[int, Stat]:
        """All processes of the host, by process id."""
        stats = (self.stat(int(name)) for name in os.listdir(self._root) if name.isdigit())
        return {stat.pid: stat for stat in stats if stat}

    def sample(self, pid: int) -> t.Optional[ProcSample]:
        stat = self.stat(pid)
        return self.describe(stat) if stat else None

    def describe(self, stat: Stat) -> ProcSample:
        return ProcSample(
            pid=stat.pid,
            ppid=stat.ppid,
            start_ticks=stat.start_ticks,
            name=self.name(stat.pid, stat.comm),
            state=stat.state,
            cpu_s=self.seconds(stat.ticks),
            read_bytes=self._read_bytes(stat.pid),
            majflt=stat.majflt,
        )

    def name(self, pid: int, comm: str = "") -> str:
        try:
            return process_name(comm, self._read(pid, "cmdline"))
        except OSError:
            return comm

    def text(self, pid: int, name: str) -> str:
        """A file of the process; empty where it is gone or hidden."""
        try:
            return self._read(pid, name).decode("utf-8", "replace")
        except OSError:
            return ""

    def _read_bytes(self, pid: int) -> t.Optional[int]:
        try:
            return parse_io(self._read(pid, "io").decode("ascii", "replace"))
        except OSError:
            # another user's process, or gone
            return None

    def _read(self, pid: int, name: str) -> bytes:
        with open(f"{self._root}/{pid}/{name}", "rb") as handle:
            return handle.read()


class Family(t.NamedTuple):
    """A watched process, those below it, and what became of it."""

    procs: tuple[ProcSample, ...]
    #: the watched process itself is no more, or a zombie
    ended: bool
    #: as Python's ``returncode``; None where the kernel no longer or does not say
    exit_code: t.Optional[int]


class FamilySource:
    """A process given by its id, with all it started: also what it leaves behind when it ends.

    Engine and worker processes of a killed server belong to PID 1 afterwards, so they are remembered by process id and
    start time.
    """

    def __init__(self, pid: int, reader: ProcReader) -> None:
        self._pid = pid
        self._reader = reader
        self._known: dict[int, int] = {}
        first = reader.stat(pid)
        self._start = first.start_ticks if first else None

    def read(self) -> Family:
        everyone = self._reader.everyone()
        main = everyone.get(self._pid)
        if main is not None and main.start_ticks != self._start:
            # the number has been given to another process meanwhile
            main = None
        roots = [pid for pid, start in self._known.items() if pid in everyone and everyone[pid].start_ticks == start]
        if main is not None:
            roots.append(self._pid)
        members = descend(roots, {pid: stat.ppid for pid, stat in everyone.items()})
        self._known = {pid: everyone[pid].start_ticks for pid in members}
        ended = main is None or main.state in "ZX"
        status = main.exit_status if main is not None and ended else None
        return Family(
            procs=tuple(self._reader.describe(everyone[pid]) for pid in sorted(members)),
            ended=ended,
            exit_code=None if status is None else exit_code(status),
        )


__all__ = (
    "COMPILERS",
    "Family",
    "FamilySource",
    "ProcReader",
    "Stat",
    "descend",
    "exit_code",
    "is_compiler",
    "parse_io",
    "parse_stat",
    "process_name",
)
