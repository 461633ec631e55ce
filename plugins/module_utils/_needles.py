# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""One regular expression that finds any of many fixed texts.

A plain alternation of hundreds of texts is tried in full at every character. Here the texts become a prefix tree, and
they all start with one of few characters that are rare in logs, so that the engine skips nearly every position by its
first-character set alone.
"""

from __future__ import annotations

import re
import typing

#: Characters such that nearly every text has one far enough from its end, and few characters of a log are among
#: them: an approximate set cover over the tables, weighted by how often each occurs in recorded logs. Rarest first.
_STARTS = "%)JYKBVHWUDIGSCMTFEAjxvwbfcmpkzq:N"
_SHORTEST = 4


def _rareness(char: str) -> int:
    place = _STARTS.find(char)
    return place if place >= 0 else len(_STARTS)


def _from_rarest(text: str) -> str:
    """The tail of ``text`` that starts at its rarest character, but keeps enough characters to be telling."""
    last = max(1, len(text) - _SHORTEST)
    return text[min(range(last), key=lambda i: (_rareness(text[i]), i)) :]


def _tree_pattern(texts: typing.Iterable[str]) -> str:
    by_first: dict[str, list[str]] = {}
    for text in texts:
        if not text:
            return ""  # a shorter text ends here: whatever follows is of no account
        by_first.setdefault(text[0], []).append(text[1:])
    branches = [re.escape(first) + _tree_pattern(rest) for first, rest in sorted(by_first.items())]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


def compile_needles(texts: typing.Iterable[str]) -> re.Pattern[str]:
    """A pattern that matches somewhere in every string that contains one of ``texts``, and in few others."""
    return re.compile(_tree_pattern(sorted({_from_rarest(text) for text in texts})))


class Needles:
    """Which of many fixed texts may be in a line, by number."""

    def __init__(self, texts: typing.Mapping[str, typing.Collection[int]]) -> None:
        self._pattern = compile_needles(texts)
        self.search = self._pattern.search
        tails = {_from_rarest(text): () for text in texts}
        #: the tree ends at the shortest of the texts that begin alike: its match stands for all of them
        self._numbers: dict[str, set[int]] = {}
        for text, numbers in texts.items():
            tail = _from_rarest(text)
            found = next(tail[:n] for n in range(1, len(tail) + 1) if tail[:n] in tails)
            self._numbers.setdefault(found, set()).update(numbers)

    def numbers(self, text: str) -> list[int]:
        """The numbers of all texts that may be in ``text``, in order."""
        found: set[int] = set()
        match = self.search(text)
        while match is not None:
            found |= self._numbers[match[0]]
            match = self.search(text, match.start() + 1)
        return sorted(found)


__all__ = ("Needles", "compile_needles")
