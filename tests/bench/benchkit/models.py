# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Model repositories to move about: well-formed shards of any size, quickly made."""

from __future__ import annotations

import json
import os
import pathlib

#: bytes that repeat; random, so that nothing can be gained by compression or by noticing zeros
PATTERN = 1 << 23


def make_repo(folder: pathlib.Path, shards: int, size: int) -> int:
    """A repository of ``shards`` safetensors files of ``size`` bytes each and a configuration; bytes in all."""
    folder.mkdir(parents=True)
    pattern = os.urandom(min(PATTERN, size))
    for number in range(1, shards + 1):
        _shard(folder / f"model-{number:05}-of-{shards:05}.safetensors", number, size, pattern)
    (folder / "config.json").write_text('{"model_type": "bench"}\n')
    return sum(path.stat().st_size for path in folder.iterdir())


def _shard(path: pathlib.Path, number: int, size: int, pattern: bytes) -> None:
    """Every shard has another name in its header, and so another digest."""
    room = 512
    length = size - room
    header = json.dumps({f"weight.{number}": {"dtype": "U8", "shape": [length], "data_offsets": [0, length]}})
    with path.open("wb") as handle:
        handle.write((room - 8).to_bytes(8, "little") + header.encode().ljust(room - 8))
        while length:
            length -= handle.write(pattern[:length])
