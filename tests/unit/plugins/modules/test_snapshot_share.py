# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.modelfleet.serving.plugins.module_utils._share import Running
from ansible_collections.modelfleet.serving.plugins.modules import snapshot_share

TOKEN = "0123456789abcdef0123456789abcdef"


class FakeHost:
    def __init__(self, run_command: t.Any) -> None:
        self.unit = Running("inactive")

    def problem(self) -> str:
        return ""

    def running(self, unit: str) -> t.Any:
        return self.unit

    def own_address(self, interface: str) -> str:
        return "10.0.0.1"

    def is_folder(self, path: str) -> bool:
        return True

    def code_digest(self) -> str:
        return "code"

    def start(self, wanted: t.Any, config: t.Mapping[str, t.Any]) -> None:
        text = f"listening on {config['address']}:40123, settings {config['fingerprint']}"
        self.unit = Running("active", text)

    def stop(self, unit: str) -> None:
        self.unit = Running("inactive")

    def snapshots(self, root: str, repo_id: str) -> list[dict[str, t.Any]]:
        return []


def main(capfd: pytest.CaptureFixture[str], **params: t.Any) -> dict[str, t.Any]:
    with patch_module_args(params), pytest.raises(SystemExit):
        snapshot_share.main()
    return json.loads(capfd.readouterr().out)


def test_what_the_user_gets(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_share, "Host", FakeHost)
    result = main(capfd, root="/srv/models", token=TOKEN, place=0)
    assert (result["changed"], result["url"], result["unit"]) == (
        True,
        "http://10.0.0.1:40123",
        "modelfleet-share-default.service",
    )
    assert TOKEN not in json.dumps(result)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "state is started but all of the following are missing: root, token"),
        (
            {"root": "/srv", "token": TOKEN, "address": "::1", "interface": "lo"},
            "parameters are mutually exclusive: address|",
        ),
        ({"root": "/srv", "token": "short"}, "token has 5 characters, but needs 32 or more."),
        ({"state": "stopped", "name": "No"}, "name 'No' is not made of small letters"),
    ],
)
def test_refusals(capfd: pytest.CaptureFixture[str], params: dict[str, t.Any], message: str) -> None:
    result = main(capfd, **params)
    assert result["failed"] and result["msg"].startswith(message), result["msg"]


@pytest.mark.skipif(os.path.isdir("/run/systemd/system"), reason="systemd runs this machine")
def test_a_host_without_systemd(capfd: pytest.CaptureFixture[str]) -> None:
    result = main(capfd, root="/srv", token=TOKEN)
    assert result["msg"] == "systemd does not run this host, and a share is a unit of systemd."
