# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The host that snapshot_share works on: systemd, network interfaces, and the archive that the server runs from."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import io
import json
import os
import re
import shutil
import socket
import stat
import struct
import sys
import typing as t
import zipfile

from ansible_collections.modelfleet.serving.plugins.module_utils import _share_server
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import MANIFEST, Manifest, from_json
from ansible_collections.modelfleet.serving.plugins.module_utils._share import (
    Running,
    ShareError,
    Wanted,
    unit_properties,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._source_unit import RunCommand, parse_show

_PACKAGE = "ansible_collections.modelfleet.serving.plugins.module_utils"
_IMPORT = re.compile(rf"^from ({re.escape(_PACKAGE)}\.\w+) import", re.M)
_MAIN = f"import sys\nfrom {_share_server.__name__} import main\nsys.exit(main(sys.argv[1:]))\n"
RUN_FOLDER = "/run/modelfleet-share"
_SIOCGIFADDR = 0x8915
#: addresses set aside for documentation: nothing is sent there, the question is which way it would go
_SOMEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def server_archive() -> bytes:
    """The server as one file that Python runs. Made from the sources wherever this module itself came from, which on
    a host is Ansible's payload, gone when the task is over."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:

        def add(name: str, text: str) -> None:
            # a fixed time: the same code gives the same bytes
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text)

        add("__main__.py", _MAIN)
        folder = ""
        for part in _PACKAGE.split("."):
            folder += f"{part}/"
            add(f"{folder}__init__.py", "")
        for name, source in sorted(_sources(_share_server.__name__).items()):
            add(f"{name.replace('.', '/')}.py", source)
    return buffer.getvalue()


def _sources(name: str) -> dict[str, str]:
    """The sources of a module and of all of this collection that it imports, by name."""
    found: dict[str, str] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = _source(name)
            waiting.extend(_IMPORT.findall(found[name]))
    return found


def _source(name: str) -> str:
    # any loader of Python code can do this, that of Ansible's payload (zipimport) too; Ansible's own gives bytes
    loader: t.Any = getattr(importlib.util.find_spec(name), "loader", None)
    source: str | bytes | None = loader.get_source(name) if loader is not None else None
    if source is None:
        raise ShareError(f"The source of {name}, which the share runs from, can't be read here.")
    return source.decode("utf-8") if isinstance(source, bytes) else source


def interpreter_paths() -> list[str]:
    """The folders that this interpreter consists of, wherever a tool has put it."""
    starts = (sys.prefix, sys.base_prefix, os.path.dirname(os.path.realpath(sys.executable)))
    return [path for start in starts for path in (start, os.path.realpath(start))]


def top_folders() -> list[str]:
    """The folders of the root folder, without links to others."""
    return [entry.name for entry in os.scandir("/") if entry.is_dir(follow_symlinks=False)]


class Host:
    """The real :class:`_share.ShareIO`."""

    def __init__(self, run_command: RunCommand) -> None:
        self._run_command = run_command
        self._archive = server_archive()

    def problem(self) -> str:
        if not os.path.isdir("/run/systemd/system"):
            return "systemd does not run this host, and a share is a unit of systemd."
        if os.geteuid() != 0:
            return f"User id {os.geteuid()} may not start units of the system: set become."
        return ""

    def running(self, unit: str) -> Running:
        properties = "--property=ActiveState,StatusText"
        status, out, err = self._run_command(["systemctl", "show", properties, "--", unit])
        if status != 0:
            raise ShareError(f"systemctl show {unit} failed: {(err or out).strip()}")
        shown = parse_show(out)
        return Running(shown.get("ActiveState", ""), shown.get("StatusText", ""))

    def own_address(self, interface: str) -> str:
        return _interface_address(interface) if interface else _default_address()

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def code_digest(self) -> str:
        return hashlib.sha256(self._archive + sys.executable.encode()).hexdigest()

    def start(self, wanted: Wanted, config: t.Mapping[str, t.Any]) -> None:
        folder = f"{RUN_FOLDER}/{wanted.name}"
        try:
            self._write(folder, config)
            self._systemd_run(wanted, folder)
        except OSError as exc:
            raise ShareError(f"Preparing {folder} failed: {exc.strerror}.") from exc
        finally:
            # a server that listens has read it all
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                os.rmdir(RUN_FOLDER)

    def _write(self, folder: str, config: t.Mapping[str, t.Any]) -> None:
        os.makedirs(RUN_FOLDER, mode=0o700, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder, 0o700)
        for name, content in (("share.pyz", self._archive), ("config.json", json.dumps(dict(config)).encode())):
            fd = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as handle:
                handle.write(content)

    def _systemd_run(self, wanted: Wanted, folder: str) -> None:
        argv = ["systemd-run", "--quiet", "--collect", f"--unit={wanted.unit}"]
        argv.append(f"--description=Share of the snapshots in {wanted.root}")
        for item in unit_properties(wanted.lifetime, top_folders(), [*interpreter_paths(), wanted.root, folder]):
            argv += ["-p", item]
        # -S: the server needs nothing but the standard library
        argv += ["--", sys.executable, "-I", "-S", f"{folder}/share.pyz", f"{folder}/config.json"]
        status, out, err = self._run_command(argv)
        if status != 0:
            said = self._run_command(["journalctl", "-u", wanted.unit, "-n", "5", "-o", "cat", "--no-pager", "-q"])[1]
            raise ShareError(
                f"Starting {wanted.unit} failed: {(err or out).strip() or f'status {status}'} "
                f"Its last lines: {' / '.join(said.split(chr(10))).strip(' /') or 'none'}"
            )

    def stop(self, unit: str) -> None:
        status, out, err = self._run_command(["systemctl", "stop", "--", unit])
        if status != 0 and self.running(unit).active_state == "active":
            raise ShareError(f"systemctl stop {unit} failed: {(err or out).strip()}")

    def snapshots(self, root: str, repo_id: str) -> list[dict[str, t.Any]]:
        top = f"{root.rstrip('/')}/snapshots"
        found = []
        for repository in [repo_id.replace("/", "--")] if repo_id else _names(top):
            for commit in _names(f"{top}/{repository}"):
                manifest = _manifest(f"{top}/{repository}/{commit}")
                if manifest is not None and manifest.listing.commit == commit:
                    found.append(_holding(f"{top}/{repository}/{commit}", manifest))
        return found


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _manifest(snapshot: str) -> Manifest | None:
    try:
        with open(f"{snapshot}/{MANIFEST}", encoding="utf-8") as handle:
            return from_json(handle.read())
    except (OSError, UnicodeDecodeError):
        return None


def _holding(snapshot: str, manifest: Manifest) -> dict[str, t.Any]:
    """What of a snapshot could be shared now: verified files that nobody touched since."""
    held = []
    for file in manifest.listing.files:
        record = manifest.records.get(file.path)
        with contextlib.suppress(OSError):
            seen = os.lstat(f"{snapshot}/{file.path}")
            marks = (seen.st_mtime_ns, seen.st_ino, seen.st_size)
            if record and stat.S_ISREG(seen.st_mode) and marks == (record.mtime_ns, record.inode, file.size):
                held.append(file)
    return {
        "repo_id": manifest.repo_id,
        "commit": manifest.listing.commit,
        # of the patterns of the run that wrote it
        "complete": manifest.complete and len(held) == len(manifest.records),
        "files": len(held),
        "bytes": sum(file.size for file in held),
    }


def _interface_address(interface: str) -> str:
    """The first IPv4 address of an interface, or else its first IPv6 address that is not for this link alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel, contextlib.suppress(OSError):
        request = struct.pack("16s240x", interface.encode()[:15])
        return socket.inet_ntoa(fcntl.ioctl(channel.fileno(), _SIOCGIFADDR, request)[20:24])
    with contextlib.suppress(OSError), open("/proc/net/if_inet6", encoding="ascii") as handle:
        for digits, _index, _prefix, scope, _flags, name in (line.split() for line in handle):
            if name == interface and scope == "00":
                return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
    raise ShareError(f"interface {interface} has no address. The host has: {', '.join(_names('/sys/class/net'))}.")


def _default_address() -> str:
    for family, address in _SOMEWHERE:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as channel:
            channel.connect((address, 9))
            return str(channel.getsockname()[0])
    raise ShareError("The host has no default route that would tell its address: set address or interface.")


__all__ = ("Host", "interpreter_paths", "server_archive", "top_folders")
