# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""A file system that should be mounted and is not.

Its empty mount point takes 600 GB without a word, until the system's own disk is full, and then a mount hides them.
"""

from __future__ import annotations

import contextlib
import os
import re
import typing as t

FSTAB = "/etc/fstab"
MOUNTINFO = "/proc/self/mountinfo"
UNITS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/run/systemd/generator")


class Expected(t.NamedTuple):
    """A mount that the host is set up to have."""

    folder: str
    #: the file that says so
    source: str


def unmounted(path: str) -> Expected | None:
    """The mount above ``path`` that the host is set up to have and has not."""
    mounted = {_plain(line.split()[4]) for line in _lines(MOUNTINFO)}
    configured = {folder for folder in map(_fstab_folder, _lines(FSTAB)) if folder}
    folder = os.path.normpath(path)
    while folder != "/":
        if folder not in mounted:
            if folder in configured:
                return Expected(folder, FSTAB)
            for units in UNITS:
                unit = f"{units}/{unit_name(folder)}"
                if os.path.exists(unit):
                    return Expected(folder, unit)
        folder = os.path.dirname(folder)
    return None


def unit_name(folder: str) -> str:
    """The name systemd gives to the mount of ``folder``."""
    name = "".join(_escaped(byte) for byte in os.fsencode(folder[1:]))
    return (f"\\x2e{name[1:]}" if name.startswith(".") else name) + ".mount"


def _escaped(byte: int) -> str:
    char = chr(byte)
    if char == "/":
        return "-"
    return char if re.match(r"[A-Za-z0-9:_.]", char) else f"\\x{byte:02x}"


def _fstab_folder(line: str) -> str:
    fields = line.split()
    if len(fields) < 3 or fields[0].startswith("#") or not fields[1].startswith("/"):
        return ""
    return os.path.normpath(_plain(fields[1]))


def _plain(field: str) -> str:
    """Spaces and the like are octal in these files."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field)


def _lines(path: str) -> list[str]:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="surrogateescape") as handle:
        return handle.read().splitlines()
    return []


__all__ = ("Expected", "unit_name", "unmounted")
