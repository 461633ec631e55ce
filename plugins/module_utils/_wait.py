# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The wait: look, judge, tell, sleep, until the judge has heard enough. Pure; the clock is given."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import (
    Completion,
    GpuSample,
    Observation,
    ProcSample,
    Storage,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._stacks import Stack
from ansible_collections.modelfleet.serving.plugins.module_utils._status import Status

#: seconds between looks that are not for their own sake: only for an answer that is under way
ANSWER_PAUSE = 0.2


class Eyes(t.Protocol):
    """See ``_sources.Sources``."""

    more: bool

    @property
    def busy(self) -> bool:
        """An answer is under way."""

    def observe(self, now: float) -> Observation:
        """One look."""

    def pause(self, seconds: float) -> None:
        """Sleep."""


class Referee(t.Protocol):
    """See ``_verdict.Judge``."""

    def feed(self, observation: Observation) -> Status:
        """The whole truth so far."""


@dataclasses.dataclass(frozen=True)
class View:
    """How things stand after a look."""

    status: Status
    elapsed_s: float
    looks: int
    gpus: tuple[GpuSample, ...] = ()
    completion: t.Optional[Completion] = None
    unit_state: str = ""
    #: who else listens on the service's port, in words
    foreign: str = ""
    #: what sources could not do in this look
    notes: tuple[str, ...] = ()
    timed_out: bool = False
    #: the service's processes, and where its weights are
    procs: tuple[ProcSample, ...] = ()
    storage: t.Optional[Storage] = None
    #: what was looked at once the start was found to be stalled, see ``_examine.py``
    examined: tuple[str, ...] = ()
    stacks: tuple[Stack, ...] = ()


class Patience(t.NamedTuple):
    """How long to look."""

    poll_interval: float = 2.0
    #: seconds; None waits as long as there is progress
    timeout: t.Optional[float] = None
    #: look once, and again only for what is on its way already, for at most so many seconds
    one_look: t.Optional[float] = None


def wait(
    eyes: Eyes, referee: Referee, patience: Patience, clock: t.Callable[[], float], tell: t.Callable[[View], None]
) -> View:
    """Look until the status is final, the time is up, or (for one look) there is nothing more to be had."""
    began = clock()
    view: t.Optional[View] = None
    while True:
        now = clock() - began
        observation = eyes.observe(now)
        status = referee.feed(observation)
        view = _view(view, observation, status, clock() - began)
        over = patience.timeout is not None and view.elapsed_s >= patience.timeout
        if over and not status.final and patience.one_look is None:
            view = dataclasses.replace(view, timed_out=True)
        tell(view)
        if status.final or view.timed_out:
            return view
        if patience.one_look is not None and not (eyes.more or (eyes.busy and view.elapsed_s < patience.one_look)):
            return view
        if not eyes.more:
            eyes.pause(_pause(patience, view.elapsed_s))


def _pause(patience: Patience, elapsed: float) -> float:
    if patience.one_look is not None:
        return ANSWER_PAUSE
    if patience.timeout is None:
        return patience.poll_interval
    return max(0.0, min(patience.poll_interval, patience.timeout - elapsed))


def _view(before: t.Optional[View], observation: Observation, status: Status, elapsed: float) -> View:
    unit = observation.unit
    http = observation.http
    return View(
        status=status,
        elapsed_s=elapsed,
        looks=before.looks + 1 if before else 1,
        gpus=observation.gpus or (),
        completion=(http.completion if http else None) or (before.completion if before else None),
        unit_state=f"{unit.active_state}/{unit.sub_state}" if unit else "",
        foreign=http.foreign if http else "",
        notes=tuple(dict.fromkeys(observation.notes)),
        procs=observation.procs or (),
        storage=observation.storage,
    )


__all__ = ("Eyes", "Patience", "Referee", "View", "wait")
