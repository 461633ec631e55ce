# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The loop that every byte goes through, whatever source it comes from: written, hashed, counted, limited, watched."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._partial import Partial, check_stop
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import (
    Interruption,
    Limiter,
    Meter,
    Policy,
    Stop,
)

MIN_BLOCK = 1 << 14
MAX_BLOCK = 1 << 22
#: given room to read into, what was read, there or elsewhere, and never more than fits; nothing at the end
Read = t.Callable[[memoryview], memoryview]


class Flow:
    """One worker's."""

    def __init__(
        self,
        policy: Policy,
        meter: Meter,
        limiter: Limiter,
        stop: Stop,
        clock: t.Callable[[], float] = time.monotonic,
        count: t.Callable[[str, int], None] = lambda source, count: None,
    ) -> None:
        self.policy = policy
        self.meter = meter
        self.stop = stop
        #: to read into
        self.buffer = memoryview(bytearray(MAX_BLOCK))
        self._other: memoryview | None = None
        self._limiter = limiter
        self._clock = clock
        self._count = count

    def _turn(self) -> None:
        """Have another buffer: the digest of what is in this one may still be under way."""
        self.buffer, self._other = self._other or memoryview(bytearray(MAX_BLOCK)), self.buffer

    def check_stop(self, part: Partial) -> None:
        check_stop(self.stop, part)

    def pour(self, read: Read, part: Partial, source: str, where: str) -> None:
        """Append what ``read`` gives until it ends or the file is whole. ``where`` is for messages."""
        size, path = part.job.file.size, part.job.file.path
        block = MIN_BLOCK
        window_start, window_bytes = self._clock(), 0
        while part.offset < size:
            self.check_stop(part)
            began = self._clock()
            if part.beside:
                self._turn()
            data = read(self.buffer[: min(block, size - part.offset)])
            if not data:
                break
            part.write(data, source)
            self.meter.at(path, part.offset, len(data))
            self._count(source, len(data))
            self._limiter.take(len(data))
            now = self._clock()
            # about a quarter of a second a block: even progress and little to lose on a slow line, few calls on a fast
            # one. What comes first comes out of buffers and says nothing about the line: so no more than twice as much
            block = max(MIN_BLOCK, min(MAX_BLOCK, 2 * block, int(len(data) / max(now - began, 1e-6) / 4)))
            window_bytes += len(data)
            if now - window_start >= self.policy.stall_timeout:
                if window_bytes < self.policy.min_rate * (now - window_start):
                    rate = window_bytes / (now - window_start)
                    raise Interruption(f"only {rate:.0f} bytes/s from {where}, new connection", leave=True)
                window_start, window_bytes = now, 0


__all__ = ("MAX_BLOCK", "MIN_BLOCK", "Flow", "Read")
