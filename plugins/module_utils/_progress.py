# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The progress file: how a module that works for minutes tells its action plugin where it is.

One JSON object, replaced atomically, readable only by its owner. Never put a secret in it. The writer's process id is
added, so that the reader can tell work that is quiet from work that is gone.
"""

from __future__ import annotations

import json
import os
import typing as t


class ProgressFile:
    """Writes the state of long work to ``path``; with ``path=None`` it does nothing."""

    def __init__(self, path: str | None) -> None:
        self._path = path

    def write(self, state: t.Mapping[str, t.Any]) -> None:
        """Replace the file with ``state``. Raises OSError when the folder is missing or full."""
        if self._path is None:
            return
        temporary = f"{self._path}.{os.getpid()}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as handle:
            json.dump({**state, "pid": os.getpid()}, handle)
        os.replace(temporary, self._path)


__all__ = ("ProgressFile",)
