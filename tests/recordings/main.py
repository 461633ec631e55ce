# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Entry point of ``tests/replay``: the clone is importable as the collection that it is, wherever it lies."""

from __future__ import annotations

import pathlib
import sys
import types

_HERE = pathlib.Path(__file__).resolve().parent


def _find_collection() -> None:
    for name, path in (
        ("ansible_collections", []),
        ("ansible_collections.modelfleet", []),
        ("ansible_collections.modelfleet.serving", [str(_HERE.parents[1])]),
    ):
        package = types.ModuleType(name)
        package.__path__ = path
        sys.modules[name] = package


if __name__ == "__main__":
    _find_collection()
    import replaying

    sys.exit(replaying.main(sys.argv[1:]))
