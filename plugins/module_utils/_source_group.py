# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What a control group may use and waits for, and what the host reads again for want of memory.

A dozen small files a look. Under cgroup v1 the kernel keeps quota and limits in files of other names, and the time that
is waited nowhere, unless the v2 tree is mounted beside it, as systemd does in its hybrid layout.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import GroupUse, Paging

#: hierarchies with the v2 files
_V2 = ("", "unified")


class Limit(t.NamedTuple):
    """A limit as one version of cgroup keeps it. A group has it from itself or any group above it."""

    hierarchies: tuple[str, ...]
    file: str
    parse: t.Callable[[str], t.Optional[float]]


def parse_cpu_max(text: str) -> t.Optional[float]:
    """Cores out of ``cpu.max``: ``200000 100000`` is 2.0; None for ``max 100000``."""
    fields = text.split()
    if len(fields) != 2 or not fields[0].isdigit() or not int(fields[1]):
        return None
    return int(fields[0]) / int(fields[1])


def parse_io_max(text: str, key: str) -> t.Optional[float]:
    """The least value of ``rbps`` or ``riops`` over the disks in ``io.max``."""
    pairs = (word.partition("=") for line in text.splitlines() for word in line.split()[1:])
    return min((float(value) for name, _sign, value in pairs if name == key and value.isdigit()), default=None)


def parse_throttle(text: str) -> t.Optional[float]:
    """The least value over the disks in ``blkio.throttle.*``, lines of ``8:0 20971520``."""
    fields = (line.split() for line in text.splitlines())
    return min((float(pair[1]) for pair in fields if len(pair) == 2 and pair[1].isdigit()), default=None)


def parse_pressure(text: str) -> t.Optional[float]:
    """Seconds in which some process waited: ``some avg10=.. avg60=.. avg300=.. total=MICROSECONDS``."""
    for line in text.splitlines():
        kind, _space, rest = line.partition(" ")
        total = rest.rpartition("total=")[2]
        if kind == "some" and total.isdigit():
            return int(total) / 1e6
    return None


def parse_counters(text: str) -> dict[str, int]:
    """Lines of a name and a number, as in ``cpu.stat`` and ``/proc/vmstat``."""
    fields = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in fields if len(pair) == 2 and pair[1].isdigit()}


_READ_LIMITS = (
    Limit(_V2, "io.max", lambda text: parse_io_max(text, "rbps")),
    Limit(("blkio",), "blkio.throttle.read_bps_device", parse_throttle),
)
_READ_OPS_LIMITS = (
    Limit(_V2, "io.max", lambda text: parse_io_max(text, "riops")),
    Limit(("blkio",), "blkio.throttle.read_iops_device", parse_throttle),
)


class Quota(t.NamedTuple):
    """The tightest CPU quota, and the group that has it."""

    cores: float
    folder: str
    top: bool


class GroupFiles:
    """The files of one control group, wherever its hierarchies have it."""

    def __init__(self, folders: t.Callable[[str], t.Sequence[str]], root: str = "/sys/fs/cgroup") -> None:
        #: by hierarchy: where the group may be
        self._folders = folders
        self._root = root

    def use(self, pid: int) -> GroupUse:
        """``pid``: a process of the group."""
        quota = self._quota()
        stat = parse_counters(_text(os.path.join(quota.folder, "cpu.stat"))) if quota else {}
        read_limit, read_ops_limit = self._tightest(_READ_LIMITS), self._tightest(_READ_OPS_LIMITS)
        return GroupUse(
            cores=_cores(pid),
            quota_cores=quota.cores if quota else None,
            quota_of=os.path.basename(quota.folder) if quota and not quota.top else "",
            periods=stat.get("nr_periods"),
            throttled=stat.get("nr_throttled"),
            cpu_s=self._cpu_s(),
            io_wait_s=self._own("io.pressure", parse_pressure),
            memory_wait_s=self._own("memory.pressure", parse_pressure),
            cpu_wait_s=self._own("cpu.pressure", parse_pressure),
            read_limit=int(read_limit) if read_limit is not None else None,
            read_ops_limit=int(read_ops_limit) if read_ops_limit is not None else None,
        )

    def _own(self, file: str, parse: t.Callable[[str], t.Optional[float]]) -> t.Optional[float]:
        """From the first hierarchy whose file for the group itself says something."""
        for hierarchy in _V2:
            for folder in self._folders(hierarchy):
                value = parse(_text(os.path.join(folder, file)))
                if value is not None:
                    return value
        return None

    def _upwards(self, hierarchy: str) -> t.Iterator[str]:
        """The group, and those above it; the root of a hierarchy has no limits."""
        top = os.path.normpath(os.path.join(self._root, hierarchy))
        for folder in self._folders(hierarchy):
            if os.path.isdir(folder):
                while folder.startswith(top + "/"):
                    yield folder
                    folder = os.path.dirname(folder)
                return

    def _tightest(self, limits: t.Sequence[Limit]) -> t.Optional[float]:
        found = (
            limit.parse(_text(os.path.join(folder, limit.file)))
            for limit in limits
            for hierarchy in limit.hierarchies
            for folder in self._upwards(hierarchy)
        )
        return min((value for value in found if value is not None), default=None)

    def _quota(self) -> t.Optional[Quota]:
        found = []
        for hierarchy in (*_V2, "cpu"):
            for index, folder in enumerate(self._upwards(hierarchy)):
                cores = _v1_quota(folder) if hierarchy == "cpu" else parse_cpu_max(_text(f"{folder}/cpu.max"))
                if cores is not None:
                    found.append(Quota(cores, folder, index == 0))
        return min(found, key=lambda quota: quota.cores, default=None)

    def _cpu_s(self) -> t.Optional[float]:
        return self._own("cpu.stat", lambda text: _scaled(parse_counters(text).get("usage_usec")))


def _scaled(microseconds: t.Optional[int]) -> t.Optional[float]:
    return None if microseconds is None else microseconds / 1e6


def _v1_quota(folder: str) -> t.Optional[float]:
    # -1 is no quota
    return parse_cpu_max(f"{_text(f'{folder}/cpu.cfs_quota_us')} {_text(f'{folder}/cpu.cfs_period_us')}")


def _cores(pid: int) -> t.Optional[int]:
    try:
        return len(os.sched_getaffinity(pid))
    except (OSError, AttributeError):
        return None


def paging(vmstat: str = "/proc/vmstat", page_size: int = 0) -> Paging:
    """What the host had to read again since it booted."""
    counters = parse_counters(_text(vmstat))
    size = page_size or os.sysconf("SC_PAGE_SIZE")
    # before Linux 5.9 one counter was for files alone, as only they were counted
    refaults = counters.get("workingset_refault_file", counters.get("workingset_refault"))
    swapped = counters.get("pswpin")
    return Paging(
        swapped_in=None if swapped is None else swapped * size,
        refaulted=None if refaults is None else refaults * size,
    )


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""


__all__ = (
    "GroupFiles",
    "paging",
    "parse_counters",
    "parse_cpu_max",
    "parse_io_max",
    "parse_pressure",
    "parse_throttle",
)
