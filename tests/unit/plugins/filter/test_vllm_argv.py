# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.modelfleet.serving.plugins.filter.vllm_argv import vllm_argv

CASES: list[tuple[t.Any, list[str]]] = [
    ({}, []),
    ({"tensor-parallel-size": 8}, ["--tensor-parallel-size", "8"]),
    ({"max_model_len": 131072}, ["--max-model-len", "131072"]),
    ({"--dtype": "bfloat16"}, ["--dtype", "bfloat16"]),
    ({"gpu-memory-utilization": 0.93}, ["--gpu-memory-utilization", "0.93"]),
    ({"trust-remote-code": True, "enforce-eager": False, "seed": None}, ["--trust-remote-code"]),
    ({"served-model-name": ["a", "b"]}, ["--served-model-name", "a", "b"]),
    ({"lora-modules": []}, []),
    ({"hf-overrides": {"a": {"b": [1, None]}}}, ["--hf-overrides", '{"a":{"b":[1,null]}}']),
    ({"limit": [{"image": 2}, 3, False]}, ["--limit", '{"image":2}', "3", "false"]),
    ({"chat-template": ""}, ["--chat-template", ""]),
    ({"offset": -1}, ["--offset=-1"]),
    ({"prefix": "-x"}, ["--prefix=-x"]),
    ({"watchdog-config.dump_dir": "/var/tmp"}, ["--watchdog-config.dump-dir", "/var/tmp"]),
    ({"b": 1, "a": 2}, ["--b", "1", "--a", "2"]),
]

REFUSED: list[tuple[t.Any, str]] = [
    ([], "vllm_argv: expected a mapping of flags, found list"),
    ({8: "x"}, "vllm_argv: flag names are strings, found 8"),
    ({"--": "x"}, "vllm_argv: '--' is not a flag name"),
    ({"a b": "x"}, "vllm_argv: 'a b' is not a flag name"),
    ({"a=b": True}, "vllm_argv: 'a=b' is not a flag name"),
    ({"seed": object}, "vllm_argv: --seed can't take <class 'object'> (type)"),
    ({"names": [["a"]]}, "vllm_argv: --names can't take ['a'] (list)"),
    ({"names": ["a", "-b"]}, "vllm_argv: the item '-b' of --names would be read as a flag"),
    (
        {"max_model_len": 1, "max-model-len": 2},
        "vllm_argv: 'max_model_len' and 'max-model-len' are the same flag, --max-model-len",
    ),
    (
        {"api_key": "s3cret"},
        "vllm_argv: --api-key would show a secret to every user of the host: set vllm_service_api_key, "
        "which reaches the server by a file that only root reads",
    ),
    (
        {"hf-token": "s3cret"},
        "vllm_argv: --hf-token would show a secret to every user of the host: the service never needs a Hub token: "
        "models are downloaded before it starts",
    ),
]


@pytest.mark.parametrize(("flags", "argv"), CASES)
def test_words(flags: t.Any, argv: list[str]) -> None:
    assert vllm_argv(flags) == argv


@pytest.mark.parametrize(("flags", "message"), REFUSED)
def test_what_is_refused_and_how(flags: t.Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        vllm_argv(flags)
    assert str(caught.value) == message
    assert "s3cret" not in str(caught.value)
