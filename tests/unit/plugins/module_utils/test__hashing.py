# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Digests that are computed beside their caller."""

from __future__ import annotations

import hashlib
import random
import threading

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils import _hashing
from ansible_collections.modelfleet.serving.plugins.module_utils._hashing import MIN_BESIDE, BesideHash, hasher
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import GIT_SHA1, SHA256, RemoteFile

CONTENT = random.Random(1).randbytes(5 * MIN_BESIDE + 7)


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        (SHA256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (GIT_SHA1, "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f"),
    ],
)
def test_the_digests_that_are_published(algorithm: str, expected: str) -> None:
    fresh = hasher(RemoteFile("a", 3, algorithm, ""))
    fresh.update(memoryview(b"abc"))
    assert fresh.hexdigest() == expected


@pytest.mark.parametrize("sizes", [[MIN_BESIDE], [1, MIN_BESIDE, MIN_BESIDE - 1], [3 * MIN_BESIDE, 5]])
def test_the_same_as_at_once_with_two_buffers_in_turns(sizes: list[int]) -> None:
    content = BesideHash(hashlib.sha256())
    buffers = [bytearray(max(sizes)), bytearray(max(sizes))]
    at = turn = 0
    while at < len(CONTENT):
        size = min(sizes[turn % len(sizes)], len(CONTENT) - at)
        buffer = buffers[turn % 2]
        buffer[:size] = CONTENT[at : at + size]
        content.update(memoryview(buffer)[:size])
        at, turn = at + size, turn + 1
    assert content.hexdigest() == hashlib.sha256(CONTENT).hexdigest()
    content.rest()


def test_the_caller_goes_on_while_a_block_is_hashed_and_waits_with_the_next() -> None:
    begun, go_on = threading.Event(), threading.Event()
    seen: list[int] = []

    class Slow:
        def update(self, data: memoryview) -> None:
            begun.set()
            assert go_on.wait(5)
            seen.append(len(data))

        def hexdigest(self) -> str:
            return str(seen)

    content = BesideHash(Slow())
    content.update(memoryview(bytes(MIN_BESIDE)))
    assert begun.wait(5)
    assert seen == []
    threading.Timer(0.05, go_on.set).start()
    content.update(memoryview(bytes(MIN_BESIDE + 1)))
    assert seen[:1] == [MIN_BESIDE]
    assert content.hexdigest() == str([MIN_BESIDE, MIN_BESIDE + 1])
    content.rest()


def test_a_rest_ends_the_thread_and_it_goes_on_afterwards() -> None:
    before = threading.active_count()
    content = BesideHash(hashlib.sha256())
    half = 2 * MIN_BESIDE
    for data in (CONTENT[:half], CONTENT[half:]):
        content.update(memoryview(data))
        assert threading.active_count() == before + 1
        content.rest()
        assert threading.active_count() == before
    assert content.hexdigest() == hashlib.sha256(CONTENT).hexdigest()


def test_a_failure_beside_comes_to_the_caller() -> None:
    class Broken:
        def update(self, data: memoryview) -> None:
            raise MemoryError("no room")

        def hexdigest(self) -> str:
            return ""

    content = BesideHash(Broken())
    content.update(memoryview(bytes(MIN_BESIDE)))
    with pytest.raises(MemoryError, match="no room"):
        content.hexdigest()
    content.rest()


def test_small_blocks_need_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_hashing.threading, "Thread", lambda **_options: pytest.fail("a thread was made"))
    content = BesideHash(hashlib.sha256())
    content.update(memoryview(b"abc"))
    assert content.hexdigest() == hashlib.sha256(b"abc").hexdigest()
