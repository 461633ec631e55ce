# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a removal finds on the disk, and what holds on to a snapshot."""

from __future__ import annotations

import base64
import json
import typing as t

import pytest
from rendering import Rendered

ROOT = "/srv/models"
ONE, TWO = "1" * 40, "2" * 40
FOUND = [
    f"{ROOT}/views/kimi",
    f"{ROOT}/views/kimi/.{ONE[:12]}.modelfleet-new",
    f"{ROOT}/views/kimi/{ONE[:12]}",
    f"{ROOT}/views/other/{ONE[:12]}",
    f"{ROOT}/snapshots/demo--Kimi/{ONE}",
    f"{ROOT}/snapshots/demo--Kimi/{TWO}",
    f"{ROOT}/snapshots/demo--Kimi/mine",
    f"{ROOT}/snapshots/demo--Kimi-2/{ONE}",
]


def left(profiles: list[str], repositories: list[str], used: list[str]) -> tuple[list[str], list[str]]:
    given = {"disk_prep_profiles": profiles, "disk_prep_repositories": repositories, "disk_prep_used": used}
    found = {"__disk_prep_found": {"files": [{"path": path} for path in FOUND]}}
    role = Rendered("disk_prep", given, found)
    return role["__disk_prep_left_views"], role["__disk_prep_left_snapshots"]


@pytest.mark.parametrize(
    ("profiles", "repositories", "used", "views", "snapshots"),
    [
        (["kimi"], ["demo/Kimi"], [], FOUND[1:3], FOUND[4:6]),
        (["kimi"], ["demo/Kimi"], [FOUND[2], FOUND[5]], FOUND[1:2], FOUND[4:5]),
        ([], [], [], [], []),
    ],
    ids=["all of a profile and a repository", "without what another release uses", "nothing asked for"],
)
def test_what_is_left_of_an_instance(
    profiles: list[str], repositories: list[str], used: list[str], views: list[str], snapshots: list[str]
) -> None:
    assert left(profiles, repositories, used) == (views, snapshots)


def current(instance: str, commit: str) -> dict[str, t.Any]:
    content = base64.b64encode(json.dumps({"model": {"commit": commit}}).encode()).decode()
    return {"item": {"path": f"/var/lib/modelfleet/releases/{instance}/current"}, "content": content}


@pytest.mark.parametrize(
    ("removed", "held"),
    [
        ({}, [ONE, TWO]),
        ({"disk_prep_removed_instance": "kimi"}, [TWO]),
        ({"disk_prep_removed_instance": "imi"}, [ONE, TWO]),
    ],
    ids=["to make room", "with its instance", "with an instance of another name"],
)
def test_the_release_that_is_being_removed_holds_on_to_nothing(removed: dict[str, t.Any], held: list[str]) -> None:
    """In check mode its record is still there, and the real run would have no reason to refuse."""
    wanted = [{"repo_id": "demo/Kimi", "commit": commit} for commit in (ONE, TWO)]
    found = {"__disk_prep_records": {"results": [current("kimi", ONE), current("other", TWO)]}}
    role = Rendered("disk_prep", {"disk_prep_remove_snapshots": wanted, **removed}, found)
    assert role["__disk_prep_wanted"] == held
