# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""How far a snapshot is, for the people who wait: the progress file that the action plugin reads."""

from __future__ import annotations

import collections
import contextlib
import time
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._progress import ProgressFile
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import Meter

#: seconds of the past that the shown rate is an average of
RATE_WINDOW = 15.0


class Progress:
    """Keeps the progress file up to date. Trouble with that file never harms the work."""

    def __init__(self, file: ProgressFile, clock: t.Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._samples: collections.deque[tuple[float, int]] = collections.deque()
        self._last = float("-inf")

    def show(self, phase: str, message: str = "", force: bool = True, **numbers: t.Any) -> None:
        now = self._clock()
        if not force and now - self._last < 0.5:
            return
        self._last = now
        with contextlib.suppress(OSError):
            self._file.write({"phase": phase, "message": message, **numbers})

    def rate(self, moved: int) -> float:
        """Bytes a second lately, when ``moved`` were moved in all."""
        now = self._clock()
        self._samples.append((now, moved))
        while len(self._samples) > 2 and now - self._samples[0][0] > RATE_WINDOW:
            self._samples.popleft()
        began, before = self._samples[0]
        return (moved - before) / (now - began) if now > began else 0.0

    def restart(self) -> None:
        self._samples.clear()

    def show_work(
        self,
        phase: str,
        meter: Meter,
        files_done: int,
        files_total: int,
        bytes_before: int,
        bytes_total: int,
        moved: int,
    ) -> None:
        """``bytes_before``: those in place without this work; ``moved``: what the rate is made of."""
        current = dict(meter.current)
        done = min(bytes_total, bytes_before + sum(current.values()))
        rate = self.rate(moved)
        finished = {item.job.file.path for item in list(meter.finished)}
        self.show(
            phase,
            meter.message,
            force=False,
            files_done=files_done,
            files_total=files_total,
            bytes_done=done,
            bytes_total=bytes_total,
            bytes_downloaded=meter.downloaded if phase == "download" else 0,
            rate_bytes_s=round(rate),
            eta_s=round((bytes_total - done) / rate) if rate > 0 else None,
            retries=meter.retries,
            current=[path for path in sorted(current) if path not in finished][:16],
        )


__all__ = ("Progress",)
