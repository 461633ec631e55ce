# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What a safetensors file says about itself: its header names every tensor and where its bytes lie.

Cheap proof against truncation and mixed-up files: the header of a 10 GB shard is some 100 kB, and the end of its last
tensor must be the end of the file.
"""

from __future__ import annotations

import json
import typing as t

#: the format's own limit, against a length field that is garbage
MAX_HEADER = 100_000_000
INDEX_SUFFIX = ".safetensors.index.json"


class HeaderError(Exception):
    """The file is no intact safetensors file; the text says why."""


def tensor_names(handle: t.BinaryIO, size: int) -> frozenset[str]:
    """Names of the tensors of a file of ``size`` bytes; :class:`HeaderError` when header and size disagree."""
    if size < 8:
        raise HeaderError(f"{size} bytes are too few for a safetensors header")
    length = int.from_bytes(handle.read(8), "little")
    if length > min(MAX_HEADER, size - 8):
        raise HeaderError(f"header length {length} does not fit into a file of {size} bytes")
    raw = handle.read(length)
    if len(raw) < length:
        raise HeaderError(f"header of {length} bytes breaks off after {len(raw)}")
    try:
        header = json.loads(raw)
        spans = {name: tuple(info["data_offsets"]) for name, info in header.items() if name != "__metadata__"}
        end = _covered(sorted(spans.values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise HeaderError("header is not the JSON object of tensors it should be") from None
    if 8 + length + end != size:
        raise HeaderError(f"header accounts for {8 + length + end} bytes, file has {size}")
    return frozenset(spans)


def _covered(spans: list[tuple[int, int]]) -> int:
    """Where the tensors' bytes end; they lie side by side, without holes."""
    at = 0
    for begin, end in spans:
        if begin != at or end < begin:
            raise HeaderError(f"tensor data has a hole or an overlap at byte {at}")
        at = end
    return at


def index_map(text: str) -> dict[str, str]:
    """``weight_map`` of an index file: tensor name to file name."""
    try:
        weight_map = json.loads(text)["weight_map"]
        return {str(name): str(file) for name, file in weight_map.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise HeaderError("index has no weight_map") from None


__all__ = ("INDEX_SUFFIX", "HeaderError", "index_map", "tensor_names")
