# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._journal_order import JournalOrder, Said
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord

Entry = tuple[str, str]


def said(entry: Entry) -> Said:
    """``("a!", text)``: systemd about start a; ``("a", text)``: a process of it; ``("", text)``: nobody knows."""
    whose, text = entry
    manager = whose.endswith("!")
    return Said((LogRecord(text, 1 if manager else 9, "systemd" if manager else "service"),), whose.strip("!"), manager)


def texts(*portions: list[Entry]) -> list[list[str]]:
    order = JournalOrder()
    return [[record.text for record in order.arrange(map(said, portion))] for portion in portions]


@pytest.mark.parametrize(
    ("portions", "expected"),
    [
        ([[("a!", "Starting"), ("a", "banner")]], [["Starting", "banner"]]),
        # as seen with systemd 252: the restarted program is faster than the word of its start
        (
            [[("a!", "Starting"), ("a!", "Stopped"), ("b", "banner"), ("b!", "Starting b"), ("b", "more")]],
            [["Starting", "Stopped", "Starting b", "banner", "more"]],
        ),
        # the look ended between the two
        (
            [[("a!", "Starting"), ("b", "banner")], [("b!", "Starting b"), ("b", "more")]],
            [["Starting"], ["Starting b", "banner", "more"]],
        ),
        # systemd never tells: not longer than for one portion
        ([[("a!", "Starting"), ("b", "banner")], [("b", "more")], []], [["Starting"], ["banner", "more"], []]),
        ([[("a!", "Starting"), ("b", "banner")], [], [("b", "more")]], [["Starting"], ["banner"], ["more"]]),
        # the first start that is read of may have begun long ago
        ([[("a", "one"), ("a", "two")]], [["one", "two"]]),
        ([[("", "one"), ("a!", "Starting"), ("", "two")]], [["one", "Starting", "two"]]),
    ],
    ids=["in order", "in one portion", "over two", "never", "never, and silent", "no beginning", "unknown"],
)
def test_arrange(portions: list[list[Entry]], expected: list[list[str]]) -> None:
    assert texts(*portions) == expected


def test_it_says_when_it_holds_something_back() -> None:
    order = JournalOrder()
    order.arrange(map(said, [("a!", "Starting"), ("b", "banner")]))
    assert order.holds
    order.arrange([])
    assert not order.holds
