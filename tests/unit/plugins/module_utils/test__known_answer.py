# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._known_answer import (
    Answer,
    KnownAnswer,
    Question,
    fault,
    first_token,
    known_answer,
    read_answer,
)

OPTIONS: dict[str, t.Any] = {
    "prompt": None,
    "messages": None,
    "pattern": None,
    "query": None,
    "max_tokens": 32,
    "attempts": 2,
    "extra_body": None,
}
MESSAGES = [{"role": "user", "content": "Capital of France?"}]


def test_first_token_is_no_chat() -> None:
    assert first_token("tiny", 1) == Question(
        "/v1/completions", {"model": "tiny", "prompt": "Hello", "max_tokens": 1, "temperature": 0}
    )


def test_known_answer_as_completion() -> None:
    made = known_answer({**OPTIONS, "prompt": "2+2=", "pattern": "4", "attempts": 3}, "tiny")
    body = {"return_token_ids": True, "model": "tiny", "max_tokens": 32, "temperature": 0, "seed": 0, "prompt": "2+2="}
    assert made == KnownAnswer(Question("/v1/completions", body), "4", None, 3)


def test_log_probabilities_are_asked_for_in_the_way_of_each_interface() -> None:
    assert known_answer({**OPTIONS, "prompt": "2+2=", "logprobs": True}, "tiny").question.body["logprobs"] == 1
    assert known_answer({**OPTIONS, "messages": MESSAGES, "logprobs": True}, "tiny").question.body["logprobs"] is True


def test_known_answer_as_chat_with_more_keys() -> None:
    extra = {"chat_template_kwargs": {"thinking": False}, "seed": 7}
    question = known_answer({**OPTIONS, "messages": MESSAGES, "extra_body": extra}, "tiny").question
    assert question.path == "/v1/chat/completions"
    assert question.body["messages"] == MESSAGES
    assert question.body["chat_template_kwargs"] == {"thinking": False}
    assert question.body["seed"] == 7


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"choices": [{"text": "1~"}], "usage": {"completion_tokens": 16}}, Answer("1~", 16)),
        ({"choices": [{"message": {"content": "Paris"}}], "usage": {"completion_tokens": 2}}, Answer("Paris", 2)),
        # a reasoning model that has not come to its answer within the limit
        ({"choices": [{"message": {"content": None, "reasoning_content": "Hm"}}]}, Answer("Hm", 0)),
        ({"choices": [{"message": {"content": "Paris", "reasoning": "Hm"}}], "usage": None}, Answer("Hm\nParis", 0)),
    ],
)
def test_read_answer(body: t.Any, expected: Answer) -> None:
    assert read_answer(body) == expected


@pytest.mark.parametrize("body", [None, [], {}, {"choices": []}, {"choices": [None]}, {"object": "error"}])
def test_read_answer_of_something_else(body: t.Any) -> None:
    with pytest.raises(ValueError, match="not a completion: "):
        read_answer(body)


@pytest.mark.parametrize(
    ("text", "pattern", "query", "expected"),
    [
        ("Paris", "Paris", None, ""),
        ("It is\nparis.", "(?i)paris", None, ""),
        ("London", "Paris", None, "the answer 'London' does not match 'Paris'"),
        ("", None, None, "the answer is empty (5 tokens)"),
        (" \n", ".*", None, "the answer is empty (5 tokens)"),
        # what wrong KV scales look like
        ("!" * 32, None, None, "the answer repeats itself: '" + "!" * 32 + "'"),
        ("the " * 12, None, None, "the answer repeats itself: '" + "the " * 12 + "'"),
        ("ha ha ha, said the fox", None, None, ""),
        ("==========", None, None, ""),
        (
            "a \u0431 \uac00 \u0645",
            None,
            None,
            "the answer mixes 4 scripts (arabic, cyrillic, hangul, latin): 'a \u0431 \uac00 \u0645'",
        ),
        ("x", None, "good", "the query 'good' is not true of the answer 'x'"),
        ("x", None, "choices", ""),
    ],
)
def test_fault(text: str, pattern: str | None, query: str | None, expected: str) -> None:
    known = KnownAnswer(Question("/v1/completions", {}), pattern, query)
    assert fault(Answer(text, 5), {"choices": [1]}, known, lambda expression, data: data.get(expression)) == expected


def test_fault_shows_only_the_beginning() -> None:
    known = KnownAnswer(Question("/v1/completions", {}), "never")
    text = "".join(f"{number} " for number in range(1000))
    assert fault(Answer(text, 5), {}, known, None) == f"the answer {text[:120] + '...'!r} does not match 'never'"
