# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Whether the kernel's OOM killer ended a server: by what its control group, systemd and the host count.

What the kernel's log says of it is a row of the signature table, and needs no counting.
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._ending import End
    from ansible_collections.modelfleet.serving.plugins.module_utils._observe import Observation, UnitState

#: a server that is killed so soon after it named a cause was dying of that
_FOLLOWS_S = 10.0
_NEVER = 1000


class OomWatch:
    """Feed it every look at one start."""

    def __init__(self, counted: int = 0) -> None:
        #: of the control group, which may outlive a start
        self.counted = counted
        #: it ended a process of the service, before anything else was complained of
        self.killed = False
        self._ours = 0
        self._by_result = False
        self._host: typing.Optional[int] = None
        self._looks_since_host = _NEVER
        self._in_that_moment = False
        self._complained_at: typing.Optional[float] = None

    def feed(
        self, seen: Observation, end: typing.Optional[End], signal: typing.Optional[str], *, complained: bool
    ) -> None:
        """``signal``: what ended the main process; ``complained``: the log has named a cause by now."""
        rise = self._count(seen)
        self._by_result = seen.unit.result == "oom-kill" if seen.unit is not None else self._by_result
        if end is not None and end.t == seen.t:
            # the kill may have been counted before the look in which its effect was seen; the end of an engine is
            # believed at its second look
            self._in_that_moment = self._looks_since_host <= (2 if end.how == "engine" else 1)
        # only its parent learns the status of a process
        unknown = end is not None and end.how in ("exit", "engine") and end.exit_code is None
        by_host = self._in_that_moment and (unknown or signal == "SIGKILL")
        dying = self._complained_at is not None and seen.t - self._complained_at < _FOLLOWS_S
        if (rise or self._by_result or by_host) and not dying:
            self.killed = True
        if self._complained_at is None and complained:
            self._complained_at = seen.t

    def _count(self, seen: Observation) -> int:
        """Take the counters in; how far that of the group rose."""
        ours, host = seen.oom_kills, seen.host_oom_kills
        rise = 0
        if ours is not None:
            # a group that was made anew counts from zero
            rise = ours - self.counted if ours >= self.counted else ours
            self.counted = ours
            self._ours += rise
        rose = host is not None and self._host is not None and host > self._host
        self._looks_since_host = 0 if rose else self._looks_since_host + 1
        self._host = host if host is not None else self._host
        return rise

    def evidence(self, unit: typing.Optional[UnitState]) -> list[str]:
        if not self.killed:
            return []
        if self._ours:
            said = f"the control group counts {self._ours} of its processes ended by the kernel's OOM killer"
        elif self._by_result:
            said = "systemd saw the kernel's OOM killer end it (result oom-kill)"
        else:
            said = "in that moment the kernel's OOM killer ended a process on this host"
        limit = unit.memory_max if unit is not None else None
        return [said + (f"; MemoryMax= of the unit is {limit / 2**20:.0f} MiB" if limit else "")]


__all__ = ("OomWatch",)
