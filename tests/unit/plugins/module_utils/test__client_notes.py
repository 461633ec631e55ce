# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the real client agrees is asked in tests/versions; here is when a note is written."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._client_notes import (
    note_paths,
    stale_notes,
    tree_path,
    tree_text,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    GIT_SHA1,
    SHA256,
    Listing,
    Record,
    RemoteFile,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHARD = RemoteFile("m.safetensors", 10, SHA256, "ab" * 32)
CONFIG = RemoteFile("config.json", 2, GIT_SHA1, "cd" * 20)
LISTING = Listing(COMMIT, (SHARD, CONFIG))
RECORD = Record(1_800_000_000_500_000_000, 6, 1_800_000_002)
NOTE = ".cache/huggingface/download/m.safetensors.metadata"
TEXT = f"{COMMIT}\n{SHARD.digest}\n1800000002.0\n"


def test_a_first_download_is_noted_whole_and_then_nothing_is_stale() -> None:
    records = {"m.safetensors": RECORD, "config.json": RECORD._replace(mtime_ns=1_900_000_000_000_000_000)}
    notes = stale_notes(LISTING, LISTING.files, records, {})
    assert set(notes) == {
        ".cache/huggingface/CACHEDIR.TAG",
        ".cache/huggingface/.gitignore",
        f".cache/huggingface/trees/{COMMIT}.json",
        NOTE,
        ".cache/huggingface/download/config.json.metadata",
    }
    assert notes[NOTE] == TEXT
    # a file from the future: never a time before the file's own
    assert notes[".cache/huggingface/download/config.json.metadata"].endswith("\n1900000000.0\n")
    assert stale_notes(LISTING, LISTING.files, records, notes) == {}


@pytest.mark.parametrize(
    ("text", "stale"),
    [
        (TEXT, False),
        # written by the client itself, later
        (TEXT.replace("1800000002.0", "1800009999.123"), False),
        # what the client tolerates
        (TEXT.replace("1800000002.0", "1799999999.6"), False),
        (TEXT.replace("1800000002.0", "1799999999.4"), True),
        (TEXT.replace(COMMIT, "f" * 40), True),
        (TEXT.replace(SHARD.digest, "ef" * 32), True),
        (f"{COMMIT}\n{SHARD.digest}\n", True),
        (f"{COMMIT}\n{SHARD.digest}\nnever\n", True),
        ("", True),
        (None, True),
    ],
)
def test_notes_that_the_client_would_not_take(text: t.Optional[str], stale: bool) -> None:
    there = {} if text is None else {NOTE: text}
    assert (stale_notes(LISTING, [SHARD], {"m.safetensors": RECORD}, there).get(NOTE) == TEXT) is stale


def test_nothing_is_noted_about_a_file_that_is_not_proved() -> None:
    assert NOTE not in stale_notes(LISTING, LISTING.files, {"config.json": RECORD}, {})


def test_the_listing_is_in_the_clients_form() -> None:
    assert json.loads(tree_text(LISTING)) == {
        "format_version": 1,
        "files": {
            "config.json": {"size": 2, "blob_id": CONFIG.digest},
            "m.safetensors": {
                "size": 10,
                "blob_id": "26b5c5ca2d715088702688fe57d0ae148f607006",
                "lfs_sha256": SHARD.digest,
                "lfs_size": 10,
            },
        },
    }


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        (lambda tree: tree, False),
        (lambda tree: {**tree, "files": {**tree["files"], "config.json": {"size": 2, "xet_hash": "x"}}}, False),
        (lambda tree: {**tree, "files": {}}, True),
        (lambda tree: {**tree, "format_version": 2}, True),
        (lambda tree: [], True),
    ],
)
def test_a_listing_of_the_clients_own_stays(change: t.Callable[[t.Any], t.Any], stale: bool) -> None:
    path = tree_path(COMMIT)
    there = {path: json.dumps(change(json.loads(tree_text(LISTING))))}
    assert (path in stale_notes(LISTING, LISTING.files, {}, there)) is stale


def test_published_files_are_no_place_for_notes() -> None:
    published = [
        "a",
        "a.metadata/b",
        "x" * 247,
        "x" * 246,
        ".cache/huggingface/.gitignore",
        ".cache/huggingface/download/c.metadata",
        "c",
    ]
    assert sorted(note_paths(COMMIT, published)) == sorted(
        [
            ".cache/huggingface/CACHEDIR.TAG",
            tree_path(COMMIT),
            ".cache/huggingface/download/a.metadata/b.metadata",
            f".cache/huggingface/download/{'x' * 246}.metadata",
            ".cache/huggingface/download/.cache/huggingface/.gitignore.metadata",
            ".cache/huggingface/download/.cache/huggingface/download/c.metadata.metadata",
        ]
    )
