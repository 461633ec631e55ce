# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every role has in common: its documentation is its defaults, and it keeps to the house rules."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
import yaml

TOP = pathlib.Path(__file__).resolve().parents[3]
ROLES = sorted(path for path in (TOP / "roles").iterdir() if path.is_dir())
NAMES = [role.name for role in ROLES]

#: facts as variables stop to exist with ansible-core 2.24; these are no facts
NO_FACTS = re.compile(
    r"\bansible_(?!facts\b|check_mode\b|diff_mode\b|managed\b|play_\w+|python_interpreter\b|failed_\w+|"
    r"host\b|inventory_sources\b|user\b|ssh_\w+|collection\w*)[a-z]\w*"
)


def load(path: pathlib.Path) -> t.Any:
    return yaml.safe_load(path.read_text())


def texts(role: pathlib.Path, *folders: str) -> t.Iterator[tuple[pathlib.Path, str]]:
    for folder in folders:
        for path in sorted((role / folder).glob("*")):
            yield path, path.read_text()


def test_all_roles_of_the_design_are_there() -> None:
    design = {"preflight", "disk_prep", "model_download", "gpu_reclaim", "vllm_runtime", "vllm_service", "health_wait"}
    assert design <= set(NAMES)


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_options_and_defaults_are_the_same(role: pathlib.Path) -> None:
    options = load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    defaults = load(role / "defaults/main.yml") or {}
    documented = {name: option["default"] for name, option in options.items() if "default" in option}
    assert documented == defaults
    required = {name for name, option in options.items() if option.get("required")}
    assert required == set(options) - set(defaults), "an option has a default or is required"
    said = set(re.findall(r"^# (\w+) is required: ", (role / "defaults/main.yml").read_text(), re.M))
    assert said == required, "required options are named in defaults/main.yml"


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_every_option_is_described_and_typed(role: pathlib.Path) -> None:
    def walk(options: dict[str, t.Any], prefix: str) -> None:
        for name, option in options.items():
            assert option.get("description") and option.get("type"), name
            assert name.startswith(prefix), name
            assert (option["type"] != "list") or option.get("elements"), name
            walk(option.get("options", {}), "")

    for entry, spec in load(role / "meta/argument_specs.yml")["argument_specs"].items():
        assert spec["short_description"] and spec["description"] and spec["author"], entry
        assert (role / f"tasks/{entry}.yml").is_file(), entry
        walk(spec.get("options", {}), f"{role.name}_")


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_readme(role: pathlib.Path) -> None:
    text = (role / "README.md").read_text()
    assert text.startswith(f"# {role.name}\n")
    assert "## Example" in text and f"modelfleet.serving.{role.name}" in text
    options = load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    for name in re.findall(rf"\b{role.name}_\w+(?=: )", text):
        assert name in options, f"the README sets {name}, which is no option"


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_variables_have_the_prefix_of_the_role(role: pathlib.Path) -> None:
    for name in load(role / "vars/main.yml") if (role / "vars/main.yml").is_file() else ():
        assert name.startswith(f"__{role.name}_"), name
    for path, text in texts(role, "tasks"):
        for name in re.findall(r"^\s+register: (\S+)", text, re.M):
            assert name.startswith(f"__{role.name}_"), f"{path}: {name}"


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_facts_are_read_from_ansible_facts(role: pathlib.Path) -> None:
    for path, text in texts(role, "tasks", "templates", "vars", "defaults", "handlers"):
        found = NO_FACTS.findall(text)
        assert not NO_FACTS.search(text), f"{path}: {found}"


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_options_are_not_given_defaults_in_tasks(role: pathlib.Path) -> None:
    options = load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    for path, text in texts(role, "tasks", "templates", "vars"):
        for name in options:
            assert not re.search(rf"\b{name} \| default\(", text), f"{path}: {name}"


#: templates, and the conditions that are written without braces (a list of them has one a line)
EXPRESSION = re.compile(
    r"\{\{(.*?)\}\}|\{%(.*?)%\}|^\s+(?:when|that|until): (\w[^\n]*)$|^    - (\w[^:\n]*)$", re.M | re.S
)


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_numbers_and_switches_may_come_as_text(role: pathlib.Path) -> None:
    """``-e name=true`` and ``-e name=8`` give strings: what computes or decides with an option converts it first."""
    options = load(role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"]
    typed = {name: option["type"] for name, option in options.items() if option["type"] in ("int", "bool")}
    for path, text in texts(role, "tasks", "templates", "vars"):
        for template, *others in EXPRESSION.findall(text):
            expression = "".join([template, *others]).strip()
            for name, kind in typed.items():
                # handed on as it is: the module converts it
                used = "" if template.strip() == name else expression.replace(f"{name} if {name} | {kind} ", "")
                assert not re.search(rf"\b{name}\b(?! \| {kind}\b)", used), f"{path}: {expression}"


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_tasks_say_which_file_they_are_in(role: pathlib.Path) -> None:
    for path in sorted((role / "tasks").glob("*.yml")):
        if path.stem in ("main", "plan"):
            continue
        for task in load(path):
            assert task["name"].startswith(f"{path.stem} | "), f"{path}: {task['name']}"


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_modules_of_the_collection_run_with_the_interpreter_that_has_their_libraries(role: pathlib.Path) -> None:
    def tasks_of(tasks: list[dict[str, t.Any]]) -> t.Iterator[dict[str, t.Any]]:
        for task in tasks:
            yield task
            for part in ("block", "rescue", "always"):
                yield from tasks_of(task.get(part, []))

    for path in sorted((role / "tasks").glob("*.yml")):
        for task in tasks_of(load(path)):
            if any(key.startswith("modelfleet.serving.") for key in task):
                # another host may have its libraries elsewhere
                python = "{{ item.python }}" if "delegate_to" in task else "{{ host_tools_python }}"
                assert task["vars"]["ansible_python_interpreter"] == python, f"{path}: {task['name']}"


@pytest.mark.parametrize("role", ROLES, ids=NAMES)
def test_no_environment_of_a_process_leaves_the_host(role: pathlib.Path) -> None:
    """It may hold the API key, and a slurp shows it in base64, where no search for the key finds it."""
    for path, text in texts(role, "tasks"):
        for task in text.split("\n- name: "):
            assert not ("slurp" in task and "/environ" in task), f"{path}: {task.splitlines()[0]}"
