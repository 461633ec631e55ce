# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._share_rules import (
    BEGINNING,
    HAND_ON_LIMIT,
    MAX_SENDINGS,
    PRESENCE_LIMIT,
    SLOW,
    Presence,
    Sending,
    Span,
    Target,
    Turns,
    Unsatisfiable,
    authorised,
    parse_range,
    parse_target,
    token_digest,
)

C = "0123456789abcdef0123456789abcdef01234567"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (f"/acme/tiny/resolve/{C}/config.json", Target("acme/tiny", C, "config.json", None)),
        (f"/~7/acme/tiny/resolve/{C}/a/b%20c%C3%A9.bin", Target("acme/tiny", C, "a/b cé.bin", 7)),
        (f"/~0/acme/tiny/manifest/{C}", Target("acme/tiny", C, "", 0)),
        (f"/gpt2/resolve/{C}/config.json", Target("gpt2", C, "config.json", None)),
        (f"/acme/tiny/resolve/{C}/100%25.txt", Target("acme/tiny", C, "100%.txt", None)),
        # leads out, by any spelling
        (f"/acme/tiny/resolve/{C}/../../../etc/shadow", None),
        (f"/acme/tiny/resolve/{C}/%2e%2e/%2E%2E/etc/shadow", None),
        (f"/acme/tiny/resolve/{C}/a%2f..%2f..%2fshadow", None),
        (f"/acme/tiny/resolve/{C}//etc/shadow", None),
        (f"/acme/tiny/resolve/{C}/%2fetc/shadow", None),
        (f"/acme/tiny/resolve/{C}/a/./b", None),
        (f"/acme/tiny/resolve/{C}/a%00b", None),
        (f"/acme/tiny/resolve/{C}/a%ffb", None),
        (f"/../tiny/resolve/{C}/config.json", None),
        (f"/acme/../resolve/{C}/config.json", None),
        (f"/acme%2f../tiny/resolve/{C}/config.json", None),
        (f"/acme--x/tiny/resolve/{C}/config.json", None),
        # our own folder, with the lock and the manifest's neighbours
        (f"/acme/tiny/resolve/{C}/.modelfleet/lock", None),
        # no listings, no branches, no other verbs
        (f"/acme/tiny/resolve/{C}/", None),
        (f"/acme/tiny/resolve/{C}", None),
        ("/acme/tiny/resolve/main/config.json", None),
        (f"/acme/tiny/tree/{C}", None),
        ("/acme/tiny", None),
        ("/", None),
        ("*", None),
        (f"/acme/tiny/manifest/{C}?x=1", None),
        (f"http://other/acme/tiny/manifest/{C}", None),
    ],
)
def test_targets(raw: str, expected: Target | None) -> None:
    assert parse_target(raw) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", None),
        ("bytes=0-", Span(0, 100)),
        ("bytes=40-", Span(40, 100)),
        ("bytes=40-59", Span(40, 60)),
        ("bytes=99-99", Span(99, 100)),
        ("bytes=40-1000", Span(40, 100)),
        # forms that a server may ignore
        ("bytes=-5", None),
        ("bytes=5-4", None),
        ("bytes=1-2,4-5", None),
        ("lines=1-2", None),
        ("bytes=٣-", None),
    ],
)
def test_ranges(header: str, expected: Span | None) -> None:
    assert parse_range(header, 100) == expected


def test_a_range_behind_the_end() -> None:
    for header in ("bytes=100-", "bytes=100-200"):
        with pytest.raises(Unsatisfiable):
            parse_range(header, 100)
    with pytest.raises(Unsatisfiable):
        parse_range("bytes=0-", 0)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Bearer s3cret", True),
        ("bearer  s3cret ", True),
        ("Bearer s3cre", False),
        ("Bearer s3crett", False),
        ("Basic s3cret", False),
        ("s3cret", False),
        ("Bearer", False),
        ("", False),
        ("Bearer \udcff", False),
    ],
)
def test_authorisation(header: str, expected: bool) -> None:
    assert authorised(header, token_digest("s3cret")) is expected


def sent(turns: Turns, clock: Clock, file: str, receiver: int, seconds: float, whole: bool = True) -> None:
    sending = turns.admit(file, receiver)
    assert sending is not None
    clock.now += seconds
    turns.done(sending, whole)


def test_a_large_file_goes_to_one_receiver_which_hands_it_on() -> None:
    clock = Clock()
    turns = Turns(clock)
    sending = turns.admit("f", 1)
    assert sending is not None
    assert turns.admit("f", 2) is None
    assert turns.admit("g", 2) is not None
    clock.now += 5
    turns.done(sending, whole=True)
    # twice as long as it took: the first receiver hands it on meanwhile
    assert turns.admit("f", 2) is None
    clock.now += 9.9
    assert turns.admit("f", 2) is None
    clock.now += 0.2
    assert turns.admit("f", 2) is not None


def test_a_slow_receiver_is_given_no_more_than_a_minute_to_hand_on() -> None:
    clock = Clock()
    turns = Turns(clock)
    sent(turns, clock, "f", 1, 600)
    clock.now += HAND_ON_LIMIT - 1
    assert turns.admit("f", 2) is None
    clock.now += 1
    assert turns.admit("f", 2) is not None


def test_few_files_go_out_at_the_same_time() -> None:
    clock = Clock()
    turns = Turns(clock)
    sendings = [turns.admit(number, number) for number in range(MAX_SENDINGS)]
    assert all(sendings)
    assert turns.admit("one more", 9) is None
    turns.done(t.cast(Sending, sendings[2]), whole=False)
    assert turns.admit("one more", 9) is not None
    assert turns.admit("another", 9) is None


def test_sendings_that_hang_keep_nobody_waiting() -> None:
    clock = Clock()
    turns = Turns(clock)
    sendings = [turns.admit(number, number) for number in range(MAX_SENDINGS)]
    clock.now += BEGINNING - 1
    assert turns.admit(0, 9) is None
    clock.now += 1
    for sending in sendings[1:]:
        assert sending is not None
        sending.moved = int(SLOW * BEGINNING)
    # 0 goes no faster than a dead line; the others do
    assert turns.admit(1, 9) is None
    again = turns.admit(0, 9)
    assert again is not None
    assert turns.admit(0, 10) is None
    turns.done(t.cast(Sending, sendings[0]), whole=True)
    turns.done(again, whole=True)


def test_a_receiver_that_broke_off_goes_on_at_once_and_keeps_nobody_waiting() -> None:
    clock = Clock()
    turns = Turns(clock)
    sent(turns, clock, "f", 1, 5, whole=False)
    first = turns.admit("f", 1)
    # the end of a lost connection is noticed later than its successor
    assert first is not None and turns.admit("f", 1) is not None
    turns.done(first, whole=False)
    assert turns.admit("f", 2) is None


def test_a_receiver_that_has_it_may_ask_again() -> None:
    clock = Clock()
    turns = Turns(clock)
    sent(turns, clock, "f", 1, 5)
    # its copy turned out wrong
    assert turns.admit("f", 1) is not None


def test_how_soon_to_ask_again() -> None:
    clock = Clock()
    turns = Turns(clock)
    assert turns.retry_seconds() == 0
    sent(turns, clock, "f", 1, 5)
    assert turns.retry_seconds() == 1
    sent(turns, clock, "g", 1, 0.2)
    assert turns.retry_seconds() == 0


def test_a_host_at_work_is_waited_for_and_one_that_is_done_is_not() -> None:
    clock = Clock()
    presence = Presence(clock)
    # its run may be about to begin
    assert presence.expected("s", at_work=False)
    clock.now += PRESENCE_LIMIT - 1
    assert presence.expected("s", at_work=False)
    clock.now += 1
    assert not presence.expected("s", at_work=False)
    assert presence.expected("s", at_work=True)
    clock.now += 3600
    assert presence.expected("s", at_work=True)
    # it ended; it may be started again
    clock.now += PRESENCE_LIMIT - 1
    assert presence.expected("s", at_work=False)
    clock.now += 1
    assert not presence.expected("s", at_work=False)
