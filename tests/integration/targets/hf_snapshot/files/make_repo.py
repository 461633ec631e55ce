# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""make_repo.py DIR: the files of a small checkpoint, the same bytes on every run."""

from __future__ import annotations

import json
import pathlib
import sys

SHARDS = {"model-00001-of-000003.safetensors": 1_000_000, "model-00002-of-000003.safetensors": 3_000_000}
SHARDS["model-00003-of-000003.safetensors"] = 2_000_000


def shard(size: int) -> bytes:
    header = json.dumps({f"w{size}": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes((size + i // 251) % 256 for i in range(size))


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    (folder / "docs").mkdir(parents=True)
    for name, size in SHARDS.items():
        (folder / name).write_bytes(shard(size))
    weight_map = {f"w{size}": name for name, size in SHARDS.items()}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "config.json").write_text('{"model_type": "tiny"}\n')
    (folder / "modeling_tiny.py").write_text("class Tiny:\n    pass\n")
    (folder / "empty").write_text("")
    (folder / "docs" / "a name with space & #1?.md").write_text("text\n")


if __name__ == "__main__":
    main()
