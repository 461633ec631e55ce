# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What a thread in state D waits for, as ``/proc`` tells: a function of the kernel, the file of the system call."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import ProcSample, Storage
from ansible_collections.modelfleet.serving.plugins.module_utils._source_proc import ProcReader, parse_stat
from ansible_collections.modelfleet.serving.plugins.module_utils._source_storage import storage_of

#: threads of a process that are looked at, and those that are told of
_THREADS = 256
_TOLD = 3


class Awaited(t.NamedTuple):
    """What a function of the kernel waits for."""

    pattern: str
    words: str


#: the first that fits any function of the stack counts: what is special stands before what all have in common
AWAITED = (
    Awaited(r"refrigerator|freezer_trap", "its control group to be thawed"),
    Awaited(r"nvidia|\b_?nv\d+rm|\bnv_|uvm_", "the NVIDIA driver"),
    Awaited(r"nfs|\brpc_|sunrpc|xprt_", "an NFS server"),
    Awaited(r"cifs|smb\d?_", "an SMB server"),
    Awaited(r"ceph", "a Ceph cluster"),
    Awaited(r"lustre|ptlrpc|\bll_|\bosc_|cl_sync_io", "a Lustre server"),
    Awaited(r"fuse|request_wait_answer", "a file system in user space (FUSE)"),
    Awaited(r"p9_|v9fs", "a 9p server"),
    Awaited(r"raid\d|\bmd_", "a RAID array"),
    Awaited(r"mem_cgroup|shrink_|try_to_free|reclaim|swap", "memory"),
    Awaited(r"jbd2|ext4|xfs|btrfs|io_schedule|\bblk_|folio_wait|wait_on_page|filemap|submit_bio", "a disk"),
)


def awaited(functions: t.Iterable[str]) -> str:
    """In words; empty for what no row knows."""
    known = list(functions)
    return next((row.words for row in AWAITED if any(re.search(row.pattern, name) for name in known)), "")


def parse_stack(text: str) -> list[str]:
    """Function names out of ``/proc/<pid>/stack``, lines of ``[<0>] rpc_wait_bit_killable+0x2a/0x80 [sunrpc]``."""
    return [match[1] for match in re.finditer(r"^\[<\w+>\] ([\w.]+)\+", text, re.MULTILINE)]


def first_argument(text: str) -> t.Optional[int]:
    """That of the system call in ``/proc/<pid>/syscall``: for reads and writes the number of a file."""
    fields = text.split()
    if len(fields) < 2 or not fields[0].isdigit():
        return None  # "running", or "-1" within a page fault
    number = int(fields[1], 16)
    return number if number < 1 << 20 else None


class Blocked(t.NamedTuple):
    """One thread that waits in the kernel."""

    proc: ProcSample
    functions: tuple[str, ...]
    file: str
    storage: t.Optional[Storage]

    @property
    def words(self) -> str:
        said = f"{self.proc.name} (pid {self.proc.pid}) waits in the kernel"
        if self.functions:
            said += f", in {self.functions[0]}"
        what = awaited(self.functions)
        said += f", for {what}" if what else ""
        if self.file:
            said += f"; file {self.file}"
        if self.storage is not None:
            said += f"{' on' if self.file else '; its weights are on'} {self.storage.mount} ({self.storage.fs_type})"
        return said


class KernelWaits:
    """Reads ``/proc``; where that needs root and is refused, the words are fewer."""

    def __init__(self, reader: ProcReader, root: str = "/proc") -> None:
        self._reader = reader
        self._root = root

    def blocked(self, procs: t.Iterable[ProcSample], storage: t.Optional[Storage]) -> tuple[str, ...]:
        """In words, one for each process that has a thread in state D; ``storage``: where its weights are."""
        said = []
        for proc in procs:
            threads = self._threads(proc.pid)
            if threads:
                said.append(self._describe(proc, threads[0], storage).words)
        return tuple(said[:_TOLD])

    def _threads(self, pid: int) -> list[int]:
        try:
            names = sorted(os.listdir(f"{self._root}/{pid}/task"), key=int)[:_THREADS]
        except (OSError, ValueError):
            return []
        return [int(name) for name in names if self._state(pid, name) == "D"]

    def _state(self, pid: int, thread: str) -> str:
        try:
            return parse_stat(self._reader.text(pid, f"task/{thread}/stat")).state
        except ValueError:
            return ""

    def _describe(self, proc: ProcSample, thread: int, storage: t.Optional[Storage]) -> Blocked:
        functions = parse_stack(self._reader.text(proc.pid, f"task/{thread}/stack"))
        wchan = self._reader.text(proc.pid, f"task/{thread}/wchan").strip()
        if not functions and wchan not in ("", "0"):
            functions = [wchan]
        file = self._file(proc.pid, first_argument(self._reader.text(proc.pid, f"task/{thread}/syscall")))
        place = storage_of(file, self._reader.text(proc.pid, "mountinfo")) if file else storage
        return Blocked(proc, tuple(functions), file, place)

    def _file(self, pid: int, number: t.Optional[int]) -> str:
        if number is None:
            return ""
        try:
            path = os.readlink(f"{self._root}/{pid}/fd/{number}")
        except OSError:
            return ""
        return path if path.startswith("/") else ""


__all__ = ("AWAITED", "Blocked", "KernelWaits", "awaited", "first_argument", "parse_stack")
