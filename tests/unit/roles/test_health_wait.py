# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is recorded of a start, and what the table says of hosts that never came as far as the wait."""

from __future__ import annotations

import base64
import json
import re
import typing as t

import pytest
from rendering import ROLES, Rendered

GIVEN: dict[str, t.Any] = {
    "health_wait_instance": "kimi",
    "health_wait_url": "http://127.0.0.1:8000",
    "health_wait_model": "kimi",
}
NOTHING = [{"name": "process", "seconds": 0.0}, {"name": "ready", "seconds": 0.0}]
LOAD = [{"name": "process", "seconds": 6.0}, {"name": "weights", "seconds": 40.0}]


def result(verdict: str, stages: list[dict[str, t.Any]]) -> dict[str, t.Any]:
    return {"verdict": verdict, "stages": stages, "tokens_per_second": 10.0}


def record(load: t.Any) -> dict[str, t.Any]:
    return {"content": base64.b64encode(json.dumps({"number": 1, "load": load}).encode()).decode()}


@pytest.mark.parametrize(
    ("from_start", "recorded", "measured", "shown"),
    [
        (True, None, result("ready", LOAD), LOAD),
        ("false", None, result("ready", NOTHING), []),
        (False, result("ready", LOAD), result("ready", NOTHING), LOAD),
        # a server that is dying is not made better by a run that did not start it
        (False, None, result("dead", LOAD), LOAD),
    ],
    ids=[
        "this run started it",
        "an interrupted run started it",
        "an earlier run measured it",
        "it died under our eyes",
    ],
)
def test_times_are_those_of_the_start(from_start: t.Any, recorded: t.Any, measured: t.Any, shown: t.Any) -> None:
    found = {"__health_wait_result": measured, "__health_wait_slurped": record(recorded)}
    role = Rendered("health_wait", {**GIVEN, "health_wait_from_start": from_start}, found)
    assert role["__health_wait_start"]["stages"] == shown


def table(**hosts: dict[str, t.Any]) -> list[list[t.Any]]:
    found = {"ansible_play_hosts_all": list(hosts), "hostvars": hosts}
    return json.loads(
        Rendered("health_wait", GIVEN, found).expression("lookup('ansible.builtin.template', 'rows.json.j2')")
    )


def test_the_table_says_where_and_why_a_host_failed() -> None:
    profile = {"served_model_names": ["kimi"]}
    ready = {"verdict": "ready", "seconds": 46, "tokens_per_second": 10.04, "stages": "process 6, weights 40"}
    failed = {
        "verdict": "failed in gpu_reclaim",
        "reason": "GPU memory of b is held by processes that are not ours to end:",
    }
    assert table(
        a={"health_wait_row": ready, "model_profile_data": profile, "vllm_service_release": 3},
        b={"health_wait_row": failed, "model_profile_data": profile},
        c={},
    ) == [
        ["host", "verdict", "model", "release", "seconds", "tokens/s", "stages, or why it failed"],
        ["a", "ready", "kimi", 3, 46, 10.0, "process 6, weights 40"],
        ["b", "failed in gpu_reclaim", "kimi", None, None, None, failed["reason"]],
        ["c", "not reached", None, None, None, None, ""],
    ]
    assert table(a={"health_wait_row": ready})[0][-1] == "stages"


def failure(name: str, outcome: dict[str, t.Any], **arguments: t.Any) -> tuple[str, str]:
    found = {"ansible_failed_task": {"name": name, "args": arguments}, "ansible_failed_result": outcome}
    role = Rendered("health_wait", GIVEN, found)
    return role["__health_wait_failed_in"], role["__health_wait_failed_why"]


@pytest.mark.parametrize(
    ("name", "arguments", "where"),
    [
        ("refuse | Fail when others hold GPU memory, before anything is stopped", {}, "in gpu_reclaim"),
        (
            "Validating arguments against arg spec 'main' - Check the host",
            {"validate_args_context": {"name": "preflight"}},
            "in preflight",
        ),
        ("Gathering Facts", {}, "at Gathering Facts"),
    ],
)
def test_where_a_host_failed(name: str, arguments: dict[str, t.Any], where: str) -> None:
    assert failure(name, {"msg": "no"}, **arguments)[0] == where


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        ({"msg": "GPU memory is held:\n- pid 7\n- pid 8"}, "GPU memory is held: - pid 7"),
        ({"msg": "The disk is too small.\nMake room."}, "The disk is too small."),
        ({"msg": ["one", "two"]}, "one two"),
        ({}, "no reason given"),
        (
            {
                "msg": "One or more items failed",
                "results": [{"msg": "fine"}, {"failed": True, "msg": "no space left\n"}],
            },
            "no space left",
        ),
        ({"msg": "x" * 200}, "x" * 157 + "..."),
    ],
)
def test_why_a_host_failed(outcome: dict[str, t.Any], why: str) -> None:
    assert failure("refuse | Fail", outcome)[1] == why


def test_a_task_is_known_by_its_name() -> None:
    """How the role of a failed task is found: no two roles have a task of the same name in a file of the same name."""
    owners: dict[str, set[str]] = {}
    for path in ROLES.glob("*/tasks/*.yml"):
        for name in re.findall(rf"^\s*- name: ({path.stem} \| .+)$", path.read_text(), re.M):
            owners.setdefault(name, set()).add(path.parents[1].name)
    assert {name: roles for name, roles in owners.items() if len(roles) > 1} == {}
    deployed = {path.name for path in ROLES.iterdir() if path.is_dir()} - {"host_status"}
    assert set(Rendered("health_wait", GIVEN)["__health_wait_roles"]) == deployed


def earlier(records: list[dict[str, t.Any]], **hosts: dict[str, t.Any]) -> list[tuple[str, t.Any]]:
    """Label and shards of the starts that the wait is told of."""
    found = {
        "__health_wait_read": {
            "results": [{"content": base64.b64encode(json.dumps(record).encode()).decode()} for record in records]
        },
        "ansible_play_hosts_all": ["me", *hosts],
        "inventory_hostname": "me",
        "hostvars": hosts,
    }
    role = Rendered("health_wait", {**GIVEN, "health_wait_profile": "kimi_k2_5_nvfp4"}, found)
    starts = json.loads(role.expression("lookup('ansible.builtin.template', 'earlier.json.j2')"))
    assert all(start["stages"] == LOAD for start in starts)
    return [(start["label"], start["shards_total"]) for start in starts]


def test_what_earlier_starts_took_is_told_to_the_wait() -> None:
    load = {**result("ready", LOAD), "shards_total": 119}
    mine = {"profile": "kimi_k2_5_nvfp4", "load": load}
    records = [
        {**mine, "number": 4, "load": None},
        {**mine, "number": 3},
        {**mine, "number": 2, "profile": "minimax"},
        {**mine, "number": 1, "load": result("ready", LOAD)},
    ]
    canary = {"health_wait_load": {**load, "profile": "kimi_k2_5_nvfp4"}}
    other = {"health_wait_load": {**load, "profile": "minimax"}}
    failed = {"health_wait_load": {**load, "profile": "kimi_k2_5_nvfp4", "verdict": "dead"}}
    assert earlier(records) == [("release 3", 119), ("release 1", None)]
    assert earlier([], gpu01=canary, gpu02=other, gpu03=failed, gpu04={}) == [("gpu01", 119)]
    assert earlier(records[:2], gpu01=canary) == [("release 3", 119), ("gpu01", 119)]


def test_the_newest_records_are_read_by_number() -> None:
    found = {"__health_wait_records": {"files": [{"path": f"/r/{number}.json"} for number in (1, 10, 9, 2, 8)]}}
    role = Rendered("health_wait", {**GIVEN, "health_wait_record": "/r/11.json"}, found)
    assert role["__health_wait_newest"] == ["/r/10.json", "/r/9.json", "/r/8.json"]


def agreed(**prints: str | None) -> dict[str, t.Any]:
    hosts = {host: {"health_wait_load": {"profile": "kimi", "fingerprint": value}} for host, value in prints.items()}
    found = {"ansible_play_hosts_all": [*hosts, "old"], "hostvars": {**hosts, "old": {}}}
    return Rendered("health_wait", {**GIVEN, "health_wait_profile": "kimi"}, found)["__health_wait_agreed"]


def test_hosts_of_one_release_must_agree() -> None:
    assert agreed(a="1", b="1", c="2") == {"print": "1", "hosts": ["a", "b"]}
    assert agreed(a="2", b="1", c="1", d=None) == {"print": "1", "hosts": ["b", "c"]}
    assert agreed(a="2", b="1") == {"print": "2", "hosts": ["a"]}
    assert agreed(a=None) == {"print": None, "hosts": []}
