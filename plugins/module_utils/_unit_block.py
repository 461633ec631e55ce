# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What keeps a unit from running: a job in systemd's queue and those it waits for, units it needs that failed.

Asked of systemd only while a unit does not run.
"""

from __future__ import annotations

import re
import typing as t

#: as module.run_command: a list of arguments in, status, standard output and standard error out
RunCommand = t.Callable[[t.Sequence[str]], tuple[int, str, str]]

#: ``704 t-queued.service start waiting``
_JOB = re.compile(r"^\s*\d+\s+(?P<unit>\S+)\s+(?P<type>[a-z-]+)\s+(?P<state>running|waiting)\s*$")
#: ``└─ waiting for job 705 (t-slowdep.service/start) -``
_WAITS = re.compile(r"waiting for job \d+ \((?P<unit>[^()]+)/(?P<type>[a-z-]+)\)")
#: needed by every service; were they missing, the host would not be up
_ALWAYS_THERE = (".slice", ".target", ".socket")
_NEEDS = ("Requires", "Requisite", "BindsTo")


class Job(t.NamedTuple):
    """What systemd is about to do with a unit."""

    #: start, stop, restart ...; empty when nothing
    type: str = ""
    #: units whose jobs have to be done first, each with what is done with it: ``models.mount/start``
    waits_for: tuple[str, ...] = ()


def parse_jobs(text: str, unit: str) -> Job:
    """The unit's job from ``systemctl list-jobs UNIT --before``."""
    kind, waits, ours = "", [], False
    for line in text.splitlines():
        job = _JOB.match(line)
        if job is not None:
            ours = job["unit"] == unit
            kind = job["type"] if ours else kind
            continue
        wait = _WAITS.search(line)
        if wait is not None and ours:
            waits.append(f"{wait['unit']}/{wait['type']}")
    return Job(kind, tuple(waits))


def queued_job(run: RunCommand, unit: str, systemctl: str = "systemctl") -> Job:
    """The job of a unit that has one; of unknown type where systemd does not list it any more."""
    _status, out, _err = run([systemctl, "list-jobs", unit, "--before", "--no-legend", "--no-pager", "--full"])
    return parse_jobs(out, unit)


def needed(properties: t.Mapping[str, str]) -> tuple[str, ...]:
    """The units without which this one does not start, by its properties."""
    names = {name for key in _NEEDS for name in properties.get(key, "").split()}
    return tuple(sorted(name for name in names if not name.endswith(_ALWAYS_THERE) and name != "-.mount"))


def failed_needs(run: RunCommand, names: t.Sequence[str], systemctl: str = "systemctl") -> tuple[str, ...]:
    """Those of ``names`` that failed or do not exist, each with why: ``models.mount (exit-code)``."""
    if not names:
        return ()
    fields = ("Id", "LoadState", "ActiveState", "Result")
    _status, out, _err = run([systemctl, "show", *names, *(f"--property={name}" for name in fields)])
    failed = []
    for block in out.split("\n\n"):
        unit = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if unit.get("LoadState") in ("not-found", "masked", "bad-setting"):
            failed.append(f"{unit.get('Id')} ({unit['LoadState']})")
        elif unit.get("ActiveState") == "failed":
            failed.append(f"{unit.get('Id')} ({unit.get('Result') or 'failed'})")
    return tuple(failed)


__all__ = ("Job", "RunCommand", "failed_needs", "needed", "parse_jobs", "queued_job")
