# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: systemd_environment
short_description: Write a mapping as a systemd EnvironmentFile
description:
  - Gives the text of a file for C(EnvironmentFile=), a line for each variable, in the order of the mapping.
  - Every value is quoted so that systemd reads back exactly what was put in.
  - V(null) leaves a variable out. Booleans are refused, because programs disagree about how to spell them.
author: modelfleet contributors (@modelfleet)
positional: _input
options:
  _input:
    description: Names and values of the variables.
    type: dict
    required: true
"""

EXAMPLES = r"""
---
- name: Write the environment of a service
  ansible.builtin.copy:
    content: "{{ {'NCCL_P2P_LEVEL': 'SYS', 'OMP_NUM_THREADS': 8} | modelfleet.serving.systemd_environment }}"
    dest: /etc/modelfleet/kimi.env
    mode: "0600"
"""

RETURN = r"""
_value:
  description: The text of the file.
  type: str
"""

import re
import typing as t

from ansible.errors import AnsibleFilterError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: the characters that a backslash keeps literal between double quotes in such a file
_SPECIAL = re.compile(r'(["\\`$])')


def _line(name: t.Any, value: t.Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise AnsibleFilterError(f"systemd_environment: {name!r} is not the name of an environment variable")
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise AnsibleFilterError(
            f"systemd_environment: {name} must be a string or a number, found {type(value).__name__};"
            " quote it in YAML to say what the program shall see"
        )
    text = str(value)
    if "\0" in text:
        raise AnsibleFilterError(f"systemd_environment: {name} holds a NUL character")
    quoted = _SPECIAL.sub(r"\\\1", text)
    return f'{name}="{quoted}"\n'


def systemd_environment(variables: t.Mapping[str, t.Any]) -> str:
    """Return the text of an EnvironmentFile= for a mapping."""
    if not isinstance(variables, dict):
        raise AnsibleFilterError(f"systemd_environment: expected a mapping, found {type(variables).__name__}")
    return "".join(_line(name, value) for name, value in variables.items() if value is not None)


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"systemd_environment": systemd_environment}
