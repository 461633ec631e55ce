# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One lab for all end-to-end tests; the files are numbered because each goes on from what the one before it left."""

from __future__ import annotations

import hashlib
import os
import pathlib

import pytest

from .harness import TOP, Lab, call

#: one lab a clone: what an earlier run of this clone left is taken over, another clone's hosts are none of its business
CLONE = hashlib.sha256(str(TOP).encode()).hexdigest()[:6]


@pytest.fixture(scope="session", autouse=True)
def _root_only() -> None:
    if os.geteuid() != 0:
        pytest.fail("the end-to-end tests need root: network namespaces, overlay mounts, systemd-nspawn", pytrace=False)


@pytest.fixture(scope="session")
def hub_root(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    root = tmp_path_factory.mktemp("hub")
    # large: its load takes seconds even from the page cache, long enough to be interrupted
    for repo, size in (("demo/Kimi-Demo-NVFP4", "large"), ("demo/Kimi-Demo-INT4", "default")):
        made = call(
            ["python3", str(TOP / "tests/lab/checkpoints/make_repo.py"), str(root), "--size", size, "--only", repo]
        )
        assert made.rc == 0, made.out
    return root


@pytest.fixture(scope="session")
def lab(hub_root: pathlib.Path):
    """Two hosts named as in the demo inventory, and the Hub; all of it is gone afterwards."""
    lab = Lab(f"e2e{CLONE}", "inventories/demo")
    lab.down()
    lab.up("--names", "demo1,demo2")
    started = call([str(TOP / "tests/lab/hub-service.sh"), "up", lab.name, str(hub_root)])
    assert started.rc == 0, started.out
    yield lab
    call([str(TOP / "tests/lab/hub-service.sh"), "down", lab.name])
    lab.down()
