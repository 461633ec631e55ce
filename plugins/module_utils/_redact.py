# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Takes keys and tokens out of text that others wrote: log lines, answers of servers.

A secret stands where a value stands: after the name of a secret and an equals sign or colon, after an option or
``Bearer``, or it has a shape that nothing else has. What follows such a name in a sentence ("--api-key or
VLLM_API_KEY") is no value. A model's tokens (``max_tokens=512``, ``eos_token: '</s>'``) are none of these secrets.
"""

from __future__ import annotations

import re
import typing

HIDDEN = "***"
#: a secret at least so long is found also inside a word
_LONG = 8

#: what may stand after an option in a sentence, and what is no secret
_WORDS = (
    r"(?:or|and|nor|but|is|are|was|were|has|have|must|may|can|cannot|should|to|in|of|for|with|without|the|an?|if|not|"
    r"no|on|as|by|at|when|from|needs?|sets?|given|instead|option|flag|argument|header|tokens?|auth|authentication|"
    r"scheme|required|missing|expected|none|null|true|false)(?![\w=-])"
)
_VALUE = r"""(?:\[[^\]]*\]|"[^"]*"|'[^']*'|[^\s,;)}\]'"]+)"""
#: api_key, VLLM_API_KEY, client-secret, AWS_SECRET_ACCESS_KEY, db_password ...
_NAME = (
    r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]+[_-])*"
    r"(?:api[_-]?keys?|access[_-]keys?|secrets?|secret[_-]keys?|passwords?|passwd|passphrase|"
    r"(?:hf|hub|face|huggingface|access|auth|api|bearer|peer|refresh|session|user|gh|github|gitlab|private)[_-]?tokens?)"
)
_ASSIGNED = r"""['"]?\s*(?:=|:(?!/))\s*"""

_RULES = (
    # api_key='x', "hf_token": "x", VLLM_API_KEY=x, 'api_key': ['x', 'y']
    (re.compile(rf"({_NAME}{_ASSIGNED})(?!{_WORDS})(?!['\"]?\*\*\*){_VALUE}", re.IGNORECASE), rf"\1{HIDDEN}"),
    # a plain token only with a value that could be one: of some length, and no number
    (
        re.compile(rf"""((?<![\w-])token{_ASSIGNED})(?=['"]?[\w.~+/-]{{8,}})(?!['"]?\d+\b){_VALUE}""", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    # --api-key x, --hf-token=x; vLLM takes several keys
    (
        re.compile(
            rf"(--(?:api-key|hf-token|token|password|secret)(?:=|[ \t]+))(?!{_WORDS})(?!-)\S+"
            r"(?:[ \t]+(?=\S*\d)[A-Za-z0-9_]\S{7,})*",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(rf"(\bBearer\s+)(?!{_WORDS})[^\s'\",]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    # https://user:password@host
    (re.compile(r"(://)[^/\s:@]+:[^/\s@]+@"), rf"\1{HIDDEN}@"),
    (
        re.compile(
            r"\b(?:hf_[A-Za-z0-9]{12,}|sk-[A-Za-z0-9_-]{12,}|nvapi-[A-Za-z0-9_-]{12,}|gh[opsu]_[A-Za-z0-9]{20,})"
        ),
        HIDDEN,
    ),
)
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def redact(text: str, secrets: typing.Collection[str] = ()) -> str:
    """Without ``secrets``, without what looks like one, and without control characters."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        if len(secret) >= _LONG:
            text = text.replace(secret, HIDDEN)
        else:
            # a key such as "key" is part of many words
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(secret)}(?![A-Za-z0-9])", HIDDEN, text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return _CONTROL.sub("", text)


__all__ = ("HIDDEN", "redact")
