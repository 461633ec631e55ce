# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When the service is restarted, and what of a release may be seen by everybody."""

from __future__ import annotations

import base64
import hashlib
import json
import typing as t

import pytest
from rendering import Rendered

GIVEN: dict[str, t.Any] = {
    "vllm_service_instance": "kimi",
    "vllm_service_model": "/srv/models/views/kimi/v",
    "vllm_service_executable": "/opt/vllm/bin/vllm",
    "vllm_service_served_model_names": ["kimi"],
}
TEMPLATE = "/etc/systemd/system/vllm@.service"
DROPIN = "/etc/systemd/system/vllm@kimi.service.d/50-release.conf"
ENVIRONMENT, KEY = "/etc/modelfleet/kimi.env", "/etc/modelfleet/kimi.key"
ARGV = ["/opt/vllm/bin/python", "/opt/vllm/bin/vllm", "serve", "/srv/models/views/kimi/v", "--host", "127.0.0.1"]
ARGV += ["--port", "8000", "--served-model-name", "kimi"]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def in_order(given: dict[str, t.Any]) -> dict[str, t.Any]:
    """What the role finds on a host that holds and runs exactly what ``given`` asks for."""
    role = Rendered("vllm_service", given)
    files = [
        {"item": path, "stat": {"exists": True, "path": path, "checksum": digest(text)}}
        for path, text in role["__vllm_service_contents"].items()
    ]
    key = {"exists": False}
    if given.get("vllm_service_api_key"):
        key = {"exists": True, "path": KEY, "checksum": digest(role["__vllm_service_key_text"])}
    return {
        "__vllm_service_process_show": {
            "stdout_lines": ["MainPID=77", "ExecMainStartTimestamp=Tue 2026-05-12 10:00:00.123456 UTC"]
        },
        "__vllm_service_marked": {"stdout": f"{role['__vllm_service_mark']}\0"},
        "__vllm_service_cmdline": {"content": base64.b64encode("\0".join([*ARGV, ""]).encode()).decode()},
        "__vllm_service_files": {"results": files},
        "__vllm_service_key_stat": {"stat": key},
        "__vllm_service_model_stat": {"stat": {"exists": True, "path": given["vllm_service_model"]}},
        "__vllm_service_touched": {"results": [{"stdout_lines": []}, {"stdout_lines": []}]},
    }


def reasons(given: dict[str, t.Any], found: dict[str, t.Any]) -> list[str]:
    return Rendered("vllm_service", given, found)["__vllm_service_reasons"]


@pytest.mark.parametrize("more", [{}, {"vllm_service_api_key": "sesame"}], ids=["without a key", "with a key"])
def test_what_runs_as_written_is_left_alone(more: dict[str, t.Any]) -> None:
    given = {**GIVEN, **more}
    assert reasons(given, in_order(given)) == []


def other_file(found: dict[str, t.Any], path: str) -> None:
    next(row for row in found["__vllm_service_files"]["results"] if row["item"] == path)["stat"]["checksum"] = "0" * 64


def no_file(found: dict[str, t.Any], path: str) -> None:
    next(row for row in found["__vllm_service_files"]["results"] if row["item"] == path)["stat"] = {"exists": False}


def touched(found: dict[str, t.Any], *paths: str) -> None:
    found["__vllm_service_touched"] = {"results": [{"stdout_lines": list(paths)}, {"skipped": True}]}


def command(found: dict[str, t.Any], argv: list[str]) -> None:
    found["__vllm_service_cmdline"]["content"] = base64.b64encode("\0".join([*argv, ""]).encode()).decode()


REASONS: list[tuple[str, t.Callable[[dict[str, t.Any]], t.Any], list[str]]] = [
    (
        "environment edited",
        lambda found: other_file(found, ENVIRONMENT),
        ["/etc/modelfleet/kimi.env is not what it has to be"],
    ),
    ("drop-in edited", lambda found: other_file(found, DROPIN), [f"{DROPIN} is not what it has to be"]),
    ("template unit gone", lambda found: no_file(found, TEMPLATE), [f"{TEMPLATE} is not what it has to be"]),
    (
        "view repaired, the restart cut off",
        lambda found: touched(found, "/srv/models/views/kimi/v", "/srv/models/views/kimi/v/hf_quant_config.json"),
        [
            "/srv/models/views/kimi/v was touched after its process began",
            "/srv/models/views/kimi/v/hf_quant_config.json was touched after its process began",
        ],
    ),
    (
        "other flags",
        lambda found: command(found, [*ARGV, "--max-num-seqs", "1"]),
        ["its process was started with other flags"],
    ),
    ("a title of its own", lambda found: command(found, ["vLLM::APIServer"]), []),
]


@pytest.mark.parametrize(("harm", "expected"), [row[1:] for row in REASONS], ids=[row[0] for row in REASONS])
def test_reasons_for_a_restart(harm: t.Callable[[dict[str, t.Any]], t.Any], expected: list[str]) -> None:
    found = in_order(GIVEN)
    harm(found)
    assert reasons(GIVEN, found) == expected


def test_the_release_of_the_process_is_compared() -> None:
    found = in_order(GIVEN)
    found["__vllm_service_marked"]["stdout"] = ""
    mark = Rendered("vllm_service", GIVEN)["__vllm_service_release_id"]
    assert reasons(GIVEN, found) == [f"its process was not started as the release {mark}"]


@pytest.mark.parametrize("key", ["another", ""])
def test_a_changed_key_is_noticed(key: str) -> None:
    found = in_order({**GIVEN, "vllm_service_api_key": "sesame"})
    assert f"{KEY} is not what it has to be" in reasons({**GIVEN, "vllm_service_api_key": key}, found)


@pytest.mark.parametrize(
    ("check", "expected"), [(False, []), (True, [f"{GIVEN['vllm_service_model']} is about to be repaired"])]
)
def test_check_mode_foretells_the_restart_that_a_repair_of_the_model_brings(check: bool, expected: list[str]) -> None:
    given = {**GIVEN, "vllm_service_model_change": "true"}
    assert reasons(given, {**in_order(given), "ansible_check_mode": check}) == expected


def test_nothing_that_can_be_seen_depends_on_the_key() -> None:
    """A hash over it would let a weak key be guessed: the unit, the environment and the record may be read by many."""
    one, other = (Rendered("vllm_service", {**GIVEN, "vllm_service_api_key": key}) for key in ("sesame", "other"))
    for name in ("__vllm_service_release_id", "__vllm_service_mark", "__vllm_service_contents"):
        assert one[name] == other[name], name
    assert one["__vllm_service_key_text"] == 'VLLM_API_KEY="sesame"\n'


def release(instance: str, number: int, **model: str) -> dict[str, t.Any]:
    record = {"number": number, "profile": f"profile-{instance}", "model": model}
    return stored(f"{instance}/{number}.json", record)


def stored(path: str, content: t.Any) -> dict[str, t.Any]:
    text = base64.b64encode(json.dumps(content).encode()).decode()
    return {"item": {"path": f"/var/lib/modelfleet/releases/{path}"}, "content": text}


def test_a_removal_knows_what_is_its_own_and_what_others_use() -> None:
    records = [
        release("kimi", 1, repo_id="demo/Kimi", view="/v/1", snapshot="/s/1"),
        stored("kimi/origins.json", [{"profile": "tried", "repo_id": "demo/Tried"}]),
        release("other", 1, repo_id="demo/Kimi", view="/v/2", snapshot="/s/1"),
        stored("third/origins.json", [{"profile": "coming", "repo_id": "demo/Coming"}]),
    ]
    role = Rendered("vllm_service", GIVEN, {"__vllm_service_records": {"results": records}})
    own, others = role["__vllm_service_own"], role["__vllm_service_foreign"]
    assert [row["number"] for row in own["releases"]] == [1]
    assert own["origins"] == [
        {"profile": "profile-kimi", "repo_id": "demo/Kimi"},
        {"profile": "tried", "repo_id": "demo/Tried"},
    ]
    assert others["origins"] == [
        {"profile": "profile-other", "repo_id": "demo/Kimi"},
        {"profile": "coming", "repo_id": "demo/Coming"},
    ]
    assert others["paths"] == ["/v/2", "/s/1"]
