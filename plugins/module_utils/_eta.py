# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""How fast the weights load, how long they will still take, and whether that is slow."""

from __future__ import annotations

import collections
import math
import statistics
import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._forecast import Span

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._vllm_log import Bar

#: shards over which the current speed is taken
_RECENT = 8
#: how far the speed of a disk that others use too may drift until the load is over
_DRIFT = 0.1
#: below this span the poll interval and the bar's whole seconds say little, and the bar's own speed more
_SHORT_S = 3.0
#: A single SATA disk gives some 500 MB/s; loads of 270 MB/s (34 s a shard) are on record as merely slow.
SLOW_BYTES_PER_S = 300e6
#: a load counts as slow against what was expected, or against its own earlier shards, by these factors
_SLOWER_THAN_EXPECTED = 1.5
_SLOWER_THAN_BEFORE = 3.0
#: nothing is called slow before it has taken this long
_NOTICEABLE_S = 10.0


class ShardClock:
    """One pass of a weight bar on the observer's clock."""

    def __init__(self) -> None:
        self.done = 0.0
        self.total = 0.0
        self._first: typing.Optional[float] = None
        self._last = float("-inf")
        self._per_s: typing.Optional[float] = None
        self._marks: collections.deque[tuple[float, float]] = collections.deque(maxlen=_RECENT + 1)
        #: seconds a shard took
        self._earlier: collections.deque[float] = collections.deque(maxlen=64)

    def feed(self, t: float, bars: typing.Sequence[Bar]) -> None:
        """Take the states the bar went through up to ``t``; several in one look are spread by the bar's own clock."""
        for drawn in bars:
            at = max(self._last, t - max(0.0, bars[-1].elapsed_s - drawn.elapsed_s))
            if self._first is None:
                self._first = at
                self._marks.append((at, drawn.done))
            elif drawn.done > self.done:
                self._earlier.append((at - self._last) / (drawn.done - self.done))
                self._marks.append((at, drawn.done))
            else:
                continue
            self._last, self.done, self.total, self._per_s = at, drawn.done, drawn.total, drawn.per_s

    def interval_s(self) -> typing.Optional[float]:
        """Seconds one unit of the bar takes at present; None before the first one is done."""
        if len(self._marks) < 2 or self.done <= 0:
            return None
        (t0, done0), (t1, done1) = self._marks[0], self._marks[-1]
        if t1 - t0 < _SHORT_S and self._per_s:
            return 1 / self._per_s
        return (t1 - t0) / (done1 - done0)

    def eta_s(self, t: float) -> typing.Optional[float]:
        """Seconds until the last unit is done; None when unknown."""
        if self.total and self.done >= self.total:
            return 0.0
        interval = self.interval_s()
        if interval is None or not self.total:
            return None
        since = max(0.0, t - self._last)
        if since > 2 * interval:
            # overdue: the current one tells more about the speed than those before it
            interval = (interval * min(len(self._marks) - 1, _RECENT) + since) / min(len(self._marks), _RECENT + 1)
        return max(0.0, (self.total - self.done) * interval - min(since, interval))

    def span(self, t: float) -> typing.Optional[Span]:
        """The ETA with its uncertainty: the shards differ from each other, and the speed may drift."""
        eta = self.eta_s(t)
        if eta is None:
            return None
        recent = list(self._earlier)[-_RECENT:]
        spread = statistics.stdev(recent) if len(recent) > 1 else eta
        # what many shards take together differs less than one does
        margin = max(_DRIFT * eta, min(2 * spread * math.sqrt(self.total - self.done), eta))
        return Span(eta, eta - margin, eta + margin)

    def slow_because(
        self, t: float, unit_bytes: typing.Optional[float], expected_s: typing.Optional[float]
    ) -> typing.Optional[str]:
        """Why this load is slow, or None."""
        if self._first is None or t - self._first < _NOTICEABLE_S or self.done >= self.total:
            return None
        since = t - self._last
        interval = max(self.interval_s() or 0.0, since if since > _NOTICEABLE_S / 2 else 0.0)
        if interval <= 0:
            return None
        if expected_s is not None:
            if interval > expected_s * _SLOWER_THAN_EXPECTED:
                return f"{interval:.1f} s a shard, {expected_s:.1f} s expected"
            return None
        if unit_bytes is not None and unit_bytes / interval < SLOW_BYTES_PER_S:
            return f"{interval:.1f} s a shard, {unit_bytes / interval / 1e6:.0f} MB/s"
        if len(self._earlier) >= 4:
            usual = statistics.median(self._earlier)
            if interval > max(usual * _SLOWER_THAN_BEFORE, _NOTICEABLE_S / 2):
                return f"{interval:.1f} s a shard, {usual:.1f} s before"
        return None


__all__ = ("SLOW_BYTES_PER_S", "ShardClock")
