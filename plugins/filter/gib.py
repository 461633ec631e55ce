# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gib
short_description: Show bytes as GiB
description:
  - Gives a number of bytes in GiB with one decimal, the unit in which GPUs and models are compared.
  - V(null), which stands for unknown, gives V(unknown).
author: modelfleet contributors (@modelfleet)
positional: _input
options:
  _input:
    description: Number of bytes.
    type: int
    required: true
"""

EXAMPLES = r"""
---
- name: Show the memory of the first GPU
  ansible.builtin.debug:
    msg: "{{ ansible_facts.gpu.devices[0].memory_total_bytes | modelfleet.serving.gib }}"
  # 95.6 GiB
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""

import typing as t

from ansible.errors import AnsibleFilterError


def gib(count: t.Any) -> str:
    """Return a number of bytes as text."""
    if count is None:
        return "unknown"
    if isinstance(count, bool) or not isinstance(count, (int, float)):
        raise AnsibleFilterError(f"gib: expected a number of bytes, found {count!r}")
    return f"{count / 2**30:.1f} GiB"


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"gib": gib}
