# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._checkpoint import Checkpoint, read
from ansible_collections.modelfleet.serving.plugins.module_utils._kv_decision import (
    DecisionError,
    Request,
    decide,
)

CHECKPOINTS = pathlib.Path(__file__).parents[2] / "fixtures" / "checkpoints"


def golden(name: str) -> Checkpoint:
    return read({path.name: path.read_text(encoding="utf-8") for path in (CHECKPOINTS / name).iterdir()}, name)


@pytest.mark.parametrize(
    ("name", "gpu", "release", "kv", "clear", "rule"),
    [
        # dense MLA on RTX PRO 6000: the same answer all along, for three different reasons
        ("kimi_k2_5_nvfp4", "12.0", "0.14.1", "bfloat16", True, "mla_dense_triton_0_10"),
        ("kimi_k2_5_nvfp4", "12.0", "0.17.1", "bfloat16", True, "mla_dense_triton_0_15"),
        ("kimi_k2_5_nvfp4", "12.0", "0.18.0", "bfloat16", True, "mla_dense_sm120_fp8_shared_memory"),
        ("kimi_k2_5_nvfp4", "12.0", "0.32.0", "bfloat16", True, "mla_dense_sm120_fp8_shared_memory"),
        ("kimi_k2_5_nvfp4", "12", "0.32.0", "bfloat16", True, "mla_dense_sm120_fp8_shared_memory"),
        # before 0.14 vLLM does not look at the entry
        ("kimi_k2_5_nvfp4", "12.0", "0.13.0", "auto", False, "auto_old"),
        ("deepseek_r1_nvfp4", "12.0", "0.32.0", "bfloat16", True, "mla_dense_sm120_fp8_shared_memory"),
        # data centre GPUs run it
        ("kimi_k2_5_nvfp4", "9.0", "0.16.0", "fp8", False, "mla_dense_flashmla"),
        ("kimi_k2_5_nvfp4", "10.0", "0.16.0", "fp8", False, "mla_dense_flashinfer"),
        # GPUs on which only Triton runs dense MLA
        ("kimi_k2_5_nvfp4", "8.0", "0.16.0", "bfloat16", True, "mla_dense_triton_0_15"),
        ("kimi_k2_5_nvfp4", "8.0", "0.18.0", "fp8", False, "mla_dense_triton_0_18"),
        # nothing asked, nothing done
        ("kimi_k2_5_int4", "12.0", "0.32.0", "auto", False, "nothing_asked"),
        ("minimax_m2_5", "12.0", "0.32.0", "auto", False, "nothing_asked"),
        # sparse MLA on SM120 runs FP8 and nothing else
        ("glm_5", "12.0", "0.24.0", "fp8", False, "mla_sparse_sm120"),
        ("glm_5", "9.0", "0.17.1", "bfloat16", True, "mla_sparse_flashmla"),
        ("glm_5", "9.0", "0.18.0", "fp8", False, "mla_sparse_flashmla"),
        ("llama_ct_fp8_kv", "12.0", "0.32.0", "fp8", False, "gqa_flashinfer"),
        ("llama_ct_fp8_kv", "12.0", "0.14.1", "auto", False, "auto_ct_attention_old"),
    ],
)
def test_auto(name: str, gpu: str, release: str, kv: str, clear: bool, rule: str) -> None:
    decision = decide(golden(name), Request("auto", gpu, release))
    assert (decision.kv_cache_dtype, decision.clear, decision.rule) == (kv, clear, rule)
    assert decision.vllm_args == {}
    assert decision.warning == ""


def test_the_reason_says_what_was_found_and_what_follows() -> None:
    decision = decide(golden("kimi_k2_5_nvfp4"), Request("auto", "12.0", "0.32.0"))
    assert decision.reason == (
        "The checkpoint asks for a KV cache in FP8; for dense MLA on compute capability 12.0 with vLLM 0.32.0, the FP8 "
        "decode kernel of TRITON_MLA asks for 102,400 bytes of shared memory and the GPU has 101,376, and the server "
        "crashes. Without the entries, --kv-cache-dtype auto gives the model's own dtype; no flag is needed."
    )
    assert (decision.evidence, "#46721" in decision.source, "#53748" in decision.source) == ("reported", True, True)


@pytest.mark.parametrize(
    ("gpu", "release", "clear", "rule"),
    [
        ("9.0", "0.24.0", True, "mla_dense_fp8_context_parallel"),
        ("9.0", "0.25.1", False, "mla_dense_flashmla"),
    ],
)
def test_context_parallel_rules_out_fp8_for_some_releases(gpu: str, release: str, clear: bool, rule: str) -> None:
    decision = decide(golden("kimi_k2_5_nvfp4"), Request("auto", gpu, release, context_parallel=True))
    assert (decision.clear, decision.rule) == (clear, rule)


@pytest.mark.parametrize(
    ("name", "release", "reason"),
    [
        ("kimi_k2_5_int4", "0.32.0", "The checkpoint asks for no particular KV cache. --kv-cache-dtype auto is right."),
        (
            "kimi_k2_5_nvfp4",
            "0.13.0",
            "The checkpoint names a KV-cache dtype, which vLLM does not follow for dense MLA on compute "
            "capability 12.0 "
            "with vLLM 0.13.0. --kv-cache-dtype auto is right.",
        ),
        (
            "llama_ct_fp8_kv",
            "0.32.0",
            "The FP8 KV cache that the checkpoint asks for is run by FLASHINFER, TRITON_ATTN, B12X for grouped-query "
            "attention on compute capability 12.0 with vLLM 0.32.0.",
        ),
    ],
)
def test_nothing_to_do_has_a_reason_too(name: str, release: str, reason: str) -> None:
    assert decide(golden(name), Request("auto", "12.0", release)).reason == reason


def test_a_checkpoint_that_nothing_can_run_is_left_alone_with_a_warning() -> None:
    decision = decide(golden("glm_5"), Request("auto", "12.0", "0.23.0"))
    assert (decision.kv_cache_dtype, decision.clear, decision.rule) == ("fp8", False, "mla_sparse_sm120_none")
    assert decision.warning == (
        "The checkpoint asks for a KV cache in FP8; for sparse MLA on compute capability 12.0 with vLLM 0.23.0, no "
        "attention backend runs it (known: none): No valid attention backend found ... use_sparse=True. The checkpoint "
        "is left as it is: a KV cache of the model's own dtype would not run either."
    )


def test_no_backend_is_told_even_when_nothing_is_asked() -> None:
    checkpoint = read({"config.json": '{"kv_lora_rank": 512, "index_topk": 2048}'}, "glm")
    decision = decide(checkpoint, Request("auto", "12.0", "0.23.0"))
    assert decision.warning == (
        "There is no attention backend for sparse MLA on compute capability 12.0 with vLLM 0.23.0: vLLM 0.24 or later."
    )


def test_a_release_without_rules_is_left_alone_with_a_warning() -> None:
    decision = decide(golden("kimi_k2_5_nvfp4"), Request("auto", "12.0", "0.9.2"))
    assert (decision.clear, decision.rule) == (False, "no_row")
    assert "no rule is known for dense MLA on compute capability 12.0 with vLLM 0.9.2" in decision.warning


@pytest.mark.parametrize(
    ("algo", "gpu", "release", "kv", "clear"),
    [
        ("NVFP4", "12.0", "0.19.0", "auto", False),
        ("NVFP4", "12.0", "0.20.0", "bfloat16", True),
        ("NVFP4", "10.0", "0.20.0", "nvfp4", False),
        ("NVFP4", "12.0", "0.28.0", "nvfp4", False),
        ("INT8", "12.0", "0.28.0", "auto", False),
    ],
)
def test_other_dtypes_for_grouped_query_attention(algo: str, gpu: str, release: str, kv: str, clear: bool) -> None:
    checkpoint = read(
        {"config.json": "{}", "hf_quant_config.json": json.dumps({"quantization": {"kv_cache_quant_algo": algo}})}, "x"
    )
    decision = decide(checkpoint, Request("auto", gpu, release))
    assert (decision.kv_cache_dtype, decision.clear) == (kv, clear)


@pytest.mark.parametrize("name", ["kimi_k2_5_nvfp4", "kimi_k2_5_int4", "minimax_m2_5", "llama_ct_fp8_kv"])
@pytest.mark.parametrize(("gpu", "release"), [("12.0", "0.32.0"), ("12.0", "0.13.0"), (None, None)])
def test_bfloat16_clears_always(name: str, gpu: str | None, release: str | None) -> None:
    decision = decide(golden(name), Request("bfloat16", gpu, release))
    assert (decision.kv_cache_dtype, decision.clear, decision.rule, decision.vllm_args) == (
        "bfloat16",
        True,
        "requested",
        {},
    )


@pytest.mark.parametrize(
    ("name", "gpu", "release", "args"),
    [
        ("kimi_k2_5_nvfp4", "9.0", "0.32.0", {}),
        ("kimi_k2_5_nvfp4", "9.0", "0.13.0", {"kv-cache-dtype": "fp8"}),
        ("kimi_k2_5_int4", "9.0", "0.32.0", {"kv-cache-dtype": "fp8"}),
        ("glm_5", "12.0", "0.32.0", {}),
        ("llama_ct_fp8_kv", "12.0", "0.32.0", {}),
        ("minimax_m2_5", "12.0", "0.32.0", {"kv-cache-dtype": "fp8"}),
    ],
)
def test_fp8_is_kept_or_made_by_a_flag(name: str, gpu: str, release: str, args: dict[str, str]) -> None:
    decision = decide(golden(name), Request("fp8", gpu, release))
    assert (decision.kv_cache_dtype, decision.clear, decision.vllm_args, decision.warning) == ("fp8", False, args, "")


def test_fp8_on_sm120_overrides_a_report_with_a_warning() -> None:
    decision = decide(golden("kimi_k2_5_nvfp4"), Request("fp8", "12.0", "0.32.0"))
    assert (decision.clear, decision.rule, decision.evidence) == (
        False,
        "mla_dense_sm120_fp8_shared_memory",
        "reported",
    )
    assert decision.warning == (
        "kv_cache_dtype=fp8 was asked for, but for dense MLA on compute capability 12.0 with vLLM 0.32.0, "
        "the FP8 decode "
        "kernel of TRITON_MLA asks for 102,400 bytes of shared memory and the GPU has 101,376, and the server crashes "
        "(vllm-project/vllm#46721 (Kimi NVFP4 on eight RTX PRO 6000) and #53748 (0.27.1))."
    )


@pytest.mark.parametrize(
    ("name", "request_", "message"),
    [
        (
            "kimi_k2_5_nvfp4",
            Request("fp8", "12.0", "0.17.1"),
            "kv_cache_dtype=fp8 cannot run: for dense MLA on compute capability 12.0 with vLLM 0.17.1, no attention "
            "backend runs it (known: TRITON_MLA): No valid attention backend found (source: vLLM source of 0.10 to "
            "0.33). Use kv_cache_dtype=auto.",
        ),
        (
            "kimi_k2_5_nvfp4",
            Request("fp8", "9.0", "0.20.0", context_parallel=True),
            "kv_cache_dtype=fp8 cannot run: for dense MLA on compute capability 9.0 with vLLM 0.20.0, "
            "AssertionError DCP "
            "not support fp8 kvcache now., after the weights are loaded (source: vLLM source of 0.10 to 0.33; "
            "vllm-project/vllm#44044). Use kv_cache_dtype=auto.",
        ),
        (
            "glm_5",
            Request("bfloat16", "12.0", "0.32.0"),
            "kv_cache_dtype=bfloat16 cannot run: for sparse MLA on compute capability 12.0 with vLLM "
            "0.32.0, bfloat16 and "
            "float16 are refused (source: vLLM source of 0.10 to 0.33). What helps: leave the KV cache in FP8.",
        ),
        (
            "kimi_k2_5_nvfp4",
            Request("auto", None, "0.32.0"),
            "compute_capability is needed to decide on the KV cache, but was not given.",
        ),
        (
            "kimi_k2_5_nvfp4",
            Request("fp8", "12.0", None),
            "vllm_version is needed to decide on the KV cache, but was not given.",
        ),
        (
            "kimi_k2_5_nvfp4",
            Request("auto", "12.0", ""),
            "vllm_version is needed to decide on the KV cache, but was not given.",
        ),
        (
            "kimi_k2_5_nvfp4",
            Request("auto", "sm_120", "0.32.0"),
            "compute_capability is not understood: 'sm_120' does not begin with a number.",
        ),
    ],
)
def test_errors(name: str, request_: Request, message: str) -> None:
    with pytest.raises(DecisionError) as caught:
        decide(golden(name), request_)
    assert str(caught.value) == message
