# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""JMESPath: the import guard, and its two functions with errors that a user can read."""

from __future__ import annotations

import traceback
import typing as t

JMESPATH_IMPORT_ERROR: t.Optional[str]
try:
    import jmespath
    import jmespath.exceptions
except ImportError:
    HAS_JMESPATH = False
    JMESPATH_IMPORT_ERROR = traceback.format_exc()
else:
    HAS_JMESPATH = True
    JMESPATH_IMPORT_ERROR = None


class QueryError(Exception):
    """The expression is not JMESPath, or does not fit the data."""


def check(expression: str) -> None:
    """Raises :class:`QueryError` when ``expression`` cannot be parsed."""
    try:
        jmespath.compile(expression)
    except jmespath.exceptions.JMESPathError as exc:
        raise QueryError(f"{expression!r} is not a JMESPath expression: {exc}") from exc


def search(expression: str, data: t.Any) -> t.Any:
    """Raises :class:`QueryError` when the expression is wrong or calls a function on the wrong type."""
    try:
        return jmespath.search(expression, data)
    except jmespath.exceptions.JMESPathError as exc:
        raise QueryError(f"the JMESPath expression {expression!r} does not fit the data: {exc}") from exc


__all__ = ("HAS_JMESPATH", "JMESPATH_IMPORT_ERROR", "QueryError", "check", "search")
