# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: yaml_mapping_fault
short_description: Say where a text stops being a YAML mapping
description:
  - Gives line, column and reason for a text that is no YAML or whose top is no mapping.
  - Gives an empty string for a mapping, and for an empty text.
  - C(ansible.builtin.include_vars) says what is wrong with a file that it cannot read, but not where.
author: modelfleet contributors (@modelfleet)
positional: _input
options:
  _input:
    description: The text of one YAML document.
    type: str
    required: true
"""

EXAMPLES = r"""
---
- name: Say what is wrong with a file
  ansible.builtin.debug:
    msg: "{{ lookup('ansible.builtin.file', 'profile.yml') | modelfleet.serving.yaml_mapping_fault }}"
  # line 3, column 2: while parsing a flow sequence, did not find expected ',' or ']'
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""

import typing as t

import yaml

#: the loader that Ansible reads with, and so the same words for the same fault
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _at(mark: t.Any, what: str) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}"


def yaml_mapping_fault(text: str) -> str:
    """Return where and why ``text`` is no YAML mapping."""
    try:
        top = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as exc:
        return _at(exc.problem_mark or exc.context_mark, ", ".join(filter(None, (exc.context, exc.problem))))
    except yaml.YAMLError as exc:
        # a character that YAML does not allow has no line
        return " ".join(str(exc).split())
    if top is None or isinstance(top, yaml.MappingNode):
        return ""
    kind = "a list" if isinstance(top, yaml.SequenceNode) else "a single value"
    return _at(top.start_mark, f"{kind} stands where a mapping, lines of 'key: value', is expected")


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"yaml_mapping_fault": yaml_mapping_fault}
