# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.modelfleet.serving.plugins.plugin_utils._detached import DetachedAction


def amount(done: int, total: int) -> str:
    """How much of how much, in the unit that fits the whole."""
    if total < 1024:
        return f"{done}/{total} B"
    unit, size = next(
        (unit, size) for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)) if total >= size
    )
    return f"{done / size:.1f}/{total / size:.1f} {unit}"


def duration(seconds: float) -> str:
    """Seconds as people read them: 0m30s, 1h05m."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"


class ActionModule(DetachedAction):
    _MODULE = "modelfleet.serving.hf_snapshot"

    def progress_line(self, state: dict[str, t.Any]) -> str:
        phase = str(state.get("phase", ""))
        message = str(state.get("message", ""))
        total = state.get("bytes_total")
        if not total:
            return message
        done = state["bytes_done"]
        parts = [
            f"{phase} {amount(done, total)} {100 * done // total}%",
            f"{state['files_done']}/{state['files_total']} files",
        ]
        if state.get("rate_bytes_s"):
            rate = state["rate_bytes_s"] / 1e6
            parts.append(f"{rate:.0f} MB/s" if rate >= 10 else f"{rate:.1f} MB/s")
        if state.get("eta_s") is not None:
            parts.append(f"ETA {duration(state['eta_s'])}")
        if state.get("retries"):
            parts.append(f"{state['retries']} retries, last: {message}")
        elif message and not state.get("rate_bytes_s"):
            # nothing moves: it is said what is waited for
            parts.append(message)
        return "  ".join(parts)
