# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils import _share_io
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    SHA256,
    Listing,
    Manifest,
    Record,
    RemoteFile,
    to_json,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._share import Running, ShareError, Wanted
from ansible_collections.modelfleet.serving.plugins.module_utils._share_io import (
    Host,
    interpreter_paths,
    server_archive,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WANTED = Wanted("demo", "started", "/srv/my models", "", "", "", 0, "t" * 32, 0, 8, 9, 10)


class Commands:
    """Answers by the first word of the command; keeps what it was asked."""

    def __init__(self, **answers: tuple[int, str, str]) -> None:
        self.answers, self.asked = answers, []  # type: ignore[var-annotated]

    def __call__(self, argv: t.Sequence[str]) -> tuple[int, str, str]:
        self.asked.append(list(argv))
        return self.answers.get(argv[0].replace("-", "_"), (0, "", ""))


def test_the_archive_runs_by_itself(tmp_path: pathlib.Path) -> None:
    (tmp_path / "share.pyz").write_bytes(server_archive())
    (tmp_path / "config.json").write_text("{}")
    command = [sys.executable, "-I", "-S", "share.pyz", "missing.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "cannot serve: No such file or directory\n")
    assert server_archive() == server_archive()


def test_a_unit_as_systemd_shows_it() -> None:
    commands = Commands(systemctl=(0, "StatusText=listening on x:1, settings a\nActiveState=active\n", ""))
    assert Host(commands).running("u.service") == Running("active", "listening on x:1, settings a")
    assert commands.asked == [["systemctl", "show", "--property=ActiveState,StatusText", "--", "u.service"]]
    with pytest.raises(ShareError, match="^systemctl show u.service failed: Failed to connect to bus$"):
        Host(Commands(systemctl=(1, "", "Failed to connect to bus\n"))).running("u.service")


def test_starting(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_share_io, "RUN_FOLDER", str(tmp_path / "run"))
    seen = {}

    def run(argv: t.Sequence[str]) -> tuple[int, str, str]:
        seen["argv"] = argv
        for name in ("share.pyz", "config.json"):
            seen[name] = (os.stat(tmp_path / "run" / "demo" / name).st_mode & 0o777, (tmp_path / "run/demo" / name))
        seen["config"] = json.loads((tmp_path / "run" / "demo" / "config.json").read_text())
        return 0, "", ""

    Host(run).start(WANTED, {"a": 1})
    argv = seen["argv"]
    assert argv[:4] == ["systemd-run", "--quiet", "--collect", "--unit=modelfleet-share-demo.service"]
    folder = tmp_path / "run" / "demo"
    assert argv[-6:] == ["--", sys.executable, "-I", "-S", f"{folder}/share.pyz", f"{folder}/config.json"]
    assert 'BindReadOnlyPaths="-/srv/my models"' in argv and f'BindReadOnlyPaths="-{folder}"' in argv
    assert (seen["share.pyz"][0], seen["config.json"][0], seen["config"]) == (0o600, 0o600, {"a": 1})
    # the server has read them
    assert not (tmp_path / "run").exists()


def test_a_start_that_fails_says_what_the_server_said(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_share_io, "RUN_FOLDER", str(tmp_path / "run"))
    commands = Commands(
        systemd_run=(1, "", "Job for x failed.\n"),
        journalctl=(0, "Starting x\ncannot serve: Address already in use\n", ""),
    )
    with pytest.raises(ShareError) as caught:
        Host(commands).start(WANTED, {})
    assert str(caught.value) == (
        "Starting modelfleet-share-demo.service failed: Job for x failed. "
        "Its last lines: Starting x / cannot serve: Address already in use"
    )
    assert not (tmp_path / "run").exists()


def test_stopping() -> None:
    commands = Commands()
    Host(commands).stop("u.service")
    assert commands.asked == [["systemctl", "stop", "--", "u.service"]]
    # a transient unit that ended in between is gone altogether
    Host(lambda argv: (5, "", "not loaded") if argv[1] == "stop" else (0, "ActiveState=inactive\n", "")).stop(
        "u.service"
    )
    with pytest.raises(ShareError, match="^systemctl stop u.service failed: no$"):
        Host(lambda argv: (1, "", "no") if argv[1] == "stop" else (0, "ActiveState=active\n", "")).stop("u.service")


def test_what_there_is_to_share(tmp_path: pathlib.Path) -> None:
    files = {"a": b"12345", "b": b"123", "c": b"1", "d": b"12"}
    snapshot = tmp_path / "snapshots" / "acme--tiny" / COMMIT
    (snapshot / ".modelfleet").mkdir(parents=True)
    records = {}
    for name, content in files.items():
        (snapshot / name).write_bytes(content)
        seen = (snapshot / name).stat()
        records[name] = Record(seen.st_mtime_ns, seen.st_ino, 1)
    del records["d"]
    listing = Listing(
        COMMIT, tuple(RemoteFile(name, len(content), SHA256, f"{ord(name):064x}") for name, content in files.items())
    )

    def write(complete: bool) -> None:
        text = to_json(Manifest("acme/tiny", "https://hub", listing, records, complete))
        (snapshot / ".modelfleet" / "manifest.json").write_text(text)

    host = Host(Commands())
    expected = {"repo_id": "acme/tiny", "commit": COMMIT, "complete": True, "files": 3, "bytes": 9}
    write(complete=True)
    assert host.snapshots(str(tmp_path), "acme/tiny") == host.snapshots(f"{tmp_path}/", "") == [expected]
    assert host.snapshots(str(tmp_path), "acme/other") == []
    write(complete=False)
    assert host.snapshots(str(tmp_path), "") == [{**expected, "complete": False}]
    write(complete=True)
    os.utime(snapshot / "b", ns=(1, 1))
    assert host.snapshots(str(tmp_path), "") == [{**expected, "complete": False, "files": 2, "bytes": 6}]
    (snapshot / ".modelfleet" / "manifest.json").write_text("damaged")
    assert host.snapshots(str(tmp_path), "") == []


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(Commands())
    assert host.own_address("lo") == "127.0.0.1"
    with pytest.raises(ShareError, match=r"^interface nope0 has no address\. The host has: .*\blo\b.*\.$"):
        host.own_address("nope0")
    # what the kernel would send from, asked with an address that is this machine's own
    monkeypatch.setattr(_share_io, "_SOMEWHERE", ((socket.AF_INET, "127.0.0.1"),))
    assert host.own_address("") == "127.0.0.1"
    monkeypatch.setattr(_share_io, "_SOMEWHERE", ())
    with pytest.raises(ShareError, match="^The host has no default route that would tell its address: set address"):
        host.own_address("")


def test_the_interpreter_is_all_there() -> None:
    paths = interpreter_paths()
    assert all(os.path.isdir(path) for path in paths)
    assert any(os.__file__.startswith(f"{path}/") for path in paths)
