# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""When a start will be ready, by how long its stages took in earlier starts of the same kind. Pure.

The weights tell their own speed while they load (``_eta.py``). Nothing tells how long the stages after them will take
but an earlier start of the same release on the same host, or that of another host with the same cards.
"""

from __future__ import annotations

import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._stages import NAMES, ORDER

#: One earlier start says nothing about how much starts differ: a quarter either way is what compile caches and page
#: caches make of the same start.
_ALONE = 0.25
#: stages that the server spends waiting for the watcher, or that have no length
_NOT_WORK = frozenset(("unit", "ready"))
#: a stage is slow when it takes this much longer than it ever did, and noticeably so
_SLOWER = 1.5
_NOTICEABLE_S = 30.0


class Start(typing.NamedTuple):
    """A start that ended well."""

    #: seconds in each stage
    stages: typing.Mapping[str, float]
    shards: typing.Optional[int] = None
    #: where it is from, as people say it: ``release 3``, ``gpu01``
    label: str = "the last start"


class Span(typing.NamedTuple):
    """Seconds: the most likely, and the limits within which it should be."""

    likely: float
    low: float
    high: float

    def plus(self, other: Span) -> Span:
        return Span(self.likely + other.likely, self.low + other.low, self.high + other.high)


class Forecast:
    """What earlier starts say about this one. The newest comes first."""

    def __init__(self, earlier: typing.Sequence[Start]) -> None:
        self._earlier = tuple(start for start in earlier if any(start.stages.values()))

    @property
    def basis(self) -> str:
        """Where the knowledge is from; empty without any."""
        return self._earlier[0].label if self._earlier else ""

    @property
    def shard_s(self) -> typing.Optional[float]:
        """Seconds a shard took; None when unknown."""
        for start in self._earlier:
            if start.shards and start.stages.get("weights"):
                return start.stages["weights"] / start.shards
        return None

    def stage(self, name: str) -> typing.Optional[Span]:
        """How long a stage takes; None when no earlier start tells, zero when none had it."""
        if not self._earlier:
            return None
        took = [start.stages.get(name, 0.0) for start in self._earlier]
        margin = took[0] * _ALONE
        return Span(took[0], min(*took, took[0] - margin), max(*took, took[0] + margin))

    def ready(self, name: str, spent: float, weights: typing.Optional[Span]) -> typing.Optional[Span]:
        """Seconds until ready, in stage ``name`` since ``spent`` seconds; ``weights`` is what the bar says of them."""
        rest = self._rest(name, spent)
        if rest is None:
            return None
        current = weights if name == "weights" and weights is not None else rest
        for later in NAMES[ORDER[name] + 1 :]:
            span = self.stage(later)
            if span is not None and later not in _NOT_WORK:
                current = current.plus(span)
        return current

    def _rest(self, name: str, spent: float) -> typing.Optional[Span]:
        """What is left of a stage. One that is over its time can be over at any moment, or last as long again."""
        span = self.stage(name)
        if span is None:
            return None
        over = max(0.0, spent - span.high)
        return Span(max(0.0, span.likely - spent), max(0.0, span.low - spent), max(0.0, span.high - spent) + over)

    def slow_because(self, name: str, spent: float) -> typing.Optional[str]:
        """Why a stage counts as slow, or None. A stage that earlier starts did not have is not judged."""
        span = self.stage(name)
        if span is None or not span.likely or name in _NOT_WORK:
            return None
        if spent < max(span.high * _SLOWER, span.high + _NOTICEABLE_S):
            return None
        return f"{name} for {spent:.0f} s, {span.likely:.0f} s in {self.basis}"


__all__ = ("Forecast", "Span", "Start")
