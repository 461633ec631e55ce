# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import fcntl
import os
import pathlib

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._leftovers import Leftover, abandoned, unwanted

NOW = 1_800_000_000.0


def put(path: pathlib.Path, size: int = 5, age: float = 10) -> Leftover:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (NOW - age, NOW - age))
    return Leftover(str(path), size)


@pytest.fixture
def downloads(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / ".cache/huggingface/download"


def test_partial_files_of_other_content_are_unwanted(tmp_path: pathlib.Path) -> None:
    put(tmp_path / "abc-1")
    put(tmp_path / "abc-1.more")
    other = put(tmp_path / "def-1", 7)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("abc-1")
    assert unwanted(str(tmp_path), ["abc-1"]) == [other]
    assert unwanted(str(tmp_path / "none"), []) == []
    assert len(unwanted(str(tmp_path), [])) == 3


def test_the_clients_unfinished_files_are_abandoned(tmp_path: pathlib.Path, downloads: pathlib.Path) -> None:
    one = put(downloads / "Zm9v.abc.0123.incomplete")
    two = put(downloads / "docs/YmFy.def.4567.incomplete", 9)
    put(downloads / "m.safetensors.metadata")
    put(downloads / "m.safetensors.lock", 0)
    put(downloads / "young.incomplete", age=-1)
    put(downloads / "published.incomplete")
    published = [".cache/huggingface/download/published.incomplete"]
    assert abandoned(str(tmp_path), published, NOW) == [one, two]
    assert abandoned(str(tmp_path / "none"), [], NOW) == []


def test_nothing_is_taken_from_a_client_at_work(tmp_path: pathlib.Path, downloads: pathlib.Path) -> None:
    left = put(downloads / "Zm9v.abc.0123.incomplete")
    put(downloads / "docs/m.safetensors.lock", 0)
    with open(downloads / "docs/m.safetensors.lock", "r+b") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert abandoned(str(tmp_path), [], NOW) == []
    assert abandoned(str(tmp_path), [], NOW) == [left]
