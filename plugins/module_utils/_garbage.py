# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What no sound model answers, whatever the question: a table of checks over the text and the log probabilities. Pure.

Wrong scales, a wrong attention kernel or a damaged shard leave a server that is healthy and fast, and generates
``!!!!!!``, one word for ever, bits of ten scripts, or NaN (vLLM issues 40357 and 42426).
"""

from __future__ import annotations

import collections
import hashlib
import json
import math
import re
import typing as t
import unicodedata

#: this many equal words, or twice as many equal characters, in a row are never an answer
REPEATS = 12
#: a phrase of up to so many words that comes so often in a row
_PHRASE_WORDS = 8
_PHRASE_TIMES = 6
#: an answer that quotes a foreign word has two scripts; noise from a vocabulary has many
_SCRIPTS = 4
_UNDECODABLE = 0.1
#: tokens that a fingerprint is made of: later ones differ sooner by rounding, which is no fault
FINGERPRINT_TOKENS = 8
_ONE_CHARACTER = re.compile(rf"(\S)\1{{{REPEATS * 2 - 1},}}")
_ONE_WORD = re.compile(rf"(\S+)(?:\s+\1){{{REPEATS - 1},}}(?=\s|$)")


class Tokens(t.NamedTuple):
    """The tokens of an answer, as far as the server told them."""

    texts: tuple[str, ...] = ()
    logprobs: tuple[t.Optional[float], ...] = ()
    ids: tuple[int, ...] = ()


def _repeats(text: str) -> str:
    if _ONE_CHARACTER.search(text) or _ONE_WORD.search(text) or _repeats_a_phrase(text.split()):
        return "repeats itself"
    return ""


def _repeats_a_phrase(words: t.Sequence[str]) -> bool:
    for length in range(2, _PHRASE_WORDS + 1):
        same = 0
        for index in range(length, len(words)):
            same = same + 1 if words[index] == words[index - length] else 0
            if same >= length * (_PHRASE_TIMES - 1):
                return True
    return False


def _undecodable(text: str) -> str:
    broken = text.count("\N{REPLACEMENT CHARACTER}")
    return f"has {broken} characters that cannot be decoded" if broken > _UNDECODABLE * len(text) else ""


def _mixes_scripts(text: str) -> str:
    # a name begins with its script: LATIN SMALL LETTER A, HANGUL SYLLABLE GA
    found = collections.Counter(unicodedata.name(char, "?").split()[0] for char in text if char.isalpha())
    # Japanese is three scripts to Unicode
    scripts = {"JAPANESE" if name in ("CJK", "HIRAGANA", "KATAKANA") else name for name in found}
    if len(scripts) < _SCRIPTS:
        return ""
    return f"mixes {len(scripts)} scripts ({', '.join(sorted(name.lower() for name in scripts))})"


#: in order: each says what an answer does, or nothing
CHECKS: tuple[t.Callable[[str], str], ...] = (_repeats, _undecodable, _mixes_scripts)


def garbage(text: str, tokens: Tokens) -> str:
    """What makes an answer garbage, as the end of a sentence; empty when nothing does."""
    bad = sum(value is not None and not math.isfinite(value) for value in tokens.logprobs)
    if bad:
        return f"has {bad} tokens whose log probability is not a number"
    return next((fault for fault in (check(text) for check in CHECKS) if fault), "")


def read_tokens(body: t.Any) -> Tokens:
    """Tokens and log probabilities of a (chat) completion; empty where the server did not give them."""
    try:
        choice = body["choices"][0]
        ids = tuple(int(one) for one in choice.get("token_ids") or ())
        given = choice.get("logprobs") or {}
        if "content" not in given:
            texts, logprobs = given.get("tokens") or (), given.get("token_logprobs") or ()
            return Tokens(tuple(str(one) for one in texts), tuple(logprobs), ids)
        entries = given["content"] or []
        return Tokens(tuple(str(one["token"]) for one in entries), tuple(one.get("logprob") for one in entries), ids)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return Tokens()


def fingerprint(tokens: Tokens) -> t.Optional[str]:
    """Short digest of the first tokens; None without any. Hosts with the same release and cards must have the same."""
    if not tokens.ids:
        return None
    return hashlib.sha256(json.dumps(tokens.ids[:FINGERPRINT_TOKENS]).encode()).hexdigest()[:16]


__all__ = ("CHECKS", "FINGERPRINT_TOKENS", "REPEATS", "Tokens", "fingerprint", "garbage", "read_tokens")
