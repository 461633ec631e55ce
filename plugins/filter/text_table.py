# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: text_table
short_description: Align rows of cells into lines of text
description:
  - Gives one line for each row, its cells padded to the width of their column.
  - Columns in which every cell below the first row is a number are aligned to the right.
  - V(null) is shown as a hyphen.
author: modelfleet contributors (@modelfleet)
positional: _input
options:
  _input:
    description: Rows of equal length, the first one being the headings.
    type: list
    elements: list
    required: true
"""

EXAMPLES = r"""
---
- name: Show a small table
  ansible.builtin.debug:
    msg: "{{ [['host', 'tokens/s'], ['gpu1', 61.2], ['gpu2', 9.5]] | modelfleet.serving.text_table }}"
  # host  tokens/s
  # gpu1      61.2
  # gpu2       9.5
"""

RETURN = r"""
_value:
  description: The lines.
  type: list
  elements: str
"""

import typing as t

from ansible.errors import AnsibleFilterError


def _is_number(cell: t.Any) -> bool:
    return cell is None or (isinstance(cell, (int, float)) and not isinstance(cell, bool))


def text_table(rows: t.Sequence[t.Sequence[t.Any]]) -> list[str]:
    """Return aligned lines for rows of cells, the first row being the headings."""
    if len({len(row) for row in rows}) > 1:
        raise AnsibleFilterError(f"text_table: rows must have equal length, found {sorted({len(row) for row in rows})}")
    columns = list(zip(*rows))
    right = [len(column) > 1 and all(map(_is_number, column[1:])) for column in columns]
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in zip(row, widths, right)
        ).rstrip()
        for row in cells
    ]


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"text_table": text_table}
