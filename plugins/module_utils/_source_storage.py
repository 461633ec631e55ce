# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The file system that a server's checkpoint lies on, found without touching it.

A network file system whose server is gone blocks whoever asks it for anything. So only ``/proc`` is read: the links of
open files and the table of mapped ones, which the kernel writes from memory, and the mounts as the process sees them.
"""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import ProcSample, Storage

#: looks between two searches, as long as nothing is found
EVERY = 8
#: processes that are searched: those that read most
_SEARCHED = 2
#: of a table of mapped files; that of a loaded PyTorch has half a million
_MAPS_BYTES = 1 << 21

_WEIGHTS = re.compile(r"\.(?:safetensors|gguf|bin|pt|pth)$")
_PROGRAMS = re.compile(r"^/(?:usr|proc|sys|dev|memfd:)|/site-packages/")
_OCTAL = re.compile(r"\\([0-7]{3})")


def is_weights(path: str) -> bool:
    return bool(_WEIGHTS.search(path)) and not _PROGRAMS.search(path)


def model_argument(arguments: t.Sequence[str]) -> str:
    """The folder that a command line of ``vllm serve`` names; empty for a name on a Hub."""
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        following = arguments[index + 1] if index + 1 < len(arguments) else ""
        path = value if name == "--model" and equals else following if argument in ("serve", "--model") else ""
        if path.startswith("/"):
            return path
    return ""


def storage_of(path: str, mountinfo: str) -> t.Optional[Storage]:
    """The mount that ``path`` is below; of several at one place the last one counts, which hides the others."""
    best: t.Optional[Storage] = None
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if not separator or len(fields) < 6 or not kinds:
            continue
        mount = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and (best is None or len(mount) >= len(best.mount)):
            best = Storage(kinds[0], mount)
    return best


class StorageSource:
    """Searches now and then until it has found where a service's weights are, and anew for another service."""

    def __init__(self, root: str = "/proc") -> None:
        self._root = root
        self._found: t.Optional[Storage] = None
        self._of: frozenset[tuple[int, int]] = frozenset()
        self._looks = 0

    def read(self, procs: t.Sequence[ProcSample]) -> t.Optional[Storage]:
        alive = frozenset((proc.pid, proc.start_ticks) for proc in procs)
        if not alive & self._of:
            self._found, self._looks = None, 0
        self._of = alive
        if self._found is None and alive and self._looks % EVERY == 0:
            self._found = self._search(procs)
        self._looks += 1
        return self._found

    def _search(self, procs: t.Sequence[ProcSample]) -> t.Optional[Storage]:
        readers = sorted(procs, key=lambda proc: proc.read_bytes or 0, reverse=True)[:_SEARCHED]
        for proc in readers:
            path = next(filter(is_weights, self._open_files(proc.pid)), "")
            path = path or next(filter(is_weights, self._mapped_files(proc.pid)), "")
            found = storage_of(path, self._text(proc.pid, "mountinfo")) if path else None
            if found is not None:
                return found
        for proc in procs:
            path = model_argument(self._text(proc.pid, "cmdline").split("\0"))
            if path:
                return storage_of(path, self._text(proc.pid, "mountinfo"))
        return None

    def _open_files(self, pid: int) -> t.Iterator[str]:
        folder = f"{self._root}/{pid}/fd"
        try:
            names = os.listdir(folder)
        except OSError:
            return
        for name in names:
            try:
                yield os.readlink(f"{folder}/{name}")
            except OSError:
                continue

    def _mapped_files(self, pid: int) -> t.Iterator[str]:
        for line in self._text(pid, "maps").splitlines():
            _numbers, slash, path = line.partition("/")
            if slash:
                yield slash + path

    def _text(self, pid: int, name: str) -> str:
        try:
            with open(f"{self._root}/{pid}/{name}", encoding="utf-8", errors="replace") as handle:
                return handle.read(_MAPS_BYTES)
        except OSError:
            return ""


__all__ = ("StorageSource", "is_weights", "model_argument", "storage_of")
