# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._share import (
    Endpoint,
    Running,
    ShareError,
    Wanted,
    endpoint_of,
    run,
    unit_properties,
)

TOKEN = "0123456789abcdef0123456789abcdef"
WANTED = Wanted("demo", "started", "/srv/models", "acme/tiny", "", "", 0, TOKEN, 0, 128, 900, 3600)
SNAPSHOT = {"repo_id": "acme/tiny", "commit": "f" * 40, "complete": True, "files": 3, "bytes": 12}


class FakeHost:
    def __init__(self, root: bool = True, problem: str = "", dies: bool = False) -> None:
        self.unit = Running("inactive")
        self.calls: list[t.Any] = []
        self.code = "code"
        self._root, self._problem, self._dies = root, problem, dies

    def problem(self) -> str:
        return self._problem

    def running(self, unit: str) -> Running:
        assert unit == "modelfleet-share-demo.service"
        return self.unit

    def own_address(self, interface: str) -> str:
        return {"": "10.0.0.1", "eth1": "10.1.0.1"}[interface]

    def is_folder(self, path: str) -> bool:
        return self._root

    def code_digest(self) -> str:
        return self.code

    def start(self, wanted: Wanted, config: t.Mapping[str, t.Any]) -> None:
        self.calls.append(("start", dict(config)))
        text = f"listening on {config['address']}:{config['port'] or 40123}, settings {config['fingerprint']}"
        self.unit = Running("failed") if self._dies else Running("active", text)

    def stop(self, unit: str) -> None:
        self.calls.append(("stop", unit))
        self.unit = Running("inactive")

    def snapshots(self, root: str, repo_id: str) -> list[dict[str, t.Any]]:
        assert (root, repo_id) == ("/srv/models", "acme/tiny")
        return [SNAPSHOT]


def test_four_runs() -> None:
    host = FakeHost()
    foretold = run(WANTED, True, host)
    assert (foretold["changed"], foretold["address"], foretold["port"], foretold["url"]) == (
        True,
        "10.0.0.1",
        None,
        None,
    )
    assert host.calls == []
    real = run(WANTED, False, host)
    assert (real["changed"], real["url"], real["snapshots"]) == (True, "http://10.0.0.1:40123", [SNAPSHOT])
    assert (real["unit"], real["state"], real["port"]) == ("modelfleet-share-demo.service", "started", 40123)
    for check_mode in (True, False):
        again = run(WANTED, check_mode, host)
        assert {**real, "changed": False, "diff": again["diff"]} == again
        assert again["diff"]["before"] == again["diff"]["after"] == real["diff"]["after"]
    assert [call[0] for call in host.calls] == ["start"]


def test_the_server_is_told_no_token() -> None:
    host = FakeHost()
    result = run(WANTED, False, host)
    assert TOKEN not in str(host.calls) and TOKEN not in str(result)
    assert host.calls[0][1]["token_sha256"] == hashlib.sha256(TOKEN.encode()).hexdigest()


@pytest.mark.parametrize(
    "change",
    [
        {"root": "/srv/models/"},
        {"token": TOKEN.upper()},
        {"interface": "eth1"},
        {"port": 40200},
        {"place": 1},
        {"place": None},
        {"max_connections": 1},
        {"idle_timeout": 1},
        {"lifetime": 7200},
    ],
)
def test_other_options_make_another_share(change: dict[str, t.Any]) -> None:
    host = FakeHost()
    host.snapshots = lambda root, repo_id: []  # type: ignore[method-assign]
    run(WANTED, False, host)
    result = run(WANTED._replace(**change), False, host)
    assert result["changed"] and [call[0] for call in host.calls] == ["start", "stop", "start"]
    assert result["diff"]["before"] != result["diff"]["after"]


def test_other_code_makes_another_share() -> None:
    host = FakeHost()
    run(WANTED, False, host)
    host.code = "newer"
    assert run(WANTED, False, host)["changed"]


def test_stopping() -> None:
    host = FakeHost()
    stopped = WANTED._replace(state="stopped", root="", token="")
    assert not run(stopped, False, host)["changed"]
    run(WANTED, False, host)
    foretold = run(stopped, True, host)
    assert foretold["changed"] and foretold["diff"]["after"] == "stopped\n"
    assert host.unit.active_state == "active"
    real = run(stopped, False, host)
    assert {**foretold, "changed": True} == real
    assert (real["url"], real["snapshots"]) == (None, [])
    assert not run(stopped, False, host)["changed"]


def test_a_folder_that_is_not_there_yet() -> None:
    assert run(WANTED, True, FakeHost(root=False))["changed"]
    with pytest.raises(
        ShareError, match=r"^root /srv/models is not a folder\. Make it before anything in it is shared\.$"
    ):
        run(WANTED, False, FakeHost(root=False))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Demo"}, "name 'Demo' is not made of small letters, digits and inner hyphens, at most 64."),
        ({"name": "a/../b"}, "name 'a/../b' is not made of small letters, digits and inner hyphens, at most 64."),
        ({"name": "-x"}, "name '-x' is not made of small letters, digits and inner hyphens, at most 64."),
        (
            {"token": "short"},
            "token has 5 characters, but needs 32 or more. Make one up for each run, for example by the lookup "
            "ansible.builtin.password with length=48 on /dev/null.",
        ),
        ({"repo_id": "a/b/c"}, "repo_id 'a/b/c' is not of the form OWNER/NAME."),
        ({"port": 80}, "port is 80, but must be 0 (any) or from 1024 to 65535."),
        ({"port": 65536}, "port is 65536, but must be 0 (any) or from 1024 to 65535."),
        ({"lifetime": 0}, "lifetime is 0, but must be at least 1."),
        ({"address": "myhost"}, "address 'myhost' is not an IP address."),
    ],
)
def test_options_that_cannot_work(change: dict[str, t.Any], message: str) -> None:
    with pytest.raises(ShareError) as caught:
        run(WANTED._replace(**change), True, FakeHost())
    assert str(caught.value) == message


def test_hosts_that_cannot() -> None:
    with pytest.raises(ShareError, match="^no systemd here$"):
        run(WANTED, True, FakeHost(problem="no systemd here"))
    with pytest.raises(
        ShareError, match="^modelfleet-share-demo.service was started and ended at once: look at journalctl"
    ):
        run(WANTED, False, FakeHost(dies=True))


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        (Running("active", "listening on 10.0.0.1:40123, settings 0a1b"), Endpoint("10.0.0.1", 40123, "0a1b")),
        (Running("active", "listening on [fd00::1]:40123, settings 0a1b"), Endpoint("fd00::1", 40123, "0a1b")),
        (Running("active", ""), None),
        (Running("failed", "listening on 10.0.0.1:40123, settings 0a1b"), None),
        (Running("inactive"), None),
    ],
)
def test_what_a_unit_says(running: Running, expected: Endpoint | None) -> None:
    assert endpoint_of(running) == expected


def test_what_the_unit_sees_of_the_host() -> None:
    properties = unit_properties(
        60, ["usr", "etc", "srv", "data", "home", "od d"], ["/usr", "/", "/data", '/srv/a "b\\c']
    )
    assert "RuntimeMaxSec=60" in properties
    assert [item for item in properties if item.startswith(("TemporaryFileSystem", "BindReadOnlyPaths"))] == [
        'TemporaryFileSystem="/etc":ro',
        'TemporaryFileSystem="/od d":ro',
        'TemporaryFileSystem="/srv":ro',
        'BindReadOnlyPaths="-/data"',
        'BindReadOnlyPaths="-/etc/ld.so.cache"',
        'BindReadOnlyPaths="-/run/systemd/notify"',
        'BindReadOnlyPaths="-/srv/a \\"b\\\\c"',
        'BindReadOnlyPaths="-/usr"',
    ]
