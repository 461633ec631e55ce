# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults: what goes wrong, for which requests, how often. No network here, only the rules.

A fault is a mapping, the same from Python (``hub.fault(on="cdn", action="drop", at=1000)``) and over HTTP.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import threading
import typing as t

#: the kinds of request a fault can be limited to
KINDS = frozenset({"any", "info", "tree", "paths", "refs", "whoami", "resolve", "cdn", "other"})

#: action -> the fields that belong to it alone. Offsets (``at``) count from the start of the file, also in a Range.
ACTIONS: t.Mapping[str, frozenset[str]] = {
    # answers in place of the real one
    "status": frozenset({"status", "headers", "message", "error_code"}),
    "html": frozenset(),
    # the real answer with another head
    "header": frozenset({"headers"}),
    "ignore_range": frozenset(),
    # the real answer with another body
    "flip": frozenset({"at"}),
    "truncate": frozenset({"at"}),
    # the real answer, interrupted or slow
    "drop": frozenset({"at"}),
    "reset": frozenset({"at"}),
    "stall": frozenset({"at", "seconds"}),
    "trickle": frozenset({"rate"}),
    # the real answer, late (``delay`` also goes with every other action)
    "delay": frozenset(),
    # the real answer, after a new commit on a branch
    "move": frozenset({"repo", "branch", "files"}),
}
SELECTORS = frozenset({"on", "method", "match", "skip", "times", "delay", "action"})
REQUIRED: t.Mapping[str, str] = {"status": "status", "trickle": "rate", "delay": "delay", "move": "repo"}


class FaultError(ValueError):
    """A fault that cannot be understood; the message says which part of it."""


@dataclasses.dataclass
class Fault:
    action: str
    on: str = "any"
    #: HTTP method; None for every one
    method: t.Optional[str] = None
    #: regular expression searched in OWNER/NAME/path
    match: str = ""
    #: let that many matching requests pass first
    skip: int = 0
    #: fire that often; None for ever
    times: t.Optional[int] = None
    #: seconds of silence before anything is answered
    delay: float = 0
    #: offset in the file; for a cut (drop, reset, stall) None is before the head of the answer
    at: t.Optional[int] = None
    status: int = 500
    headers: t.Mapping[str, t.Optional[str]] = dataclasses.field(default_factory=dict)
    message: str = ""
    error_code: t.Optional[str] = None
    seconds: float = 3600
    rate: float = 0
    repo: str = ""
    branch: str = "main"
    files: t.Optional[t.Mapping[str, t.Optional[str]]] = None
    id: int = 0
    seen: int = 0
    fired: int = 0

    def take(self, kind: str, method: str, subject: str) -> bool:
        """Whether the fault fires for this request; counts it."""
        if self.on not in ("any", kind) or self.method not in (None, method) or not re.search(self.match, subject):
            return False
        self.seen += 1
        if self.seen <= self.skip or (self.times is not None and self.fired >= self.times):
            return False
        self.fired += 1
        return True


def parse_fault(spec: t.Mapping[str, t.Any]) -> Fault:
    action = str(spec.get("action"))
    if action not in ACTIONS:
        raise FaultError(f"action {action!r} is none of {', '.join(ACTIONS)}")
    if spec.get("on", "any") not in KINDS:
        raise FaultError(f"on {spec['on']!r} is none of {', '.join(sorted(KINDS))}")
    extra = sorted(set(spec) - SELECTORS - ACTIONS[action])
    if extra:
        raise FaultError(f"action {action!r} does not take {', '.join(extra)}")
    needed = REQUIRED.get(action)
    if needed and not spec.get(needed):
        raise FaultError(f"action {action!r} needs {needed}")
    try:
        re.compile(spec.get("match", ""))
    except re.error as exc:
        raise FaultError(f"match {spec['match']!r} is not a regular expression: {exc}") from exc
    return Fault(**spec)


class FaultList:
    """The faults in force. The first one that takes a request gets it; several threads may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._ids = itertools.count(1)

    def add(self, spec: t.Mapping[str, t.Any]) -> Fault:
        fault = parse_fault(spec)
        with self._lock:
            fault.id = next(self._ids)
            self._faults.append(fault)
        return fault

    def clear(self, fault_id: t.Optional[int] = None) -> None:
        """Forget one fault, or all."""
        with self._lock:
            self._faults = [fault for fault in self._faults if fault_id not in (None, fault.id)]

    def pick(self, kind: str, method: str, subject: str) -> t.Optional[Fault]:
        with self._lock:
            return next((fault for fault in self._faults if fault.take(kind, method, subject)), None)

    def describe(self) -> list[dict[str, t.Any]]:
        with self._lock:
            return [dataclasses.asdict(fault) for fault in self._faults]
