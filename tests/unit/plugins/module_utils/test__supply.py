# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which source is asked next, and which is not asked any more."""

from __future__ import annotations

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import SHA256, RemoteFile
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import Ledger
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import NotYet


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return Ledger(["first", "second", "hub"], patience=60, clock=clock)


FILE = RemoteFile("f", 100, SHA256, "ab" * 32)


def test_sources_are_asked_in_their_order(ledger: Ledger) -> None:
    assert ledger.left("f") == [0, 1, 2]
    assert ledger.result() == []


def test_a_source_that_lacks_a_file_is_asked_for_others_and_has_no_fault(ledger: Ledger) -> None:
    for number in range(10):
        ledger.lacks(0, f"f{number}", "not there.")
    assert ledger.left("f3") == [1, 2]
    assert ledger.left("other") == [0, 1, 2]
    (entry,) = ledger.result()
    assert (entry["lacking"], entry["failures"], entry["given_up"]) == (10, 0, None)


def test_three_failures_in_a_row_are_enough(ledger: Ledger) -> None:
    ledger.failed(0, "a", "broke")
    ledger.failed(0, "b", "broke")
    ledger.gave(0, FILE, without_copying=False)
    ledger.failed(0, "c", "broke")
    ledger.failed(0, "d", "broke")
    assert ledger.left("f") == [0, 1, 2]
    assert ledger.left("d") == [1, 2]
    ledger.failed(0, "e", "broke for good")
    assert ledger.left("f") == [1, 2]
    (entry,) = ledger.result()
    assert entry == {
        "source": "first",
        "files": 1,
        "bytes": 0,
        "lacking": 0,
        "failures": 5,
        "reasons": ["a: broke", "b: broke", "c: broke", "d: broke", "e: broke for good"],
        "given_up": "failed for 3 files in a row, the last: broke for good",
    }


def test_two_lies_are_enough_whatever_is_between_them(ledger: Ledger) -> None:
    ledger.failed(1, "a", "wrong", lie=True)
    for _file in range(5):
        ledger.gave(1, FILE, without_copying=False)
    assert ledger.left("f") == [0, 1, 2]
    ledger.failed(1, "b", "wrong", lie=True)
    assert ledger.left("f") == [0, 2]
    assert ledger.result()[0]["given_up"] == "sent wrong content for 2 files"


def test_bytes_are_what_came_and_what_was_linked(ledger: Ledger) -> None:
    ledger.count("first", 30)
    ledger.count("first", 30)
    ledger.gave(1, FILE, without_copying=True)
    assert [(entry["source"], entry["files"], entry["bytes"]) for entry in ledger.result()] == [
        ("first", 0, 60),
        ("second", 1, 100),
    ]


def test_the_reasons_of_a_file_are_those_of_its_sources(ledger: Ledger) -> None:
    ledger.lacks(0, "f", "refused with status 404.")
    for path in ("x", "y", "z"):
        ledger.failed(1, path, "silent")
    assert ledger.reasons("f") == [
        "first: refused with status 404.",
        "second: failed for 3 files in a row, the last: silent.",
    ]


def test_the_first_reasons_are_enough(ledger: Ledger) -> None:
    for number in range(20):
        ledger.gave(0, FILE, without_copying=False)
        ledger.failed(0, f"f{number}", "broke")
    (entry,) = ledger.result()
    assert (entry["failures"], len(entry["reasons"])) == (20, 5)


# (seconds before the answer, its mark, bytes arrived meanwhile) -> waited on for
WAITS = {
    "no sign": ([(0, "", 0), (30, "", 0), (29, "", 0), (2, "", 0)], [True, True, True, False]),
    "its mark moves": ([(0, "1", 0), (59, "2", 0), (59, "3", 0), (61, "3", 0)], [True, True, True, True]),
    "its mark stops": ([(0, "1", 0), (50, "2", 0), (50, "2", 0), (11, "2", 0)], [True, True, True, False]),
    "other bytes come": (
        [(0, "", 0), (50, "", 1), (50, "", 1), (50, "", 0), (11, "", 0)],
        [True, True, True, True, False],
    ),
    "nobody asked for long": ([(0, "", 0), (500, "", 0), (59, "", 0)], [True, True, True]),
}


@pytest.mark.parametrize("case", WAITS)
def test_who_says_not_yet_is_waited_for_while_it_gets_on(ledger: Ledger, clock: Clock, case: str) -> None:
    answers, expected = WAITS[case]
    waited = []
    for seconds, mark, count in answers:
        clock.now += seconds
        if count:
            ledger.count("first", count)
        waited.append(ledger.not_yet(0, NotYet(1, mark)))
    assert waited == expected
    assert ledger.left("f") == ([0, 1, 2] if all(expected) else [1, 2])
