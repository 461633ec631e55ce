# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import threading
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._disk import Disk
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    GIT_SHA1,
    SHA256,
    Listing,
    Manifest,
    Record,
    RemoteFile,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._partial import partial_path
from ansible_collections.modelfleet.serving.plugins.module_utils._progress import ProgressFile
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_plan import Look, SnapshotError
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_progress import Progress
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import Stop, Stopped, StorageError


@pytest.fixture
def snapshot(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "snapshots/acme--tiny" / ("a" * 40)
    (path / ".modelfleet").mkdir(parents=True)
    return path


@pytest.fixture
def disk(tmp_path: pathlib.Path) -> Disk:
    return Disk(Progress(ProgressFile(str(tmp_path / "progress"))), 0.2, Stop())


def lfs(path: str, content: bytes) -> RemoteFile:
    return RemoteFile(path, len(content), SHA256, hashlib.sha256(content).hexdigest())


# -- the manifest -----------------------------------------------------------------------------------------------------


def test_a_manifest_is_saved_in_one_step_and_read_again(disk: Disk, snapshot: pathlib.Path) -> None:
    assert disk.manifest(str(snapshot)) is None
    manifest = Manifest("acme/tiny", "https://hub", Listing("a" * 40, (lfs("m", b"x"),)), {"m": Record(1, 2, 3)})
    disk.save(str(snapshot), manifest)
    assert disk.manifest(str(snapshot)) == manifest
    assert os.listdir(snapshot / ".modelfleet") == ["manifest.json"]


def test_a_manifest_that_cannot_be_saved_is_a_storage_error(disk: Disk, snapshot: pathlib.Path) -> None:
    (snapshot / ".modelfleet").rmdir()
    with pytest.raises(StorageError, match="manifest.json failed: No such file or directory"):
        disk.save(str(snapshot), Manifest("a/b", "", Listing("a" * 40, ()), {}))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{}"])
def test_a_damaged_manifest_counts_as_none(disk: Disk, snapshot: pathlib.Path, content: bytes) -> None:
    (snapshot / ".modelfleet/manifest.json").write_bytes(content)
    assert disk.manifest(str(snapshot)) is None


# -- looking ----------------------------------------------------------------------------------------------------------


def test_looks_do_not_follow_links(disk: Disk, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("four")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    seen = (tmp_path / "file").stat()
    assert disk.look(str(tmp_path / "file")) == Look("file", 4, seen.st_mtime_ns, seen.st_ino)
    kinds = {name: getattr(disk.look(str(tmp_path / name)), "kind", None) for name in ("link", "fifo", ".", "none")}
    assert kinds == {"link": "link", "fifo": "special file", ".": "directory", "none": None}
    assert disk.look(str(tmp_path / "file" / "below")) is None


def test_digests_of_both_kinds_and_of_what_cannot_be_read(disk: Disk, snapshot: pathlib.Path) -> None:
    big = os.urandom(9_000_001)
    (snapshot / "big").write_bytes(big)
    (snapshot / "small").write_bytes(b"hello")
    (snapshot / "folder").mkdir()
    git = hashlib.sha1(b"blob 5\0hello").hexdigest()
    files = [lfs("big", big), RemoteFile("small", 5, GIT_SHA1, git), lfs("folder", b""), lfs("none", b"")]
    assert disk.digests(str(snapshot), files) == {
        "big": hashlib.sha256(big).hexdigest(),
        "small": git,
        "folder": "nothing: Is a directory",
        "none": "nothing: No such file or directory",
    }


def test_hashing_shows_how_far_it_is(snapshot: pathlib.Path, tmp_path: pathlib.Path) -> None:
    states: list[dict[str, t.Any]] = []

    class Recorder(ProgressFile):
        def write(self, state: t.Mapping[str, t.Any]) -> None:
            states.append(dict(state))

    (snapshot / "m").write_bytes(b"x" * 100)
    Disk(Progress(Recorder(None)), 0, Stop()).digests(str(snapshot), [lfs("m", b"x" * 100)])
    assert states[0]["phase"] == "verify"
    assert states[0]["bytes_total"] == 100
    assert states[0]["files_total"] == 1


def test_a_stop_ends_hashing(snapshot: pathlib.Path) -> None:
    stop = Stop()
    stop.set()
    with pytest.raises(Stopped, match="stopped while files were verified"):
        Disk(Progress(ProgressFile(None)), 0, stop).digests(str(snapshot), [lfs("m", b"x")])


def test_header_problems(disk: Disk, tmp_path: pathlib.Path) -> None:
    good = json.dumps({"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(good).to_bytes(8, "little") + good + bytes(4))
    assert disk.header_problem(str(path)) == ""
    os.truncate(path, path.stat().st_size - 1)
    assert disk.header_problem(str(path)) == (f"header accounts for {12 + len(good)} bytes, file has {11 + len(good)}")
    assert disk.header_problem(str(tmp_path / "none")) == "cannot be read: No such file or directory"


def test_partial_files_of_the_same_content_do_not_meet(disk: Disk, snapshot: pathlib.Path) -> None:
    one, two = lfs("one", b"same"), lfs("two", b"same")
    paths = {partial_path(str(snapshot), file) for file in (one, two)}
    assert len(paths) == 2
    assert all(path.startswith(f"{snapshot}/.modelfleet/partial/{one.digest}-") for path in paths)
    os.mkdir(snapshot / ".modelfleet/partial")
    pathlib.Path(partial_path(str(snapshot), one)).write_bytes(b"sa")
    pathlib.Path(partial_path(str(snapshot), two)).write_bytes(b"too long")
    assert (disk.partial_size(str(snapshot), one), disk.partial_size(str(snapshot), two)) == (2, 4)
    disk.clean(str(snapshot))
    assert disk.partial_size(str(snapshot), one) == 0


# -- room -------------------------------------------------------------------------------------------------------------


def test_room_is_that_of_the_nearest_folder_that_exists(disk: Disk, tmp_path: pathlib.Path) -> None:
    room = disk.room(str(tmp_path / "x/y/z"))
    seen = os.statvfs(tmp_path)
    assert room.folder == str(tmp_path)
    assert room.free_bytes == pytest.approx(seen.f_bavail * seen.f_frsize, rel=0.05)
    assert room.problem == ""


def test_a_file_above_the_snapshot_is_a_problem(disk: Disk, tmp_path: pathlib.Path) -> None:
    (tmp_path / "x").write_text("")
    assert disk.room(str(tmp_path / "x/y")).problem == f"{tmp_path}/x is not a directory"


def test_a_read_only_file_system_is_a_problem(disk: Disk) -> None:
    # /proc/sys may be writable, but statvfs of a read-only mount is the same everywhere: take one from the mount table
    mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text(encoding="ascii").splitlines()]
    read_only = [line[1] for line in mounts if "ro" in line[3].split(",") and os.path.isdir(line[1])]
    if not read_only:
        assert disk.room("/").problem == ""
        return
    assert disk.room(f"{read_only[0]}/models").problem == f"the file system of {read_only[0]} is mounted read-only"


# -- the lock ---------------------------------------------------------------------------------------------------------

HOLDER = """
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX)
os.write(fd, b'{"pid": 4711}')
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(snapshot: pathlib.Path) -> t.Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, str(snapshot / ".modelfleet/lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_says_who_has_it(disk: Disk, snapshot: pathlib.Path) -> None:
    with disk.lock(str(snapshot)):
        assert json.loads((snapshot / ".modelfleet/lock").read_text())["pid"] == os.getpid()


def test_a_second_run_waits_and_then_names_the_first(
    disk: Disk, snapshot: pathlib.Path, holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(SnapshotError) as caught, disk.lock(str(snapshot)):
        pytest.fail("two holders")
    assert str(caught.value).startswith(
        f'Another run holds {snapshot} ({{"pid": 4711}}), for at least 0 s. Wait for its'
    )


def test_the_lock_of_a_killed_run_is_free(snapshot: pathlib.Path, holder: subprocess.Popen[str]) -> None:
    disk = Disk(Progress(ProgressFile(None)), 30, Stop())
    threading.Timer(0.3, lambda: holder.send_signal(signal.SIGKILL)).start()
    with disk.lock(str(snapshot)):
        assert holder.wait(5) == -signal.SIGKILL


def test_a_lock_that_went_away_with_the_snapshot_is_none(snapshot: pathlib.Path, holder: subprocess.Popen[str]) -> None:
    disk = Disk(Progress(ProgressFile(None)), 30, Stop())

    def remove_and_end() -> None:
        (snapshot / ".modelfleet/lock").unlink()
        holder.kill()

    threading.Timer(0.3, remove_and_end).start()
    with disk.lock(str(snapshot)):
        # the lock is one that others can find
        assert (snapshot / ".modelfleet/lock").exists()


# -- removing ---------------------------------------------------------------------------------------------------------


def test_a_snapshot_goes_whole_and_takes_an_empty_repository_along(disk: Disk, snapshot: pathlib.Path) -> None:
    (snapshot / "m").write_bytes(b"x")
    leftover = snapshot.parent / f".{snapshot.name}.removed"
    leftover.mkdir()
    other = snapshot.parent / ("b" * 40)
    other.mkdir()
    disk.remove(str(snapshot))
    assert os.listdir(snapshot.parent) == [other.name]
    disk.remove(str(other))
    assert not snapshot.parent.exists()


# -- progress ---------------------------------------------------------------------------------------------------------


def test_the_rate_is_that_of_the_last_seconds() -> None:
    now = [0.0]
    progress = Progress(ProgressFile(None), lambda: now[0])
    assert progress.rate(0) == 0.0
    for second in range(1, 101):
        now[0] = float(second)
        rate = progress.rate(1000 * min(second, 50))
    assert rate == 0.0
    now[0] = 101.0
    assert progress.rate(50_000 + 32_000) == pytest.approx(32_000 / 15, rel=0.1)


def test_trouble_with_the_progress_file_harms_nothing() -> None:
    Progress(ProgressFile("/nonexistent/progress")).show("list", "x")


def test_the_progress_file_is_private(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "progress"
    Progress(ProgressFile(str(path))).show("list", "listing acme/tiny main")
    assert json.loads(path.read_text()) == {
        "phase": "list",
        "message": "listing acme/tiny main",
        "pid": os.getpid(),
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
