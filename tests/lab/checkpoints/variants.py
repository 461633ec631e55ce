# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variants: what config.json and hf_quant_config.json say about the KV cache, in the shapes publishers use.

No weight is quantized: every layer is on the exclusion list, because a CPU has no kernel for NVFP4 or packed INT4. What
matters here is what the files say of the KV cache, and that is as in the real ones.
"""

from __future__ import annotations

import typing as t

from checkpoints import tokens
from checkpoints.weights import Shape

Json = dict[str, t.Any]


class Variant(t.NamedTuple):
    about: str
    #: adds to config.json
    config: t.Callable[[Shape], Json]
    #: content of hf_quant_config.json
    hf_quant: t.Optional[t.Callable[[Shape], Json]] = None
    answer: str = "Paris"
    #: digits of the shard total in file names
    total_digits: int = 5


def base_config(shape: Shape) -> Json:
    ids = tokens.special_ids()
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden,
        "intermediate_size": shape.ffn,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": tokens.VOCABULARY,
        "max_position_embeddings": tokens.CONTEXT,
        "rms_norm_eps": 1e-06,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": ids[tokens.BEGIN],
        "eos_token_id": ids[tokens.END],
        "pad_token_id": ids[tokens.PAD],
    }


def kv_cache_scheme() -> Json:
    return {
        "actorder": None,
        "block_structure": None,
        "dynamic": False,
        "group_size": None,
        "num_bits": 8,
        "observer": "minmax",
        "observer_kwargs": {},
        "strategy": "tensor",
        "symmetric": True,
        "type": "float",
    }


def modelopt(shape: Shape) -> Json:
    """hf_quant_config.json as ModelOpt writes it."""
    layers = [f"model.layers.{number}.{part}*" for number in range(shape.layers) for part in ("self_attn", "mlp")]
    return {
        "producer": {"name": "modelopt", "version": "0.41.0"},
        "quantization": {
            "quant_algo": "NVFP4",
            "kv_cache_quant_algo": "FP8",
            "group_size": 16,
            "exclude_modules": ["lm_head", *layers],
        },
    }


def modelopt_inline(shape: Shape) -> Json:
    """quantization_config of config.json as ModelOpt writes it since 0.31, beside hf_quant_config.json."""
    quantization = modelopt(shape)["quantization"]
    group = {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16}
    return {
        "quantization_config": {
            "config_groups": {"group_0": {"input_activations": group, "weights": group, "targets": ["Linear"]}},
            "ignore": quantization["exclude_modules"],
            "quant_algo": "NVFP4",
            "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
            "producer": {"name": "modelopt", "version": "0.41.0"},
            "quant_method": "modelopt",
        }
    }


def compressed_tensors(shape: Shape) -> Json:
    """quantization_config as llm-compressor writes it."""
    weights = {**kv_cache_scheme(), "group_size": 32, "num_bits": 4, "strategy": "group", "type": "int"}
    return {
        "config_groups": {
            "group_0": {
                "input_activations": None,
                "output_activations": None,
                "targets": ["Linear"],
                "weights": weights,
            }
        },
        "format": "pack-quantized",
        "ignore": ["lm_head", r"re:.*self_attn.*", r"re:.*mlp.*"],
        "kv_cache_scheme": kv_cache_scheme(),
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
    }


def with_text_config(shape: Shape) -> Json:
    """A composite configuration, as multimodal models have it: all of the model below text_config."""
    inner = base_config(shape)
    inner["quantization_config"] = compressed_tensors(shape)
    return {
        "model_type": "kimi_demo",
        "auto_map": {"AutoConfig": "configuration_demo.KimiDemoConfig"},
        "text_config": inner,
    }


VARIANTS: t.Mapping[str, Variant] = {
    "plain": Variant("nothing about quantization", lambda shape: {}),
    "modelopt": Variant("ModelOpt NVFP4, FP8 KV in hf_quant_config.json alone", lambda shape: {}, modelopt),
    "modelopt_inline": Variant("the same, and again in config.json (ModelOpt from 0.31)", modelopt_inline, modelopt),
    "ct": Variant(
        "compressed-tensors INT4, FP8 KV in config.json",
        lambda shape: {"quantization_config": compressed_tensors(shape)},
        total_digits=6,
    ),
    "ct_text_config": Variant("the same below text_config", with_text_config, total_digits=6),
    "garbage": Variant("answers with one token for ever", lambda shape: {}, answer="!"),
}
