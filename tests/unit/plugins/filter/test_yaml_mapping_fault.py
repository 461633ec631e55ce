# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.modelfleet.serving.plugins.filter.yaml_mapping_fault import FilterModule

fault = FilterModule().filters()["yaml_mapping_fault"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "a: 1\n", "---\na: {b: [1]}\n", "{}"])
def test_a_mapping_has_no_fault(text: str) -> None:
    assert fault(text) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: [1, 2\nc: }\n", "line 3, column 2: while parsing a flow sequence, did not find expected ',' or ']'"),
        ("a: b: c\n", "line 1, column 5: mapping values are not allowed in this context"),
        (
            "a:\n\tb: 1\n",
            "line 2, column 1: while scanning for the next token, found character that cannot start any token",
        ),
        ("a: 1\n---\nb: 1\n", "line 2, column 1: expected a single document in the stream, but found another document"),
        ("a: *b\n", "line 1, column 4: found undefined alias"),
        ("a: 'x\n", "line 2, column 1: while scanning a quoted scalar, found unexpected end of stream"),
        ("# top\n- a\n", "line 2, column 1: a list stands where a mapping, lines of 'key: value', is expected"),
        ("hello\n", "line 1, column 1: a single value stands where a mapping, lines of 'key: value', is expected"),
    ],
)
def test_it_says_where_and_why(text: str, said: str) -> None:
    assert fault(text) == said


def test_a_forbidden_character_is_said_in_one_line() -> None:
    said = fault("a: \x00\n")
    assert "\n" not in said and "not allowed" in said
