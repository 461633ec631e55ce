# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._findings import FINDINGS
from ansible_collections.modelfleet.serving.plugins.module_utils._redact import redact
from ansible_collections.modelfleet.serving.plugins.module_utils._signatures import SIGNATURES

TOKEN = "hf_" + "a1B2" * 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("non-default args: {'api_key': ['one', 'two'], 'port': 1}", "non-default args: {'api_key': ***, 'port': 1}"),
        ('{"api_key": "with blanks in it", "n": 1}', '{"api_key": ***, "n": 1}'),
        ("vllm serve m --api-key sk-123 --port 1", "vllm serve m --api-key *** --port 1"),
        ("vllm serve m --api-key=sk-123 --port 1", "vllm serve m --api-key=*** --port 1"),
        ("vllm serve m --api-key first second-key-2 --port 1", "vllm serve m --api-key *** --port 1"),
        ("--api-key oracle --port 1", "--api-key *** --port 1"),
        ("--hf-token secret", "--hf-token ***"),
        ("api_key=sk-123, port=1", "api_key=***, port=1"),
        ("VLLM_API_KEY=sk-123", "VLLM_API_KEY=***"),
        ("AWS_SECRET_ACCESS_KEY=abc/def+1", "AWS_SECRET_ACCESS_KEY=***"),
        ("client_secret: s3cr3t", "client_secret: ***"),
        ("db.password = hunter2;", "db.password = ***;"),
        ("Authorization: Bearer sk-123", "Authorization: Bearer ***"),
        ("authorization: bearer abc", "authorization: bearer ***"),
        (f"HF_TOKEN={TOKEN}", "HF_TOKEN=***"),
        ("HUGGING_FACE_HUB_TOKEN=x", "HUGGING_FACE_HUB_TOKEN=***"),
        ("'hf_token': 'x'", "'hf_token': ***"),
        ("token=abcdef12345", "token=***"),
        ('{"token": "abcdef12345"}', '{"token": ***}'),
        (f"using {TOKEN} now", "using *** now"),
        ("sk-abcdefghijklmnop was wrong", "*** was wrong"),
        ("GET https://me:pass@hub.example/x", "GET https://***@hub.example/x"),
        ("my-own-key was refused", "*** was refused"),
        ("the key is k3y, not k3yboard", "the key is ***, not k3yboard"),
        ("\x1b[1;36mINFO\x1b[0m \rbar\x07", "INFO bar"),
    ],
)
def test_secrets_go(text: str, expected: str) -> None:
    assert redact(text, ["my-own-key", "k3y", ""]) == expected
    # and what is left is left alone
    assert redact(expected, ["my-own-key", "k3y"]) == expected


@pytest.mark.parametrize(
    "text",
    [
        "give the key of the server (--api-key or VLLM_API_KEY of the unit) as api_key",
        "--api-key must not be empty; --hf-token is for the Hub only",
        "set --api-key, or leave it out",
        "loaded tokenizer: 512 tokens, completion_tokens=3",
        "ValueError: max_num_batched_tokens=2048 is smaller than max_model_len=4096",
        "max_num_batched_tokens: 8192, num_prompt_tokens=12",
        "eos_token: '</s>', bos_token='<s>', pad_token_id=0, image_token: <image>",
        "add_special_tokens=False skip_special_tokens: True",
        "Unexpected token: '<' at line 1",
        "token: 512",
        "api_key=None",
        "'api_key': None, 'hf_token': None",
        "Bearer token required",
        "Bearer authentication is off",
        "the secret is out",
        "password required",
        "tcp://127.0.0.1:29500 and http://10.0.0.1:8000/v1",
        "HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false",
        "tokenizer_mode=auto, tokenizer='/srv/models/x'",
        "a monkey: 5",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("row", (*SIGNATURES, *FINDINGS), ids=lambda row: row.id)
def test_no_cause_or_remedy_looks_like_a_secret(row) -> None:
    assert (redact(row.cause), redact(row.remedy)) == (row.cause, row.remedy)
