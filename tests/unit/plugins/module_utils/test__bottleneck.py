# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._bottleneck import ROWS, bottlenecks, is_network
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import Storage
from ansible_collections.modelfleet.serving.plugins.module_utils._rates import Rates

MB = 1e6
NFS = Storage("nfs4", "/srv/models")

CASES = [
    ("nothing known", Rates(), ()),
    ("all is well", Rates(read=2e9, cpu=3.0, cores=64, io_wait=0.05, memory_wait=0.0, cpu_wait=0.01), ()),
    ("disk by pressure", Rates(read=310 * MB, io_wait=0.7), ("disk 310 MB/s",)),
    ("disk by state D", Rates(read=310 * MB, blocked=0.5), ("disk 310 MB/s",)),
    ("disk, seeking", Rates(read=0.3 * MB, io_wait=0.85), ("disk 0.3 MB/s, waited for 85 % of the time",)),
    ("disk by the bar", Rates(io_wait=0.5, loaded=75 * MB, loading=True), ("disk 75 MB/s",)),
    ("no pressure known, loading", Rates(read=310 * MB, loading=True), ("disk 310 MB/s",)),
    ("no pressure known, not loading", Rates(read=310 * MB), ()),
    ("pressure known and low", Rates(read=310 * MB, io_wait=0.01, loading=True), ()),
    (
        "limited disk",
        Rates(read=19.5 * MB, read_limit=20_000_000, io_wait=0.9),
        ("disk 20 MB/s, limited to 20 MB/s by IOReadBandwidthMax",),
    ),
    ("a limit that is not reached", Rates(read=5 * MB, read_limit=20_000_000, io_wait=0.9), ("disk 5.0 MB/s",)),
    (
        "limited operations",
        Rates(read=4 * MB, read_ops_limit=100, io_wait=0.9),
        ("disk 4.0 MB/s, limited to 100 reads a second by IOReadIOPSMax",),
    ),
    (
        "network file system",
        Rates(read=120 * MB, io_wait=0.9, storage=NFS),
        ("network file system nfs4 at 120 MB/s",),
    ),
    (
        "network file system that the kernel does not count",
        Rates(read=0.0, loaded=120 * MB, loading=True, io_wait=0.0, storage=NFS),
        ("network file system nfs4 at 120 MB/s",),
    ),
    (
        "as vLLM spells it",
        Rates(read=90 * MB, io_wait=0.5, storage=Storage("LUSTRE")),
        ("network file system lustre at 90 MB/s",),
    ),
    (
        "quota",
        Rates(cpu=2.0, cores=64, quota_cores=2.0, throttled=0.87),
        ("CPU: limited to 2.0 cores by CPUQuota",),
    ),
    (
        "quota of a slice, on as many cores",
        Rates(cpu=1.9, cores=2, quota_cores=1.5, quota_of="models.slice", throttled=0.5, cpu_wait=0.9),
        ("CPU: limited to 1.5 cores by CPUQuota of models.slice",),
    ),
    ("quota out of sight", Rates(throttled=0.87), ("CPU: a quota makes it pause in 87 % of its periods",)),
    ("quota that suffices", Rates(cpu=1.0, cores=64, quota_cores=2.0, throttled=0.02), ()),
    ("all cores", Rates(cpu=1.98, cores=2), ("CPU 198 % of 2 cores",)),
    ("its only core", Rates(cpu=0.97, cores=1), ("CPU 97 % of 1 core",)),
    (
        "others have the cores",
        Rates(cpu=0.5, cores=2, cpu_wait=0.8),
        ("CPU: waited for a core 80 % of the time, as others use them too",),
    ),
    (
        "one process computes",
        Rates(cpu=1.1, cores=64, busiest=("VLLM::Worker_TP0", 0.99)),
        ("CPU: VLLM::Worker_TP0 keeps one core busy",),
    ),
    (
        "one process computes while the disk is slow",
        Rates(cores=64, busiest=("VLLM::Worker_TP0", 0.99), read=310 * MB, io_wait=0.7),
        ("disk 310 MB/s",),
    ),
    ("compilers", Rates(compilers=8, cpu=8.0, cores=64), ("JIT compile: 8 compilers",)),
    (
        "compilers under a quota",
        Rates(compilers=1, throttled=0.9, quota_cores=2.0),
        ("JIT compile: 1 compiler", "CPU: limited to 2.0 cores by CPUQuota"),
    ),
    (
        "compilers on few cores",
        Rates(compilers=8, cpu=2.0, cores=2),
        ("JIT compile: 8 compilers", "CPU 200 % of 2 cores"),
    ),
    (
        "swap",
        Rates(swapped_in=12 * MB, memory_wait=0.3),
        ("memory: 12 MB/s come from swap", "memory: waited for 30 % of the time"),
    ),
    ("swap of others", Rates(swapped_in=12 * MB, memory_wait=0.0), ()),
    (
        "page cache",
        Rates(read=240 * MB, refaulted=180 * MB, io_wait=0.6),
        ("memory: 180 MB/s are read again, the page cache is too small", "disk 240 MB/s"),
    ),
    ("read again by others", Rates(read=4 * MB, refaulted=16 * MB, io_wait=0.9), ("disk 4.0 MB/s",)),
    (
        "read again at no cost",
        Rates(read=240 * MB, refaulted=180 * MB, io_wait=0.6, memory_wait=0.0),
        ("disk 240 MB/s",),
    ),
    ("quota of a quarter", Rates(throttled=0.9, quota_cores=0.25), ("CPU: limited to 0.25 cores by CPUQuota",)),
    ("a few pages again", Rates(read=2e9, refaulted=12 * MB, io_wait=0.0), ()),
    ("stopped", Rates(stopped=0.95), ("stopped (state T) at 95 % of the looks, by SIGSTOP or a debugger",)),
    ("pressure over 100 %", Rates(memory_wait=1.02), ("memory: waited for 100 % of the time",)),
]


@pytest.mark.parametrize(("rates", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_words(rates: Rates, words: tuple[str, ...]) -> None:
    assert bottlenecks(rates) == words


def test_every_row_has_a_case() -> None:
    told = {row.id for _name, rates, _words in CASES for row in ROWS if row.holds(rates)}
    assert told == {row.id for row in ROWS}


def test_nothing_measured_yet() -> None:
    assert bottlenecks(None) == ()


@pytest.mark.parametrize(
    ("fs_type", "expected"),
    [
        ("nfs", True),
        ("NFS4", True),
        ("fuse.juicefs", True),
        ("fuse.mergerfs", False),
        ("fuseblk", False),
        ("ext4", False),
        ("overlay", False),
        ("", False),
    ],
)
def test_is_network(fs_type: str, expected: bool) -> None:
    assert is_network(fs_type) is expected
