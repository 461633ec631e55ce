# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The exceptions at the ends of tracebacks, those of several processes at once included. Constant memory."""

from __future__ import annotations

import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._log_kinds import MAIN_FRAMES

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._vllm_log import Line

TRACEBACK = "Traceback (most recent call last)"
#: a traceback whose end never came (its process died in the middle) is given up after so many lines, whoever wrote them
_PATIENCE = 2000
_OPEN = 32
#: lines of others that may stand between an exception and what it says of itself
_BETWEEN = 50


class _Traceback:
    """One traceback being read."""

    def __init__(self, bare: bool) -> None:
        #: not in log records: nobody caught it
        self.bare = bare
        #: of the server's main process
        self.main = False


class Tracebacks:
    """Feed it the lines of the service while it is ``busy``, and those that begin a traceback."""

    def __init__(self) -> None:
        #: first exception of a traceback that is not a mere warning
        self.exception = ""
        #: exception that ended the main process
        self.main_exception = ""
        #: lines that do not go on with tracebacks have to be read
        self.busy = False
        #: whatever comes next has to be read
        self.asks = False
        self._asked: tuple[str, int] = ("", 0)
        self._open: dict[str, _Traceback] = {}
        self._lines = 0

    def goes_on(self, lines: int) -> None:
        """So many lines that are known to go on with tracebacks."""
        self._lines += lines

    def in_main(self, owner: str) -> None:
        """One of them has a frame of the main process."""
        current = self._open.get(owner)
        if current is not None and current.bare:
            current.main = True

    def line(self, line: Line, owner: str, counts: bool) -> None:
        """Any other line. ``counts``: exceptions mean something, the server was not asked to stop."""
        text = line.text
        owner = line.proc or owner
        if self.asks:
            self._answer(text, owner)
        if text.startswith(TRACEBACK):
            if len(self._open) < _OPEN:
                self._open[owner] = _Traceback(bare=not line.level)
                self._lines = 0
        elif self._open:
            self._inside(line, owner, counts)
        self.busy = bool(self._open)

    def _inside(self, line: Line, owner: str, counts: bool) -> None:
        self._lines += 1
        if self._lines > _PATIENCE:
            self._open.clear()
        current = self._open.get(owner)
        if current is None:
            return
        text = line.text
        if not text.strip() or text.startswith(" "):
            current.main = current.main or (current.bare and any(frame in text for frame in MAIN_FRAMES))
            return
        del self._open[owner]
        if counts and line.level in ("", "ERROR", "CRITICAL"):
            self._take(text.strip(), current.main, owner)

    def _answer(self, text: str, owner: str) -> None:
        """pydantic says what is wrong one line below its exception."""
        asked, left = self._asked
        self._asked = (asked, left - 1)
        self.asks = owner != asked and left > 1
        if owner == asked and text.startswith("  ") and "rror, " in text:
            self._replace(text.strip())

    def _take(self, text: str, main: bool, owner: str) -> None:
        if text.startswith("KeyboardInterrupt"):
            return
        self.exception = self.exception or text
        if main:
            self.main_exception = text
        self.asks = "validation error" in text
        self._asked = (owner, _BETWEEN)

    def _replace(self, text: str) -> None:
        if "validation error" in self.exception:
            self.exception = text
        if "validation error" in self.main_exception:
            self.main_exception = text


__all__ = ("TRACEBACK", "Tracebacks")
