# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where benches work: a folder in memory, a local Hub, and commands as users and Ansible run them."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import typing as t

from hub.control import HubControl

from benchkit.payload import build_payload
from benchkit.process import CommandFailed, Finished, measure

TOP = pathlib.Path(__file__).resolve().parents[3]
LAB_HUB = TOP / "tests/lab/hub"


class Workshop:
    """Use as a context manager; everything made in it is gone afterwards."""

    def __init__(self, parent: pathlib.Path) -> None:
        self._parent = parent
        self.bin = pathlib.Path(sys.executable).parent
        self._trusted: dict[str, str] = {}
        #: processes that work for the contestants
        self.servers: list[int] = []

    def __enter__(self) -> Workshop:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="modelfleet-bench-", dir=self._parent))
        return self

    def __exit__(self, *exc: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def trust(self, certificate: pathlib.Path | None) -> None:
        """Have contestants trust this certificate alone, or what the machine trusts."""
        names = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE")
        self._trusted = {name: str(certificate) for name in names} if certificate else {}

    def warm(self, size: int) -> None:
        """Use so much memory once: a virtual machine gets it from its host then, at the first one's cost."""
        path = self.folder / "warm"
        with path.open("wb") as handle:
            for _block in range(-(-size // (1 << 24))):
                handle.write(bytes(1 << 24))
        path.unlink()

    def clear(self, *names: str) -> None:
        """Remove what an earlier run of a contestant left."""
        for name in names:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of every contestant: nothing of the user's own but the way to programs.

        Byte code is kept beside the bench, so that no contestant pays for compiling a library in every run.
        """
        return {
            "PATH": f"{self.bin}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self.folder / "home"),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.folder),
            "PYTHONPYCACHEPREFIX": str(self.folder / "pycache"),
            "HF_HOME": str(self.folder / "home/hf"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_UPDATE_CHECK": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "NO_PROXY": "*",
            **self._trusted,
            **more,
        }

    def command(self, *argv: str, **env: str) -> Finished:
        """Run and measure a command."""
        return measure(argv, self.environment(**env))

    def module(self, name: str, arguments: t.Mapping[str, t.Any]) -> t.Callable[[], Finished]:
        """A module as Ansible runs it on a host: the very file that Ansible sends there, in its own process.

        The module's result is checked; its ``elapsed_s``, where it has one, is the figure "module" of the sample.
        """
        argv = self.payload(name, arguments)

        def run() -> Finished:
            done = self.command(*argv)
            result = json.loads(done.out)
            if result.get("failed"):
                raise CommandFailed(f"{name} failed: {result.get('msg')}")
            figures = {"module": result["elapsed_s"]} if "elapsed_s" in result else {}
            return done._replace(sample=done.sample._replace(extra=figures))

        return run

    def payload(self, name: str, arguments: t.Mapping[str, t.Any]) -> tuple[str, str]:
        """The command line that runs a module as Ansible does on a host."""
        path = self.folder / f"payload-{len(list(self.folder.glob('payload-*')))}.py"
        path.write_bytes(build_payload(name, arguments, str(self.folder)))
        return sys.executable, str(path)

    @contextlib.contextmanager
    def hub(self, root: pathlib.Path, *options: str) -> t.Iterator[HubControl]:
        """The lab's Hub in a process of its own, serving ``root``."""
        argv = [sys.executable, str(LAB_HUB), "--root", str(root), "--port", "0", "--cdn-port", "0", *options]
        server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=self.environment())
        self.servers.append(server.pid)
        try:
            line = server.stdout.readline() if server.stdout else ""
            if not line.startswith("ready:"):
                raise CommandFailed(f"the local Hub did not start: {line}")
            yield HubControl(line.split()[2].rstrip(","))
        finally:
            self.servers.remove(server.pid)
            server.terminate()
            server.wait()
