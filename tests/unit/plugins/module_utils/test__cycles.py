# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._cycles import AGAIN, ANEW, Splitter
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord

START = ("systemd: Starting x.service - X...", "systemd: Started x.service - X.", "hello")
FAIL = (
    "systemd: x.service: Main process exited, code=exited, status=1/FAILURE",
    "systemd: x.service: Failed with result 'exit-code'.",
)
#: systemd 252 says that it stopped the service before it starts it again; 255 does not
AGAIN_252 = ("systemd: x.service: Scheduled restart job, restart counter is at 1.", "systemd: Stopped x.service - X.")
AGAIN_255 = AGAIN_252[:1]
STOP = (
    "systemd: Stopping x.service - X...",
    "systemd: x.service: Deactivated successfully.",
    "systemd: Stopped x.service - X.",
)
LIMIT = ("systemd: x.service: Start request repeated too quickly.", *FAIL[1:])
SKIPPED = ("systemd: x.service was skipped because of an unmet condition check (ConditionPathExists=/x).",)


def records(*texts: str) -> list[LogRecord]:
    return [
        LogRecord(text[len("systemd: ") :], 1, "systemd") if text.startswith("systemd: ") else LogRecord(text)
        for text in texts
    ]


def shape(*texts: str, pieces: bool = False) -> list[tuple[int, str]]:
    """For each part, its number of lines and how the next one followed."""
    splitter = Splitter()
    found: list[tuple[int, str]] = []
    rest = 0
    for portion in [[record] for record in records(*texts)] if pieces else [records(*texts)]:
        *over, last = splitter.split(portion)
        for part in over:
            found.append((rest + len(part.records), part.how))
            rest = 0
        rest += len(last.records)
    return [*found, (rest, "")]


@pytest.mark.parametrize("pieces", [False, True], ids=["at once", "line by line"])
@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), [(0, "")]),
        (("no", "systemd", "here"), [(3, "")]),
        (START, [(3, "")]),
        ((*START, *FAIL), [(5, "")]),
        ((*START, *FAIL, *AGAIN_252, *START), [(6, AGAIN), (3, "")]),
        ((*START, *FAIL, *AGAIN_255, *START), [(6, AGAIN), (3, "")]),
        ((*START, *FAIL, *AGAIN_252, *START, *FAIL, *AGAIN_252, *LIMIT), [(6, AGAIN), (6, AGAIN), (2, "")]),
        # by hand, after systemd gave up
        ((*START, *FAIL, *AGAIN_252, *LIMIT, *START), [(6, AGAIN), (2, ANEW), (3, "")]),
        ((*START, *STOP, *START), [(6, ANEW), (3, "")]),
        ((*START, *FAIL, *START), [(5, ANEW), (3, "")]),
        ((*START, *STOP, *SKIPPED), [(6, ANEW), (1, "")]),
        # a stop in the pause before a restart
        ((*START, *FAIL, "systemd: Stopped x.service - X."), [(6, "")]),
    ],
)
def test_split(texts: tuple[str, ...], expected: list[tuple[int, str]], pieces: bool) -> None:
    assert shape(*texts, pieces=pieces) == expected


def test_the_counter_of_systemd_is_kept() -> None:
    parts = Splitter().split(records(*START, *FAIL, *AGAIN_252))
    assert [(part.how, part.counter) for part in parts] == [(AGAIN, 1), ("", 0)]


def test_what_a_program_says_about_starts_means_nothing() -> None:
    told = [LogRecord(text[len("systemd: ") :]) for text in (*START[:2], *STOP, *START[:2])]
    assert len(Splitter().split(told)) == 1
