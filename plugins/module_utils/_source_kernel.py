# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What the kernel says about the service: the OOM killer, GPU faults (Xid, NVRM), lost PCIe links, segfaults."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._source_journal import parse_entries
from ansible_collections.modelfleet.serving.plugins.module_utils._source_log import LogReading
from ansible_collections.modelfleet.serving.plugins.module_utils._unit_block import RunCommand

#: entries taken at once
ENTRIES = 500
FIELDS = "MESSAGE,_PID,_TRANSPORT"

#: what ends servers
_TOPIC = re.compile(
    r"out of memory|oom[-_]|NVRM|\bXid\b|\bAER\b|nvidia|segfault|general protection|blocked for more", re.I
)
_PID = re.compile(r"(?:process |\bpid[ =:']*|\btask[ =:]|\w\[)(\d+)")
#: a card that is lost is lost to everybody, whoever the kernel names
_EVERYBODYS = re.compile(r"fallen off the bus|\bAER\b|: (?:79|119|120|140|154), ")


def concerns(text: str, pids: t.Collection[int]) -> bool:
    """Whether a kernel line may be about the service: on a topic that ends servers, and not about others' processes."""
    if not _TOPIC.search(text):
        return False
    named = {int(number) for number in _PID.findall(text)}
    return not named or not pids or bool(named.intersection(pids)) or bool(_EVERYBODYS.search(text))


class KernelSource:
    """The kernel's log by ``journalctl -k``, by cursor. Containers have none, which is no fault."""

    def __init__(self, run_command: RunCommand, since: float, journalctl: str = "journalctl") -> None:
        self._run = run_command
        self._base = [journalctl, "--dmesg", "--output=json", "--all", "--quiet", "--no-pager"]
        self._base += [f"--output-fields={FIELDS}", f"--lines={ENTRIES}"]
        self._cursor = ""
        #: seconds since the epoch; counts until something has been read
        self.since = since
        #: every process the service has had
        self.pids: set[int] = set()

    def read(self) -> LogReading:
        begin = f"--after-cursor={self._cursor}" if self._cursor else f"--since=@{self.since:.0f}"
        status, out, err = self._run([*self._base, begin])
        entries = parse_entries(out)
        if not entries.taken:
            # an empty answer is status 1 in some releases of systemd, without a word
            failed = status != 0 and bool(err.strip())
            return LogReading(notes=(f"The kernel's log could not be read: {err.strip()}",) if failed else ())
        self._cursor = entries.cursor
        return LogReading(
            tuple(
                record._replace(side="kernel", pid=None)
                for record in entries.records
                if concerns(record.text, self.pids)
            )
        )


__all__ = ("KernelSource", "concerns")
