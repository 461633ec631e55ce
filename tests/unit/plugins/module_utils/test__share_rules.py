# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._share_rules import (
    HAND_ON_LIMIT,
    PRESENCE_LIMIT,
    Presence,
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


def test_a_large_file_goes_to_one_receiver_and_then_along_the_chain() -> None:
    clock = Clock()
    turns = Turns(clock)
    assert turns.admit("f", 1)
    assert not turns.admit("f", 2)
    assert turns.admit("g", 2)
    clock.now += 5
    turns.done("f", 1, whole=True)
    # twice as long as it took: the first receiver hands it on meanwhile
    assert not turns.admit("f", 2)
    clock.now += 9.9
    assert not turns.admit("f", 2)
    clock.now += 0.2
    assert turns.admit("f", 2)


def test_a_receiver_that_broke_off_goes_on_at_once_and_keeps_nobody_waiting() -> None:
    clock = Clock()
    turns = Turns(clock)
    assert turns.admit("f", 1)
    clock.now += 5
    turns.done("f", 1, whole=False)
    assert turns.admit("f", 1)
    turns.done("f", 1, whole=False)
    assert turns.admit("f", 2)


def test_a_receiver_that_has_it_may_ask_again() -> None:
    clock = Clock()
    turns = Turns(clock)
    assert turns.admit("f", 1)
    clock.now += 5
    turns.done("f", 1, whole=True)
    # its copy turned out wrong
    assert turns.admit("f", 1)


def test_nobody_waits_for_a_slow_receiver_for_ever() -> None:
    clock = Clock()
    turns = Turns(clock)
    assert turns.admit("f", 1)
    assert not turns.admit("f", 2)
    clock.now += HAND_ON_LIMIT
    assert turns.admit("f", 2)
    assert not turns.admit("f", 3)
    turns.done("f", 2, whole=False)
    turns.done("f", 1, whole=True)
    assert not turns.admit("f", 3)
    clock.now += HAND_ON_LIMIT
    assert turns.admit("f", 3)


def test_what_nobody_began_can_end() -> None:
    turns = Turns(Clock())
    turns.done("f", 1, whole=True)
    assert turns.admit("f", 2)


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
