# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The machine: what it is, for the report; and whether it is quiet, before a sample is taken."""

from __future__ import annotations

import os
import pathlib
import platform
import re
import time

#: share of the processors that others may use while something is measured
QUIET = 0.10
#: seconds to wait for that
PATIENCE = 20.0


def describe() -> str:
    """One line: processors, their features that matter here, memory, kernel."""
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.M)
    flags = set((re.search(r"^(?:flags|Features)\s*:\s*(.+)$", cpuinfo, re.M) or [""])[0].split())
    memory = re.search(r"^MemTotal:\s*(\d+) kB", pathlib.Path("/proc/meminfo").read_text(), re.M)
    return ", ".join(
        (
            f"{cores()} x {model.group(1) if model else platform.machine()}",
            "with SHA instructions" if flags & {"sha_ni", "sha2"} else "without SHA instructions",
            f"{int(memory.group(1)) / (1 << 20):.0f} GiB" if memory else "memory unknown",
            f"Linux {platform.release()}",
            f"Python {platform.python_version()}",
        )
    )


def cores() -> int:
    return len(os.sched_getaffinity(0))


def load() -> str:
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def busy_share(seconds: float = 0.25) -> float:
    """Share of all processors in use during the next moment, in which the caller sleeps."""
    before = _ticks()
    time.sleep(seconds)
    after = _ticks()
    total = sum(after) - sum(before)
    idle = after[3] + after[4] - before[3] - before[4]
    return 1 - idle / total if total else 0.0


def _ticks() -> tuple[int, ...]:
    return tuple(int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])


def wait_until_quiet() -> float:
    """The share others use, at most :data:`QUIET` unless patience runs out."""
    deadline = time.monotonic() + PATIENCE
    share = busy_share()
    while share > QUIET and time.monotonic() < deadline:
        share = busy_share(1.0)
    return share
