# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Taking a file of this host into a snapshot without a second copy of its bytes.

A reflink shares the blocks until one side is written, so that neither can harm the other. A hard link is the same file
under a second name: whoever edits the origin in place edits the snapshot. So only a file is linked that nobody but root
and its owner may write, and that has the owner and the mode that the snapshot is to have, since setting these would
change the origin too. What can be neither is copied.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import (
    COPY,
    LINK,
    REFLINK,
)

#: ioctl of Linux, on btrfs, XFS, bcachefs, ZFS, NFS 4.2 and what lies over them
FICLONE = 0x40049409

#: the ways that may be tried, in order, by the option "adopt"
WAYS: t.Mapping[str, tuple[str, ...]] = {
    "auto": (REFLINK, LINK),
    "reflink": (REFLINK,),
    "link": (LINK,),
    "copy": (),
}


class Wanted(t.NamedTuple):
    """Owner, group and mode that the snapshot's files are to have; None for as they come."""

    uid: int | None = None
    gid: int | None = None
    mode: int | None = None
    #: the mode cannot be known beforehand
    symbolic: bool = False


class Way(t.NamedTuple):
    """How a file would come, and why not by a better way."""

    method: str
    note: str = ""


def foresee(
    path: str, seen: os.stat_result, into: str, ways: t.Sequence[str], wanted: Wanted, no_reflink: dict[int, str]
) -> Way:
    """How the file at ``path`` can come into the folder ``into``, without leaving anything there.

    ``no_reflink`` has what was found out before, by device.
    """
    notes = []
    for way in ways:
        if way == REFLINK and seen.st_dev not in no_reflink:
            no_reflink[seen.st_dev] = _no_reflink(path, into)
        problem = no_reflink[seen.st_dev] if way == REFLINK else link_problem(path, seen, into, wanted)
        if not problem:
            return Way(way)
        notes.append(f"no {way}: {problem}")
    return Way(COPY, ", ".join(notes))


def _no_reflink(path: str, into: str) -> str:
    """Tried with a file that never has a name."""
    try:
        with open(path, "rb") as source:
            fd = os.open(into, os.O_TMPFILE | os.O_RDWR, 0o600)
            try:
                fcntl.ioctl(fd, FICLONE, source.fileno())
            finally:
                os.close(fd)
    except OSError as exc:
        return exc.strerror or str(exc)
    return ""


def link_problem(path: str, seen: os.stat_result, into: str, wanted: Wanted) -> str:
    """Why the file must not or cannot get a second name in ``into``."""
    problem = unfit(seen, wanted)
    if problem:
        return problem
    try:
        if _mount_of(path) != _mount_of(into):
            return "it is on another file system"
    except OSError as exc:
        return exc.strerror or str(exc)
    return ""


def unfit(seen: os.stat_result, wanted: Wanted) -> str:
    """Why a file may not be shared with its origin."""
    if seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"its mode {stat.S_IMODE(seen.st_mode):04o} lets others write it"
    uid = os.geteuid() if wanted.uid is None else wanted.uid
    if seen.st_uid != uid:
        return f"it belongs to user id {seen.st_uid}, not {uid}"
    if wanted.gid not in (None, seen.st_gid):
        return f"it belongs to group id {seen.st_gid}, not {wanted.gid}"
    if wanted.symbolic:
        return "a mode that is not octal is wanted"
    if wanted.mode not in (None, stat.S_IMODE(seen.st_mode)):
        return f"its mode is {stat.S_IMODE(seen.st_mode):04o}, not {wanted.mode:04o}"
    return ""


def _mount_of(path: str) -> str:
    """Hard links do not cross mounts, also not those of one file system."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as handle:
            return next(line for line in handle if line.startswith("mnt_id:"))
    finally:
        os.close(fd)


def bring(path: str, name: str, way: str) -> int | None:
    """Give the file at ``path`` a second life as ``name``, by one way; an open descriptor, or None where it won't go.

    ``name`` is not the one under which files grow: that is written to, and a link shares the origin's bytes.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)
    try:
        return _reflink(path, name) if way == REFLINK else _link(path, name)
    except OSError:
        # asked of the kernel and refused: the next way will do
        with contextlib.suppress(OSError):
            os.unlink(name)
        return None


def _reflink(path: str, name: str) -> int:
    fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(path, "rb") as source:
            fcntl.ioctl(fd, FICLONE, source.fileno())
    except BaseException:
        os.close(fd)
        raise
    return fd


def _link(path: str, name: str) -> int:
    os.link(path, name, follow_symlinks=False)
    return os.open(name, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))


__all__ = ("WAYS", "Wanted", "Way", "bring", "foresee", "link_problem", "unfit")
