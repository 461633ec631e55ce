# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Changing single values in JSON text and leaving every other byte as it was.

Writing a document out again would lose indentation, spelling of numbers, escapes and the end of the file, and so hide
the one change that matters in a diff of the whole file. This finds where a value stands and replaces just that.
"""

from __future__ import annotations

import json
import re
import typing as t

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class JsonTextError(Exception):
    """The text is not JSON that can be changed safely; says where."""


class _Span(t.NamedTuple):
    """Where a value stands. ``members`` is empty for everything but objects."""

    start: int
    end: int
    members: t.Mapping[str, t.Any]


def _place(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - text.rfind(chr(10), 0, at)}"


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _scan(text: str, start: int) -> _Span:
    """Span of the value at ``start``. The text is known to be valid JSON, duplicate keys aside."""
    opener = text[start]
    if opener not in "{[":
        return _Span(start, _DECODER.raw_decode(text, start)[1], {})
    members: dict[str, _Span] = {}
    at = _skip(text, start + 1)
    while text[at] not in "}]":
        if opener == "{":
            key_at = at
            key, at = _DECODER.raw_decode(text, at)
            if key in members:
                raise JsonTextError(f"the key {key!r} stands twice in one object, again at {_place(text, key_at)}")
            at = _skip(text, _skip(text, at) + 1)
        child = _scan(text, at)
        if opener == "{":
            members[key] = child
        at = _skip(text, child.end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return _Span(start, at + 1, members)


def parse(text: str) -> t.Any:
    """The document. Raises JsonTextError, with line and column, for what is no JSON and for duplicate keys."""
    try:
        document = json.loads(text)
        _scan(text, _skip(text, 0))
    except json.JSONDecodeError as exc:
        raise JsonTextError(f"{exc.msg} at line {exc.lineno}, column {exc.colno}") from exc
    except RecursionError as exc:
        raise JsonTextError("nested too deeply to be read") from exc
    return document


def replace(text: str, path: t.Sequence[str], value: t.Any) -> str:
    """The text with the value at ``path`` (object keys from the top) replaced, or added to its object at the end.

    Raises JsonTextError when there is no object to hold the last key.
    """
    holder = _scan(text, _skip(text, 0))
    for depth, key in enumerate(path[:-1]):
        if key not in holder.members:
            raise JsonTextError(f"there is no {'.'.join(path[: depth + 1])}")
        holder = holder.members[key]
    if text[holder.start] != "{":
        raise JsonTextError(f"{'.'.join(path[:-1]) or 'the document'} is not an object")
    new = json.dumps(value, ensure_ascii=False)
    if path[-1] in holder.members:
        old = holder.members[path[-1]]
        return text[: old.start] + new + text[old.end :]
    added = f"{json.dumps(path[-1], ensure_ascii=False)}: {new}"
    if not holder.members:
        return text[: holder.start + 1] + added + text[holder.end - 1 :]
    last_end = max(member.end for member in holder.members.values())
    # what separates the brace from the first key separates the last value from the new key as well
    lead = text[holder.start + 1 : _skip(text, holder.start + 1)]
    return f"{text[:last_end]},{lead or ' '}{added}{text[last_end:]}"


__all__ = ("JsonTextError", "parse", "replace")
