# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Where one start of a service ends in its log and the next begins, by what systemd says of it."""

from __future__ import annotations

import re
import typing

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord

#: how a start was followed by the next one: brought back by systemd, or begun by somebody
AGAIN, ANEW = "again", "anew"

SCHEDULED = re.compile(r"Scheduled restart job, restart counter is at (\d+)")
_BEGINS = re.compile(r"^(?:Starting|Started) ")
_STOPPED = re.compile(r"^Stopped ")
_ENDS = re.compile(r"Deactivated successfully|Failed with result '|Main process exited, |^Stopped ")
#: after this systemd does not start it any more by itself
_GAVE_UP = "Start request repeated too quickly"
#: a start that systemd refused; its first line
_REFUSED = re.compile(
    r"was skipped because |Condition check resulted in |Starting requested but asserts failed|^Dependency failed for "
)


class Part(typing.NamedTuple):
    """Lines of one start; ``how`` the next one followed, empty for the last."""

    records: tuple[LogRecord, ...]
    how: str = ""
    #: of the restarts that systemd counts
    counter: int = 0


class Splitter:
    """Remembers over several portions of a log what it has seen of the present start."""

    def __init__(self) -> None:
        #: the present start has ended
        self._ended = False
        #: systemd has announced a restart: what it says next belongs to that
        self._announced = False

    def split(self, records: typing.Iterable[LogRecord]) -> list[Part]:
        """At least one part, which is the present start and may be empty."""
        parts: list[Part] = []
        current: list[LogRecord] = []
        for record in records:
            if record.side != "systemd":
                current.append(record)
                continue
            scheduled = SCHEDULED.search(record.text)
            if scheduled is not None:
                parts.append(Part((*current, record), AGAIN, int(scheduled[1])))
                current = []
                self._ended, self._announced = False, True
                continue
            if self._announced and _STOPPED.match(record.text):
                # older releases stop the service that ended before they start it again
                continue
            if self._is_another(record.text):
                parts.append(Part(tuple(current), ANEW))
                current = []
            current.append(record)
        parts.append(Part(tuple(current)))
        return parts

    def _is_another(self, text: str) -> bool:
        """Whether this line of systemd belongs to another start than those before; takes note of it."""
        begins, refused = bool(_BEGINS.match(text)), bool(_REFUSED.search(text))
        another = (begins or refused) and self._ended and not self._announced
        if begins or refused:
            # "asserts failed" is said twice, and "Starting" is followed by "Started"
            self._announced = False
            self._ended = False
        elif _ENDS.search(text):
            self._ended = True
        elif _GAVE_UP in text:
            self._announced, self._ended = False, True
        return another


__all__ = ("AGAIN", "ANEW", "SCHEDULED", "Part", "Splitter")
