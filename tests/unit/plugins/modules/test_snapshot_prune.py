# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module on a real folder, with real processes and locks."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.modelfleet.serving.plugins.module_utils import _prune_io
from ansible_collections.modelfleet.serving.plugins.modules import snapshot_prune

COMMITS = [letter * 40 for letter in "abcd"]


class Host:
    """Three releases of one instance, the last current, and a snapshot that nothing uses."""

    def __init__(self, folder: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.root, self.records, self._capfd = folder / "my models", folder / "releases", capfd
        for number, commit in enumerate(COMMITS, 1):
            snapshot = self.snapshot(number)
            snapshot.mkdir(parents=True)
            (snapshot / "config.json").write_text(commit)
            if number < 4:
                view = self.view(number)
                view.mkdir(parents=True)
                (view / "config.json").symlink_to(os.path.relpath(snapshot / "config.json", view))
                self.record(number, {"model": {"snapshot": str(snapshot), "view": str(view), "commit": commit}})
        (self.records / "kimi/current").symlink_to("3.json")

    def snapshot(self, number: int) -> pathlib.Path:
        return self.root / "snapshots/acme--tiny" / COMMITS[number - 1]

    def view(self, number: int) -> pathlib.Path:
        return self.root / "views/tiny" / str(number)

    def record(self, number: int, content: t.Any) -> None:
        (self.records / "kimi").mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        (self.records / "kimi" / f"{number}.json").write_text(text)

    def run(self, check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
        options = {"root": str(self.root), "releases": str(self.records), "keep_hours": 0, **params}
        with patch_module_args({**options, "_ansible_check_mode": check_mode}), pytest.raises(SystemExit):
            snapshot_prune.main()
        result: dict[str, t.Any] = json.loads(self._capfd.readouterr().out)
        return result

    def left(self) -> tuple[list[int], list[int]]:
        numbers = range(1, 5)
        return [n for n in numbers if self.snapshot(n).exists()], [n for n in numbers if self.view(n).exists()]


@pytest.fixture
def host(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(_prune_io, "UNITS", (str(tmp_path / "units/*.service"),))
    return Host(tmp_path, capfd)


def reasons(result: t.Mapping[str, t.Any]) -> list[tuple[str, str]]:
    return [(fate["action"], fate["reason"]) for fate in result["snapshots"]]


def test_documentation_agrees_with_the_argument_spec() -> None:
    keys = ("type", "default", "elements", "required")
    options = yaml.safe_load(snapshot_prune.DOCUMENTATION)["options"]
    documented = {name: {key: option[key] for key in keys if key in option} for name, option in options.items()}
    assert documented == snapshot_prune.ARGUMENT_SPEC


def test_check_real_check_real(host: Host) -> None:
    planned = host.run(check_mode=True)
    assert host.left() == ([1, 2, 3, 4], [1, 2, 3])
    done = host.run()
    assert (done["changed"], done["snapshots"], done["views"]) == (True, planned["snapshots"], planned["views"])
    assert host.left() == ([2, 3], [2, 3])
    assert done["bytes_freed"] == 80
    assert reasons(done) == [
        ("remove", "unfinished; used by release 1 of kimi, and no newer"),
        ("keep", "release 2 of kimi, serves from it"),
        ("keep", "release 3 of kimi, which is current, serves from it"),
        ("remove", "unfinished; no release, view or process uses it"),
    ]
    assert host.run(check_mode=True)["changed"] is False
    assert host.run()["changed"] is False


def test_the_last_snapshot_takes_its_folders_along(host: Host) -> None:
    for record in (host.records / "kimi").iterdir():
        record.unlink()
    for number in (1, 2, 3):
        (host.view(number) / "config.json").unlink()
        host.view(number).rmdir()
    host.run()
    assert list((host.root / "snapshots").iterdir()) == []


USER = "import os, sys, time; {}; print(flush=True); time.sleep(60)"


@pytest.mark.parametrize(
    ("program", "argument"),
    [
        ("1", "--model={view}/"),
        ("1", "{snapshot}"),
        ("1", "{linked}/snapshots/acme--tiny/" + COMMITS[0]),
        ("os.chdir({snapshot!r})", ""),
        ("open({snapshot!r} + '/config.json'); f = open({snapshot!r} + '/config.json')", ""),
        ("import mmap; m = mmap.mmap(os.open({snapshot!r} + '/config.json', 0), 0, prot=1)", ""),
    ],
)
def test_what_a_process_uses_is_kept(host: Host, tmp_path: pathlib.Path, program: str, argument: str) -> None:
    linked = tmp_path / "linked"
    linked.symlink_to(host.root)
    names = {"view": str(host.view(1)), "snapshot": str(host.snapshot(1)), "linked": str(linked)}
    command = [sys.executable, "-c", USER.format(program.format(**names)), argument.format(**names)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            result = host.run(root=str(linked if "linked" in argument else host.root))
        finally:
            process.kill()
    assert host.left()[0] == [1, 2, 3]
    assert f"process {process.pid} (python" in reasons(result)[0][1]


def test_what_a_unit_that_does_not_run_uses_is_kept(host: Host, tmp_path: pathlib.Path) -> None:
    (tmp_path / "units").mkdir()
    unit = tmp_path / "units/mine.service"
    unit.write_text(f'[Service]\nExecStart=vllm serve "{host.snapshot(4)}"\n')
    assert reasons(host.run())[3] == ("keep", f"unit file {unit} uses it")


def test_a_path_that_only_begins_alike_is_another(host: Host, tmp_path: pathlib.Path) -> None:
    (tmp_path / "units").mkdir()
    (tmp_path / "units/mine.service").write_text(f"{host.snapshot(4)}.old {host.snapshot(4)}-2 {host.snapshot(4)}0")
    host.run()
    assert host.left()[0] == [2, 3]


def test_a_download_under_way_is_kept(host: Host) -> None:
    lock = host.snapshot(4) / ".modelfleet/lock"
    lock.parent.mkdir()
    lock.touch()
    code = "import fcntl, sys, time; f = open(sys.argv[1], 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True)\n"
    # the name of the lock is in no command line that would give it away
    code += "time.sleep(60)"
    link = host.records / "lock"
    link.symlink_to(lock)
    with subprocess.Popen([sys.executable, "-c", code, str(link)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            result = host.run()
        finally:
            process.kill()
    assert reasons(result)[3][0] == "keep"
    assert host.left()[0] == [2, 3, 4]


def test_a_download_of_today_is_kept(host: Host) -> None:
    own = host.snapshot(4) / ".modelfleet"
    (own / "partial").mkdir(parents=True)
    (own / "partial/0123").touch()
    for path in (host.snapshot(1), host.snapshot(4), own, own / "partial"):
        os.utime(path, (0, 0))
    assert reasons(host.run(keep_hours=24))[3] == ("keep", "written to less than 24 hours ago")
    assert host.left() == ([2, 3, 4], [2, 3])
    os.utime(own / "partial/0123", (0, 0))
    host.run(keep_hours=24)
    assert host.left() == ([2, 3], [2, 3])


def test_what_a_killed_removal_left_goes(host: Host) -> None:
    host.snapshot(4).rename(host.snapshot(4).with_name(f".{COMMITS[3]}.removed"))
    assert host.run(keep_releases=3)["bytes_freed"] == 40
    assert not list(host.root.rglob("*.removed"))
    assert host.left()[0] == [1, 2, 3]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"model": null}', '{"model": {"snapshot": 5}}'])
def test_a_record_that_cannot_be_read_stops_everything(host: Host, content: str) -> None:
    host.record(2, content)
    result = host.run()
    assert result["msg"] == (
        f"The release record {host.records}/kimi/2.json is damaged, so that what it uses is not known. Nothing was "
        "removed. Repair or remove the record."
    )
    assert host.left() == ([1, 2, 3, 4], [1, 2, 3])


def test_a_host_without_models_has_nothing_to_prune(host: Host, tmp_path: pathlib.Path) -> None:
    result = host.run(root=str(tmp_path / "none"), releases=str(tmp_path / "none"))
    assert (result["changed"], result["snapshots"], result["views"]) == (False, [], [])


def test_values_that_make_no_sense(host: Host) -> None:
    assert host.run(keep_hours=-1)["msg"] == "keep_hours is -1, but must be at least 0."
    assert host.run(keep_releases=-1)["msg"] == "keep_releases is -1, but must be at least 0."
    assert host.run(keep=["x y"])["msg"].startswith("keep has 'x y', which is not of the form OWNER/NAME, ")
