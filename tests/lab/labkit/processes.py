# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes that are remembered across commands.

A pid alone may be somebody else's by the time it is used, so the start time of its process goes with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path


def start_time(pid: int) -> int | None:
    """When the process began, in clock ticks since boot; None when there is none (or only its corpse)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def record(path: Path, pid: int) -> None:
    """Remember a process of ours in ``path``."""
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps({"pid": pid, "start_time": start_time(pid)}))
    temporary.replace(path)


def recorded(path: Path) -> int | None:
    """The pid remembered in ``path``, if that very process still runs."""
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    began = start_time(known["pid"])
    return known["pid"] if began is not None and began == known["start_time"] else None


def end(path: Path, grace_s: float) -> None:
    """End the process remembered in ``path``: SIGTERM, and SIGKILL if it is still there after ``grace_s``."""
    for number, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        pid = recorded(path)
        if pid is None:
            break
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + patience
        while recorded(path) is not None and time.monotonic() < deadline:
            time.sleep(0.05)
    path.unlink(missing_ok=True)


__all__ = ("end", "record", "recorded", "start_time")
