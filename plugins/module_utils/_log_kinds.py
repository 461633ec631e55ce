# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What kind of line a line is, told at the price of a dictionary look-up.

A server writes a few hundred different lines, over and over: what differs between two of them is digits (times, pids,
ports, counters). So a line without its digits stands for all lines like it; it is looked at once and remembered. No
row of the tables can match a line whose text without digits has none of the row's needles without digits.
"""

from __future__ import annotations

import re
import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._needles import Needles
from ansible_collections.modelfleet.serving.plugins.module_utils._vllm_log import (
    ECHOED_REQUESTS,
    PREFIX_NAMES,
    is_echo,
    strip_ansi,
)

#: nothing that any table knows
PLAIN = 0
#: the same, and it goes on with the traceback its process is in
CONTINUED = 1
#: the same, with a frame that only the server's main process has
CONTINUED_IN_MAIN = 2
#: comes from being asked, or by the clock: access log and statistics
QUIET = 3
#: nothing, or nothing but digits
BLANK = 4
#: a state of a bar other than that of the weights
BAR = 5
#: has to be read
MATTERS = 6
#: has to be read, and repeats something in which any word may be
REPEATS = 7

_DIGITS = b"0123456789"
_NO_DIGITS = str.maketrans("", "", _DIGITS.decode())

_ACCESS = re.compile(r'"[A-Z]+ [^\s"]+ HTTP/')
_ACCESS_NEEDLE = " HTTP/"
_STATISTICS = "Avg prompt throughput: "
_BAR_NEEDLE = "%|"
#: to the end of the line: a record may follow on the same one
_BAR = re.compile(r":\s*%\|[^|]*\|\s*[.kMGTP]*/[.kMGTP]* \[:+<[:?]+,[^\]]*\]?\s*$")
_WEIGHTS_NEEDLE = "% Completed | "
#: frames of the server's main process: when such a traceback ends, so does the process
MAIN_FRAMES = ("/cli/main.py", "/bin/vllm", "_run_module_as_main", "openai/api_server.py")
_PREFIX = rf"\((?:{PREFIX_NAMES})[^()]*? pid=\)\s"
_HEADER = r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) - :: \[[^\]\s:]+:\] "
_RECORD = " - :: ["
#: one more space than what belongs to prefix and header, or nothing at all behind them
_CONTINUED = re.compile(rf"(?:(?:{_PREFIX})?{_HEADER}|{_PREFIX}|)(?: |\s*$)")
#: how much of a line is searched for what makes it an echo of a request
_HEAD = 256
#: bytes of keys kept, and of one
_REMEMBERED = 4 * 1024 * 1024
_LONGEST = 8 * 1024
_ECHOES = tuple(echo.encode() for echo in ECHOED_REQUESTS)


def _without_digits(text: str) -> str:
    return text.translate(_NO_DIGITS)


def keys(data: bytes) -> list[bytes]:
    """The keys of the lines of a text in UTF-8."""
    return data.translate(None, _DIGITS).split(b"\n")


class Kinds(dict[bytes, int]):
    """Kind by key. Subscribe it; what it does not know yet it finds out."""

    def __init__(self, texts: typing.Mapping[str, typing.Collection[int]]) -> None:
        """``texts``: every needle with the numbers of the rows that want it."""
        super().__init__()
        bare: dict[str, set[int]] = {}
        for text, numbers in texts.items():
            bare.setdefault(_without_digits(text), set()).update(numbers)
        for text in (_ACCESS_NEEDLE, _STATISTICS, _BAR_NEEDLE, _WEIGHTS_NEEDLE):
            bare.setdefault(text, set())
        self._needles = Needles(bare)
        self._rows: dict[bytes, tuple[int, ...]] = {}
        self._size = 0

    def __missing__(self, key: bytes) -> int:
        if len(key) > _HEAD and any(echo in key[:_HEAD] for echo in _ECHOES):
            # prompts and answers, different each time
            return PLAIN
        kind = self._find_out(key.decode("utf-8", "replace"))
        if len(key) <= _LONGEST:
            self._size += len(key)
            if self._size > _REMEMBERED:
                self.clear()
                self._rows.clear()
                self._size = len(key)
            self[key] = kind
        return kind

    def _find_out(self, shown: str) -> int:
        text = strip_ansi(shown)
        if not text or text.isspace():
            return BLANK
        # an escape that a digit followed looks like the start of a sequence now, and is none
        if self._needles.search(text) or (text != shown and self._needles.search(shown)):
            return self._found(text)
        if _CONTINUED.match(text) is None:
            return PLAIN
        return CONTINUED_IN_MAIN if any(frame in text for frame in MAIN_FRAMES) else CONTINUED

    @staticmethod
    def _found(text: str) -> int:
        if _ACCESS.search(text) or _STATISTICS in text:
            return QUIET
        if any(echo in text[:_HEAD] for echo in ECHOED_REQUESTS):
            return PLAIN
        is_state = _BAR.search(text) and _WEIGHTS_NEEDLE not in text and _RECORD not in text
        if is_state:
            return BAR
        return REPEATS if is_echo(text) else MATTERS

    def rows(self, key: bytes) -> tuple[int, ...]:
        """The numbers of all rows that may match a line with this key, in order."""
        rows = self._rows.get(key)
        if rows is None:
            shown = key.decode("utf-8", "replace")
            text = strip_ansi(shown)
            numbers = self._needles.numbers(text)
            if text != shown:
                numbers = sorted({*numbers, *self._needles.numbers(shown)})
            rows = tuple(numbers)
            if key in self:
                self._rows[key] = rows
        return rows


__all__ = (
    "BAR",
    "BLANK",
    "CONTINUED",
    "CONTINUED_IN_MAIN",
    "MAIN_FRAMES",
    "MATTERS",
    "PLAIN",
    "QUIET",
    "REPEATS",
    "Kinds",
    "keys",
)
