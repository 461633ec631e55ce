# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    GIT_SHA1,
    SHA256,
    Listing,
    Manifest,
    Record,
    RemoteFile,
    from_json,
    to_json,
)

LISTING = Listing(
    "a" * 40, (RemoteFile("config.json", 2, GIT_SHA1, "b" * 40), RemoteFile("m.safetensors", 9, SHA256, "c" * 64))
)
MANIFEST = Manifest("acme/tiny", "https://hub", LISTING, {"m.safetensors": Record(5, 6, 7)}, complete=True)

names = st.text(min_size=1, max_size=20)


@given(
    st.dictionaries(names, st.tuples(st.integers(0, 2**50), st.sampled_from([SHA256, GIT_SHA1])), max_size=5),
    st.booleans(),
)
def test_what_is_written_is_read_again(files: dict[str, tuple[int, str]], complete: bool) -> None:
    listing = Listing(
        "a" * 40,
        tuple(
            RemoteFile(name, size, kind, "d" * (64 if kind == SHA256 else 40))
            for name, (size, kind) in sorted(files.items())
        ),
    )
    records = {name: Record(size, 2, 3) for name, (size, kind) in files.items() if kind == SHA256}
    manifest = Manifest("acme/tiny", "https://hub", listing, records, complete)
    assert from_json(to_json(manifest)) == manifest
    assert to_json(from_json(to_json(manifest)) or MANIFEST) == to_json(manifest)


def test_other_tools_can_read_it() -> None:
    content = json.loads(to_json(MANIFEST))
    assert content["schema"] == 1
    assert content["commit"] == "a" * 40
    assert content["files"] == [
        {"path": "config.json", "size": 2, "git_sha1": "b" * 40},
        {"path": "m.safetensors", "size": 9, "sha256": "c" * 64, "mtime_ns": 5, "inode": 6, "verified_at": 7},
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        to_json(MANIFEST)[:-20],
        to_json(MANIFEST).replace('"schema": 1', '"schema": 2'),
        to_json(MANIFEST).replace("verified_at", "verified"),
        # digests become names on the disk
        to_json(MANIFEST).replace("c" * 64, "../../../etc/cron.d/x"),
        to_json(MANIFEST).replace("c" * 64, "c" * 63),
        to_json(MANIFEST).replace("b" * 40, "B" * 40),
        to_json(MANIFEST).replace('"size": 9', '"size": -9'),
        to_json(MANIFEST).replace('"size": 9', '"size": "9"'),
    ],
)
def test_a_damaged_or_foreign_manifest_is_none(text: str) -> None:
    assert from_json(text) is None
