# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import stat

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils import _files
from ansible_collections.modelfleet.serving.plugins.module_utils._files import Found, LocalFiles, Tree

FILES = LocalFiles()


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    """A snapshot to take modes from."""
    folder = tmp_path / "snapshot"
    folder.mkdir(mode=0o750)
    (folder / "config.json").write_text("{}")
    (folder / "config.json").chmod(0o640)
    return folder


def put(path: pathlib.Path, tree: Tree, model: pathlib.Path) -> None:
    FILES.put_tree(str(path), tree, str(model))


def names(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_tree_is_made_with_its_parents_and_the_models_modes(tmp_path: pathlib.Path, model: pathlib.Path) -> None:
    view = tmp_path / "views" / "a" / "1"
    old_umask = os.umask(0o077)
    try:
        put(view, Tree({"sub/x": "../../elsewhere"}, {"config.json": b"1", ".modelfleet/view.json": b"2"}), model)
    finally:
        os.umask(old_umask)
    assert FILES.found(str(view)) == Found(
        {"sub/x": "../../elsewhere"}, frozenset({"config.json", ".modelfleet/view.json"})
    )
    for folder in (tmp_path / "views", view.parent, view, view / "sub", view / ".modelfleet"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o750, folder
    for file in (view / "config.json", view / ".modelfleet" / "view.json"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o640, file
    assert names(view.parent) == ["1"]


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_tree_is_replaced_whole(
    tmp_path: pathlib.Path, model: pathlib.Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(_files, "_exchange", lambda one, other: False)
    view = tmp_path / "view"
    put(view, Tree({"stale": "gone"}, {"config.json": b"old"}), model)
    put(view, Tree({"fresh": "there"}, {"config.json": b"new"}), model)
    assert FILES.found(str(view)) == Found({"fresh": "there"}, frozenset({"config.json"}))
    assert (view / "config.json").read_bytes() == b"new"
    assert names(tmp_path) == ["snapshot", "view"]


def test_a_tree_is_exchanged_in_one_step_on_this_system(tmp_path: pathlib.Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert _files._exchange(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (names(tmp_path / "a"), names(tmp_path / "b")) == (["b"], ["a"])


def test_what_a_killed_run_left_is_cleared_up(tmp_path: pathlib.Path, model: pathlib.Path) -> None:
    for leftover in (".view.modelfleet-new", ".view.modelfleet-old"):
        (tmp_path / leftover / "half").mkdir(parents=True)
    put(tmp_path / "view", Tree({}, {"config.json": b"1"}), model)
    assert names(tmp_path) == ["snapshot", "view"]


def test_a_build_that_fails_leaves_the_tree_as_it_was(tmp_path: pathlib.Path, model: pathlib.Path) -> None:
    view = tmp_path / "view"
    put(view, Tree({}, {"config.json": b"old"}), model)
    with pytest.raises(OSError, match="name too long"):
        put(view, Tree({"x" * 300: "target"}, {"config.json": b"new"}), model)
    assert (view / "config.json").read_bytes() == b"old"


def test_remove_tree(tmp_path: pathlib.Path, model: pathlib.Path) -> None:
    put(tmp_path / "view", Tree({"link": "x"}, {"config.json": b"1"}), model)
    FILES.remove_tree(str(tmp_path / "view"))
    assert names(tmp_path) == ["snapshot"]


def test_replace_keeps_the_first_content_and_its_marks(model: pathlib.Path) -> None:
    config = model / "config.json"
    marks = config.stat().st_ino, config.stat().st_mtime_ns
    FILES.replace(str(config), b"first")
    FILES.replace(str(config), b"second")
    assert config.read_bytes() == b"second"
    assert stat.S_IMODE(config.stat().st_mode) == 0o640
    assert names(model) == ["config.json", "config.json.modelfleet-orig"]
    FILES.restore(str(config))
    assert config.read_bytes() == b"{}"
    assert (config.stat().st_ino, config.stat().st_mtime_ns) == marks
    assert names(model) == ["config.json"]


def test_replace_without_hard_links(model: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    FILES.replace(str(model / "config.json"), b"new")
    FILES.restore(str(model / "config.json"))
    assert (model / "config.json").read_bytes() == b"{}"
    assert names(model) == ["config.json"]


def test_replace_of_a_link_leaves_its_target_alone(tmp_path: pathlib.Path, model: pathlib.Path) -> None:
    blob = tmp_path / "blob"
    (model / "config.json").rename(blob)
    (model / "config.json").symlink_to("../blob")
    FILES.replace(str(model / "config.json"), b"new")
    assert blob.read_bytes() == b"{}"
    FILES.restore(str(model / "config.json"))
    assert os.readlink(model / "config.json") == "../blob"


def test_small_questions(tmp_path: pathlib.Path, model: pathlib.Path) -> None:
    (tmp_path / "link").symlink_to(model)
    (tmp_path / "nowhere").symlink_to("missing")
    assert FILES.is_dir(str(model)) and not FILES.is_dir(str(tmp_path / "link"))
    assert FILES.exists(str(tmp_path / "nowhere")) and not FILES.resolves(str(tmp_path / "nowhere"))
    assert FILES.real(str(tmp_path / "link")) == str(model)
    assert FILES.read(str(tmp_path / "missing")) is None
    assert FILES.read(str(model / "config.json" / "below")) is None
    assert FILES.read(str(model / "config.json")) == b"{}"
