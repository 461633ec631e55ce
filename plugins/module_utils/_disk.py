# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The disk under a snapshot: what lies there and what it hashes to, manifest and lock, notes and leftovers."""

from __future__ import annotations

import collections
import contextlib
import errno
import fcntl
import json
import os
import shutil
import socket
import stat
import threading
import time
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._hashing import cores, hasher
from ansible_collections.modelfleet.serving.plugins.module_utils._leftovers import Leftover, abandoned, unwanted
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    MANIFEST,
    OWN_DIR,
    Manifest,
    RemoteFile,
    from_json,
    to_json,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._mounts import unmounted
from ansible_collections.modelfleet.serving.plugins.module_utils._partial import PARTIAL_DIR, partial_path
from ansible_collections.modelfleet.serving.plugins.module_utils._safetensors import (
    HeaderError,
    tensor_names,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_plan import (
    Look,
    Plan,
    Room,
    SnapshotError,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_progress import Progress
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import (
    Meter,
    Stop,
    Stopped,
    storage,
)

BLOCK = 1 << 22
#: behind the name of a snapshot that is being removed
REMOVED = ".removed"


class Disk:
    """What of :class:`SnapshotIO` needs no network."""

    def __init__(self, progress: Progress, lock_timeout: float, stop: Stop) -> None:
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

        def show() -> None:
            self._progress.show_work("verify", meter, len(found), len(files), 0, total, meter.downloaded)

        # at the beginning too, which tells what has begun
        show()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)
                show()
        if self._stop.is_set():
            raise Stopped(f"{self._stop.reason} while files were verified; nothing was changed.")
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
        missing = unmounted(snapshot)
        if missing:
            problem = f"{missing.folder} should be a mount, by {missing.source}, but nothing is mounted there"
        elif not os.path.isdir(folder):
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

    def show_life(self, snapshot: str) -> None:
        """The holder of the lock gets on: others that want to know look at the lock's time."""
        with contextlib.suppress(OSError):
            os.utime(f"{snapshot}/{OWN_DIR}/lock")

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


def _doomed(snapshot: str) -> str:
    """Where a snapshot is while it is being removed."""
    return f"{os.path.dirname(snapshot)}/.{os.path.basename(snapshot)}{REMOVED}"


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


def _digest(path: str, file: RemoteFile, meter: Meter, stop: Stop) -> str:
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


__all__ = ("REMOVED", "Disk")
