# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The machine: what it is, for the report; and how much of it others used while something was measured."""

from __future__ import annotations

import os
import pathlib
import platform
import re
import resource
import time
import typing as t

#: share of the processors that others may use while something is measured
QUIET = 0.10
_TICK = 1 / os.sysconf("SC_CLK_TCK")


def describe() -> str:
    """One line: processors, their features that matter here, memory, kernel."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.M)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", cpuinfo, re.M)
    fast = bool(flags and {"sha_ni", "sha2"} & set(flags.group(1).split()))
    memory = re.search(r"^MemTotal:\s*(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.M)
    return ", ".join(
        (
            f"{cores()} x {model.group(1) if model else platform.machine()}",
            f"{'with' if fast else 'without'} SHA instructions",
            f"{int(memory.group(1)) / (1 << 20):.0f} GiB" if memory else "memory unknown",
            f"Linux {platform.release()}",
            f"Python {platform.python_version()}",
        )
    )


def cores() -> int:
    return len(os.sched_getaffinity(0))


def load() -> str:
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


class Others:
    """What others use of the processors from its making on. ``servers``: processes of ours that are still running."""

    def __init__(self, servers: t.Sequence[int]) -> None:
        self._servers = tuple(servers)
        self._began, self._busy, self._own = time.monotonic(), _busy(), self._used()

    def share(self) -> float:
        busy, own = _busy() - self._busy, self._used() - self._own
        return max(0.0, busy - own) / max(time.monotonic() - self._began, 1e-3) / (os.cpu_count() or 1)

    def _used(self) -> float:
        used = sum(_process_time(pid) for pid in self._servers)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
            usage = resource.getrusage(who)
            used += usage.ru_utime + usage.ru_stime
        return used


def _busy() -> float:
    """Processor seconds of all processes: without interrupts, which work for nobody in particular."""
    words = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return sum(int(word) for word in words[1:4]) * _TICK


def _process_time(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK


def share_now(seconds: float) -> float:
    """The share that others use in the next ``seconds``."""
    others = Others(())
    time.sleep(seconds)
    return others.share()
