# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.modelfleet.serving.plugins.module_utils._json_text import JsonTextError, parse, replace


@pytest.mark.parametrize(
    ("text", "path", "value", "result"),
    [
        ('{"a": "FP8"}', ["a"], None, '{"a": null}'),
        # everything else stays: order, spacing, exponents, escapes, the missing or present end of line
        ('{\n\t"z": 1e-05,\n\t"a" : [1,2 , {"b":{}}],\n\t"u": "\\u00e9"\n}\n', ["a"], 7, None),
        ('{"a": {"b": {"kv": {"num_bits": 8}}, "c": 1}}', ["a", "b", "kv"], None, '{"a": {"b": {"kv": null}, "c": 1}}'),
        ('{"a.b": 1, "a": {"b": 2}}', ["a", "b"], 3, '{"a.b": 1, "a": {"b": 3}}'),
        ('{"a": "x}\\"{,"}', ["a"], "é", '{"a": "é"}'),
        ("{}", ["a"], True, '{"a": true}'),
        ('{\n  "a": {\n    "b": 1\n  }\n}\n', ["a", "c"], [1], '{\n  "a": {\n    "b": 1,\n    "c": [1]\n  }\n}\n'),
        ('{"a":1}', ["b"], None, '{"a":1, "b": null}'),
    ],
)
def test_replace_touches_one_value(text: str, path: list[str], value: t.Any, result: str | None) -> None:
    if result is None:
        result = text.replace('[1,2 , {"b":{}}]', "7")
    assert replace(text, path, value) == result


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value at line 1, column 1"),
        ('{"a": 1,\n "b": }', "Expecting value at line 2, column 7"),
        ('{"a": 1', "Expecting ',' delimiter at line 1, column 8"),
        ('{"a": 1} x', "Extra data at line 1, column 10"),
        ("{'a': 1}", "Expecting property name enclosed in double quotes at line 1, column 2"),
        ('\ufeff{"a": 1}', "Unexpected UTF-8 BOM (decode using utf-8-sig) at line 1, column 1"),
        ('{"a": 1,\n "a": 2}', "the key 'a' stands twice in one object, again at line 2, column 2"),
        ('[{"b": {"k": 1, "k": 1}}]', "the key 'k' stands twice in one object, again at line 1, column 17"),
        ("[" * 100_000, "nested too deeply to be read"),
    ],
)
def test_what_is_not_safe_json_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(JsonTextError) as caught:
        parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        ('{"a": 1}', ["x", "y", "z"], "there is no x"),
        ('{"a": {"b": 1}}', ["a", "c", "d"], "there is no a.c"),
        ('{"a": [1]}', ["a", "b"], "a is not an object"),
        ("[]", ["a"], "the document is not an object"),
    ],
)
def test_nowhere_to_put_the_value(text: str, path: list[str], message: str) -> None:
    with pytest.raises(JsonTextError) as caught:
        replace(text, path, None)
    assert str(caught.value) == message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=25,
)


@given(
    document=st.dictionaries(st.text(), JSON, min_size=1, max_size=5),
    value=JSON,
    indent=st.sampled_from([None, 1, 2, "\t"]),
    ascii_only=st.booleans(),
    data=st.data(),
)
def test_any_key_of_any_object_can_be_replaced_and_put_back(
    document: dict[str, t.Any], value: t.Any, indent: t.Any, ascii_only: bool, data: st.DataObject
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    assert parse(text) == document
    path = [data.draw(st.sampled_from(sorted(document)))]
    holder = document
    while isinstance(holder[path[-1]], dict) and holder[path[-1]] and data.draw(st.booleans()):
        holder = holder[path[-1]]
        path.append(data.draw(st.sampled_from(sorted(holder))))
    changed = replace(text, path, value)
    before, holder[path[-1]] = holder[path[-1]], value
    assert json.dumps(parse(changed)) == json.dumps(document)
    assert json.dumps(parse(replace(changed, path, before))) == json.dumps(parse(text))
