# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What is asked of a server to prove that it generates, and how its answer is judged. Pure.

A server can be healthy and list its model while its GPUs hang, or answer quickly and produce nothing but exclamation
marks because a scale was read wrongly. Only a token proves the first, only a known answer the second.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._garbage import Tokens, garbage, read_tokens

#: a query over a parsed JSON answer, as jmespath.search(expression, data)
Search = t.Callable[[str, t.Any], t.Any]

FIRST_TOKEN_PROMPT = "Hello"
#: enough for a rate when no known answer is asked for
FIRST_TOKEN_LENGTH = 16


class Question(t.NamedTuple):
    """One request for tokens."""

    path: str
    body: t.Mapping[str, t.Any]


class Answer(t.NamedTuple):
    """What the server generated."""

    text: str
    completion_tokens: int
    tokens: Tokens = Tokens()


class KnownAnswer(t.NamedTuple):
    """A question with a known answer."""

    question: Question
    #: regular expression to be found in the text
    pattern: t.Optional[str] = None
    #: JMESPath expression over the whole answer that must be true
    query: t.Optional[str] = None
    attempts: int = 2


def first_token(model: str, length: int) -> Question:
    """The smallest request that makes the GPUs work. Not a chat: a base model has no chat template."""
    return Question(
        "/v1/completions",
        {"model": model, "prompt": FIRST_TOKEN_PROMPT, "max_tokens": length, "temperature": 0},
    )


def known_answer(options: t.Mapping[str, t.Any], model: str) -> KnownAnswer:
    """From the module's O(known_answer). Greedy and seeded, so that the same release gives the same answer."""
    body = {
        "model": model,
        "max_tokens": options["max_tokens"],
        "temperature": 0,
        "seed": 0,
        **(options.get("extra_body") or {}),
    }
    chat = bool(options.get("messages"))
    # token ids cost nothing (since 0.10.2; older ones pass over a key that they don't know). Log probabilities do: they
    # run a kernel that is compiled at the first request for them
    body = {"return_token_ids": True, **body}
    if options.get("logprobs"):
        body = {"logprobs": True if chat else 1, **body}
    if chat:
        question = Question("/v1/chat/completions", {**body, "messages": options["messages"]})
    else:
        question = Question("/v1/completions", {**body, "prompt": options["prompt"]})
    return KnownAnswer(question, options.get("pattern"), options.get("query"), options["attempts"])


def read_answer(body: t.Any) -> Answer:
    """Text and token count of a (chat) completion. Raises ValueError when it is not one.

    A reasoning parser moves the thoughts to a field of their own and may leave no content within a short limit.
    """
    try:
        choice = body["choices"][0]
        message = choice.get("message")
        parts = (
            [choice.get("text")]
            if message is None
            else [message.get("reasoning_content") or message.get("reasoning"), message.get("content")]
        )
        tokens = int((body.get("usage") or {}).get("completion_tokens") or 0)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as exc:
        raise ValueError(f"not a completion: {str(body)[:200]}") from exc
    return Answer("\n".join(part for part in parts if part), tokens, read_tokens(body))


def fault(answer: Answer, body: t.Any, expected: KnownAnswer, search: t.Optional[Search]) -> str:
    """Why an answer does not pass, in words; empty when it does."""
    shown = repr(answer.text if len(answer.text) <= 120 else answer.text[:120] + "...")
    if not answer.text.strip():
        return f"the answer is empty ({answer.completion_tokens} tokens)"
    wrong = garbage(answer.text, answer.tokens)
    if wrong:
        return f"the answer {wrong}: {shown}"
    if expected.pattern is not None and not re.search(expected.pattern, answer.text):
        return f"the answer {shown} does not match {expected.pattern!r}"
    if expected.query is not None and search is not None and not search(expected.query, body):
        return f"the query {expected.query!r} is not true of the answer {shown}"
    return ""


__all__ = (
    "FIRST_TOKEN_LENGTH",
    "FIRST_TOKEN_PROMPT",
    "Answer",
    "KnownAnswer",
    "Question",
    "Search",
    "fault",
    "first_token",
    "known_answer",
    "read_answer",
)
