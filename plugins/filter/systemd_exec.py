# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: systemd_exec
short_description: Quote an argument list for ExecStart= of a systemd unit
description:
  - Gives one line that systemd splits back into exactly the words put in.
  - Percent signs and dollar signs are doubled, so that systemd expands neither specifiers nor variables.
  - The first word must be an absolute path without characters that systemd gives a meaning there.
author: modelfleet contributors (@modelfleet)
positional: _input
options:
  _input:
    description: The program and its arguments.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
---
- name: Make the line of a unit
  ansible.builtin.debug:
    msg: "ExecStart={{ ['/opt/vllm/bin/vllm', 'serve', '/srv/my model'] | modelfleet.serving.systemd_exec }}"
  # ExecStart=/opt/vllm/bin/vllm serve "/srv/my model"
"""

RETURN = r"""
_value:
  description: The quoted line.
  type: str
"""

import re
import typing as t

from ansible.errors import AnsibleFilterError

#: words of these characters mean themselves, so they stay readable in the unit
_PLAIN = re.compile(r"[A-Za-z0-9_@+:,./=%$-]+")
_PROGRAM = re.compile(r"/[A-Za-z0-9_@+:,./=-]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return f"\\x{ord(char):02x}" if ord(char) < 0x20 or ord(char) == 0x7F else char


def _quote(word: str) -> str:
    if "\0" in word:
        raise AnsibleFilterError(f"systemd_exec: a NUL character can't be part of an argument, found in {word!r}")
    literal = word.replace("%", "%%").replace("$", "$$")
    if _PLAIN.fullmatch(word):
        return literal
    return '"' + "".join(_escape(char) for char in literal) + '"'


def systemd_exec(argv: t.Sequence[str]) -> str:
    """Return the ExecStart= line for an argument vector."""
    if not isinstance(argv, (list, tuple)) or not argv or not all(isinstance(word, str) for word in argv):
        raise AnsibleFilterError(f"systemd_exec: expected a list of strings that begins with a program, found {argv!r}")
    if not _PROGRAM.fullmatch(argv[0]):
        raise AnsibleFilterError(f"systemd_exec: the program must be a plain absolute path, found {argv[0]!r}")
    return " ".join([argv[0], *(_quote(word) for word in argv[1:])])


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"systemd_exec": systemd_exec}
