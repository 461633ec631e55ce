# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where folders keep the files of a commit."""

from __future__ import annotations

import hashlib
import json
import pathlib
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._folder import Folder, read_tree, resolve
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    GIT_SHA1,
    SHA256,
    Listing,
    Manifest,
    RemoteFile,
    to_json,
)

COMMIT = "c" * 40
DATA = b"weights"
FILE = RemoteFile("sub/m.safetensors", len(DATA), SHA256, hashlib.sha256(DATA).hexdigest())


def put(path: pathlib.Path, data: bytes = DATA) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def find(root: pathlib.Path, target: str = "/nowhere") -> t.Optional[str]:
    found = Folder(str(root), "acme/tiny", COMMIT).find(FILE, target)
    return found.path if found else None


@pytest.mark.parametrize(
    "place",
    [
        f"snapshots/acme--tiny/{COMMIT}/sub/m.safetensors",
        f"acme--tiny/{COMMIT}/sub/m.safetensors",
        f"hub/models--acme--tiny/snapshots/{COMMIT}/sub/m.safetensors",
        f"models--acme--tiny/snapshots/{COMMIT}/sub/m.safetensors",
        f"snapshots/{COMMIT}/sub/m.safetensors",
        "sub/m.safetensors",
        f"hub/models--acme--tiny/blobs/{FILE.digest}",
        f"models--acme--tiny/blobs/{FILE.digest}",
        f"blobs/{FILE.digest}",
    ],
)
def test_places(tmp_path: pathlib.Path, place: str) -> None:
    path = put(tmp_path / place)
    assert find(tmp_path) == str(path)
    path.write_bytes(b"other size")
    assert find(tmp_path) is None


def test_links_are_followed_to_their_end_and_dangling_ones_are_nothing(tmp_path: pathlib.Path) -> None:
    store = put(tmp_path / "hub/blobs/ab/xet")
    blob = tmp_path / "hub/models--acme--tiny/blobs" / FILE.digest
    blob.parent.mkdir(parents=True)
    blob.symlink_to("../../blobs/ab/xet")
    file = tmp_path / f"hub/models--acme--tiny/snapshots/{COMMIT}" / FILE.path
    file.parent.mkdir(parents=True)
    file.symlink_to(f"../../../blobs/{FILE.digest}")
    assert find(tmp_path) == find(tmp_path / "hub") == str(store)
    store.unlink()
    assert find(tmp_path) is None


def test_a_wrong_size_in_one_place_does_not_hide_another(tmp_path: pathlib.Path) -> None:
    put(tmp_path / f"snapshots/acme--tiny/{COMMIT}/sub/m.safetensors", b"cut")
    path = put(tmp_path / "sub/m.safetensors")
    assert find(tmp_path) == str(path)


def test_the_file_that_is_to_be_repaired_is_not_its_own_source(tmp_path: pathlib.Path) -> None:
    path = put(tmp_path / f"snapshots/acme--tiny/{COMMIT}/sub/m.safetensors")
    assert find(tmp_path, str(path)) is None
    assert find(tmp_path, f"{tmp_path}/other") == str(path)


def test_other_snapshots_give_what_has_the_same_content(tmp_path: pathlib.Path) -> None:
    old = tmp_path / "snapshots/acme--tiny" / ("d" * 40)
    path = put(old / "renamed.safetensors")
    listing = Listing("d" * 40, (FILE._replace(path="renamed.safetensors"),))
    put(old / ".modelfleet/manifest.json", to_json(Manifest("acme/tiny", "", listing, {})).encode())
    put(tmp_path / "snapshots/acme--tiny/broken/.modelfleet/manifest.json", b"{")
    assert find(tmp_path) == find(tmp_path / "snapshots") == str(path)


def test_only_files_are_files(tmp_path: pathlib.Path) -> None:
    (tmp_path / FILE.path).mkdir(parents=True)
    assert find(tmp_path) is None
    assert find(tmp_path / "not/there") is None


# -- listings ---------------------------------------------------------------------------------------------------------

LISTING = Listing(COMMIT, (FILE, RemoteFile("config.json", 2, GIT_SHA1, "ef" * 20)))
TREE = {
    "format_version": 1,
    "files": {
        FILE.path: {"size": 7, "blob_id": "12" * 20, "lfs_sha256": FILE.digest, "lfs_size": 7, "xet_hash": "34" * 32},
        "config.json": {"size": 2, "blob_id": "ef" * 20},
    },
}


@pytest.mark.parametrize(
    "place",
    [
        f"snapshots/acme--tiny/{COMMIT}/.modelfleet/manifest.json",
        f"acme--tiny/{COMMIT}/.modelfleet/manifest.json",
        ".modelfleet/manifest.json",
        f".cache/huggingface/trees/{COMMIT}.json",
        f"snapshots/acme--tiny/{COMMIT}/.cache/huggingface/trees/{COMMIT}.json",
        f"models--acme--tiny/trees/{COMMIT}.json",
        f"hub/models--acme--tiny/trees/{COMMIT}.json",
        f"trees/{COMMIT}.json",
    ],
)
def test_listings(tmp_path: pathlib.Path, place: str) -> None:
    text = to_json(Manifest("acme/tiny", "", LISTING, {})) if "manifest" in place else json.dumps(TREE)
    put(tmp_path / place, text.encode())
    listing = Folder(str(tmp_path), "acme/tiny", COMMIT).listing()
    assert listing is not None
    assert (listing.commit, sorted(listing.files)) == (COMMIT, sorted(LISTING.files))


@pytest.mark.parametrize(("repo_id", "commit"), [("acme/other", COMMIT), ("acme/tiny", "d" * 40)])
def test_a_manifest_of_something_else_lists_nothing(tmp_path: pathlib.Path, repo_id: str, commit: str) -> None:
    manifest = Manifest(repo_id, "", LISTING._replace(commit=commit), {})
    put(tmp_path / ".modelfleet/manifest.json", to_json(manifest).encode())
    assert Folder(str(tmp_path), "acme/tiny", COMMIT).listing() is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"format_version": 2, "files": {}}', '{"format_version": 1, "files": {"a": {}}}', "\udcff"]
    + [
        json.dumps({"format_version": 1, "files": {"a": entry}})
        for entry in (
            {"size": 1, "blob_id": "../../../etc/cron.d/x"},
            {"size": "1", "blob_id": "ef" * 20},
            {"size": -1, "blob_id": "ef" * 20},
            {"size": 1, "blob_id": "ef" * 20, "lfs_sha256": "ef" * 20},
        )
    ],
)
def test_trees_that_cannot_be_read_list_nothing(tmp_path: pathlib.Path, text: str) -> None:
    put(tmp_path / "tree", text.encode("utf-8", "surrogateescape"))
    assert read_tree(str(tmp_path / "tree"), COMMIT) is None


def test_a_ref_that_is_no_commit_is_none(tmp_path: pathlib.Path) -> None:
    put(tmp_path / "refs/main", b"root:x:0:0")
    assert resolve(str(tmp_path), "acme/tiny", "main") == ""


@pytest.mark.parametrize("place", ["models--acme--tiny/refs/main", "hub/models--acme--tiny/refs/main", "refs/main"])
def test_branches_of_a_cache(tmp_path: pathlib.Path, place: str) -> None:
    assert resolve(str(tmp_path), "acme/tiny", "main") == ""
    put(tmp_path / place, f"{COMMIT}\n".encode())
    assert resolve(str(tmp_path), "acme/tiny", "main") == COMMIT
    assert resolve(str(tmp_path), "acme/tiny", "v1") == ""
