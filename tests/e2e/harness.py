# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the end-to-end tests use: hosts of the lab, the local Hub, ansible from the controller's namespace."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import re
import shlex
import subprocess
import typing as t

TOP = pathlib.Path(__file__).resolve().parents[2]
LAB = TOP / "tests/lab/lab"
BIN = TOP / "build/controller/bin"
HUB = "http://10.77.0.1:8900"
RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.M)


class Done(t.NamedTuple):
    rc: int
    out: str

    def changed(self) -> dict[str, int]:
        """Host -> number of changed tasks, from the recap."""
        return {row[0]: int(row[2]) for row in RECAP.findall(self.out)}


def call(argv: t.Sequence[str], timeout: float = 600, env: t.Mapping[str, str] | None = None) -> Done:
    done = subprocess.run(
        [str(word) for word in argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
        cwd=TOP,
        env={**os.environ, **(env or {})},
        check=False,
    )
    return Done(done.returncode, done.stdout)


def spellings(secret: str) -> list[str]:
    """How a secret may stand in a text: as it is, and within base64 of something longer, at each of the three offsets.

    Of the base64 those characters are taken that do not depend on what is around the secret.
    """
    found = [secret]
    for offset in range(3):
        text = base64.b64encode(b"\0" * offset + secret.encode()).decode().rstrip("=")
        whole = (offset + len(secret)) // 3 * 4
        found.append(text[(0, 2, 3)[offset] : whole])
    return found


class Lab:
    """One lab of test hosts, and ansible-playbook run against it over real ssh."""

    def __init__(self, name: str, inventory: str) -> None:
        self.name, self.inventory = name, inventory

    def lab(self, *words: str, timeout: float = 600) -> Done:
        verb, *rest = words
        return call([str(LAB), verb, "--lab", self.name, *rest], timeout)

    def up(self, *options: str) -> None:
        done = self.lab("up", *options)
        assert done.rc == 0, done.out

    def down(self) -> None:
        done = self.lab("down")
        assert done.rc == 0, done.out

    def host(self, host: str, command: str, check: bool = True, timeout: float = 120) -> str:
        """Run a shell command on a host; its output."""
        done = self.lab("ssh", host, command, timeout=timeout)
        assert done.rc == 0 or not check, f"{host}: {command}\n{done.out}"
        return done.out

    def control(self, *argv: str, timeout: float = 900, env: t.Mapping[str, str] | None = None) -> Done:
        """Run a program in the controller's network namespace."""
        return call([str(LAB), "run", "--lab", self.name, "--", *argv], timeout, env)

    def playbook(self, book: str, *options: str, timeout: float = 900, **extra: t.Any) -> Done:
        words = [str(BIN / "ansible-playbook"), "-i", self.inventory, book, *options]
        if extra:
            words += ["-e", json.dumps(extra)]
        return self.control(*words, timeout=timeout, env={"ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1"})

    def module(
        self, host: str, name: str, args: t.Mapping[str, t.Any], tmp_path: pathlib.Path, timeout: float = 600
    ) -> dict[str, t.Any]:
        """One module of the collection on one host, through its action plugin; the task's result."""
        out, book = tmp_path / "result.json", tmp_path / "module.json"
        keep = {"content": "{{ result | to_json }}", "dest": str(out), "mode": "0600"}
        task = {f"modelfleet.serving.{name}": dict(args), "register": "result", "ignore_errors": True}
        play = {
            "hosts": host,
            "gather_facts": False,
            "tasks": [task, {"ansible.builtin.copy": keep, "delegate_to": "localhost"}],
        }
        book.write_text(json.dumps([play]))
        out.unlink(missing_ok=True)
        done = self.playbook(str(book), timeout=timeout)
        assert out.exists(), done.out
        result = json.loads(out.read_text())
        result["_output"] = done.out
        return result

    def hub(self, method: str, path: str, body: t.Any = None) -> t.Any:
        """A request to the Hub's control interface (it listens in the controller's namespace)."""
        words = ["curl", "-fsS", "-X", method, f"{HUB}{path}"]
        if body is not None:
            words += ["-d", json.dumps(body)]
        done = self.control(*words, timeout=30)
        assert done.rc == 0, done.out
        return json.loads(done.out)

    def chat(self, address: str, port: int, model: str, question: str, max_tokens: int = 8) -> dict[str, t.Any]:
        body = {
            "model": model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": max_tokens,
            "temperature": 0,
        }
        done = self.control(
            "curl",
            "-fsS",
            "-m",
            "60",
            "-H",
            "Content-Type: application/json",
            "-d",
            json.dumps(body),
            f"http://{address}:{port}/v1/chat/completions",
        )
        assert done.rc == 0, done.out
        return json.loads(done.out)

    def leaks(self, host: str, secret: str) -> tuple[set[str], str]:
        """Files of a host that have the secret in any spelling; and what its journal, units and command lines have."""
        # the brackets keep the search itself from being found
        words = " ".join(f"-e {shlex.quote(f'{word[:-1]}[{word[-1]}]')}" for word in spellings(secret))
        files = self.host(host, f"grep -rl {words} /etc /var/lib/modelfleet /srv/models /root/.ansible* /tmp; true")
        shown = self.host(
            host,
            f"journalctl --no-pager -a | grep {words}; systemctl show '*' | grep {words}; "
            f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -ao {words}; true",
        )
        return set(files.split()), shown

    def wait_for(self, host: str, command: str, seconds: float, every: float = 0.5) -> str:
        """Run a command on a host until it succeeds; its output."""
        loop = f"for i in $(seq {int(seconds / every)}); do {command} && exit 0; sleep {every}; done; exit 1"
        return self.host(host, f"bash -c {shlex.quote(loop)}", timeout=seconds + 60)
