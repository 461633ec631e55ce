# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file under way: closed, opened, continued, and whose bytes it has."""

from __future__ import annotations

import hashlib
import pathlib
import threading

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils import _hashing, _partial
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import SHA256, RemoteFile
from ansible_collections.modelfleet.serving.plugins.module_utils._partial import EARLIER, Partial
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import Job

DATA = b"0123456789" * 1000


@pytest.fixture(params=[False, True], ids=["", "hashed-beside"])
def part(request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Partial:
    monkeypatch.setattr(_hashing, "MIN_BESIDE", 100)
    monkeypatch.setattr(_partial, "BLOCK", 512)
    file = RemoteFile("m", len(DATA), SHA256, hashlib.sha256(DATA).hexdigest())
    return Partial(Job(file, str(tmp_path / "partial"), str(tmp_path / "m")), request.param)


def write(part: Partial, data: bytes, giver: str) -> None:
    part.write(memoryview(data), giver)


def test_it_is_not_made_before_it_is_opened(part: Partial, tmp_path: pathlib.Path) -> None:
    assert list(tmp_path.iterdir()) == []
    with part:
        assert part.offset == 0
    assert [path.name for path in tmp_path.iterdir()] == ["partial"]


def test_closed_and_opened_it_goes_on_and_is_not_hashed_again(part: Partial, tmp_path: pathlib.Path) -> None:
    with part:
        write(part, DATA[:4000], "a")
    # so it would be noticed, were it read
    inside = tmp_path / "partial"
    inside.write_bytes(b"x" * 4000)
    with part:
        assert (part.offset, part.givers) == (4000, ["a"])
        write(part, DATA[4000:], "b")
        assert part.digest() == part.job.file.digest
    assert inside.read_bytes() == b"x" * 4000 + DATA[4000:]
    assert part.givers == ["a", "b"]


def test_one_that_changed_its_size_meanwhile_is_read_again(part: Partial, tmp_path: pathlib.Path) -> None:
    with part:
        write(part, DATA[:4000], "a")
    (tmp_path / "partial").write_bytes(DATA[:300])
    with part:
        assert (part.offset, part.givers) == (300, [EARLIER])
        write(part, DATA[300:], "b")
        assert part.digest() == part.job.file.digest


def test_begun_again_it_owes_nobody(part: Partial) -> None:
    with part:
        write(part, b"wrong", "a")
        part.restart()
        assert (part.offset, part.givers) == (0, [])
        write(part, DATA, "b")
        done = part.publish("b", "copy")
    assert (done.source, done.method, part.givers) == ("b", "copy", ["b"])
    assert pathlib.Path(part.job.target).read_bytes() == DATA


def test_nothing_is_kept_of_what_lies_in_the_place_of_an_empty_file(tmp_path: pathlib.Path) -> None:
    file = RemoteFile("empty", 0, SHA256, hashlib.sha256(b"").hexdigest())
    (tmp_path / "partial").write_bytes(b"rest")
    with Partial(Job(file, str(tmp_path / "partial"), str(tmp_path / "empty"))) as part:
        assert (part.offset, part.givers) == (0, [])
        assert part.digest() == file.digest
    assert (tmp_path / "partial").read_bytes() == b""


def test_no_thread_stays_when_it_is_closed(part: Partial) -> None:
    before = threading.active_count()
    with part:
        write(part, DATA[:4000], "a")
    with part:
        write(part, DATA[4000:], "a")
        part.restart()
    assert threading.active_count() == before
