# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Trees of links and small files, changed in one step each: the real side of ``_quant_config.Files``."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import shutil
import stat
import typing as t

#: what is put behind the name of a file that was changed in place
BACKUP_SUFFIX = ".modelfleet-orig"

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class Tree(t.NamedTuple):
    """A folder's content, by path relative to it: targets of links, and bytes of files."""

    links: t.Mapping[str, str]
    data: t.Mapping[str, bytes]


class Found(t.NamedTuple):
    """What lies in a folder, by path relative to it. ``links`` has targets as written, dangling or not."""

    links: t.Mapping[str, str]
    files: frozenset[str]


def _sibling(path: str, role: str) -> str:
    # fixed names, so that the next run finds and removes what a killed one left
    parent, name = os.path.split(path)
    return os.path.join(parent, f".{name}.modelfleet-{role}")


def _discard(path: str) -> None:
    if os.path.lexists(path):
        shutil.rmtree(path)


def _like(path: str, model: str) -> None:
    """Give ``path`` the mode and, where allowed, the owner of ``model``: who could read that can read this."""
    wanted = os.stat(model)
    os.chmod(path, stat.S_IMODE(wanted.st_mode))
    with contextlib.suppress(PermissionError):
        os.chown(path, wanted.st_uid, wanted.st_gid)


def _exchange(one: str, other: str) -> bool:
    """Swap two names in one step. False where kernel, C library or file system can't."""
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None:
        return False
    result = renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return bool(result == 0)


class LocalFiles:
    """The file system of this host. Methods raise OSError."""

    def real(self, path: str) -> str:
        return os.path.realpath(path)

    def is_dir(self, path: str) -> bool:
        """A folder itself, not a link to one."""
        return os.path.isdir(path) and not os.path.islink(path)

    def exists(self, path: str) -> bool:
        """Also for a link to nowhere."""
        return os.path.lexists(path)

    def resolves(self, path: str) -> bool:
        return os.path.exists(path)

    def read(self, path: str) -> bytes | None:
        """The content, or None where there is no such file."""
        try:
            return pathlib.Path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def found(self, root: str) -> Found:
        """Everything below ``root`` that is not a folder. Links to folders are links."""
        links: dict[str, str] = {}
        files: set[str] = set()
        for folder, folders, names in os.walk(root):
            for name in (*folders, *names):
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    links[os.path.relpath(path, root)] = os.readlink(path)
                elif name in names:
                    files.add(os.path.relpath(path, root))
        return Found(links, frozenset(files))

    def put_tree(self, path: str, tree: Tree, model: str) -> None:
        """Make ``path`` hold exactly ``tree``, in one step, with modes and owners as of the same files in ``model``."""
        new, old = _sibling(path, "new"), _sibling(path, "old")
        self._make_parents(os.path.dirname(path), model)
        for leftover in (new, old):
            _discard(leftover)
        self._build(new, tree, model)
        if not os.path.lexists(path):
            os.rename(new, path)
        elif _exchange(new, path):
            _discard(new)
        else:
            os.rename(path, old)
            os.rename(new, path)
            _discard(old)

    def remove_tree(self, path: str) -> None:
        """Take ``path`` away in one step, then clear it up."""
        old = _sibling(path, "old")
        _discard(old)
        os.rename(path, old)
        _discard(old)
        _discard(_sibling(path, "new"))

    def replace(self, path: str, content: bytes) -> None:
        """Change the content of ``path`` in one step, keeping the file as published beside it the first time."""
        backup, new = path + BACKUP_SUFFIX, path + ".modelfleet-new"
        if not os.path.lexists(backup):
            self._keep(path, backup)
        self._write(new, content)
        _like(new, path)
        os.replace(new, path)

    def restore(self, path: str) -> None:
        """Give ``path`` its backup back."""
        os.replace(path + BACKUP_SUFFIX, path)

    def _keep(self, path: str, backup: str) -> None:
        try:
            # a second name for the same file or link: byte-identical, and its time and inode stay as verified
            os.link(path, backup, follow_symlinks=False)
        except OSError:
            # file systems without hard links
            copy = backup + ".modelfleet-new"
            shutil.copy2(path, copy)
            os.replace(copy, backup)

    def _write(self, path: str, content: bytes) -> None:
        with open(path, "wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())

    def _make_parents(self, path: str, model: str) -> None:
        if os.path.isdir(path):
            return
        self._make_parents(os.path.dirname(path), model)
        os.mkdir(path)
        _like(path, model)

    def _build(self, root: str, tree: Tree, model: str) -> None:
        os.mkdir(root)
        _like(root, model)
        for relative in sorted({*tree.links, *tree.data}):
            path = os.path.join(root, relative)
            self._make_parents(os.path.dirname(path), model)
            if relative in tree.links:
                os.symlink(tree.links[relative], path)
                continue
            self._write(path, tree.data[relative])
            published = os.path.join(model, relative)
            _like(path, published if os.path.exists(published) else os.path.join(model, "config.json"))


__all__ = ("BACKUP_SUFFIX", "Found", "LocalFiles", "Tree")
