# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._checkpoint import (
    CheckpointError,
    Entry,
    asked_dtype,
    attention,
    effective_entry,
    entries,
    read,
)

CHECKPOINTS = pathlib.Path(__file__).parents[2] / "fixtures" / "checkpoints"
FP8_SCHEME = {"dynamic": False, "num_bits": 8, "type": "float"}


def golden(name: str) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in (CHECKPOINTS / name).iterdir()}


def made(config: t.Any, hf_quant_config: t.Any = None) -> dict[str, str]:
    texts = {"config.json": json.dumps(config)}
    return texts if hf_quant_config is None else {**texts, "hf_quant_config.json": json.dumps(hf_quant_config)}


@pytest.mark.parametrize(
    ("name", "kind", "keys"),
    [
        ("kimi_k2_5_nvfp4", "mla_dense", ["hf_quant_config.json:quantization.kv_cache_quant_algo"]),
        ("kimi_k2_5_int4", "mla_dense", []),
        ("minimax_m2_5", "gqa", []),
        ("glm_5", "mla_sparse", ["config.json:quantization_config.kv_cache_scheme"]),
        ("llama_ct_fp8_kv", "gqa", ["config.json:quantization_config.kv_cache_scheme"]),
        (
            "deepseek_r1_nvfp4",
            "mla_dense",
            [
                "config.json:quantization_config.kv_cache_scheme",
                "config.json:quantization_config.kv_cache_quant_algo",
                "hf_quant_config.json:quantization.kv_cache_scheme",
                "hf_quant_config.json:quantization.kv_cache_quant_algo",
                "hf_quant_config.json:kv_cache_quant_algo",
            ],
        ),
    ],
)
def test_real_shapes(name: str, kind: str, keys: list[str]) -> None:
    checkpoint = read(golden(name), "/snap")
    assert attention(checkpoint) == kind
    assert [f"{entry.file}:{entry.key}" for entry in entries(checkpoint)] == keys


@pytest.mark.parametrize(
    "path",
    [
        "config.json:quantization_config.kv_cache_scheme",
        "config.json:quantization_config.kv_cache_quant_algo",
        "config.json:quantization_config.quantization.kv_cache_scheme",
        "config.json:quantization_config.quantization.kv_cache_quant_algo",
        "config.json:compression_config.kv_cache_scheme",
        "config.json:text_config.quantization_config.kv_cache_scheme",
        "config.json:text_config.quantization_config.kv_cache_quant_algo",
        "config.json:text_config.quantization_config.quantization.kv_cache_quant_algo",
        "config.json:text_config.compression_config.kv_cache_scheme",
        "hf_quant_config.json:kv_cache_scheme",
        "hf_quant_config.json:kv_cache_quant_algo",
        "hf_quant_config.json:quantization.kv_cache_scheme",
        "hf_quant_config.json:quantization.kv_cache_quant_algo",
    ],
)
def test_every_place_is_looked_at(path: str) -> None:
    file, keys = path.split(":")
    document: t.Any = FP8_SCHEME
    for key in reversed(keys.split(".")):
        document = {key: document, "other": 1}
    texts = {"config.json": "{}", file: json.dumps(document)}
    found = entries(read(texts, "/snap"))
    assert [(entry.file, entry.key, entry.value) for entry in found] == [(file, keys, FP8_SCHEME)]


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({}, "gqa"),
        ({"num_key_value_heads": 8}, "gqa"),
        ({"kv_lora_rank": None}, "gqa"),
        ({"kv_lora_rank": 512}, "mla_dense"),
        ({"text_config": {"kv_lora_rank": 512}}, "mla_dense"),
        ({"kv_lora_rank": 512, "index_topk": 2048}, "mla_sparse"),
        ({"text_config": {"kv_lora_rank": 512, "index_topk": 2048}}, "mla_sparse"),
        ({"text_config": "text"}, "gqa"),
    ],
)
def test_attention(config: dict[str, t.Any], kind: str) -> None:
    assert attention(read(made(config), "/snap")) == kind


@pytest.mark.parametrize(
    ("config", "hf_quant_config", "key"),
    [
        # the separate file counts only where config.json has no quantization_config of its own
        ({}, {"quantization": {"kv_cache_quant_algo": "FP8"}}, "quantization.kv_cache_quant_algo"),
        ({"quantization_config": {"quant_method": "fp8"}}, {"quantization": {"kv_cache_quant_algo": "FP8"}}, None),
        (
            {"quantization_config": {"kv_cache_scheme": FP8_SCHEME, "quantization": {"kv_cache_quant_algo": "FP8"}}},
            None,
            "quantization_config.kv_cache_scheme",
        ),
        (
            {"quantization_config": {"kv_cache_scheme": {}, "kv_cache_quant_algo": "FP8"}},
            None,
            "quantization_config.kv_cache_quant_algo",
        ),
        (
            {"text_config": {"quantization_config": {"kv_cache_scheme": FP8_SCHEME}}},
            None,
            "text_config.quantization_config.kv_cache_scheme",
        ),
        ({}, None, None),
    ],
)
def test_the_entry_that_counts(config: t.Any, hf_quant_config: t.Any, key: str | None) -> None:
    entry = effective_entry(read(made(config, hf_quant_config), "/snap"))
    assert (entry.key if entry else None) == key


@pytest.mark.parametrize(
    ("method", "key", "value", "dtype"),
    [
        ("modelopt", "kv_cache_quant_algo", "FP8", "fp8"),
        ("modelopt", "kv_cache_quant_algo", "fp8", "fp8"),
        ("modelopt", "kv_cache_quant_algo", "NVFP4", "nvfp4"),
        ("modelopt", "kv_cache_quant_algo", "INT8", "auto"),
        ("modelopt", "kv_cache_quant_algo", "", "auto"),
        ("modelopt", "kv_cache_scheme", FP8_SCHEME, "fp8"),
        ("modelopt", "kv_cache_scheme", {**FP8_SCHEME, "dynamic": True}, "auto"),
        ("modelopt", "kv_cache_scheme", {**FP8_SCHEME, "type": "int"}, "auto"),
        ("modelopt", "kv_cache_scheme", {"num_bits": 4, "type": "float"}, "nvfp4"),
        ("modelopt", "kv_cache_scheme", {}, "auto"),
        ("compressed-tensors", "kv_cache_scheme", {"num_bits": 8, "type": "float"}, "fp8"),
        ("compressed-tensors", "kv_cache_quant_algo", "FP8", "auto"),
    ],
)
def test_asked_dtype(method: str, key: str, value: t.Any, dtype: str) -> None:
    assert asked_dtype(Entry("config.json", ("quantization_config", key), value, method)) == dtype


@pytest.mark.parametrize(
    ("config", "hf_quant_config", "method"),
    [
        ({"quantization_config": {"quant_method": "modelopt_fp4", "kv_cache_scheme": {}}}, None, "modelopt-fp4"),
        (
            {"quantization_config": {"quant_method": "compressed_tensors", "kv_cache_scheme": {}}},
            None,
            "compressed-tensors",
        ),
        ({"quantization_config": {"producer": {"name": "modelopt"}, "kv_cache_scheme": {}}}, None, "modelopt"),
        ({"quantization_config": {"kv_cache_scheme": {}}}, None, ""),
        ({}, {"kv_cache_quant_algo": "FP8"}, "modelopt"),
    ],
)
def test_quant_method(config: t.Any, hf_quant_config: t.Any, method: str) -> None:
    assert [entry.quant_method for entry in entries(read(made(config, hf_quant_config), "/snap"))] == [method]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            {},
            "/snap has no config.json: it is not a checkpoint that vLLM can load, or its download is not complete.",
        ),
        (
            {"config.json": '{"a": 1,\n'},
            "/snap/config.json is not valid JSON: Expecting property name enclosed in double quotes at "
            "line 2, column 1. "
            "Verify the snapshot with modelfleet.serving.hf_snapshot, or report it to the publisher of the checkpoint.",
        ),
        ({"config.json": "[]"}, "/snap/config.json holds a JSON list, not an object."),
    ],
)
def test_errors(texts: dict[str, str], message: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        read(texts, "/snap")
    assert str(caught.value) == message
