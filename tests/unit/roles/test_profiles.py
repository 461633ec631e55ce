# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The profiles of the collection, against the schema, its documentation and what is known of the models."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.modelfleet.serving.plugins.filter.systemd_environment import systemd_environment
from ansible_collections.modelfleet.serving.plugins.filter.vllm_argv import vllm_argv

TOP = pathlib.Path(__file__).resolve().parents[3]
VARS = yaml.safe_load((TOP / "roles/model_profile/vars/main.yml").read_text())
SCHEMA, DEFAULTS = VARS["__model_profile_schema"], VARS["__model_profile_defaults"]
PROFILES = {path.stem: yaml.safe_load(path.read_text()) for path in sorted((TOP / "playbooks/profiles").glob("*.yml"))}


def merge(below: dict[str, t.Any], above: dict[str, t.Any]) -> dict[str, t.Any]:
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(below.get(key), dict)
        merged[key] = merge(below[key], value) if both else value
    return merged


def errors(profile: dict[str, t.Any]) -> list[str]:
    return ArgumentSpecValidator(SCHEMA).validate({"profile": merge(DEFAULTS, profile)}).error_messages


def keys(options: dict[str, t.Any], prefix: str = "") -> t.Iterator[str]:
    for name, option in options.items():
        # what is below a known answer is the module's to document
        if "options" in option and name != "known_answer":
            yield from keys(option["options"], f"{prefix}{name}.")
        else:
            yield prefix + name


@pytest.mark.parametrize("name", PROFILES)
def test_profile_passes_its_schema(name: str) -> None:
    assert errors(PROFILES[name]) == []


@pytest.mark.parametrize("name", PROFILES)
def test_flags_and_environment_can_be_written(name: str) -> None:
    service = PROFILES[name]["service"]
    assert vllm_argv(service["args"])
    assert systemd_environment(service["environment"])
    assert not {"host", "port", "model", "served-model-name"} & set(service["args"])


REFUSED = [
    ({"instnace": "x"}, "profile.instnace"),
    ({"model": {"repo": "x"}}, "profile.model.repo"),
    ({"service": {"args": ["--x"]}}, "cannot be converted to a dict"),
    ({"kv_cache_dtype": "fp4"}, "value of kv_cache_dtype must be one of: auto, bfloat16, fp8, got: fp4"),
    ({"runtime": {"method": "conda"}}, "value of method must be one of: existing, pip, uv, got: conda"),
    ({"service": {"port": "http"}}, "cannot be converted to an int"),
    ({"instance": None}, "missing required arguments: instance"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_the_schema_refuses(change: dict[str, t.Any], message: str) -> None:
    profile = merge(PROFILES["kimi_k2_5_nvfp4"], change)
    profile = {key: value for key, value in profile.items() if value is not None}
    assert message in "\n".join(errors(profile))


def test_readme_lists_every_key_and_no_other() -> None:
    text = (TOP / "playbooks/profiles/README.md").read_text()
    listed = re.findall(r"^\| `([a-z_.]+)` \|", text, re.M)
    assert sorted(listed) == sorted(keys(SCHEMA["profile"]["options"]))


@pytest.mark.parametrize(
    ("name", "repo", "shards", "size"),
    [
        ("kimi_k2_5_nvfp4", "nvidia/Kimi-K2.5-NVFP4", 119, 590_800_000_000),
        ("kimi_k2_5_int4", "moonshotai/Kimi-K2.5", 64, 595_100_000_000),
    ],
)
def test_kimi(name: str, repo: str, shards: int, size: int) -> None:
    profile = PROFILES[name]
    assert (profile["model"]["repo_id"], profile["model"]["shards"], profile["model"]["bytes"]) == (repo, shards, size)
    args = profile["service"]["args"]
    assert (args["tool-call-parser"], args["reasoning-parser"]) == ("kimi_k2", "kimi_k2")
    assert args["tensor-parallel-size"] == profile["requires"]["gpu_count"] == 8
    assert args["trust-remote-code"] is args["enable-auto-tool-choice"] is True
    # eight cards must hold the weights and something more
    assert 8 * profile["requires"]["gpu_memory_bytes"] * args["gpu-memory-utilization"] > size
    assert not profile["model"].get("ignore_patterns"), "the model's own code is among the files"


def test_variants_replace_each_other() -> None:
    assert {profile["instance"] for profile in PROFILES.values()} == {"kimi"}
