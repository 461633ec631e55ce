# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils import _jmespath

pytest.importorskip("jmespath")


def test_search() -> None:
    assert _jmespath.search("choices[0].text", {"choices": [{"text": "Paris"}]}) == "Paris"


def test_check_names_the_expression() -> None:
    with pytest.raises(_jmespath.QueryError, match=r"^'choices\[0' is not a JMESPath expression: "):
        _jmespath.check("choices[0")


def test_search_with_a_function_on_the_wrong_type() -> None:
    with pytest.raises(_jmespath.QueryError, match=r"^the JMESPath expression 'length\(n\)' does not fit the data: "):
        _jmespath.search("length(n)", {"n": 1})
