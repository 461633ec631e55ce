# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cgroup of its own for each host, on machines with cgroup v1, v2 or both mounted.

Without one all hosts would share a single systemd tree and see each other's units. The groups are made directly below
the root of each hierarchy, never inside a unit of the machine's own service manager, so the same code serves machines
whose PID 1 is systemd and those where it is not.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import typing as t
from pathlib import Path

from .paths import LabError

_V1_WANTED = frozenset(("name=systemd", "memory", "cpu", "cpuacct", "pids", "blkio"))
_V2_WANTED = ("memory", "cpu", "pids", "io")
_TOP = "modelfleet-lab"


class Hierarchy(t.NamedTuple):
    """One mounted cgroup file system."""

    mount: Path
    v2: bool
    controllers: frozenset[str]


def hierarchies(mountinfo: str | None = None) -> list[Hierarchy]:
    """The hierarchies that a host needs a group in."""
    found: dict[Path, Hierarchy] = {}
    for line in (Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo).splitlines():
        left, _sep, right = line.partition(" - ")
        mount = Path(left.split()[4])
        fstype, _source, options = right.split()[:3]
        if fstype == "cgroup2":
            found[mount] = Hierarchy(mount, True, frozenset())
        elif fstype == "cgroup":
            controllers = frozenset(options.split(",")) & _V1_WANTED
            if controllers:
                found[mount] = Hierarchy(mount, False, controllers)
    if not found:
        raise LabError("no cgroup file system is mounted at /sys/fs/cgroup; the test hosts need one for their systemd")
    return list(found.values())


def create(lab: str, host: str, memory_bytes: int | None) -> list[Path]:
    """Make the groups of a host that does not run, and give them.

    Those of its last boot go first: a v2 group that has handed controllers down takes no process any more.
    """
    groups = []
    limited = memory_bytes is None
    for hierarchy in hierarchies():
        group = hierarchy.mount / _TOP / lab / host
        if group.is_dir() and not _remove_tree(group):
            raise LabError(f"host {host}: processes of its last boot are still in {group}")
        group.mkdir(parents=True)
        if hierarchy.v2:
            _enable_controllers(hierarchy.mount, group)
        groups.append(group)
        if memory_bytes is not None:
            limited |= _limit(group, memory_bytes)
    if not limited:
        raise LabError(f"host {host}: no memory controller to enforce --memory with in {[str(g) for g in groups]}")
    return groups


def _limit(group: Path, memory_bytes: int) -> bool:
    for name, companion in (("memory.max", "memory.swap.max"), ("memory.limit_in_bytes", "")):
        if (group / name).exists():
            (group / name).write_text(str(memory_bytes))
            with contextlib.suppress(OSError):
                if companion:
                    (group / companion).write_text("0")
            return True
    return False


def _enable_controllers(mount: Path, group: Path) -> None:
    """Hand the controllers down from the root of a v2 tree to ``group``."""
    for parent in (mount, mount / _TOP, group.parent):
        offered = (parent / "cgroup.controllers").read_text().split()
        for controller in (c for c in _V2_WANTED if c in offered):
            try:
                (parent / "cgroup.subtree_control").write_text(f"+{controller}")
            except OSError as exc:
                if exc.errno != errno.EBUSY or parent != mount:
                    raise
                # The top of a container's own tree is no real root: processes are in the way there; give them a leaf.
                _move_all(mount, mount / f"{_TOP}-init")
                (parent / "cgroup.subtree_control").write_text(f"+{controller}")


def _move_all(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for pid in (source / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            (target / "cgroup.procs").write_text(pid)


def enter(groups: t.Sequence[Path]) -> None:
    """Move the calling process (and what it starts from now on) into the groups."""
    for group in groups:
        (group / "cgroup.procs").write_text(str(os.getpid()))


def remove(lab: str, host: str | None = None) -> list[Path]:
    """Remove the groups of a host, or of a lab that has no host left; gives those that would not go."""
    left = []
    for hierarchy in hierarchies():
        top = hierarchy.mount / _TOP / lab
        for group in (top / host,) if host else (top, top.parent):
            if group.is_dir() and not _remove_tree(group) and group != top.parent:
                left.append(group)
    return left


def _remove_tree(group: Path) -> bool:
    deadline = time.monotonic() + (5.0 if group.name != _TOP else 0.0)
    while True:
        for folder, _dirs, _files in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                if Path(folder) == group or group.name != _TOP:
                    os.rmdir(folder)
        if not group.exists():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def memory_now(lab: str, host: str) -> int | None:
    """Bytes of memory that a host's group uses now."""
    for hierarchy in hierarchies():
        for name in ("memory.current", "memory.usage_in_bytes"):
            with contextlib.suppress(OSError, ValueError):
                return int((hierarchy.mount / _TOP / lab / host / name).read_text())
    return None


__all__ = ("Hierarchy", "create", "enter", "hierarchies", "memory_now", "remove")
