# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._diagnosis import Target
from ansible_collections.modelfleet.serving.plugins.module_utils._watch import (
    OptionError,
    judge_config,
    sources,
    target,
)
from ansible_collections.modelfleet.serving.plugins.modules.vllm_health_wait import ARGUMENTS, KNOWN_ANSWER


def options(**given: t.Any) -> dict[str, t.Any]:
    return {**{name: spec.get("default") for name, spec in ARGUMENTS.items()}, **given}


def known(**given: t.Any) -> dict[str, t.Any]:
    return {**{name: spec.get("default") for name, spec in KNOWN_ANSWER.items()}, "prompt": "2+2=", **given}


def nothing(command: t.Sequence[str]) -> tuple[int, str, str]:
    return 1, "", f"{command[0]} is not here"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"unit": "vllm@kimi"}, Target("vllm@kimi.service")),
        ({"unit": "vllm@kimi.service"}, Target("vllm@kimi.service")),
        ({"unit": "run-r1.scope"}, Target("run-r1.scope")),
        ({"pid": 7, "log_file": "/l", "url": "http://x"}, Target("", 7, "/l", "http://x")),
    ],
)
def test_target(given: dict[str, t.Any], expected: Target) -> None:
    assert target(options(**given)) == expected


@pytest.mark.parametrize(
    ("given", "completion", "answer"),
    [
        ({}, False, False),
        ({"url": "http://x"}, True, False),
        ({"url": "http://x", "known_answer": known()}, True, True),
        ({"url": "http://x", "known_answer": known(), "completion": False}, False, False),
        # without a place to ask, nothing can be asked
        ({"known_answer": known()}, False, False),
    ],
)
def test_what_ready_means(given: dict[str, t.Any], completion: bool, answer: bool) -> None:
    config = judge_config(options(unit="u", **given))
    assert (config.want_completion, config.want_known_answer) == (completion, answer)


def test_judge_config_takes_numbers_as_ansible_gives_them() -> None:
    config = judge_config(options(unit="u", model="kimi", stall_timeouts={"compile": "1800"}, checkpoint_bytes=5))
    assert config.stall_timeouts == {"compile": 1800.0}
    assert (config.expected_model, config.checkpoint_bytes) == ("kimi", 5)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"url": "localhost:8000"}, "The URL 'localhost:8000' must begin with http:// or https:// and name a host"),
        (
            {"url": "https://x", "ca_path": "/nowhere/ca.pem"},
            "The certificates in ca_path '/nowhere/ca.pem' cannot be used: [Errno 2] No such file or directory.",
        ),
        (
            {"url": "http://x", "known_answer": known(pattern="(")},
            "known_answer.pattern '(' is not a regular expression: missing ), unterminated subpattern at position 0.",
        ),
        (
            {"url": "http://x", "known_answer": known(query="a[")},
            "known_answer.query: 'a[' is not a JMESPath expression: ",
        ),
        ({"stall_timeouts": {"compile": "long"}}, "stall_timeouts.compile must be a number of seconds, not 'long'."),
    ],
)
def test_options_that_cannot_be_worked_with(given: dict[str, t.Any], error: str) -> None:
    with pytest.raises(OptionError) as caught:
        params = options(pid=1, **given)
        judge_config(params)
        sources(params, nothing)
    assert str(caught.value).startswith(error)


def test_sources_on_a_host_without_systemd() -> None:
    seen = sources(options(unit="vllm@kimi"), nothing).observe(0.0)
    assert seen.unit is None
    assert seen.notes == (
        "systemctl show vllm@kimi.service: systemctl is not here",
        "The journal of vllm@kimi.service could not be read: journalctl is not here",
        "The kernel's log could not be read: journalctl is not here",
    )


@pytest.mark.parametrize(
    ("restarts", "selection"),
    [
        (0, "--boot --since=Tue 2026-12-01 05:42:50 UTC _SYSTEMD_UNIT=vllm@kimi.service"),
        # what the starts before this one wrote tells what ended them
        (2, "--boot _SYSTEMD_UNIT=vllm@kimi.service"),
    ],
)
def test_journal_follows_the_unit(restarts: int, selection: str) -> None:
    asked: list[str] = []

    def run(command: t.Sequence[str]) -> tuple[int, str, str]:
        asked.append(" ".join(command))
        if command[0] == "systemctl":
            return (
                0,
                "LoadState=loaded\nActiveState=active\nInactiveExitTimestamp=Tue 2026-12-01 05:42:50 UTC\n"
                f"NRestarts={restarts}\n",
                "",
            )
        return 0, "", ""

    sources(options(unit="vllm@kimi"), run).observe(0.0)
    assert f" {selection} + UNIT=vllm@kimi.service _UID=0 +" in asked[1]
