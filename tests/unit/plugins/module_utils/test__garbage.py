# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._garbage import (
    FINGERPRINT_TOKENS,
    Tokens,
    fingerprint,
    garbage,
    read_tokens,
)


@pytest.mark.parametrize(
    "text",
    [
        "Paris.",
        "Paris, in Greek \u03a0\u03b1\u03c1\u03af\u03c3\u03b9, in Russian \u041f\u0430\u0440\u0438\u0436.",
        "\u30d1\u30ea\u306f\u30d5\u30e9\u30f3\u30b9\u306e\u9996\u90fd\u3067\u3059 (Paris)",
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |",
        "ha ha ha, said the fox",
        "1 2 3 4 5 6 7 8 9 10",
        "one \ufffd in a long sentence is a cut character",
    ],
)
def test_sound_answers(text: str) -> None:
    assert garbage(text, Tokens()) == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("!" * 24, "repeats itself"),
        ("well " * 12, "repeats itself"),
        ("I think so. " * 6, "repeats itself"),
        ("a b c d e f g h " * 6, "repeats itself"),
        ("\ufffd\ufffd ok", "has 2 characters that cannot be decoded"),
        ("Paris \u043f\u0440 \uac00\ub098 \u0645\u0631", "mixes 4 scripts (arabic, cyrillic, hangul, latin)"),
    ],
)
def test_garbage(text: str, fault: str) -> None:
    assert garbage(text, Tokens()) == fault


@pytest.mark.parametrize("value", ["NaN", "-Infinity"])
def test_log_probabilities_that_are_no_numbers(value: str) -> None:
    given = '{"tokens": ["o", "k"], "token_logprobs": [-1, VALUE]}'.replace("VALUE", value)
    body = {"choices": [{"text": "ok", "logprobs": json.loads(given)}]}
    assert garbage("ok", read_tokens(body)) == "has 1 tokens whose log probability is not a number"


ENTRIES = [{"token": "Par", "logprob": -0.5}, {"token": "is", "logprob": -0.25}]
CHAT = {"choices": [{"logprobs": {"content": ENTRIES}, "token_ids": [47, 11]}]}
TEXT = {"choices": [{"logprobs": {"tokens": ["Par", "is"], "token_logprobs": [None, -0.25]}, "token_ids": None}]}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (CHAT, Tokens(("Par", "is"), (-0.5, -0.25), (47, 11))),
        (TEXT, Tokens(("Par", "is"), (None, -0.25))),
        ({"choices": [{"logprobs": None}]}, Tokens()),
        ({"choices": [{"logprobs": None, "token_ids": [1, 2]}]}, Tokens(ids=(1, 2))),
        ({"choices": [{"logprobs": {"content": None}}]}, Tokens()),
        ({"choices": [{"logprobs": {"content": [{}]}}]}, Tokens()),
        ({"choices": []}, Tokens()),
        (None, Tokens()),
    ],
)
def test_read_tokens(body: t.Any, expected: Tokens) -> None:
    assert read_tokens(body) == expected


def test_a_fingerprint_is_of_the_first_tokens_only() -> None:
    ids = tuple(range(FINGERPRINT_TOKENS))
    assert fingerprint(Tokens(ids=(*ids, 7))) == fingerprint(Tokens(ids=(*ids, 9)))
    assert fingerprint(Tokens(ids=ids)) != fingerprint(Tokens(ids=ids[1:]))
    assert fingerprint(Tokens(ids=(12, 3))) != fingerprint(Tokens(ids=(1, 23)))
    assert fingerprint(Tokens(("texts", "differ", "by", "release"))) is None
