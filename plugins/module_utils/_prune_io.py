# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What a host has of snapshots, views, releases, and processes that use them."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import time
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._disk import REMOVED, Disk
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import OWN_DIR
from ansible_collections.modelfleet.serving.plugins.module_utils._names import COMMIT
from ansible_collections.modelfleet.serving.plugins.module_utils._prune import PruneError, Release, Snapshot, View
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import storage

PROC = "/proc"
UNITS = ("/etc/systemd/system/*.service", "/etc/systemd/system/*.service.d/*.conf", "/run/systemd/system/*.service")
#: what may follow a path in a command line without making another path of it
_END = r"(?![\w.-])"


class Host:
    """The real :class:`_prune.PruneIO`."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def real(self, path: str) -> str:
        return os.path.realpath(path)

    def snapshots(self, root: str) -> list[Snapshot]:
        found = [
            Snapshot(path, "", "", _size(path), False, False, float("inf"))
            for path in sorted(glob.glob(f"{glob.escape(root)}/snapshots/*/.*{REMOVED}"))
        ]
        for path in sorted(glob.glob(f"{glob.escape(root)}/snapshots/*/*")):
            commit = os.path.basename(path)
            if COMMIT.fullmatch(commit) and os.path.isdir(path) and not os.path.islink(path):
                manifest = self._disk.manifest(path)
                folder = os.path.basename(os.path.dirname(path))
                repo_id = manifest.repo_id if manifest else folder.replace("--", "/", 1)
                complete = manifest is not None and manifest.complete
                found.append(Snapshot(path, repo_id, commit, _size(path), complete, _busy(path), _age(path)))
        return found

    def views(self, root: str) -> list[View]:
        paths = [
            path
            for path in sorted(glob.glob(f"{glob.escape(root)}/views/*/*"))
            if os.path.isdir(path) and not os.path.islink(path)
        ]
        return [View(path, _targets(path)) for path in paths]

    def releases(self, folder: str) -> list[Release]:
        found = []
        for path in sorted(glob.glob(f"{glob.escape(folder)}/*/*.json")):
            number = os.path.splitext(os.path.basename(path))[0]
            if number.isdigit():
                current = _link(f"{os.path.dirname(path)}/current") == os.path.basename(path)
                found.append(_release(path, int(number), current))
        return found

    def users(self, names: t.Mapping[str, t.Collection[str]]) -> dict[str, str]:
        """By command line, working directory, open and mapped files, and by the files of units that may not run now."""
        found: dict[str, str] = {}
        for user, text in _mentions():
            for path, known in names.items():
                if path not in found and any(_mentioned(name, text) for name in known):
                    found[path] = user
        return found

    def remove_view(self, path: str) -> None:
        storage(path, lambda: shutil.rmtree(path))
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(path))

    def remove_snapshot(self, path: str) -> None:
        if path.endswith(REMOVED):
            storage(path, lambda: shutil.rmtree(path))
            return
        with self._disk.lock(path):
            self._disk.remove(path)


def _mentioned(path: str, text: str) -> bool:
    return path in text and re.search(re.escape(path) + _END, text) is not None


def _size(path: str) -> int:
    total = 0
    for folder, _folders, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{folder}/{name}").st_size
    return total


def _age(snapshot: str) -> float:
    """Hours. The files themselves may have their times from elsewhere."""
    paths = [snapshot, *glob.glob(f"{glob.escape(snapshot)}/{OWN_DIR}/**", recursive=True)]
    newest = 0.0
    for path in paths:
        with contextlib.suppress(OSError):
            newest = max(newest, os.lstat(path).st_mtime)
    return (time.time() - newest) / 3600


def _busy(snapshot: str) -> bool:
    """Whether a run holds the lock, which is not made if it is not there."""
    try:
        fd = os.open(f"{snapshot}/{OWN_DIR}/lock", os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _targets(view: str) -> frozenset[str]:
    found = set()
    for folder, folders, names in os.walk(view):
        for name in (*folders, *names):
            target = _link(f"{folder}/{name}")
            if target:
                found.add(os.path.realpath(os.path.join(folder, target)))
    return frozenset(found)


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _release(path: str, number: int, current: bool) -> Release:
    try:
        with open(path, encoding="utf-8") as handle:
            model = json.load(handle)["model"]
        return Release(
            os.path.basename(os.path.dirname(path)),
            number,
            current,
            os.path.realpath(model["snapshot"]) if model.get("snapshot") else "",
            str(model.get("commit") or ""),
            os.path.realpath(model["view"]) if model.get("view") else "",
        )
    except OSError as exc:
        raise PruneError(f"Reading the release record {path} failed: {exc.strerror}. Nothing was removed.") from exc
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise PruneError(
            f"The release record {path} is damaged, so that what it uses is not known. Nothing was removed. "
            "Repair or remove the record."
        ) from exc


def _mentions() -> t.Iterator[tuple[str, str]]:
    """Who uses something, and a text with the paths of it."""
    for name in os.listdir(PROC):
        if name.isdigit() and int(name) != os.getpid():
            yield from _process(name)
    for pattern in UNITS:
        for path in sorted(glob.glob(pattern)):
            yield f"unit file {path}", _read(path)


def _process(pid: str) -> t.Iterator[tuple[str, str]]:
    folder = f"{PROC}/{pid}"
    user = f"process {pid} ({_read(f'{folder}/comm').strip()})"
    yield user, _read(f"{folder}/cmdline").replace("\0", "\n")
    links = [_link(f"{folder}/cwd")]
    with contextlib.suppress(OSError):
        links += [_link(f"{folder}/fd/{number}") for number in os.listdir(f"{folder}/fd")]
    yield user, "\n".join(links)
    yield user, _read(f"{folder}/maps")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        # a process that has ended, or one of another user
        return ""


__all__ = ("Host",)
