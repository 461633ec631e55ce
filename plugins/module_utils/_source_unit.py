# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What systemd knows of a unit: its state, and the processes in its control group.

Processes are read from the cgroup file system, not from ``systemctl status``: that costs no command, includes the
engine and worker processes that outlive the main one, and works below cgroup v1, v2 and both at once.
"""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import GroupUse, UnitState
from ansible_collections.modelfleet.serving.plugins.module_utils._source_group import GroupFiles
from ansible_collections.modelfleet.serving.plugins.module_utils._unit_block import (
    RunCommand,
    failed_needs,
    needed,
    queued_job,
)

PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "MainPID",
    "NRestarts",
    "Restart",
    "ExecMainCode",
    "ExecMainStatus",
    "InvocationID",
    "ControlGroup",
    "ExecMainStartTimestampMonotonic",
    "InactiveExitTimestamp",
    "Job",
    "LoadError",
    "ConditionResult",
    "ConditionTimestampMonotonic",
    "AssertResult",
    "AssertTimestampMonotonic",
    "Requires",
    "Requisite",
    "BindsTo",
    "MemoryMax",
    "RestartUSec",
    "StartLimitBurst",
    "StartLimitIntervalUSec",
)
#: hierarchies that carry systemd's tree: cgroup v1, the hybrid layout's v2 side, and v2 alone
HIERARCHIES = ("systemd", "unified", "")
#: hierarchies with a memory controller, and the file in which it counts what the OOM killer ended
OOM_COUNTERS = (("memory", "memory.oom_control"), ("", "memory.events"), ("unified", "memory.events"))


class UnitReading(t.NamedTuple):
    """One look at a unit. ``state`` is None when systemd could not be asked; ``error`` then says why."""

    state: t.Optional[UnitState]
    control_group: str = ""
    #: when the main process was last started, on the monotonic clock; None when it never was
    started_s: t.Optional[float] = None
    error: str = ""
    #: when it last began to start, as systemd prints and reads it; empty when it never did
    began: str = ""


def parse_show(text: str) -> dict[str, str]:
    """``Key=value`` lines of ``systemctl show``; a value may contain further equals signs."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key: value.strip() for key, separator, value in pairs if separator}


def unit_state(properties: t.Mapping[str, str]) -> UnitState:
    """The typed form of what :func:`parse_show` read; a missing or odd number counts as zero."""

    def number(key: str) -> int:
        value = properties.get(key, "")
        return int(value) if value.isdigit() else 0

    return UnitState(
        load_state=properties.get("LoadState", ""),
        active_state=properties.get("ActiveState", ""),
        sub_state=properties.get("SubState", ""),
        result=properties.get("Result", ""),
        main_pid=number("MainPID"),
        n_restarts=number("NRestarts"),
        restart=properties.get("Restart", ""),
        exec_main_code=number("ExecMainCode"),
        exec_main_status=number("ExecMainStatus"),
        invocation_id=properties.get("InvocationID", ""),
        refused=_refused(properties),
        load_error=properties.get("LoadError", "").partition(" ")[2].strip('"'),
        memory_max=number("MemoryMax") or None,
        restart_sec=properties.get("RestartUSec", ""),
        start_limit=_start_limit(properties),
    )


def _refused(properties: t.Mapping[str, str]) -> str:
    """Which check of the unit its last start did not pass; a check that was never made has no time."""
    for name in ("Condition", "Assert"):
        checked = properties.get(f"{name}TimestampMonotonic", "0")
        if checked not in ("", "0") and properties.get(f"{name}Result") == "no":
            return name.lower()
    return ""


def _start_limit(properties: t.Mapping[str, str]) -> str:
    burst, interval = properties.get("StartLimitBurst", ""), properties.get("StartLimitIntervalUSec", "")
    return f"{burst} in {interval}" if burst not in ("", "0") and interval not in ("", "0", "infinity") else ""


class UnitSource:
    """Reads one unit by ``systemctl show``."""

    def __init__(self, unit: str, run_command: RunCommand, systemctl: str = "systemctl") -> None:
        self._command = [systemctl, "show", unit, *(f"--property={name}" for name in PROPERTIES)]
        self._unit = unit
        self._systemctl = systemctl
        self._run = run_command

    def read(self) -> UnitReading:
        status, out, err = self._run(self._command)
        properties = parse_show(out)
        if status != 0 or "LoadState" not in properties:
            reason = (err or out).strip() or f"exit status {status} and no output"
            return UnitReading(None, error=f"{' '.join(self._command[:3])}: {reason}")
        started = properties.get("ExecMainStartTimestampMonotonic", "")
        started_s = int(started) / 1e6 if started.isdigit() and started != "0" else None
        state = self._blocked(unit_state(properties), properties)
        began = properties.get("InactiveExitTimestamp", "")
        return UnitReading(state, properties.get("ControlGroup", ""), started_s, began="" if began == "n/a" else began)

    def _blocked(self, state: UnitState, properties: t.Mapping[str, str]) -> UnitState:
        """What keeps it from running; asked only while it does not run."""
        if state.active_state not in ("inactive", "failed", "deactivating"):
            return state
        if properties.get("Job", "0") not in ("", "0"):
            job = queued_job(self._run, self._unit, self._systemctl)
            return state._replace(job=job.type, waits_for=job.waits_for)
        if state.active_state == "inactive" and not state.exec_main_code:
            return state._replace(failed_needs=failed_needs(self._run, needed(properties), self._systemctl))
        return state


def cgroup_folders(
    control_group: str, root: str = "/sys/fs/cgroup", own: str = "/", hierarchies: t.Sequence[str] = HIERARCHIES
) -> tuple[str, ...]:
    """Where the control group may be found, most likely first.

    ``own`` is PID 1's path in systemd's hierarchy. In a container without a cgroup namespace ``ControlGroup`` begins
    with that path while the mount shows the whole tree, and in one with a namespace it does not; so the path is tried
    as given and below PID 1's.
    """
    if not control_group.strip("/"):
        return ()
    tails = [control_group]
    parent = own.rstrip("/")
    for suffix in ("/init.scope", "/system.slice"):
        if parent.endswith(suffix):
            parent = parent[: -len(suffix)]
    if parent and not control_group.startswith(parent + "/"):
        tails.append(parent + control_group)
    return tuple(os.path.join(root, hierarchy, tail.lstrip("/")) for hierarchy in hierarchies for tail in tails)


def own_cgroup(text: str) -> str:
    """PID 1's path in systemd's hierarchy from the text of ``/proc/1/cgroup``: the v1 name=systemd line, or v2's."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        _number, _separator, rest = line.partition(":")
        controllers, _separator, path = rest.partition(":")
        paths[controllers] = path
    return paths.get("name=systemd", paths.get("", "/")) or "/"


def cgroup_pids(folders: t.Iterable[str]) -> tuple[int, ...]:
    """The processes of the first folder that has any, with those of the groups below it. A vanished group has none."""
    for folder in folders:
        found: set[int] = set()
        for path, _names, files in os.walk(folder):
            if "cgroup.procs" in files:
                found.update(_pids(os.path.join(path, "cgroup.procs")))
        if found:
            return tuple(sorted(found))
    return ()


def oom_kills(control_group: str, root: str = "/sys/fs/cgroup", own: str = "/") -> t.Optional[int]:
    """How many processes of the group the OOM killer has ended; None where the kernel does not count, or no more."""
    for hierarchy, name in OOM_COUNTERS:
        for folder in cgroup_folders(control_group, root, own, (hierarchy,)):
            with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, name), encoding="ascii") as handle:
                counts = dict(line.split(maxsplit=1) for line in handle if " " in line)
                if "oom_kill" in counts:
                    return int(counts["oom_kill"])
    return None


def host_oom_kills(vmstat: str = "/proc/vmstat") -> t.Optional[int]:
    """How many processes of the whole host the OOM killer has ended since it booted.

    Under cgroup v1 a group is gone, with its counter, as soon as its last process is: then this one is left.
    """
    with contextlib.suppress(OSError, ValueError), open(vmstat, encoding="ascii") as handle:
        for line in handle:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None


class ControlGroups:
    """The cgroup file system as this host's systemd names its groups."""

    def __init__(self, root: str = "/sys/fs/cgroup", init_cgroup: str = "/proc/1/cgroup") -> None:
        self._root = root
        self._own = "/"
        with contextlib.suppress(OSError), open(init_cgroup, encoding="utf-8") as handle:
            self._own = own_cgroup(handle.read())

    def pids(self, control_group: str) -> tuple[int, ...]:
        return cgroup_pids(cgroup_folders(control_group, self._root, self._own))

    def oom_kills(self, control_group: str) -> t.Optional[int]:
        return oom_kills(control_group, self._root, self._own)

    def use(self, control_group: str, pid: int) -> GroupUse:
        def folders(hierarchy: str) -> t.Sequence[str]:
            return cgroup_folders(control_group, self._root, self._own, (hierarchy,))

        return GroupFiles(folders, self._root).use(pid)


def _pids(path: str) -> tuple[int, ...]:
    try:
        with open(path, encoding="ascii") as handle:
            # 0 stands for a process outside this pid namespace
            return tuple(pid for pid in map(int, handle.read().split()) if pid)
    except (OSError, ValueError):
        return ()


__all__ = (
    "PROPERTIES",
    "ControlGroups",
    "RunCommand",
    "UnitReading",
    "UnitSource",
    "cgroup_folders",
    "cgroup_pids",
    "host_oom_kills",
    "oom_kills",
    "own_cgroup",
    "parse_show",
    "unit_state",
)
