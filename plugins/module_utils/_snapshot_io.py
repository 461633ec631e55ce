# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The world that hf_snapshot works on: the Hub, the disk, the lock, and the progress file."""

from __future__ import annotations

import collections
import contextlib
import errno
import fcntl
import http.client
import json
import os
import shutil
import socket
import stat
import threading
import time
import typing as t
import zlib

from ansible_collections.modelfleet.serving.plugins.module_utils._fetch import (
    Done,
    Fetcher,
    Job,
    Limiter,
    Meter,
    Policy,
    Stopped,
    StorageError,
    fetch_all,
    hasher,
    refusal,
    storage,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._hub import Hub, HubError
from ansible_collections.modelfleet.serving.plugins.module_utils._leftovers import Leftover, abandoned, unwanted
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    MANIFEST,
    OWN_DIR,
    Listing,
    Manifest,
    Record,
    RemoteFile,
    from_json,
    to_json,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._progress import ProgressFile
from ansible_collections.modelfleet.serving.plugins.module_utils._safetensors import (
    HeaderError,
    tensor_names,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot import (
    Look,
    Plan,
    Request,
    Room,
    SnapshotError,
)

BLOCK = 1 << 22
PARTIAL_DIR = f"{OWN_DIR}/partial"
#: seconds between two writes of the manifest while files arrive
RECORD_INTERVAL = 2.0
#: seconds of the past that the shown rate is an average of
RATE_WINDOW = 15.0


class Progress:
    """Keeps the progress file up to date. Trouble with that file never harms the work."""

    def __init__(self, file: ProgressFile, clock: t.Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._samples: collections.deque[tuple[float, int]] = collections.deque()
        self._last = float("-inf")

    def show(self, phase: str, message: str = "", force: bool = True, **numbers: t.Any) -> None:
        now = self._clock()
        if not force and now - self._last < 0.5:
            return
        self._last = now
        with contextlib.suppress(OSError):
            self._file.write({"phase": phase, "message": message, **numbers})

    def rate(self, moved: int) -> float:
        """Bytes a second lately, when ``moved`` were moved in all."""
        now = self._clock()
        self._samples.append((now, moved))
        while len(self._samples) > 2 and now - self._samples[0][0] > RATE_WINDOW:
            self._samples.popleft()
        began, before = self._samples[0]
        return (moved - before) / (now - began) if now > began else 0.0

    def restart(self) -> None:
        self._samples.clear()


class Disk:
    """What of :class:`SnapshotIO` needs no network."""

    def __init__(self, progress: Progress, lock_timeout: float, stop: threading.Event) -> None:
        self._progress = progress
        self._lock_timeout = lock_timeout
        self._stop = stop

    def manifest(self, snapshot: str) -> Manifest | None:
        try:
            with open(f"{snapshot}/{MANIFEST}", encoding="utf-8") as handle:
                return from_json(handle.read())
        except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
            return None
        except OSError as exc:
            raise SnapshotError(f"Reading {snapshot}/{MANIFEST} failed: {exc.strerror}.") from exc

    def save(self, snapshot: str, manifest: Manifest) -> None:
        path = f"{snapshot}/{MANIFEST}"

        def write() -> None:
            with open(f"{path}.new", "w", encoding="utf-8") as handle:
                handle.write(to_json(manifest))
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(f"{path}.new", path)

        storage(path, write)

    def look(self, path: str) -> Look | None:
        try:
            seen = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise SnapshotError(f"Looking at {path} failed: {exc.strerror}.") from exc
        kinds = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "directory"}
        return Look(kinds.get(stat.S_IFMT(seen.st_mode), "special file"), seen.st_size, seen.st_mtime_ns, seen.st_ino)

    def digests(self, snapshot: str, files: t.Sequence[RemoteFile]) -> dict[str, str]:
        """Hash ``files`` on all cores; hashlib lets go of the interpreter while it works."""
        found: dict[str, str] = {}
        meter = Meter()
        waiting = collections.deque(sorted(files, key=lambda file: -file.size))

        def work() -> None:
            while not self._stop.is_set():
                try:
                    file = waiting.popleft()
                except IndexError:
                    return
                found[file.path] = _digest(f"{snapshot}/{file.path}", file, meter, self._stop)

        threads = [threading.Thread(target=work, daemon=True) for _number in range(min(cores(), len(files)))]
        self._progress.restart()
        for thread in threads:
            thread.start()
        total = sum(file.size for file in files)
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
                self._show("verify", meter, len(found), len(files), 0, total, meter.downloaded)
        if self._stop.is_set():
            raise Stopped("stopped while files were verified; nothing was changed.")
        return found

    def header_problem(self, path: str) -> str:
        try:
            with open(path, "rb") as handle:
                tensor_names(handle, os.fstat(handle.fileno()).st_size)
        except HeaderError as exc:
            return str(exc)
        except OSError as exc:
            return f"cannot be read: {exc.strerror}"
        return ""

    def read_text(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8", errors="replace") as handle:
                return handle.read()
        except OSError as exc:
            raise SnapshotError(f"Reading {path} failed: {exc.strerror}.") from exc

    def partial_size(self, snapshot: str, file: RemoteFile) -> int:
        seen = self.look(partial_path(snapshot, file))
        return min(seen.size, file.size) if seen is not None and seen.kind == "file" else 0

    def room(self, snapshot: str) -> Room:
        folder = snapshot
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        try:
            seen = os.statvfs(folder)
        except OSError as exc:
            return Room(folder, 0, None, f"{folder}: {exc.strerror}")
        problem = ""
        if not os.path.isdir(folder):
            problem = f"{folder} is not a directory"
        elif seen.f_flag & os.ST_RDONLY:
            problem = f"the file system of {folder} is mounted read-only"
        elif not os.access(folder, os.W_OK | os.X_OK):
            problem = f"user id {os.geteuid()} may not write into {folder}"
        free_inodes = seen.f_favail if seen.f_files else None
        return Room(folder, seen.f_bavail * seen.f_frsize, free_inodes, problem)

    @contextlib.contextmanager
    def lock(self, snapshot: str) -> t.Iterator[None]:
        """One writer a snapshot. lockf, since flock is none on Lustre and local on GPFS."""
        path = f"{snapshot}/{OWN_DIR}/lock"
        began = time.monotonic()
        while True:
            storage(path, lambda: os.makedirs(os.path.dirname(path), exist_ok=True))
            fd = storage(path, lambda: os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
            try:
                if self._try_lock(fd, path):
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
                    yield
                    return
                owner = os.pread(fd, 200, 0).decode("utf-8", "replace")
            finally:
                os.close(fd)
            waited = time.monotonic() - began
            if waited >= self._lock_timeout or self._stop.is_set():
                raise SnapshotError(
                    f"Another run holds {snapshot} ({owner or 'it did not say who'}), for at least {waited:.0f} s. "
                    "Wait for its end, or end it; what it has downloaded is kept."
                )
            self._progress.show("lock", f"waiting for another run: {owner}")
            self._stop.wait(min(1.0, self._lock_timeout))

    @staticmethod
    def _try_lock(fd: int, path: str) -> bool:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            if exc.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise SnapshotError(
                f"Locking {path} failed: {exc.strerror}. Does its file system (NFS, Lustre) have locks switched on?"
            ) from exc
        # a run that removed the snapshot removed the lock that we waited for
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(fd), os.stat(path))
        return False

    def now(self) -> int:
        return int(time.time())

    def remove(self, snapshot: str) -> None:
        """Out of sight in one step, so that a run killed in between leaves no half of a snapshot."""
        doomed = _doomed(snapshot)

        def remove() -> None:
            if os.path.lexists(doomed):
                shutil.rmtree(doomed)
            os.rename(snapshot, doomed)
            shutil.rmtree(doomed)

        storage(snapshot, remove)
        # the last snapshot of a repository takes the repository's folder with it
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(snapshot))

    def half_removed(self, snapshot: str) -> tuple[Leftover, ...]:
        doomed = _doomed(snapshot)
        if not os.path.lexists(doomed):
            return ()
        paths = [f"{folder}/{name}" for folder, _folders, names in os.walk(doomed) for name in names]
        return (Leftover(doomed, sum(os.lstat(path).st_size for path in paths), len(paths)),)

    def clean(self, snapshot: str) -> None:
        shutil.rmtree(f"{snapshot}/{PARTIAL_DIR}", ignore_errors=True)

    def leftovers(self, plan: Plan) -> tuple[Leftover, ...]:
        wanted = [os.path.basename(partial_path(plan.snapshot, step.file)) for step in plan.transfers]
        published = {file.path for file in plan.listing.files}
        return (
            *unwanted(f"{plan.snapshot}/{PARTIAL_DIR}", wanted),
            *abandoned(plan.snapshot, published, time.time()),
        )

    def discard(self, leftovers: t.Iterable[Leftover]) -> None:
        for item in leftovers:
            storage(item.path, lambda path=item.path: _discard(path))  # type: ignore[misc]

    def read_notes(self, snapshot: str, paths: t.Iterable[str]) -> dict[str, str]:
        found = {}
        for path in paths:
            with contextlib.suppress(OSError), open(f"{snapshot}/{path}", encoding="utf-8", errors="replace") as handle:
                found[path] = handle.read()
        return found

    def write_notes(self, snapshot: str, notes: t.Mapping[str, str]) -> None:
        for path, text in notes.items():
            storage(path, lambda path=f"{snapshot}/{path}", text=text: _write_note(path, text))  # type: ignore[misc]

    def _show(
        self,
        phase: str,
        meter: Meter,
        files_done: int,
        files_total: int,
        bytes_before: int,
        bytes_total: int,
        moved: int,
    ) -> None:
        """``bytes_before``: those in place without this work; ``moved``: what the rate is made of."""
        current = dict(meter.current)
        done = min(bytes_total, bytes_before + sum(current.values()))
        rate = self._progress.rate(moved)
        finished = {item.job.file.path for item in list(meter.finished)}
        self._progress.show(
            phase,
            meter.message,
            force=False,
            files_done=files_done,
            files_total=files_total,
            bytes_done=done,
            bytes_total=bytes_total,
            bytes_downloaded=meter.downloaded if phase == "download" else 0,
            rate_bytes_s=round(rate),
            eta_s=round((bytes_total - done) / rate) if rate > 0 else None,
            retries=meter.retries,
            current=[path for path in sorted(current) if path not in finished][:16],
        )


class SnapshotWorld(Disk):
    """The real :class:`SnapshotIO`."""

    def __init__(
        self,
        hub: Hub,
        progress: Progress,
        policy: Policy,
        workers: int,
        max_rate: int,
        lock_timeout: float,
        stop: threading.Event,
    ) -> None:
        super().__init__(progress, lock_timeout, stop)
        self._hub = hub
        self._policy = policy
        self._workers = workers
        self._max_rate = max_rate

    def listing(self, repo_id: str, revision: str) -> Listing:
        self._progress.show("list", f"listing {repo_id} {revision}")
        return self._hub.listing(repo_id, revision)

    def check_access(self, repo_id: str, commit: str, path: str) -> None:
        job = Job(RemoteFile(path, 0, "", ""), self._hub.file_url(repo_id, commit, path), "", "")
        client = self._hub.http()
        try:
            answer = client.head(job.url)
        except (OSError, http.client.HTTPException):
            # the transfer has its own retries, and its own words for a Hub that is gone
            return
        finally:
            client.close()
        if answer.status in (401, 403, 404):
            raise HubError(refusal(job, answer))

    def transfer(
        self, plan: Plan, request: Request, on_records: t.Callable[[t.Mapping[str, Record]], None]
    ) -> tuple[int, int]:
        meter = Meter()
        limiter = Limiter(self._max_rate, time.monotonic, self._stop.wait)
        jobs = [self._job(plan, request, step.file) for step in plan.transfers]
        for job in jobs:
            _make_folders(plan.snapshot, job)
        total = sum(step.file.size for step in plan.steps)
        before = total - sum(job.file.size for job in jobs)
        recorded = 0
        last = time.monotonic()

        def tick(final: bool = False) -> None:
            nonlocal recorded, last
            finished = list(meter.finished)
            if len(finished) > recorded and (final or time.monotonic() - last > RECORD_INTERVAL):
                on_records({done.job.file.path: self._record(done) for done in finished[recorded:]})
                recorded, last = len(finished), time.monotonic()
            kept = len(plan.steps) - len(jobs)
            self._show("download", meter, kept + len(finished), len(plan.steps), before, total, meter.downloaded)

        def make_fetcher() -> Fetcher:
            return Fetcher(self._hub.http(), self._policy, meter, limiter, self._stop)

        self._progress.restart()
        try:
            fetch_all(jobs, self._workers, make_fetcher, self._stop, tick)
        finally:
            # also on the way out of a failure: what is whole need not be hashed again. The failure matters more than
            # a disk too full for the record
            with contextlib.suppress(StorageError):
                tick(final=True)
        return meter.downloaded, meter.retries

    def _job(self, plan: Plan, request: Request, file: RemoteFile) -> Job:
        url = self._hub.file_url(request.repo_id, plan.listing.commit, file.path)
        return Job(file, url, partial_path(plan.snapshot, file), f"{plan.snapshot}/{file.path}")

    def _record(self, done: Done) -> Record:
        return Record(done.mtime_ns, done.inode, self.now())


def partial_path(snapshot: str, file: RemoteFile) -> str:
    """Where a file grows: named by its content, and by its path since two files may have the same content."""
    return f"{snapshot}/{PARTIAL_DIR}/{file.digest}-{zlib.crc32(file.path.encode('utf-8', 'surrogatepass')):08x}"


def _doomed(snapshot: str) -> str:
    """Where a snapshot is while it is being removed."""
    return f"{os.path.dirname(snapshot)}/.{os.path.basename(snapshot)}.removed"


def _discard(path: str) -> None:
    """Remove a leftover, unless somebody else just did."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _write_note(path: str, text: str) -> None:
    """In one step; not synced, since a note that is lost is written again."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.new", "w", encoding="utf-8") as handle:
        handle.write(text)
    os.replace(f"{path}.new", path)


def _make_folders(snapshot: str, job: Job) -> None:
    storage(job.partial, lambda: os.makedirs(os.path.dirname(job.partial), exist_ok=True))
    folder = snapshot
    for part in job.file.path.split("/")[:-1]:
        folder = f"{folder}/{part}"
        if os.path.islink(folder):
            raise SnapshotError(
                f"{folder} is a link, so that {job.file.path} would leave the snapshot. Remove the link and run again."
            )
        storage(folder, lambda path=folder: os.makedirs(path, exist_ok=True))  # type: ignore[misc]


def _digest(path: str, file: RemoteFile, meter: Meter, stop: threading.Event) -> str:
    """The digest of a file, or, like one that can't be right, what keeps it from being read."""
    content = hasher(file)
    buffer = memoryview(bytearray(BLOCK))
    at = 0
    try:
        with open(path, "rb", buffering=0) as handle:
            while not stop.is_set():
                count = handle.readinto(buffer)
                if not count:
                    break
                content.update(buffer[:count])
                at += count
                meter.at(file.path, at, count)
    except OSError as exc:
        return f"nothing: {exc.strerror}"
    return str(content.hexdigest())


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


__all__ = ("Disk", "Progress", "SnapshotWorld", "cores", "partial_path")
