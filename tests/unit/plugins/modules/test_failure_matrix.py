# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each row of the failure matrix, made to happen: the whole module against the lab's Hub."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import time
import typing as t

import failure_matrix
import pytest
from failure_matrix import ROWS
from hub import Blob, Hub
from hub.content import Digests, File
from snapshot_host import FILES, SHARD_1, SHARD_2, TOTAL, Host, outcome, shard, wait_for

from ansible_collections.modelfleet.serving.plugins.modules import hf_snapshot

REPO = "acme/tiny"
REPOSITORY = pathlib.Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries are for real networks."""
    monkeypatch.setattr(hf_snapshot, "Policy", functools.partial(hf_snapshot.Policy, backoff=0.01, max_backoff=0.02))


@pytest.fixture
def host(hub: Hub, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> Host:
    hub.repo(REPO).commit(FILES)
    return Host(hub, tmp_path / "models with space", capfd)


@pytest.fixture
def nowhere() -> str:
    """The address of a Hub that is not there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


Disk = t.Callable[..., pathlib.Path]


@pytest.fixture
def disk(tmp_path: pathlib.Path) -> t.Iterator[Disk]:
    """Makes a file system of its own of a size."""
    mounts: list[pathlib.Path] = []

    def make(size: str, *options: str) -> pathlib.Path:
        folder = tmp_path / f"disk{len(mounts)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", ",".join((f"size={size}", *options)), "tmpfs", str(folder)]
        if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip("needs to be allowed to mount")
        mounts.append(folder)
        return folder

    yield make
    for folder in mounts:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def raw(content: t.Any) -> bytes:
    return content.encode() if isinstance(content, str) else bytes(content)


def check(host: Host, files: t.Optional[t.Mapping[str, t.Any]] = None, **params: t.Any) -> None:
    """The snapshot is what is published, by its bytes and by the module's own word."""
    snapshot, files = host.snapshot(), files or FILES
    assert {name: (snapshot / name).read_bytes() for name in files} == {
        name: raw(content) for name, content in files.items()
    }
    assert not (snapshot / ".modelfleet/partial").exists()
    params["revision"] = snapshot.name
    assert host.run(**params, state="verified", verify="full").get("failed") is None
    host.hub.log.clear()
    assert host.run(**params)["changed"] is False
    assert host.hub.count() == 0


def failure(result: t.Mapping[str, t.Any]) -> str:
    assert result.get("failed") is True, result
    message = str(result["msg"])
    # the query of a signed address
    assert not re.search(r"://\S*\?", message)
    return message


def partials(host: Host) -> dict[str, int]:
    sizes = {}
    for path in host.root.glob("snapshots/*/*/.modelfleet/partial/*"):
        with contextlib.suppress(FileNotFoundError):
            sizes[path.name] = path.stat().st_size
    return sizes


def alter(path: pathlib.Path, change: t.Callable[[pathlib.Path], t.Any], keep_time: bool) -> None:
    seen = path.stat()
    change(path)
    if keep_time:
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def flip(path: pathlib.Path) -> None:
    with open(path, "r+b") as handle:
        handle.seek(100_000)
        byte = handle.read(1)[0]
        handle.seek(100_000)
        handle.write(bytes([byte ^ 1]))


def acted(result: t.Mapping[str, t.Any]) -> dict[str, str]:
    """What was done, for files that were not just kept."""
    return {file["path"]: file["action"] for file in result["files"] if file["action"] != "keep"}


# -- the table itself -------------------------------------------------------------------------------------------------


def test_every_row_has_a_test_and_every_test_a_row() -> None:
    here = {name for name in globals() if name.startswith("test_")}
    here -= {"test_every_row_has_a_test_and_every_test_a_row", "test_the_document_shows_the_table"}
    assert {row.function for row in ROWS if not row.test} == here
    for row in ROWS:
        if row.test:
            file, _colons, function = row.test.partition("::")
            assert f"def {function}(" in (REPOSITORY / file).read_text(encoding="utf-8"), row
    assert len({row.id for row in ROWS}) == len(ROWS)


def test_the_document_shows_the_table() -> None:
    """If not: python tests/unit/plugins/modules/failure_matrix.py"""
    assert failure_matrix.DOCUMENT.read_text(encoding="utf-8") == failure_matrix.document()


# -- nothing goes wrong -----------------------------------------------------------------------------------------------


def test_cold(host: Host) -> None:
    commit = host.hub.repo(REPO).resolve("main")
    result = host.run(revision=commit)
    assert result["bytes_downloaded"] == host.sent() == TOTAL
    assert host.hub.count("info") == 1
    # an empty file needs none
    assert host.hub.count("resolve", "GET") == len(FILES) - 1
    assert {entry.on for entry in host.hub.log.find()} == {"info", "resolve", "cdn"}
    check(host)


def test_again(host: Host) -> None:
    commit = host.run()["commit"]
    for revision, requests in ((commit, 0), ("main", 1)):
        host.hub.log.clear()
        assert host.run(revision=revision)["changed"] is False
        assert host.hub.count() == requests


# -- interrupted runs -------------------------------------------------------------------------------------------------


def interrupt(host: Host, number: int) -> t.Optional[dict[str, t.Any]]:
    host.hub.rate = 400_000
    process = host.start(workers=2)
    wait_for(lambda: sum(partials(host).values()) > 200_000)
    process.send_signal(number)
    began = time.monotonic()
    out = process.communicate(timeout=20)[0]
    assert time.monotonic() - began < 2
    host.hub.rate = None
    return t.cast("dict[str, t.Any]", json.loads(out)) if out else None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed(host: Host, number: int) -> None:
    said = interrupt(host, number)
    assert (said is None) is (number == signal.SIGKILL)
    left = partials(host)
    host.hub.log.clear()
    result = host.run()
    assert result["bytes_reused"] >= sum(left.values()) > 0
    assert {entry.range for entry in host.hub.log.find("cdn")} == {f"bytes={size}-" for size in left.values()}
    check(host)


def test_interrupted(host: Host) -> None:
    assert "stopped at " in failure(interrupt(host, signal.SIGINT) or {})
    assert host.run()["bytes_reused"] > 0
    check(host)


def test_ten_kills(host: Host) -> None:
    """One download of 6 MB in 12 files, killed ten times, at moments that differ from run to run."""
    files = {f"model-{number:05}-of-00012.safetensors": shard(500_000 + number, number) for number in range(12)}
    host.hub.repo(REPO).commit(files, replace=True)
    total = sum(map(len, files.values()))
    rate = host.hub.rate = 400_000
    chance, workers = random.Random(), 4

    def kept() -> int:
        return sum(partials(host).values()) + whole(host)

    for kill in range(10):
        before = kept()
        process = host.start(workers=workers)
        wait_for(lambda before=before: kept() > before)  # type: ignore[misc]
        # four connections bring a tenth of all in 0.4 s
        time.sleep(chance.uniform(0, 0.3))
        assert process.poll() is None, f"all was over before kill {kill}"
        process.kill()
        process.communicate()
    host.hub.rate = None
    assert host.run()["changed"] is True
    # each kill costs each worker at most its block, a quarter of a second's worth, and what was under way
    assert total <= host.sent() <= total + 10 * workers * rate * 0.35
    check(host, files)


def whole(host: Host) -> int:
    return sum(path.stat().st_size for path in host.root.glob("snapshots/*/*/*.safetensors"))


# -- damage on the disk -----------------------------------------------------------------------------------------------


def repaired(host: Host, name: str, **params: t.Any) -> str:
    """Have one file repaired, and nothing else fetched; why."""
    host.hub.log.clear()
    assert f"1 of {len(FILES)} files of {host.snapshot()} are not as published: {name}: " in failure(
        host.run(state="verified", **params)
    )
    result = host.run(**params)
    assert acted(result) == {name: "repair"}
    assert host.sent() == len(raw(FILES[name]))
    check(host)
    return next(file["reason"] for file in result["files"] if file["path"] == name)


def test_flipped_old(host: Host) -> None:
    host.run()
    alter(host.snapshot() / SHARD_2, flip, keep_time=True)
    assert host.run()["changed"] is False
    assert repaired(host, SHARD_2, verify="full").startswith("expected sha256 ")


def test_flipped_new(host: Host) -> None:
    host.run()
    alter(host.snapshot() / SHARD_2, flip, keep_time=False)
    assert repaired(host, SHARD_2).startswith("expected sha256 ")


@pytest.mark.parametrize("keep_time", [True, False])
@pytest.mark.parametrize("verify", ["stat", "headers", "full"])
def test_truncated_disk(host: Host, verify: str, keep_time: bool) -> None:
    host.run()
    alter(host.snapshot() / SHARD_2, lambda path: os.truncate(path, 1000), keep_time)
    assert repaired(host, SHARD_2, verify=verify) == f"has 1000 bytes, expected {len(FILES[SHARD_2])}"


def test_truncated_cache(host: Host, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    cache = tmp_path / "cache"
    where: t.Any = {"endpoint": host.hub.endpoint, "token": False}
    huggingface_hub.snapshot_download(REPO, cache_dir=cache, **where)
    for blob in cache.glob("models--acme--tiny/blobs/*"):
        os.truncate(blob, min(1000, blob.stat().st_size))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    for sources in ([], [{"path": str(cache)}]):
        result = host.run(sources=sources)
        assert (result.get("msg"), result["changed"]) == (None, True)
        check(host)
        host.run(state="absent", revision=result["commit"])


def test_edited_soon(host: Host) -> None:
    host.run()
    path = host.snapshot() / "config.json"
    alter(path, lambda path: path.write_text(FILES["config.json"].replace("tiny", "TINY")), keep_time=False)
    assert repaired(host, "config.json").startswith("expected git_sha1 ")


@pytest.mark.parametrize("copy", [shutil.copyfile, shutil.copy2])
def test_copied(host: Host, copy: t.Any) -> None:
    host.run()
    snapshot, aside = host.snapshot(), host.root / "aside"
    shutil.rmtree(snapshot / ".cache")
    host.hub.log.clear()
    result = host.run()
    assert (result["changed"], acted(result), host.sent()) == (True, {}, 0)
    snapshot.rename(aside)
    shutil.copytree(aside, snapshot, copy_function=copy)
    shutil.rmtree(aside)
    host.hub.log.clear()
    result = host.run()
    assert acted(result) == dict.fromkeys(FILES, "adopt")
    assert host.sent() == 0
    check(host)


def test_linked(host: Host) -> None:
    host.run()
    shard_2, docs, aside = host.snapshot() / SHARD_2, host.snapshot() / "docs", host.root / "aside"
    aside.mkdir()
    shard_2.rename(aside / SHARD_2)
    shard_2.symlink_to(aside / SHARD_2)
    assert repaired(host, SHARD_2) == "is a link, not a file"
    assert (aside / SHARD_2).read_bytes() == FILES[SHARD_2]
    docs.rename(aside / "docs")
    docs.symlink_to(aside / "docs")
    assert "lies behind docs, which is a link" in failure(host.run(state="verified"))
    assert f"{docs} is a link, so that docs/with space & ü #1?.md would leave the snapshot" in host.run()["msg"]
    docs.unlink()
    host.run()
    check(host)


# -- the network ------------------------------------------------------------------------------------------------------


def passes(host: Host, retries: int, **fault: t.Any) -> None:
    """A trouble that passes: the result is right, after so many retries."""
    host.hub.fault(**fault)
    result = host.run()
    assert (result.get("msg"), result.get("retries")) == (None, retries)
    check(host)


def lasts(host: Host, retries: int = 1, **fault: t.Any) -> str:
    """A trouble that lasts: an error, without half a file under its name, and the next run makes it good."""
    host.hub.fault(**fault)
    message = failure(host.run(retries=retries, stall_timeout=1))
    for path in host.root.glob("snapshots/*/*/*"):
        assert path.is_dir() or path.read_bytes() == raw(FILES[path.name])
    host.hub.clear()
    host.run()
    check(host)
    return message


@pytest.mark.parametrize("times", [1, 4])
def test_dropped(host: Host, times: int) -> None:
    for time_ in range(times):
        host.hub.fault(on="cdn", match=SHARD_2, action="drop", at=100_000 * (time_ + 1), times=1)
    result = host.run()
    assert (result["changed"], result["retries"]) == (True, times)
    ranges = [entry.range for entry in host.hub.log.find("cdn", match=SHARD_2)]
    assert ranges == [None, *(f"bytes={100_000 * (time_ + 1)}-" for time_ in range(times))]
    assert host.sent() == TOTAL
    check(host)


def test_dropped_always(host: Host) -> None:
    host.hub.fault(on="cdn", match=SHARD_2, action="drop", at=100_000)
    message = failure(host.run(retries=2))
    assert message.startswith(
        f"{SHARD_2}: given up at 100000 of {len(FILES[SHARD_2])} bytes after 3 failures, the last: "
    )
    assert 100_000 in partials(host).values()
    host.hub.clear()
    host.run()
    assert "bytes=100000-" in [entry.range for entry in host.hub.log.find("cdn")]
    check(host)


def test_reset(host: Host) -> None:
    passes(host, 1, on="cdn", match=SHARD_2, action="reset", at=300_000, times=1)


@pytest.mark.parametrize("status", [500, 503])
def test_server_error(host: Host, status: int) -> None:
    passes(host, 1, on="cdn", match=SHARD_2, action="status", status=status, times=1)
    assert f"the last: status {status} from http://localhost:" in lasts_after_removal(
        host, on="cdn", match=SHARD_2, action="status", status=status
    )


def lasts_after_removal(host: Host, **fault: t.Any) -> str:
    host.run(state="absent", revision=host.snapshot().name)
    host.hub.clear()
    return lasts(host, **fault)


def test_expired(host: Host) -> None:
    host.hub.fault(on="cdn", match=SHARD_2, action="drop", at=200_000, times=1)
    host.hub.fault(on="cdn", match=SHARD_2, action="status", status=403, skip=0, times=1)
    result = host.run()
    assert (result["changed"], result["retries"]) == (True, 2)
    assert [entry.range for entry in host.hub.log.find("cdn", match=SHARD_2)] == [None, *["bytes=200000-"] * 2]
    assert host.hub.count("resolve", match=SHARD_2) == 3
    check(host)


@pytest.mark.parametrize("headers", [{"Retry-After": "1"}, {"RateLimit": '"resolvers";r=0;t=1'}])
def test_limited(host: Host, headers: dict[str, str]) -> None:
    began = time.monotonic()
    passes(host, 1, on="cdn", match=SHARD_2, action="status", status=429, headers=headers, times=1)
    assert time.monotonic() - began > 1
    fault: t.Any = {"on": "cdn", "match": SHARD_2, "action": "status", "status": 429, "headers": {"Retry-After": "0"}}
    assert "after 2 failures, the last: status 429 from http://localhost:" in lasts_after_removal(host, **fault)


@pytest.mark.parametrize("status", [429, 502])
def test_resolve_error(host: Host, status: int) -> None:
    passes(host, 1, on="resolve", match=SHARD_2, action="status", status=status, times=1)
    fault: t.Any = {"on": "resolve", "match": SHARD_2, "action": "status", "status": status}
    assert f"the last: status {status} from http://127.0.0.1:" in lasts_after_removal(host, **fault)


@pytest.mark.parametrize("status", [429, 503])
def test_tree_error(host: Host, status: int) -> None:
    passes(host, 0, on="tree", action="status", status=status)


@pytest.mark.parametrize("status", [429, 503])
def test_listing_error(host: Host, status: int) -> None:
    passes(host, 0, on="info", action="status", status=status, times=1)
    message = lasts_after_removal(host, on="info", action="status", status=status)
    assert ", 5 times" in message
    assert ("limits requests" if status == 429 else f"answered with status {status}") in message


def test_stall(host: Host) -> None:
    host.hub.fault(on="cdn", match=SHARD_2, action="stall", at=300_000, times=1)
    began = time.monotonic()
    result = host.run(stall_timeout=1)
    assert (result["changed"], result["retries"]) == (True, 1)
    assert 0.9 < time.monotonic() - began < 8
    check(host)


def test_stall_always(host: Host) -> None:
    message = lasts(host, on="cdn", match=SHARD_2, action="stall", at=0)
    assert f"{SHARD_2}: given up at 0 of " in message
    assert "no byte in time" in message


def test_trickle(host: Host) -> None:
    host.hub.fault(on="cdn", match=SHARD_2, action="trickle", rate=20_000)
    message = failure(host.run(retries=1, stall_timeout=1, min_rate=100_000))
    assert "after 2 failures, the last: only " in message
    assert message.count("new connection") == 1
    host.hub.clear()
    host.run()
    check(host)


def test_truncated_source(host: Host) -> None:
    passes(host, 1, on="cdn", match=SHARD_2, action="truncate", at=1000, times=1)
    message = lasts_after_removal(host, on="cdn", match=SHARD_2, action="truncate", at=1000)
    expected = f"expected {len(FILES[SHARD_2])} bytes as listed by the Hub, found 1000 bytes at http://localhost:"
    assert f"{SHARD_2}: {expected}" in message


def test_portal(host: Host) -> None:
    message = lasts(host, on="cdn", match=SHARD_2, action="html")
    assert "It sent an HTML page: a login page of a proxy or portal, most likely." in message


def test_no_ranges(host: Host) -> None:
    host.hub.fault(on="cdn", match=SHARD_2, action="drop", at=200_000, times=1)
    host.hub.fault(on="cdn", match=SHARD_2, action="ignore_range")
    result = host.run()
    assert result["bytes_downloaded"] == TOTAL + 200_000
    check(host)


# -- damage at the source ---------------------------------------------------------------------------------------------


def test_flipped_source(host: Host) -> None:
    passes(host, 1, on="cdn", match=SHARD_2, action="flip", at=300_000, times=1)
    message = lasts_after_removal(host, on="cdn", match=SHARD_2, action="flip", at=300_000)
    assert f"{SHARD_2}: the content is wrong, twice: expected sha256 " in message
    assert "found " in message
    assert "http://127.0.0.1:" in message


def lying(host: Host, **lie: t.Any) -> None:
    """Let the Hub list a shard as it is not."""
    commits = host.hub.repo(REPO).commits
    for commit, tree in commits.items():
        commits[commit] = {**tree, SHARD_2: dataclasses.replace(tree[SHARD_2], **lie)}


def test_wrong_digest(host: Host) -> None:
    lying(host, sha256="ab" * 32)
    message = failure(host.run())
    assert f"{SHARD_2}: the content is wrong, twice: expected sha256 {'ab' * 32}, found " in message
    assert not (host.snapshot() / SHARD_2).exists()


@pytest.mark.parametrize("size", [len(FILES[SHARD_2]) - 10, len(FILES[SHARD_2]) + 10])
def test_wrong_size(host: Host, size: int) -> None:
    lying(host, size=size)
    message = failure(host.run())
    assert f"{SHARD_2}: expected {size} bytes as listed by the Hub, found {len(FILES[SHARD_2])} bytes at" in message
    assert not (host.snapshot() / SHARD_2).exists()


def test_xet(host: Host) -> None:
    headers = {"X-Xet-Hash": "ab" * 32, "X-Xet-Refresh-Route": f"{host.hub.endpoint}/xet-read-token"}
    host.hub.fault(on="resolve", action="header", headers=headers)
    host.run()
    assert host.hub.count("other") == 0
    check(host)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({SHARD_1: None}, f"names 1 file (first: {SHARD_1}) that the commit does not have: published incomplete"),
        ({SHARD_1: b"\x08\0\0\0\0\0\0\0{}      1234"}, f"{SHARD_1} has the content the Hub lists, but is no intact"),
    ],
)
def test_broken_checkpoint(host: Host, files: dict[str, t.Any], message: str) -> None:
    host.hub.repo(REPO).commit(files)
    assert message in failure(host.run())
    assert message.partition(" has the content")[0] in failure(host.run(state="verified", verify="headers"))


# -- the disk ---------------------------------------------------------------------------------------------------------


def test_disk_full(host: Host, disk: Disk) -> None:
    host.root = disk("512k")
    for check_mode in (True, False):
        message = failure(host.run(check_mode=check_mode))
        assert f"{TOTAL} bytes to download and 0 bytes to keep free (reserve_bytes) make {TOTAL} bytes" in message
        assert "Nothing was downloaded." in message
    assert host.sent() == 0
    assert list(host.root.iterdir()) == []
    # with room to spare in bytes, and none in inodes
    host.root = disk("64m", "nr_inodes=10")
    assert f"Not enough inodes to put {REPO} " in failure(host.run())
    assert host.sent() == 0


def test_filled_midway(host: Host, disk: Disk) -> None:
    host.root = disk("2m")
    host.hub.rate = 200_000
    process = host.start(workers=2)
    wait_for(lambda: sum(partials(host).values()) > 100_000)
    with contextlib.suppress(OSError), open(host.root / "other", "wb", buffering=0) as other:
        while True:
            other.write(bytes(4096))
    message = failure(outcome(process))
    assert message.startswith(f"Writing {host.snapshot()}/")
    assert "failed: No space left on device. What was downloaded stays there and is used by the next run." in message
    assert "Not enough room" in failure(host.run())
    (host.root / "other").unlink()
    host.hub.rate = None
    assert sum(partials(host).values()) > 100_000
    host.run()
    # lost is what had been received for a block that did not fit
    assert host.sent() <= TOTAL + 2 * 200_000 * 0.35
    check(host)


def test_read_only(host: Host, disk: Disk) -> None:
    host.root = disk("8m")
    subprocess.run(["mount", "-o", "remount,ro", str(host.root)], check=True)
    for check_mode in (True, False):
        assert f"the file system of {host.root} is mounted read-only. Nothing was downloaded." in failure(
            host.run(check_mode=check_mode)
        )
    assert host.sent() == 0
    subprocess.run(["mount", "-o", "remount,rw", str(host.root)], check=True)
    host.run()
    shutil.rmtree(host.snapshot() / ".cache")
    subprocess.run(["mount", "-o", "remount,ro", str(host.root)], check=True)
    for state in ("present", "verified"):
        assert host.run(state=state, verify="full")["changed"] is False


def test_not_mounted(host: Host, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.modelfleet.serving.plugins.module_utils import _mounts

    fstab = tmp_path / "fstab"
    fstab.write_text(f"LABEL=models {str(host.root).replace(' ', chr(92) + '040')} xfs nofail 0 2\n")
    monkeypatch.setattr(_mounts, "FSTAB", str(fstab))
    message = failure(host.run())
    assert (
        f"{host.root} should be a mount, by {fstab}, but nothing is mounted there. Nothing was downloaded." in message
    )
    assert not host.root.exists()


def test_nobody(host: Host, tmp_path: pathlib.Path) -> None:
    if os.geteuid():
        pytest.skip("needs root to be nobody")
    commit = host.run()["commit"]
    for path in (host.root, *host.root.rglob("*"), *tmp_path.parents[:3], tmp_path):
        path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
    with nobody():
        for state in ("present", "verified"):
            assert host.run(revision=commit, state=state, verify="full")["changed"] is False
    (host.snapshot() / SHARD_2).unlink()
    with nobody():
        message = failure(host.run(revision=commit))
    assert f"user id 65534 may not write into {host.snapshot()}. Nothing was downloaded." in message


@contextlib.contextmanager
def nobody() -> t.Iterator[None]:
    """In this process: nobody may not be able to read the interpreter."""
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(65534, 65534, 0)
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


# -- several files, several runs --------------------------------------------------------------------------------------


def test_one_refused(host: Host) -> None:
    host.hub.fault(on="resolve", match=SHARD_1, action="status", status=403, delay=0.5)
    host.hub.fault(on="cdn", match=SHARD_2, action="trickle", rate=50_000)
    began = time.monotonic()
    assert "refused with status 403" in failure(host.run())
    assert time.monotonic() - began < 4
    assert sum(partials(host).values()) > 0
    host.hub.clear()
    assert host.run()["bytes_reused"] > 0
    check(host)


def test_update_fails(host: Host) -> None:
    old = host.run()["commit"]
    host.hub.repo(REPO).commit({SHARD_2: shard(600_000, 9)})
    host.hub.fault(on="cdn", match=SHARD_2, action="status", status=503)
    assert "status 503" in failure(host.run(retries=1))
    host.hub.clear()
    assert host.run(revision=old, state="verified", verify="full")["changed"] is False
    assert host.hub.count() == 0


def test_moves_during(host: Host) -> None:
    old = host.hub.repo(REPO).resolve("main")
    host.hub.fault(on="resolve", action="move", repo=REPO, branch="main", files={SHARD_1: None}, times=1)
    assert host.run()["commit"] == old
    check(host)


def test_moved(host: Host) -> None:
    old = host.run()["path"]
    host.hub.repo(REPO).commit({"modeling_tiny.py": None, "config.json": "{}"})
    new = host.run()["path"]
    assert new != old
    assert not (pathlib.Path(new) / "modeling_tiny.py").exists()
    assert (pathlib.Path(old) / "modeling_tiny.py").exists()


# -- access -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check_mode", [True, False])
@pytest.mark.parametrize(
    ("token", "message"), [(None, "status 401: the repository is gated"), ("hf_me", "status 403: the token's account")]
)
def test_gated(host: Host, token: t.Optional[str], message: str, check_mode: bool) -> None:
    host.hub.catalog.users["hf_me"] = "me"
    host.hub.repo(REPO).gated = "manual"
    assert message in failure(host.run(check_mode=check_mode, token=token))
    assert not host.root.exists()


def test_bad_token(host: Host) -> None:
    message = failure(host.run(token="hf_wrongwrongwrong"))
    assert message == f"{host.hub.endpoint} does not accept the token: it is wrong, expired or of another Hub."


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"repo_id": "acme/none"},
            "There is no repository acme/none at {}, or it is private: check repo_id, or set token.",
        ),
        ({"revision": "none"}, "acme/tiny at {} has no branch, tag or commit none."),
        ({"revision": "f" * 40}, f"acme/tiny at {{}} has no branch, tag or commit {'f' * 40}."),
    ],
)
def test_unknown(host: Host, params: dict[str, str], message: str) -> None:
    assert failure(host.run(**params)) == message.format(host.hub.endpoint)
    assert not host.root.exists()


# -- no Hub -----------------------------------------------------------------------------------------------------------


def test_offline(host: Host, nowhere: str) -> None:
    assert f"{nowhere} could not be reached, 5 times: Connection refused." in failure(host.run(endpoint=nowhere))
    commit = host.run()["commit"]
    assert host.run(endpoint=nowhere, revision=commit)["changed"] is False
    assert "could not be reached" in failure(host.run(endpoint=nowhere, revision="main"))


@pytest.mark.parametrize("revision", ["main", "commit"])
def test_offline_partial(host: Host, nowhere: str, revision: str) -> None:
    commit = host.run()["commit"]
    (host.snapshot() / SHARD_2).unlink()
    params = {"endpoint": nowhere, "retries": 1, "revision": commit if revision == "commit" else revision}
    message = failure(host.run(**params))
    assert ("could not be reached" if revision == "main" else f"{SHARD_2}: given up at 0 of ") in message
    if revision == "commit":
        assert f"{SHARD_2}: not there" in failure(host.run(**params, state="verified"))


@pytest.mark.parametrize("status", [500, 403])
def test_unreliable_hub(host: Host, status: int, nowhere: str) -> None:
    host.run()
    (host.snapshot() / SHARD_2).unlink()
    (host.snapshot() / ".modelfleet/manifest.json").unlink()
    host.hub.fault(action="status", status=status)
    for params in ({}, {"revision": host.snapshot().name}, {"endpoint": nowhere}):
        for state in ("present", "verified"):
            failure(host.run(**params, state=state, retries=1))
    assert not (host.snapshot() / SHARD_2).exists()


def test_unrelated(host: Host, nowhere: str) -> None:
    commit = host.hub.repo(REPO).resolve("main")
    folder = host.root / "snapshots/acme--tiny" / str(commit)
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    assert "could not be reached" in failure(host.run(endpoint=nowhere, revision=commit))
    host.run()
    assert (folder / "notes.txt").read_text() == "mine"
    check(host)


# -- secrets ----------------------------------------------------------------------------------------------------------


def test_same_host(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Hub(cdn_host="127.0.0.1") as hub:
        hub.catalog.users["hf_me"] = "me"
        hub.repo(REPO).commit(FILES)
        host = Host(hub, tmp_path / "models", capfd)
        host.run(token="hf_me")
        assert hub.count("cdn") == 2
        assert hub.leaks() == []
        assert all(entry.authorization for entry in hub.log.find("resolve"))


# -- shapes -----------------------------------------------------------------------------------------------------------


def test_odd_names(host: Host) -> None:
    names = [
        "a b",
        "ü/日本語.txt",
        "quote'\"`$(x)",
        "100%25?#&=+",
        "~",
        "-rf",
        "..a",
        "a..",
        "x" * 255,
        "d/" * 40 + "deep",
    ]
    names += [
        ".cache/huggingface/.gitignore",
        ".cache/huggingface/download/config.json.metadata",
        "*",
        "[a]",
        "back\\slash",
    ]
    files = {**FILES, **{name: f"{name}\n" for name in names}}
    host.hub.repo(REPO).commit(files)
    host.root = host.root / "näme with 'quotes'"
    host.run()
    check(host, files)


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", ".modelfleet/manifest.json", "a\nb"])
def test_evil_names(host: Host, name: str) -> None:
    host.hub.repo(REPO).commit({name: "evil"})
    assert f"has a file named {name!r}, which " in failure(host.run())
    assert not host.root.exists()
    left_out = ["*evil", ".modelfleet/*", "a\n*"]
    assert host.run(ignore_patterns=left_out)["changed"] is True
    check(host, ignore_patterns=left_out)


def test_small_files(host: Host, disk: Disk) -> None:
    files = {f"part-{number // 100}/{number}.json": f'{{"number": {number}}}' for number in range(5000)}
    host.hub.repo(REPO).commit(files, replace=True)
    host.root = disk("256m")
    result = host.run()
    assert len(result["files"]) == 5000
    assert (host.hub.count("info"), host.hub.count("resolve", "GET")) == (1, 5000)
    again = host.run()
    assert again["changed"] is False
    assert again["elapsed_s"] < 5


def test_huge_file(host: Host, disk: Disk) -> None:
    """60 GB of which most is a hole, with 4 GiB of them from an earlier run."""
    size, left = 60_000_000_000, (1 << 32) + 1
    sparse = disk("100g") / "sparse"
    with open(sparse, "wb") as handle:
        handle.truncate(size)
    blob = Blob.of(File.of(str(sparse)), True, Digests("ab" * 32, "cd" * 20))
    commit = host.hub.repo(REPO).commit({"data.bin": blob}, replace=True)
    host.root = disk("100g")
    planned = host.run(check_mode=True)
    assert planned["bytes_downloaded"] == size
    (name,) = (file["sha256"] for file in planned["files"])
    folder = host.root / "snapshots/acme--tiny" / commit / ".modelfleet/partial"
    host.hub.rate = 4_000_000
    process = host.start(revision=commit)
    wait_for(lambda: bool(partials(host)))
    process.kill()
    process.communicate()
    (partial,) = folder.glob(f"{name}-*")
    os.truncate(partial, left)
    host.hub.log.clear()
    process = host.start(revision=commit)
    wait_for(lambda: partial.stat().st_size > left, seconds=60)
    process.terminate()
    assert f"of {size} bytes" in failure(outcome(process))
    assert [entry.range for entry in host.hub.log.find("cdn")] == [f"bytes={left}-"]


def test_empty(host: Host) -> None:
    host.hub.repo("acme/empty").commit({})
    message = failure(host.run(repo_id="acme/empty"))
    assert message.startswith("acme/empty at commit ")
    assert message.endswith(" gives nothing to download: no file.")
    assert not host.root.exists()


def test_permissions(host: Host) -> None:
    before = os.umask(0o077)
    try:
        host.run()
    finally:
        os.umask(before)
    paths = [path for path in (host.root / "snapshots").rglob("*") if path.name != "lock"]
    assert {path.stat().st_mode & 0o7777 for path in paths} == {0o700, 0o600}
    asked = {"mode": "0640", "directory_mode": "0750", "group": str(os.getegid()), "setype": "container_file_t"}
    asked |= {"seuser": "system_u", "serole": "object_r", "selevel": "s0"}
    assert host.run(**asked)["changed"] is True
    assert {path.stat().st_mode & 0o7777 for path in paths} == {0o750, 0o640}
    # what has no SELinux has no context to differ
    assert host.run(**asked)["changed"] is False
