# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was asked of the Hub, so that a test can say what a client did and did not do."""

from __future__ import annotations

import dataclasses
import re
import threading
import time
import typing as t


@dataclasses.dataclass
class Entry:
    #: kind of request, as in a fault's ``on``
    on: str
    method: str
    #: OWNER/NAME/path of the file, or the path of the URL
    subject: str
    range: t.Optional[str]
    #: whether an Authorization header came with it; its value is never kept
    authorization: bool
    agent: str
    time: float = dataclasses.field(default_factory=time.time)
    status: t.Optional[int] = None
    #: bytes of body handed to the network
    sent: int = 0
    #: id of the fault that fired
    fault: t.Optional[int] = None


class RequestLog:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[Entry] = []

    def add(self, entry: Entry) -> Entry:
        with self._lock:
            self._entries.append(entry)
        return entry

    def clear(self) -> None:
        with self._lock:
            self._entries = []

    def find(self, on: t.Optional[str] = None, method: t.Optional[str] = None, match: str = "") -> list[Entry]:
        """Entries of that kind and method whose subject the regular expression is found in."""
        with self._lock:
            entries = list(self._entries)
        return [
            entry
            for entry in entries
            if on in (None, entry.on) and method in (None, entry.method) and re.search(match, entry.subject)
        ]

    def leaks(self) -> list[Entry]:
        """Requests that carried a token to the other origin: there must be none, ever."""
        return [entry for entry in self.find(on="cdn") if entry.authorization]
