# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lays out the root directory of the lab's Hub: the demo repositories, and who may read the gated one.

What is there and was made by the same code is left alone, so that a second run costs nothing and commits stay.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import shutil
import sys
import typing as t

if not __package__:  # run by its path: make the package importable, and its files not
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from checkpoints.make_checkpoint import make_checkpoint
from checkpoints.weights import SIZES

#: repository -> variant. The names say what the real ones are; the first is the default of the demo.
REPOSITORIES: t.Mapping[str, str] = {
    "demo/Kimi-Demo-NVFP4": "modelopt",
    "demo/Kimi-Demo-INT4": "ct",
    "demo/Kimi-Demo-TextConfig": "ct_text_config",
    "demo/Garbage": "garbage",
    "demo/Kimi-Demo-Gated": "modelopt",
}
#: a token that opens nothing but this Hub
DEMO_TOKEN = "hf_demo_reader"
SETTINGS = {
    "users": {DEMO_TOKEN: "reader", "hf_demo_stranger": "stranger"},
    "repos": {"demo/Kimi-Demo-Gated": {"gated": "manual", "readers": ["reader"]}},
}
STAMP = ".made-by.json"


def generator() -> str:
    """Changes whenever the code that makes the checkpoints does."""
    sources = sorted(pathlib.Path(__file__).resolve().parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


def make_repo(root: pathlib.Path, size: str = "default", only: t.Optional[t.Collection[str]] = None) -> list[str]:
    """Make the repositories that are missing, older than the code or of another size; returns their names."""
    root.mkdir(parents=True, exist_ok=True)
    stamp_file = root / STAMP
    stamps: dict[str, str] = json.loads(stamp_file.read_text()) if stamp_file.exists() else {}
    wanted = f"{size} {generator()}"
    made = []
    for name, variant in REPOSITORIES.items():
        folder = root / name
        if (only is not None and name not in only) or (stamps.get(name) == wanted and folder.is_dir()):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        make_checkpoint(folder, variant, size)
        stamps[name] = wanted
        made.append(name)
        stamp_file.write_text(json.dumps(stamps, indent=2) + "\n")
    (root / "hub.json").write_text(json.dumps(SETTINGS, indent=2) + "\n")
    return made


def main(argv: t.Optional[t.Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(description="Make the demo repositories below a root directory of the lab's Hub.")
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--size", choices=SIZES, default="default")
    parser.add_argument("--only", action="append", choices=REPOSITORIES, help="repeatable; default: all of them")
    args = parser.parse_args(argv)
    for name in make_repo(args.root, args.size, args.only):
        print(f"made {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
