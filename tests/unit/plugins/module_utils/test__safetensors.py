# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import io
import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.modelfleet.serving.plugins.module_utils._safetensors import (
    HeaderError,
    index_map,
    tensor_names,
)


def file_with(header: t.Any, data: int) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + bytes(data)


def names(content: bytes) -> frozenset[str]:
    return tensor_names(io.BytesIO(content), len(content))


A = {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}
B = {"dtype": "U8", "shape": [6], "data_offsets": [4, 10]}
GOOD = {"__metadata__": {"format": "pt"}, "b": B, "a": A}


def test_an_intact_file_names_its_tensors() -> None:
    assert names(file_with(GOOD, 10)) == {"a", "b"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes are too few for a safetensors header"),
        (file_with(GOOD, 9), f"header accounts for {len(file_with(GOOD, 10))} bytes, file has "),
        (file_with(GOOD, 11), f"header accounts for {len(file_with(GOOD, 10))} bytes, file has "),
        (file_with(GOOD, 10)[:50], "does not fit into a file of 50 bytes"),
        ((1 << 60).to_bytes(8, "little") + bytes(50), f"header length {1 << 60} does not fit into a file of 58 bytes"),
        (file_with(b"<html>", 0), "header is not the JSON object of tensors it should be"),
        (file_with([1], 0), "header is not the JSON object of tensors it should be"),
        (file_with({"a": 1}, 0), "header is not the JSON object of tensors it should be"),
        (
            file_with({"a": A, "b": {**B, "data_offsets": [5, 10]}}, 10),
            "tensor data has a hole or an overlap at byte 4",
        ),
        (
            file_with({"a": A, "b": {**B, "data_offsets": [3, 10]}}, 10),
            "tensor data has a hole or an overlap at byte 4",
        ),
    ],
)
def test_a_broken_file_says_what_is_wrong(content: bytes, message: str) -> None:
    with pytest.raises(HeaderError) as caught:
        names(content)
    assert message in str(caught.value)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_garbage_is_never_more_than_a_header_error(content: bytes, size: int) -> None:
    try:
        tensor_names(io.BytesIO(content), size)
    except HeaderError:
        return
    assert size == 8 + int.from_bytes(content[:8], "little")


def test_every_cut_of_a_file_is_found() -> None:
    whole = file_with(GOOD, 10)
    for size in range(len(whole)):
        with pytest.raises(HeaderError):
            names(whole[:size])


def test_the_index_maps_tensors_to_files() -> None:
    assert index_map('{"weight_map": {"a": "1.safetensors"}}') == {"a": "1.safetensors"}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"weight_map": []}', "<html>"])
def test_an_index_without_map_is_an_error(text: str) -> None:
    with pytest.raises(HeaderError, match="index has no weight_map"):
        index_map(text)
