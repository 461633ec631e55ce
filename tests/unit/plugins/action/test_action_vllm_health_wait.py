# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.action.vllm_health_wait import ActionModule


@pytest.fixture
def action() -> ActionModule:
    # the lines and the pace need neither a task nor a connection
    return ActionModule.__new__(ActionModule)


@pytest.mark.parametrize(
    ("state", "line"), [({"line": "weights 89/119 74%  ETA 4m10s"}, "weights 89/119 74%  ETA 4m10s"), ({}, "")]
)
def test_progress_line(action: ActionModule, state: dict[str, t.Any], line: str) -> None:
    assert action.progress_line(state) == line


@pytest.mark.parametrize(
    ("args", "seconds"),
    [
        ({}, 2.0),
        ({"poll_interval": "3"}, 3.0),
        ({"poll_interval": 0.1}, 1.0),
        ({"poll_interval": 60}, 5.0),
        # the module has the words for it
        ({"poll_interval": "often"}, 2.0),
    ],
)
def test_pace(action: ActionModule, args: dict[str, t.Any], seconds: float) -> None:
    assert action.poll_seconds(args) == seconds
