# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The demo model's tokenizer: byte-level BPE with four merges, so that "Paris" is one token, and a chat template."""

from __future__ import annotations

import typing as t

Json = dict[str, t.Any]

#: each merge joins two tokens that exist by then
MERGES = (("a", "r"), ("i", "s"), ("P", "ar"), ("Par", "is"))
#: special tokens, in the order of their ids
BEGIN, END, PAD, SYSTEM, USER, ASSISTANT = SPECIAL = (
    "<|begin|>",
    "<|end|>",
    "<|pad|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
)
#: rows of the embedding; a round number, as real models have it. The ids above the last token are never produced.
VOCABULARY = 320
CONTEXT = 2048

TEMPLATE = (
    "<|begin|>{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def byte_symbols() -> list[str]:
    """The printable character that byte-level BPE writes for each byte, in the order of the bytes.

    Bytes that are printable stand for themselves; the others take the characters from U+0100 on, in order."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(spare)) for byte in range(256)]


def vocabulary() -> dict[str, int]:
    """Token -> id, without the special ones."""
    tokens = [*byte_symbols(), *(left + right for left, right in MERGES)]
    return {token: number for number, token in enumerate(tokens)}


def special_ids() -> dict[str, int]:
    first = 256 + len(MERGES)
    return {token: first + number for number, token in enumerate(SPECIAL)}


def ids() -> dict[str, int]:
    return {**vocabulary(), **special_ids()}


def tokenizer_json() -> Json:
    added = [
        {"id": number, "content": token, "special": True}
        | {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        for token, number in special_ids().items()
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary(),
            "merges": [list(pair) for pair in MERGES],
        },
    }


def tokenizer_config() -> Json:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BEGIN,
        "eos_token": END,
        "pad_token": PAD,
        "model_max_length": CONTEXT,
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE,
    }
