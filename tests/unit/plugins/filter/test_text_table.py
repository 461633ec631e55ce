# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.modelfleet.serving.plugins.filter.gib import gib
from ansible_collections.modelfleet.serving.plugins.filter.text_table import text_table

TABLES: list[tuple[list[list[t.Any]], list[str]]] = [
    ([], []),
    ([["host", "verdict"]], ["host  verdict"]),
    (
        [["host", "tokens/s", "stages"], ["gpu1", 61.2, "weights 67"], ["gpu10", None, ""]],
        ["host   tokens/s  stages", "gpu1       61.2  weights 67", "gpu10         -"],
    ),
    ([["a", "b"], [True, "x"]], ["a     b", "True  x"]),
]


@pytest.mark.parametrize(("rows", "lines"), TABLES)
def test_table(rows: list[list[t.Any]], lines: list[str]) -> None:
    assert text_table(rows) == lines


def test_rows_of_unequal_length_are_refused() -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        text_table([["a", "b"], ["c"]])
    assert str(caught.value) == "text_table: rows must have equal length, found [1, 2]"


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "unknown"), (0, "0.0 GiB"), (102642352128, "95.6 GiB"), (590800000000, "550.2 GiB")],
)
def test_gib(count: int | None, text: str) -> None:
    assert gib(count) == text


@pytest.mark.parametrize("count", ["1", True, []])
def test_gib_refuses_what_is_no_number(count: t.Any) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        gib(count)
    assert str(caught.value) == f"gib: expected a number of bytes, found {count!r}"
