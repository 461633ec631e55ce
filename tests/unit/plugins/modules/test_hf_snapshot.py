# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole module, as a process where that matters, against the lab's Hub."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import sys
import threading
import time
import typing as t

import pytest
import yaml
from hub import Hub
from snapshot_host import FILES, SHARD_1, SHARD_2, TOKEN, TOTAL, WEIGHTS, Host, outcome, wait_for

from ansible_collections.modelfleet.serving.plugins.doc_fragments._hub import ModuleDocFragment
from ansible_collections.modelfleet.serving.plugins.module_utils import _hub
from ansible_collections.modelfleet.serving.plugins.modules import hf_snapshot


@pytest.fixture
def host(hub: Hub, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> Host:
    hub.repo("acme/tiny").commit(FILES)
    return Host(hub, tmp_path / "models with space", capfd)


def comparable(result: dict[str, t.Any]) -> dict[str, t.Any]:
    # time differs, and so does what Ansible itself adds about the path
    return {key: result[key] for key in ("changed", "path", "commit", "files", "diff", "bytes_total", "bytes_reused")}


def tree(folder: pathlib.Path) -> dict[str, t.Any]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# -- documentation ----------------------------------------------------------------------------------------------------


def test_documentation_agrees_with_the_argument_spec() -> None:
    options = {
        **yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"],
        **yaml.safe_load(hf_snapshot.DOCUMENTATION)["options"],
    }
    keys = ("type", "default", "choices", "elements", "required")
    documented = {name: {key: option[key] for key in keys if key in option} for name, option in options.items()}
    spec = {
        name: {key: option[key] for key in keys if key in option} for name, option in hf_snapshot.ARGUMENT_SPEC.items()
    }
    assert documented == spec


# -- the life of a snapshot -------------------------------------------------------------------------------------------


def test_check_real_check_real(host: Host) -> None:
    planned = host.run(check_mode=True)
    assert not host.root.exists()
    done = host.run()
    assert comparable(done) == comparable(planned)
    assert done["changed"] is True
    assert done["bytes_downloaded"] == planned["bytes_downloaded"] == done["bytes_total"] == TOTAL == host.sent()
    snapshot = host.snapshot()
    assert done["path"] == str(snapshot)
    assert done["commit"] == snapshot.name
    for name, content in FILES.items():
        assert (snapshot / name).read_bytes() == (content.encode() if isinstance(content, str) else content)
        assert not (snapshot / name).is_symlink()
    assert sorted(os.listdir(snapshot / ".modelfleet")) == ["lock", "manifest.json"]
    before = tree(snapshot)
    host.hub.log.clear()
    planned, again = host.run(check_mode=True), host.run()
    assert comparable(again) == comparable(planned)
    assert again["changed"] is False
    assert again["bytes_downloaded"] == 0
    assert again["diff"]["before"] == again["diff"]["after"] == done["diff"]["after"]
    assert [entry.on for entry in host.hub.log.find()] == ["info", "info"]
    assert tree(snapshot) == before


def test_a_pinned_commit_needs_neither_network_nor_library(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = host.run()["commit"]
    monkeypatch.setattr(_hub, "HAS_HUGGINGFACE_HUB", False)
    host.hub.log.clear()
    for state in ("present", "verified"):
        result = host.run(revision=commit, endpoint="http://127.0.0.1:1", state=state)
        assert result["changed"] is False
        assert result["elapsed_s"] < 0.15
    assert host.hub.count() == 0
    result = host.run()
    assert result["failed"] is True
    assert "Failed to import the required Python library (huggingface_hub >= 0.34) on" in result["msg"]
    assert sys.executable in result["msg"]
    assert "to list acme/tiny" in result["msg"]


def test_a_moved_branch_is_another_snapshot_and_the_old_one_stays(host: Host) -> None:
    old = host.run()
    host.hub.repo("acme/tiny").commit({"config.json": '{"model_type": "tiny2"}'})
    new = host.run()
    assert new["changed"] is True
    assert new["commit"] != old["commit"]
    assert host.run(revision=old["commit"], verify="full")["changed"] is False


def test_a_branch_that_moves_during_the_run_does_not_mix_commits(host: Host) -> None:
    host.hub.fault(on="resolve", action="move", repo="acme/tiny", branch="main", files={SHARD_1: None}, times=1)
    result = host.run()
    assert result["bytes_downloaded"] == TOTAL
    assert host.run(revision=result["commit"], state="verified", verify="full")["changed"] is False


def test_absent(host: Host) -> None:
    commit = host.run()["commit"]
    planned = host.run(state="absent", revision=commit, check_mode=True)
    assert host.snapshot().exists()
    done = host.run(state="absent")
    assert comparable(done) == comparable(planned)
    assert done["changed"] is True
    assert list((host.root / "snapshots").iterdir()) == []
    assert host.run(state="absent")["changed"] is False


def test_patterns(host: Host) -> None:
    result = host.run(allow_patterns=["*.json", "*.py"], ignore_patterns=["*.index.json"])
    assert [file["path"] for file in result["files"]] == ["config.json", "modeling_tiny.py"]


def modes(host: Host) -> dict[pathlib.Path, int]:
    paths = [host.root / "snapshots", *(host.root / "snapshots").rglob("*")]
    return {path: path.stat().st_mode & 0o7777 for path in paths if path.name != "lock"}


def test_permissions_follow_the_umask_or_what_is_asked_for(host: Host) -> None:
    before = os.umask(0o027)
    try:
        host.run()
    finally:
        os.umask(before)
    assert modes(host) == {path: 0o750 if path.is_dir() else 0o640 for path in modes(host)}
    asked = {"mode": "0444", "directory_mode": "u=rwx,go=rx"}
    assert host.run(check_mode=True, **asked)["changed"] is True
    assert host.run(**asked)["changed"] is True
    assert modes(host) == {path: 0o755 if path.is_dir() else 0o444 for path in modes(host)}
    for check_mode in (True, False):
        assert host.run(check_mode=check_mode, **asked)["changed"] is False
    assert host.root.stat().st_mode & 0o7777 == 0o750


def test_permissions_of_a_snapshot_that_is_not_there_yet_are_planned(host: Host) -> None:
    assert host.run(check_mode=True, mode="0644", owner=str(os.geteuid()))["changed"] is True
    assert not host.root.exists()


# -- damage on the disk -----------------------------------------------------------------------------------------------


def flip(path: pathlib.Path, at: int, keep_times: bool) -> None:
    seen = path.stat()
    with open(path, "r+b") as handle:
        handle.seek(at)
        byte = handle.read(1)[0]
        handle.seek(at)
        handle.write(bytes([byte ^ 1]))
    if keep_times:
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


@pytest.mark.parametrize(
    ("damage", "verify", "reason"),
    [
        (lambda path: flip(path, 300_000, False), "stat", "expected sha256 "),
        (lambda path: flip(path, 300_000, True), "full", "expected sha256 "),
        (lambda path: flip(path, 8, True), "headers", "header is not the JSON object of tensors it should be"),
        (lambda path: os.truncate(path, 1000), "stat", f"has 1000 bytes, expected {len(FILES[SHARD_2])}"),
        (lambda path: path.unlink(), "stat", "not there"),
        (lambda path: (path.unlink(), path.symlink_to("config.json")), "stat", "is a link, not a file"),
    ],
)
def test_damage_is_named_and_repaired_and_nothing_else_fetched(
    host: Host, damage: t.Callable[[pathlib.Path], t.Any], verify: str, reason: str
) -> None:
    host.run()
    damage(host.snapshot() / SHARD_2)
    host.hub.log.clear()
    checked = host.run(state="verified", verify=verify)
    assert checked["failed"] is True
    assert f"1 of {len(FILES)} files of {host.snapshot()} are not as published: {SHARD_2}: {reason}" in checked["msg"]
    assert host.sent() == 0
    planned = host.run(check_mode=True, verify=verify)
    done = host.run(verify=verify)
    assert comparable(done) == comparable(planned)
    (file,) = (file for file in done["files"] if file["action"] != "keep")
    assert (file["path"], file["action"]) == (SHARD_2, "download" if reason == "not there" else "repair")
    assert file["reason"].startswith(reason)
    assert host.sent() == len(FILES[SHARD_2])
    assert host.run(state="verified", verify="full")["changed"] is False


def test_a_snapshot_that_was_carried_in_is_adopted(host: Host) -> None:
    host.run()
    (host.snapshot() / ".modelfleet/manifest.json").unlink()
    host.hub.log.clear()
    result = host.run()
    assert {file["action"] for file in result["files"]} == {"adopt"}
    assert result["changed"] is True
    assert host.sent() == 0
    assert host.run()["changed"] is False


def test_what_others_left_is_foretold_and_removed(host: Host) -> None:
    host.run()
    shard = host.snapshot() / SHARD_1
    shard.unlink()
    left = {
        ".modelfleet/partial/0123-unknown": 700,
        ".cache/huggingface/download/Zm9v.abc.0123.incomplete": 30_000,
    }
    for name, size in left.items():
        (host.snapshot() / name).parent.mkdir(exist_ok=True)
        (host.snapshot() / name).write_bytes(bytes(size))
    planned = host.run(check_mode=True)
    done = host.run()
    assert comparable(done) == comparable(planned)
    assert done["cleaned"] == planned["cleaned"] == {"files": 2, "bytes": 30_700}
    assert not [name for name in left if (host.snapshot() / name).exists()]
    assert not (host.snapshot() / ".modelfleet/partial").exists()
    assert host.run()["changed"] is False


def test_a_removal_that_was_killed_is_ended(host: Host) -> None:
    commit = host.run()["commit"]
    host.snapshot().rename(host.snapshot().with_name(f".{commit}.removed"))
    planned = host.run(state="absent", revision=commit, check_mode=True)
    done = host.run(state="absent", revision=commit)
    assert comparable(done) == comparable(planned)
    assert done["changed"] is True
    assert done["cleaned"]["bytes"] > WEIGHTS
    assert not list(host.root.rglob("*.removed"))
    assert host.run(state="absent", revision=commit)["changed"] is False


# -- damage at the source ---------------------------------------------------------------------------------------------


def test_a_shard_that_the_hub_truncates_fails_with_file_expected_and_found(host: Host) -> None:
    host.hub.fault(on="cdn", match=SHARD_2, action="truncate", at=1000)
    result = host.run()
    assert result["failed"] is True
    assert result["msg"].startswith(
        f"{SHARD_2}: expected {len(FILES[SHARD_2])} bytes as listed by the Hub, found 1000 bytes at http://localhost:"
    )
    assert "Signature" not in json.dumps(result)
    assert "?" not in result["msg"]
    assert not (host.snapshot() / SHARD_2).exists()
    host.hub.faults.clear()
    assert host.run()["changed"] is True
    assert host.run(state="verified", verify="full")["changed"] is False


def test_content_that_is_wrong_once_is_fetched_again_and_wrong_twice_is_an_error(host: Host) -> None:
    host.hub.fault(on="cdn", match=SHARD_1, action="flip", at=1000, times=1)
    result = host.run()
    assert (result["changed"], result["retries"]) == (True, 1)
    assert result["bytes_downloaded"] == TOTAL + len(FILES[SHARD_1])
    flip(host.snapshot() / SHARD_1, 5, False)
    damaged = (host.snapshot() / SHARD_1).read_bytes()
    host.hub.fault(on="cdn", match=SHARD_1, action="flip", at=1000)
    result = host.run()
    assert f"{SHARD_1}: the content is wrong, twice: expected sha256 " in result["msg"]
    # bad as it is, the old one is not taken away before there is a better one
    assert (host.snapshot() / SHARD_1).read_bytes() == damaged


def test_a_checkpoint_that_was_published_broken_is_said_to_be(host: Host) -> None:
    host.hub.repo("acme/tiny").commit({SHARD_1: b"\x08\0\0\0\0\0\0\0{}      1234"})
    assert f"{SHARD_1} has the content the Hub lists, but is no intact safetensors file" in host.run()["msg"]
    host.hub.repo("acme/tiny").commit({SHARD_1: None})
    assert "names 1 file (first: model-00001-of-000002.safetensors) that the commit does not have" in host.run()["msg"]


# -- room -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check_mode", [True, False])
def test_what_does_not_fit_is_refused_before_the_first_byte(host: Host, check_mode: bool) -> None:
    result = host.run(check_mode=check_mode, reserve_bytes=1 << 60)
    assert result["failed"] is True
    assert f"{TOTAL} bytes to download and 1073741824.00 GiB ({1 << 60} bytes) to keep free" in result["msg"]
    assert [entry.on for entry in host.hub.log.find()] == ["info"]
    assert not host.root.exists()


# -- interruptions ----------------------------------------------------------------------------------------------------


def partial_bytes(host: Host) -> int:
    total = 0
    for path in host.root.glob("snapshots/*/*/.modelfleet/partial/*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


@pytest.mark.parametrize("share", [0.1, 0.4, 0.7])
def test_killed_and_run_again_it_goes_on_at_the_byte_where_it_was(host: Host, share: float) -> None:
    rate = host.hub.rate = 400_000
    process = host.start(workers=2)
    # per shard, so that neither is whole before the kill
    wait_for(lambda: partial_bytes(host) > share * 2 * len(FILES[SHARD_1]))
    process.kill()
    process.communicate()
    left = {path.name: path.stat().st_size for path in (host.snapshot() / ".modelfleet/partial").iterdir()}
    assert left
    first = host.sent()
    host.hub.log.clear()
    host.hub.rate = None
    result = host.run()
    assert result["changed"] is True
    # lost is what each worker had of its block, a quarter of a second's worth, and what was under way
    assert first + host.sent() <= TOTAL + 2 * rate * 0.35
    ranges = {entry.range for entry in host.hub.log.find("cdn")}
    assert ranges == {f"bytes={size}-" for size in left.values()}
    assert result["bytes_reused"] + result["bytes_downloaded"] == TOTAL
    assert host.run(state="verified", verify="full")["changed"] is False
    assert not (host.snapshot() / ".modelfleet/partial").exists()


def test_what_was_whole_before_a_failure_is_not_hashed_again(host: Host) -> None:
    host.hub.fault(on="cdn", match=SHARD_2, action="status", status=404, delay=0.5)
    assert "refused with status 404" in host.run()["msg"]
    planned = host.run(check_mode=True)
    assert {file["path"]: file["reason"] for file in planned["files"]}[SHARD_1] == "as recorded"


def test_sigterm_stops_it_and_says_so(host: Host) -> None:
    host.hub.rate = 200_000
    process = host.start()
    wait_for(lambda: partial_bytes(host) > 100_000)
    process.send_signal(signal.SIGTERM)
    result = outcome(process)
    assert result["failed"] is True
    assert "stopped at " in result["msg"]
    host.hub.rate = None
    result = host.run()
    assert result["bytes_reused"] > 100_000


def test_two_runs_at_once_do_the_work_once(host: Host) -> None:
    host.hub.rate = 800_000
    processes = [host.start(), host.start()]
    results = [outcome(process) for process in processes]
    assert not [result["msg"] for result in results if "msg" in result]
    assert host.sent() == TOTAL
    assert sorted(result["bytes_downloaded"] for result in results) == [0, TOTAL]


def test_a_second_run_that_may_not_wait_names_the_first(host: Host) -> None:
    host.hub.rate = 200_000
    process = host.start()
    wait_for(lambda: partial_bytes(host) > 0)
    result = host.run(lock_timeout=0)
    assert result["failed"] is True
    assert f'Another run holds {host.snapshot()} ({{"pid": {process.pid}, "host": ' in result["msg"]
    process.kill()
    process.communicate()


# -- access -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def gated(host: Host) -> Host:
    host.hub.catalog.users.update({TOKEN: "me", "hf_stranger": "stranger"})
    repo = host.hub.repo("acme/tiny")
    repo.gated, repo.readers = "manual", {"me"}
    return host


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize(
    ("token", "status", "why"),
    [
        (None, 401, "the repository is gated: accept its licence on its page, and set token of that account"),
        ("hf_stranger", 403, "the token's account is not on the repository's access list: accept its licence there"),
    ],
)
def test_a_gated_repository_is_refused_in_check_mode_too(
    gated: Host, token: t.Optional[str], status: int, why: str, check_mode: bool
) -> None:
    result = gated.run(check_mode=check_mode, token=token)
    assert result["failed"] is True
    assert result["msg"].endswith(f"/config.json refused with status {status}: {why}.")
    assert not gated.root.exists()


def test_the_token_appears_nowhere_but_at_the_hub(gated: Host, tmp_path: pathlib.Path) -> None:
    progress = tmp_path / "progress"
    seen: list[str] = []
    gated.hub.rate = 400_000
    gated.hub.fault(on="cdn", match=SHARD_1, action="status", status=503, times=2)
    process = gated.start(token=TOKEN, progress_file=str(progress), workers=2)

    def watch() -> None:
        while process.poll() is None:
            for path in (
                progress,
                pathlib.Path(f"/proc/{process.pid}/cmdline"),
                pathlib.Path(f"/proc/{process.pid}/environ"),
            ):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    seen.append(path.read_text(errors="replace"))
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, err = process.communicate(timeout=60)
    watcher.join()
    assert json.loads(out)["changed"] is True
    assert any('"phase": "download"' in text for text in seen)
    assert any("status 503" in text for text in seen)
    for text in (out, err, *seen, *(str(content) for content in tree(gated.snapshot()).values())):
        assert TOKEN not in text
        assert "Signature=" not in text
    assert gated.hub.leaks() == []
    assert all(entry.authorization for entry in gated.hub.log.find("resolve"))


def test_progress_has_the_numbers_of_the_line(host: Host, tmp_path: pathlib.Path) -> None:
    progress = tmp_path / "progress"
    host.hub.rate = 300_000
    process = host.start(progress_file=str(progress), workers=2)
    states: list[dict[str, t.Any]] = []

    def look() -> bool:
        if progress.exists():
            states.append(json.loads(progress.read_text()))
        return process.poll() is not None

    wait_for(look)
    assert outcome(process)["changed"] is True
    moving = [state for state in states if state["phase"] == "download"]
    assert {
        "phase",
        "message",
        "files_done",
        "files_total",
        "bytes_done",
        "bytes_total",
        "bytes_downloaded",
        "rate_bytes_s",
        "eta_s",
        "current",
        "retries",
        "pid",
    } == set(moving[-1])
    assert moving[-1]["pid"] == process.pid
    assert [state["bytes_done"] for state in moving] == sorted(state["bytes_done"] for state in moving)
    middle = [state for state in moving if 0.3 * TOTAL < state["bytes_done"] < 0.9 * TOTAL]
    assert middle
    assert middle[-1]["current"] == [SHARD_1, SHARD_2] or middle[-1]["current"] == [SHARD_2]
    assert 100_000 < middle[-1]["rate_bytes_s"] < 900_000
    assert moving[-1]["files_total"] == len(FILES)


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workers": 0}, "workers is 0, but must be at least 1."),
        ({"max_rate": -1}, "max_rate is -1, but must be at least 0."),
        ({"transport": "xet"}, "transport xet is not available yet. Use auto or http, which get the same bytes."),
        ({"endpoint": "hub.example"}, "endpoint hub.example is not an http or https URL."),
        ({"endpoint": "ftp://me:pw@hub.example/?q"}, "endpoint ftp://hub.example/ is not an http or https URL."),
    ],
)
def test_values_that_make_no_sense(host: Host, change: dict[str, t.Any], message: str) -> None:
    assert host.run(**change)["msg"] == message
    assert host.hub.count() == 0


def test_max_rate_is_kept(host: Host) -> None:
    began = time.monotonic()
    host.run(max_rate=500_000)
    assert time.monotonic() - began > 0.8 * TOTAL / 500_000
