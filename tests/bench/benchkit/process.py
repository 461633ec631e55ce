# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs one command to its end and measures it: wall time, processor time, and the peak memory of its processes."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import typing as t

from benchkit.model import Sample

_PEAK = re.compile(rb"^VmHWM:\s+(\d+) kB", re.M)


class CommandFailed(Exception):
    """A contestant did not do its work, so that its time means nothing."""


class Finished(t.NamedTuple):
    sample: Sample
    out: str


class PeakWatch:
    """Looks at the peak resident set of a process and its descendants, while they live.

    getrusage would do for one process, but counts what it was before exec, and hides the children's.
    """

    def __init__(self, pid: int, interval: float = 0.02) -> None:
        self.peak = 0
        self._pid, self._interval = pid, interval
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakWatch:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(self._interval):
            for pid in self._family(self._pid):
                try:
                    found = _PEAK.search(pathlib.Path(f"/proc/{pid}/status").read_bytes())
                except OSError:
                    continue
                self.peak = max(self.peak, int(found.group(1)) << 10 if found else 0)

    def _family(self, pid: int) -> t.Iterator[int]:
        yield pid
        try:
            children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return
        for child in children:
            yield from self._family(int(child))


def measure(argv: t.Sequence[str], env: t.Mapping[str, str], extra: t.Mapping[str, float] | None = None) -> Finished:
    """Run ``argv`` with exactly ``env``; raises :class:`CommandFailed` when it does not end well."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.monotonic()
        child = subprocess.Popen(argv, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        with PeakWatch(child.pid) as watch:
            _pid, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        text = _text(out)
        if child.returncode:
            raise CommandFailed(
                f"{' '.join(argv)[:300]} ended with status {child.returncode}: {_text(err)[-600:]} {text[-600:]}"
            )
    return Finished(Sample(seconds, usage.ru_utime + usage.ru_stime, watch.peak, extra or {}), text)


def _text(stream: t.IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "replace")
