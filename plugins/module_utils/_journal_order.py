# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""A start's first lines behind systemd's "Starting ...".

journald takes the output of a service and the words of systemd from two sockets, so that a program's first lines may
stand before the line that announces its start, and would be taken for the last ones of the start before.
"""

from __future__ import annotations

import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord


class Said(t.NamedTuple):
    """Records of one journal entry, and whose they are."""

    records: tuple[LogRecord, ...]
    #: id of the start; empty where the journal does not tell
    invocation: str = ""
    #: systemd itself about the unit
    manager: bool = False


class JournalOrder:
    """Holds lines of an unannounced start back, until it is announced or for one portion of the journal."""

    def __init__(self) -> None:
        self._announced: set[str] = set()
        self._held: list[Said] = []

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def arrange(self, entries: t.Iterable[Said]) -> list[LogRecord]:
        carried, waiting = self._held, list(self._held)
        ordered: list[LogRecord] = []
        for entry in entries:
            if entry.invocation and entry.invocation not in self._announced:
                if self._announced and not entry.manager:
                    waiting.append(entry)
                    continue
                self._announced.add(entry.invocation)
            ordered += entry.records
            ordered += _records(held for held in waiting if held.invocation in self._announced)
            waiting = [held for held in waiting if held.invocation not in self._announced]
        # what has waited for a whole portion waits in vain
        late = {held.invocation for held in waiting if held in carried}
        self._announced |= late
        self._held = [held for held in waiting if held.invocation not in late]
        return ordered + _records(held for held in waiting if held.invocation in late)


def _records(entries: t.Iterable[Said]) -> list[LogRecord]:
    return [record for entry in entries for record in entry.records]


__all__ = ("JournalOrder", "Said")
