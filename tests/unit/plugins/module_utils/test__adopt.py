# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a file may share its bytes with its origin, and how it comes to."""

from __future__ import annotations

import os
import pathlib
import stat

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils import _adopt
from ansible_collections.modelfleet.serving.plugins.module_utils._adopt import Wanted, Way, bring, foresee, unfit


def seen(mode: int = 0o644, uid: int = 0, gid: int = 0) -> os.stat_result:
    return os.stat_result((stat.S_IFREG | mode, 1, 1, 1, uid, gid, 10, 0, 0, 0))


ME = os.geteuid()
CASES = [
    (seen(uid=ME), Wanted(), ""),
    (seen(0o400, uid=ME), Wanted(), ""),
    (seen(0o664, uid=ME), Wanted(), "its mode 0664 lets others write it"),
    (seen(0o646, uid=ME), Wanted(), "its mode 0646 lets others write it"),
    (seen(uid=ME + 7), Wanted(), f"it belongs to user id {ME + 7}, not {ME}"),
    (seen(uid=ME + 7), Wanted(uid=ME + 7), ""),
    (seen(uid=ME), Wanted(uid=ME + 7), f"it belongs to user id {ME}, not {ME + 7}"),
    (seen(uid=ME, gid=5), Wanted(gid=5), ""),
    (seen(uid=ME, gid=5), Wanted(gid=6), "it belongs to group id 5, not 6"),
    (seen(0o600, uid=ME), Wanted(mode=0o600), ""),
    (seen(0o600, uid=ME), Wanted(mode=0o644), "its mode is 0600, not 0644"),
    (seen(uid=ME), Wanted(symbolic=True), "a mode that is not octal is wanted"),
]


@pytest.mark.parametrize(("look", "wanted", "why"), CASES)
def test_who_may_share_with_its_origin(look: os.stat_result, wanted: Wanted, why: str) -> None:
    assert unfit(look, wanted) == why


def test_what_is_foreseen_leaves_nothing_and_is_what_happens(tmp_path: pathlib.Path) -> None:
    origin = tmp_path / "origin"
    origin.write_bytes(b"x" * 10_000)
    into = tmp_path / "into"
    into.mkdir()
    way = foresee(str(origin), origin.lstat(), str(into), ("reflink", "link"), Wanted(), {})
    assert list(into.iterdir()) == []
    assert way.method in ("reflink", "link")
    fd = bring(str(origin), str(into / "file"), way.method)
    assert fd is not None
    try:
        assert os.pread(fd, 20_000, 0) == b"x" * 10_000
        assert (os.fstat(fd).st_ino == origin.stat().st_ino) == (way.method == "link")
    finally:
        os.close(fd)


def test_what_can_be_neither_is_copied_and_both_reasons_given(tmp_path: pathlib.Path) -> None:
    origin = tmp_path / "origin"
    origin.write_bytes(b"x")
    # another file system
    way = foresee(str(origin), origin.lstat(), "/dev/shm", ("reflink", "link"), Wanted(), {})
    assert way.method == "copy"
    assert way.note.startswith("no reflink: ")
    assert way.note.endswith(", no link: it is on another file system")
    assert foresee(str(origin), origin.lstat(), "/dev/shm", (), Wanted(), {}) == Way("copy")


@pytest.mark.parametrize("way", ["reflink", "link"])
def test_what_the_kernel_refuses_leaves_nothing(tmp_path: pathlib.Path, way: str) -> None:
    origin = tmp_path / "origin"
    origin.write_bytes(b"x")
    name = f"/dev/shm/modelfleet-test-{os.getpid()}"
    pathlib.Path(name).write_text("of an earlier run")
    assert bring(str(origin), name, way) is None
    assert not os.path.lexists(name)
    assert origin.read_bytes() == b"x"


def test_a_link_in_the_place_of_the_name_is_replaced_and_not_written_through(tmp_path: pathlib.Path) -> None:
    origin, victim, name = tmp_path / "origin", tmp_path / "victim", tmp_path / "name"
    origin.write_bytes(b"x")
    victim.write_text("precious")
    for way in ("reflink", "link"):
        name.symlink_to(victim)
        fd = bring(str(origin), str(name), way)
        if fd is not None:
            os.close(fd)
            name.unlink()
        assert victim.read_text() == "precious"


def test_the_ways_begin_with_the_independent_one() -> None:
    assert _adopt.WAYS == {"auto": ("reflink", "link"), "reflink": ("reflink",), "link": ("link",), "copy": ()}
