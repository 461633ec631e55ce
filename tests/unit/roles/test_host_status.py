# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The answer of status, for services in the states that people ask about."""

from __future__ import annotations

import typing as t

import pytest
from rendering import Rendered

SYSTEMD = {
    "ActiveState": "active",
    "SubState": "running",
    "StateChangeTimestamp": "Tue 2026-05-12 10:00:00 UTC",
    "UnitFileState": "enabled",
    "MainPID": "77",
    "NRestarts": "0",
    "Result": "success",
}


def shown(health: dict[str, t.Any], **systemd: str) -> list[str]:
    service = {
        "unit": "vllm@kimi.service",
        "systemd": {**SYSTEMD, **systemd},
        "release": {},
        "log": [],
        "health": {"stage": "first_token", "evidence": [], "cause": None, "tokens_per_second": None, **health},
    }
    found = {"__host_status_services": [service], "host_tools_ready": False, "ansible_facts": {}}
    text = Rendered("host_status", {}, found).expression("lookup('ansible.builtin.template', 'status.txt.j2')")
    return [line.strip() for line in text.splitlines()]


def test_since_when_a_stopped_service_is_stopped() -> None:
    lines = shown({"verdict": "dead"}, ActiveState="inactive", SubState="dead", MainPID="0")
    assert (
        "vllm@kimi.service: inactive (dead) since Tue 2026-05-12 10:00:00 UTC, enabled, main process 0, restarts 0, "
        "last result success" in lines
    )


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        ({"verdict": "ready", "tokens_per_second": 10.04}, "server: ready, stage first_token, 10.0 tokens/s"),
        ({"verdict": "progressing"}, "server: progressing, stage first_token"),
        (
            {"verdict": "progressing", "cause": {"id": "http_refused", "cause": "c", "remedy": "r"}},
            "server: up, but it takes no requests without its API key, stage first_token",
        ),
        (
            {"verdict": "dead", "cause": {"id": "sd_stopping", "cause": "c", "remedy": "r"}},
            "server: stopped by request, stage first_token",
        ),
        (
            {"verdict": "dead", "cause": {"id": "unit_not_started", "cause": "c", "remedy": "r"}},
            "server: not started since the host booted, stage first_token",
        ),
        (
            {"verdict": "dead", "cause": {"id": "cuda_oom", "cause": "c", "remedy": "r"}},
            "server: dead, stage first_token",
        ),
    ],
)
def test_what_the_server_is(health: dict[str, t.Any], expected: str) -> None:
    lines = shown(health)
    assert expected in lines
    if health.get("cause"):
        assert {"cause: c", "remedy: r"} <= set(lines)
