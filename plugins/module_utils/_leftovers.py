# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What interrupted downloads leave in a snapshot that nobody will use again: room that comes back.

Ours are partial files of content that is no longer wanted. The client's are its ``*.incomplete`` files, whose names are
new with every attempt since 1.18, so that no later run of it resumes or removes them.
"""

from __future__ import annotations

import fcntl
import os
import stat
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._client_notes import DOWNLOADS

CLIENT_SUFFIX = ".incomplete"
CLIENT_LOCK = ".lock"


class Leftover(t.NamedTuple):
    path: str
    size: int
    #: more than one for a folder
    files: int = 1


def unwanted(folder: str, wanted: t.Collection[str]) -> list[Leftover]:
    """Files of ``folder`` whose names do not begin with one of ``wanted``."""
    return [item for item in _files(folder) if not os.path.basename(item.path).startswith(tuple(wanted))]


def abandoned(snapshot: str, published: t.Collection[str], now: float) -> list[Leftover]:
    """The client's unfinished files in ``snapshot``, unless a client is at work there.

    A client holds a lock for each file it downloads. What was written after ``now``, the moment from which the snapshot
    is ours, is not old enough either.
    """
    found, locks = [], []
    for folder, _folders, names in os.walk(f"{snapshot}/{DOWNLOADS}"):
        for name in names:
            path = f"{folder}/{name}"
            if name.endswith(CLIENT_LOCK):
                locks.append(path)
            elif name.endswith(CLIENT_SUFFIX) and os.path.relpath(path, snapshot) not in published:
                found.append(path)
    if not found or any(_held(path) for path in locks):
        return []
    items = [(path, _regular(path)) for path in sorted(found)]
    return [Leftover(path, seen.st_size) for path, seen in items if seen is not None and seen.st_mtime <= now]


def _files(folder: str) -> list[Leftover]:
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    items = [(f"{folder}/{name}", _regular(f"{folder}/{name}")) for name in names]
    return [Leftover(path, seen.st_size) for path, seen in items if seen is not None]


def _regular(path: str) -> os.stat_result | None:
    try:
        seen = os.lstat(path)
    except OSError:
        return None
    return seen if stat.S_ISREG(seen.st_mode) else None


def _held(path: str) -> bool:
    """Whether a process has the client's lock, which is one of flock."""
    try:
        fd = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


__all__ = ("Leftover", "abandoned", "unwanted")
