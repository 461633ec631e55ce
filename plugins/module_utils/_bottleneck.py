# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What a slow start waits for, in words with figures. Pure: a table from what was measured to what is said.

Rows stand in the order in which they explain a slow start. All that hold are given, so that compilers short of CPU are
named with the quota that starves them; a row marked ``alone`` is an assumption, made only where no other row holds.
"""

from __future__ import annotations

import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._rates import Rates

_MB = 1e6
#: file systems whose bytes come over a network, by their names in mountinfo, or in vLLM's own words
NETWORK = frozenset(
    (
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "glusterfs",
        "gpfs",
        "lustre",
        "nfs",
        "nfs4",
        "orangefs",
        "panfs",
        "smb",
        "smb2",
        "smb3",
        "wekafs",
    )
)
#: file systems in user space that lie upon local ones
_LOCAL_FUSE = ("fuse.mergerfs", "fuse.fuse-overlayfs", "fuse.bindfs", "fuse.gocryptfs", "fuse.lxcfs", "fuse.ntfs")


class Row(typing.NamedTuple):
    """One bottleneck."""

    id: str
    holds: typing.Callable[[Rates], bool]
    words: typing.Callable[[Rates], str]
    alone: bool = False


def _over(value: typing.Optional[float], least: float) -> bool:
    return value is not None and value >= least


def _percent(share: typing.Optional[float]) -> str:
    return f"{min(1.0, share or 0.0) * 100:.0f} %"


def _speed(per_s: typing.Optional[float]) -> str:
    value = (per_s or 0.0) / _MB
    return f"{value:.0f} MB/s" if value >= 10 else f"{value:.1f} MB/s"


def _read(rates: Rates) -> typing.Optional[float]:
    """What was read, or, where the kernel does not tell, what was loaded."""
    return rates.read if rates.read else rates.loaded


def is_network(fs_type: str) -> bool:
    kind = fs_type.lower()
    return kind in NETWORK or (kind.startswith("fuse.") and not kind.startswith(_LOCAL_FUSE))


def _on_network(rates: Rates) -> bool:
    return rates.storage is not None and is_network(rates.storage.fs_type)


def _waits_for_disk(rates: Rates) -> bool:
    return _over(rates.io_wait, 0.2) or rates.blocked >= 0.3


def _storage_words(rates: Rates) -> str:
    """``disk 310 MB/s``; with the share of the time where the speed alone looks like none."""
    name = "disk"
    if _on_network(rates) and rates.storage is not None:
        name = f"network file system {rates.storage.fs_type.lower()} at"
    slow = (
        ""
        if _over(_read(rates), _MB) or rates.io_wait is None
        else f", waited for {_percent(rates.io_wait)} of the time"
    )
    return f"{name} {_speed(_read(rates))}{slow}"


def _at_read_limit(rates: Rates) -> bool:
    near = rates.read_limit is not None and _over(rates.read, 0.8 * rates.read_limit)
    return near or (rates.read_ops_limit is not None and _waits_for_disk(rates))


def _read_limit_words(rates: Rates) -> str:
    if rates.read_limit is not None and _over(rates.read, 0.8 * rates.read_limit):
        return f"disk {_speed(rates.read)}, limited to {_speed(rates.read_limit)} by IOReadBandwidthMax"
    return f"disk {_speed(rates.read)}, limited to {rates.read_ops_limit} reads a second by IOReadIOPSMax"


def _quota_words(rates: Rates) -> str:
    if rates.quota_cores is None:
        return f"CPU: a quota makes it pause in {_percent(rates.throttled)} of its periods"
    whose = f" of {rates.quota_of}" if rates.quota_of else ""
    cores = f"{rates.quota_cores:.1f}" if round(rates.quota_cores * 100) % 10 == 0 else f"{rates.quota_cores:.2f}"
    return f"CPU: limited to {cores} cores by CPUQuota{whose}"


def _refaults(rates: Rates) -> bool:
    """The host counts what all its services read again: more than this one reads is not all its own."""
    read = rates.read or 0.0
    waits = rates.memory_wait is None or rates.memory_wait >= 0.1
    return waits and _over(rates.refaulted, max(10 * _MB, 0.3 * read)) and not _over(rates.refaulted, 1.5 * read)


def _full(rates: Rates) -> bool:
    return rates.cores is not None and _over(rates.cpu, 0.9 * rates.cores)


ROWS = (
    Row(
        "stopped",
        lambda rates: rates.stopped >= 0.5,
        lambda rates: f"stopped (state T) at {_percent(rates.stopped)} of the looks, by SIGSTOP or a debugger",
    ),
    Row(
        "compile",
        lambda rates: rates.compilers > 0,
        lambda rates: f"JIT compile: {rates.compilers} compiler{'' if rates.compilers == 1 else 's'}",
    ),
    Row("cpu_quota", lambda rates: _over(rates.throttled, 0.25), _quota_words),
    Row(
        "swap",
        lambda rates: _over(rates.swapped_in, 5 * _MB) and (rates.memory_wait is None or rates.memory_wait >= 0.05),
        lambda rates: f"memory: {_speed(rates.swapped_in)} come from swap",
    ),
    Row(
        "page_cache",
        _refaults,
        lambda rates: f"memory: {_speed(rates.refaulted)} are read again, the page cache is too small",
    ),
    Row(
        "memory",
        lambda rates: _over(rates.memory_wait, 0.25),
        lambda rates: f"memory: waited for {_percent(rates.memory_wait)} of the time",
    ),
    Row("read_limit", _at_read_limit, _read_limit_words),
    Row("storage", lambda rates: _waits_for_disk(rates) and not _at_read_limit(rates), _storage_words),
    Row(
        "cpu",
        lambda rates: _full(rates) and not _over(rates.throttled, 0.25),
        lambda rates: f"CPU {(rates.cpu or 0.0) * 100:.0f} % of {rates.cores} core{'' if rates.cores == 1 else 's'}",
    ),
    Row(
        "cpu_wait",
        lambda rates: _over(rates.cpu_wait, 0.5) and not _full(rates) and not _over(rates.throttled, 0.25),
        lambda rates: f"CPU: waited for a core {_percent(rates.cpu_wait)} of the time, as others use them too",
    ),
    # NFS and others do not count as waiting for a disk in every release of the kernel
    Row("network", lambda rates: rates.loading and _on_network(rates), _storage_words, alone=True),
    Row(
        "disk",
        lambda rates: rates.loading and rates.io_wait is None and _over(rates.read, 10 * _MB),
        _storage_words,
        alone=True,
    ),
    Row(
        "one_core",
        lambda rates: rates.busiest is not None and 0.9 <= rates.busiest[1] <= 1.1,
        lambda rates: f"CPU: {rates.busiest[0] if rates.busiest else ''} keeps one core busy",
        alone=True,
    ),
)


def bottlenecks(rates: typing.Optional[Rates]) -> tuple[str, ...]:
    """What holds it up, the nearest cause first; empty where nothing shows."""
    if rates is None:
        return ()
    said = tuple(row.words(rates) for row in ROWS if not row.alone and row.holds(rates))
    return said or tuple(row.words(rates) for row in ROWS if row.alone and row.holds(rates))[:1]


__all__ = ("NETWORK", "ROWS", "Row", "bottlenecks", "is_network")
