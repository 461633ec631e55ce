# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where profiles are looked for, what is merged over them, and what is said of one that can't be used."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import sys
import typing as t

import pytest
import yaml
from playing import TOP, ansible, judged

OURS = TOP / "playbooks/profiles"
SHIPPED = [path.stem for path in sorted(OURS.glob("*.yml"))]
SCHEMA = yaml.safe_load((TOP / "roles/model_profile/vars/main.yml").read_text())["__model_profile_schema"]
KEYS = ", ".join(sorted(SCHEMA["profile"]["options"]))
GOOD = "instance: mine\nserved_model_names: [mine]\nmodel: {repo_id: acme/tiny}\n"
CAN_NOT_READ = "The model profile {folder}/profiles/{name}.yml can't be read: "
NOT_VALID = "The model profile {folder}/profiles/{name}.yml is not valid:\n- "


class Case(t.NamedTuple):
    """A profile's text (None: no file), the variables of the host, and what is said; {folder} is the play's."""

    text: str | None
    said: str
    extra: dict[str, t.Any] = {}


REFUSED = {
    "syntax": Case(
        "a: 1\nb: [1, 2\nc: }\n",
        CAN_NOT_READ + "line 3, column 2: while parsing a flow sequence, did not find expected ',' or ']'",
    ),
    "list": Case(
        "- a\n", CAN_NOT_READ + "line 1, column 1: a list stands where a mapping, lines of 'key: value', is expected"
    ),
    "tag": Case("a: !x 1\n", CAN_NOT_READ + "YAML parsing failed: Could not determine a constructor for the tag '!x'."),
    "empty": Case(
        "",
        NOT_VALID + "missing required arguments: instance, served_model_names found in profile\n"
        "- missing required arguments: repo_id found in profile -> model",
    ),
    "unknown_key": Case(GOOD + "instnace: x\n", NOT_VALID + f"unknown key instnace. Known at its place: {KEYS}."),
    "unknown_keys": Case(
        GOOD + "instnace: x\nhealth: {known_answer: {prmpt: x}}\n",
        NOT_VALID + "unknown keys health.known_answer.prmpt, instnace. The README of the profiles lists all.",
    ),
    "mistyped": Case(
        GOOD + "kv_cache_dtype: fp4\n",
        NOT_VALID + "value of kv_cache_dtype must be one of: auto, bfloat16, fp8, got: fp4 found in profile",
    ),
    "unit": Case(
        GOOD.replace("mine", "a/b", 1),
        'The model profile {folder}/profiles/unit.yml is not valid: instance "a/b" becomes the name of a systemd unit. '
        "Use letters, digits, dots, hyphens and underscores only.",
    ),
    "overridden": Case(
        GOOD,
        "The model profile {folder}/profiles/overridden.yml + model_profile_overrides_host is not valid:\n"
        "- value of kv_cache_dtype must be one of: auto, bfloat16, fp8, got: fp4 found in profile",
        {"model_profile_overrides_host": {"kv_cache_dtype": "fp4"}},
    ),
    "text_over": Case(
        GOOD,
        "model_profile_overrides_run must be a mapping, with the keys of a model profile. On the command line write it "
        'as JSON: -e \'{{"model_profile_overrides_run": {{"service": {{"port": 8080}}}}}}\'.',
        {"model_profile_overrides_run": "port=1"},
    ),
    "missing": Case(
        None,
        'There is no model profile "missing". Found: {found}. Searched: {folder}/profiles, ' + f"{OURS}.",
    ),
    "path": Case(
        None,
        "There is no model profile {folder}/sub/path.yml. A relative path starts in the folder that ansible-playbook "
        "was started in.",
        {"model_profile_name": "sub/path.yml"},
    ),
}


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, dict[str, t.Any]]:
    folder = tmp_path_factory.mktemp("refused")
    write(folder, {name: case.text for name, case in REFUSED.items() if case.text is not None})
    cases = {name: {"model_profile_name": name, **case.extra} for name, case in REFUSED.items()}
    return folder, judged(folder, {"name": "modelfleet.serving.model_profile"}, cases, "model_profile_id")


def write(folder: pathlib.Path, profiles: t.Mapping[str, str]) -> None:
    (folder / "profiles").mkdir(parents=True)
    for name, text in profiles.items():
        (folder / f"profiles/{name}.yml").write_text(text)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_said_of_a_profile_that_can_not_be_used(
    refused: tuple[pathlib.Path, dict[str, t.Any]], name: str
) -> None:
    folder, said = refused
    found = ", ".join(sorted([*SHIPPED, *(name for name, case in REFUSED.items() if case.text is not None)]))
    assert said[name] == REFUSED[name].said.format(folder=folder, name=name, found=found)


OVERRIDES = {
    "group": {"model_profile_overrides": {"service": {"port": 1, "args": {"a": 1, "b": 1}}}},
    "host": {"model_profile_overrides_host": {"service": {"args": {"b": 2, "c": 2}}}},
    "other": {"model_profile_overridesX": {"service": {"port": 9}}},
}
MERGED = {
    "none": ([], 8000, {}),
    "group_alone": (["group", "other"], 1, {"a": 1, "b": 1}),
    "host_over_group": (["host", "group"], 1, {"a": 1, "b": 2, "c": 2}),
}


def test_overrides_of_group_and_host_are_merged(tmp_path: pathlib.Path) -> None:
    write(tmp_path, {"mine": GOOD})
    cases = {
        name: {"model_profile_name": "mine", **{k: v for level in levels for k, v in OVERRIDES[level].items()}}
        for name, (levels, _port, _args) in MERGED.items()
    }
    said = judged(tmp_path, {"name": "modelfleet.serving.model_profile"}, cases, "model_profile_data.service")
    expected = {
        name: {"host": "127.0.0.1", "port": port, "args": args, "environment": {}}
        for name, (_levels, port, args) in MERGED.items()
    }
    assert said == expected


HOSTS = {"gpu_hosts": {"hosts": {"h1": {"ansible_connection": "local"}}}}
PLAY = {
    "hosts": "gpu_hosts",
    "gather_facts": False,
    "tasks": [
        {"ansible.builtin.include_role": {"name": "modelfleet.serving.model_profile"}},
        {"ansible.builtin.debug": {"msg": "read {{ __model_profile_file }}"}},
    ],
}

#: what -i names, the folders that have the profile, and the one that is read, or what is said
PLACES = [
    ("inv/mine/hosts.yml", ["inv/mine", "inv", "play"], "read {top}/inv/mine/profiles/kimi_k2_5_int4.yml"),
    ("inv/mine/hosts.yml", ["inv", "play"], "read {top}/play/profiles/kimi_k2_5_int4.yml"),
    ("inv/mine/hosts.yml", [], f"read {OURS}/kimi_k2_5_int4.yml"),
    ("inv/mine", ["inv", "play"], "read {top}/inv/profiles/kimi_k2_5_int4.yml"),
    ("inv/mine", ["inv/mine", "inv"], "{top}/inv/mine/profiles/kimi_k2_5_int4.yml is not read as a model profile: "),
    ("inv/mine,inv/mine/hosts.yml", ["inv/mine"], "read {top}/inv/mine/profiles/kimi_k2_5_int4.yml"),
    ("h1,", ["play"], "read {top}/play/profiles/kimi_k2_5_int4.yml"),
]


@pytest.mark.parametrize(("named", "folders", "said"), PLACES)
def test_where_profiles_are_looked_for(tmp_path: pathlib.Path, named: str, folders: list[str], said: str) -> None:
    (tmp_path / "inv/mine").mkdir(parents=True)
    (tmp_path / "inv/mine/hosts.yml").write_text(json.dumps(HOSTS))
    (tmp_path / "play").mkdir()
    hosts = "all" if named == "h1," else "gpu_hosts"
    (tmp_path / "play/play.yml").write_text(json.dumps([{**PLAY, "hosts": hosts}]))
    for folder in folders:
        write(tmp_path / folder, {"kimi_k2_5_int4": GOOD})
    sources = [named] if named == "h1," else named.split(",")
    words = [word for source in sources for word in ("-i", source)]
    done = ansible("playbook", *words, "play/play.yml", "-e", "model_profile_name=kimi_k2_5_int4", cwd=tmp_path)
    assert said.format(top=tmp_path) in done.stdout, done.stdout + done.stderr


def inventory(source: pathlib.Path) -> tuple[set[str], str]:
    """The groups of an inventory as ansible-inventory reads it, and the warnings that it gives."""
    done = ansible("inventory", "-i", str(source), "--list")
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout)) - {"_meta"}, done.stderr


@pytest.mark.parametrize("name", ["blackwell", "demo"])
@pytest.mark.parametrize("file", ["", "hosts.yml"])
def test_our_inventories_are_nothing_but_inventory(name: str, file: str) -> None:
    assert inventory(TOP / "inventories" / name / file) == ({"all", "gpu_hosts"}, "")


def test_profiles_beside_the_file_of_hosts_are_no_inventory(tmp_path: pathlib.Path) -> None:
    """The layout of the README; the same named by its folder shows what it is for."""
    mine = tmp_path / "inventories/mine"
    shutil.copytree(TOP / "inventories/blackwell", mine)
    shutil.copytree(OURS, mine / "profiles")
    assert inventory(mine / "hosts.yml") == ({"all", "gpu_hosts"}, "")
    assert "Skipping 'instance' as this is not a valid group definition" in inventory(mine)[1]


def test_a_host_of_the_example_keeps_what_its_group_says() -> None:
    hosts = yaml.safe_load((TOP / "inventories/blackwell/hosts.yml").read_text())["gpu_hosts"]["hosts"]
    for variables in filter(None, hosts.values()):
        assert "model_profile_overrides" not in variables, "that would take the place of the group's"


@pytest.mark.parametrize("path", ["README.md", "playbooks/profiles/README.md", "inventories/blackwell/hosts.yml"])
def test_documents_name_the_file_of_hosts(path: str) -> None:
    named = re.findall(r"ansible-playbook -i (inventories/\S+)", (TOP / path).read_text())
    assert named and {source for source in named if source != "inventories/demo"} == {
        source for source in named if source.endswith("/hosts.yml")
    }


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"kimi_variant": "fp8"}, "kimi_variant is 'fp8', but it can only be nvfp4 or int4."),
        (
            {"kimi_variant": "nvfp4", "modelfleet_kimi_profiles": {"int4": "x", "mxfp4": "y"}},
            "kimi_variant is 'nvfp4', but it can only be int4 or mxfp4.",
        ),
        ({"kimi_variant": "int4", "modelfleet_kimi_profiles": {"int4": "x"}}, 'There is no model profile "x". Found: '),
    ],
)
def test_a_variant_that_there_is_not(tmp_path: pathlib.Path, variables: dict[str, t.Any], said: str) -> None:
    assert said in deployed(tmp_path, "deploy_kimi", variables)


def test_a_deployment_without_a_profile_says_how_to_name_one(tmp_path: pathlib.Path) -> None:
    assert "Name a model profile: -e modelfleet_profile=NAME." in deployed(tmp_path, "deploy", {})


def test_a_removal_without_a_name_says_how_to_give_one(tmp_path: pathlib.Path) -> None:
    said = "Name what to remove: -e modelfleet_instance=NAME, or -e modelfleet_profile=NAME."
    assert said in deployed(tmp_path, "remove", {})


def deployed(folder: pathlib.Path, book: str, variables: dict[str, t.Any]) -> str:
    """What a playbook says by the end of the role model_profile, which its tag ends with."""
    local = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
    (folder / "hosts.yml").write_text(json.dumps({"gpu_hosts": {"hosts": {"h1": local}}}))
    words = ["-i", str(folder / "hosts.yml"), f"playbooks/{book}.yml", "--check", "-e", json.dumps(variables)]
    done = ansible(
        "playbook", *words, "-e", json.dumps({"ansible_python_interpreter": "{{ ansible_playbook_python }}"})
    )
    assert done.returncode == 2, done.stdout
    return done.stdout + done.stderr
