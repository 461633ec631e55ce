# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._kernel_waits import (
    AWAITED,
    KernelWaits,
    awaited,
    first_argument,
    parse_stack,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import ProcSample, Storage
from ansible_collections.modelfleet.serving.plugins.module_utils._source_proc import ProcReader

NFS = """[<0>] rpc_wait_bit_killable+0x11/0x70 [sunrpc]
[<0>] __rpc_execute+0x1a/0x30 [sunrpc]
[<0>] nfs4_call_sync_sequence+0x7d/0xb0 [nfsv4]
[<0>] vfs_read+0xbb/0x360
"""
WAITS = [
    (["__refrigerator", "get_signal"], "its control group to be thawed"),
    (["rpc_wait_bit_killable"], "an NFS server"),
    (["nfs_wait_client_init_complete"], "an NFS server"),
    (["os_acquire_rwlock_write", "_nv013333rm"], "the NVIDIA driver"),
    (["uvm_va_block_lock"], "the NVIDIA driver"),
    (["wait_for_response", "cifs_send_recv"], "an SMB server"),
    (["ceph_mdsc_do_request"], "a Ceph cluster"),
    (["ptlrpc_set_wait"], "a Lustre server"),
    (["request_wait_answer", "fuse_simple_request", "folio_wait_bit_common"], "a file system in user space (FUSE)"),
    (["p9_client_rpc"], "a 9p server"),
    (["md_make_request", "submit_bio_noacct"], "a RAID array"),
    (["mem_cgroup_handle_over_high"], "memory"),
    (["folio_wait_bit_common", "filemap_read"], "a disk"),
    (["io_schedule"], "a disk"),
    (["do_exit"], ""),
    ([], ""),
]


@pytest.mark.parametrize(("functions", "expected"), WAITS)
def test_awaited(functions: list[str], expected: str) -> None:
    assert awaited(functions) == expected


def test_every_row_has_a_case() -> None:
    assert {words for _functions, words in WAITS} == {row.words for row in AWAITED} | {""}


def test_parse_stack() -> None:
    assert parse_stack(NFS) == ["rpc_wait_bit_killable", "__rpc_execute", "nfs4_call_sync_sequence", "vfs_read"]
    assert parse_stack("") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0x5 0x7ffe 0x400 0x0 0x0 0x0 0x7ffe 0x7f00\n", 5),
        ("202 0x7f0011223344 0x80 0x0 0x0 0x0 0x0 0x7ffe 0x7f00\n", None),
        ("running\n", None),
        ("-1 0x7ffe 0x7f00\n", None),
        ("", None),
    ],
)
def test_first_argument(text: str, expected: int | None) -> None:
    assert first_argument(text) == expected


def host(root: pathlib.Path, states: str, **files: str) -> KernelWaits:
    """Process 7 with a thread for each of ``states``; the last one has ``files``."""
    for number, state in enumerate(states, 7):
        thread = root / "7" / "task" / str(number)
        thread.mkdir(parents=True)
        (thread / "stat").write_text(f"{number} (vllm) {state} 1 " + "0 " * 48, encoding="ascii")
        for name, text in files.items():
            (thread / name).write_text(text, encoding="ascii")
    (root / "7" / "fd").mkdir(parents=True)
    os.symlink("/srv/models/kimi/a.safetensors", root / "7" / "fd" / "5")
    mounts = "30 22 0:40 / /srv/models rw - nfs4 nas:/models rw\n"
    (root / "7" / "mountinfo").write_text(mounts, encoding="ascii")
    return KernelWaits(ProcReader(str(root)), str(root))


PROC = ProcSample(7, 1, 1, "VLLM::Worker_TP0", "D", 0.0)
WEIGHTS = Storage("nfs4", "/srv/models")


@pytest.mark.parametrize(
    ("states", "files", "expected"),
    [
        ("SR", {}, ()),
        (
            "SD",
            {"stack": NFS, "wchan": "rpc_wait_bit_killable", "syscall": "0 0x5 0x7ffe 0x400"},
            (
                "VLLM::Worker_TP0 (pid 7) waits in the kernel, in rpc_wait_bit_killable, for an NFS server; file "
                "/srv/models/kimi/a.safetensors on /srv/models (nfs4)",
            ),
        ),
        (
            "D",
            {"wchan": "folio_wait_bit_common", "syscall": "-1 0x7ffe 0x7f00"},
            (
                "VLLM::Worker_TP0 (pid 7) waits in the kernel, in folio_wait_bit_common, for a disk; its weights are "
                "on /srv/models (nfs4)",
            ),
        ),
        ("D", {"wchan": "0"}, ("VLLM::Worker_TP0 (pid 7) waits in the kernel; its weights are on /srv/models (nfs4)",)),
    ],
    ids=["none", "by root", "page fault, not by root", "nothing may be read"],
)
def test_blocked(tmp_path: pathlib.Path, states: str, files: dict[str, str], expected: tuple[str, ...]) -> None:
    assert host(tmp_path, states, **files).blocked((PROC,), WEIGHTS) == expected


def test_blocked_with_nothing_known(tmp_path: pathlib.Path) -> None:
    waits = host(tmp_path, "D", syscall="16 0x9 0x1")
    assert waits.blocked((PROC,), None) == ("VLLM::Worker_TP0 (pid 7) waits in the kernel",)
    assert waits.blocked((PROC._replace(pid=8),), None) == ()
