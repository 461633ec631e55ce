# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plays on the controller alone: what a role says of many cases, a host each, in one run of ansible-playbook."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

TOP = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(sys.executable).parent
ENVIRONMENT = {"ANSIBLE_CONFIG": str(TOP / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}


def ansible(program: str, *words: str, cwd: pathlib.Path = TOP) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / f"ansible-{program}"), *words],
        cwd=cwd,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def judged(
    folder: pathlib.Path, role: t.Mapping[str, str], cases: t.Mapping[str, t.Any], shown: str
) -> dict[str, t.Any]:
    """Host -> the message with which the role failed there, or the variable ``shown`` where it passed.

    Cases are variables of their hosts; of one with ``facts`` these are what was gathered.
    """
    out = folder / "judged.json"
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (folder / "hosts.yml").write_text(json.dumps({"cases": {"hosts": dict(cases), "vars": local}}))
    keep = {"content": "{{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, 'said'))) }}"}
    gathered = {"ansible.builtin.set_fact": {"ansible_facts": "{{ facts }}"}, "when": "facts is defined"}
    block = [
        gathered,
        {"ansible.builtin.include_role": dict(role)},
        {"ansible.builtin.set_fact": {"said": f"{{{{ {shown} }}}}"}},
    ]
    rescue = [{"ansible.builtin.set_fact": {"said": "{{ ansible_failed_result.msg }}"}}]
    copy = {"ansible.builtin.copy": {**keep, "dest": str(out), "mode": "0600"}, "run_once": True}
    play = {"hosts": "cases", "gather_facts": False, "tasks": [{"block": block, "rescue": rescue}, copy]}
    (folder / "play.yml").write_text(json.dumps([play]))
    done = ansible("playbook", "-i", "hosts.yml", "play.yml", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, t.Any] = json.loads(out.read_text())
    return said
