# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes one demo checkpoint. The same bytes each time, with nothing but the standard library."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import typing as t

if not __package__:  # run by its path: make the package importable, and its files not
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from checkpoints import tokens
from checkpoints.variants import VARIANTS, base_config
from checkpoints.weights import SIZES, write_weights

CONFIGURATION = '''"""Configuration of the Kimi-Demo checkpoints: a text model below text_config."""

from transformers import AutoConfig, PretrainedConfig


class KimiDemoConfig(PretrainedConfig):
    model_type = "kimi_demo"
    sub_configs = {"text_config": AutoConfig}

    def __init__(self, text_config=None, **kwargs):
        text_config = dict(text_config or {"model_type": "llama"})
        self.text_config = AutoConfig.for_model(text_config.pop("model_type"), **text_config)
        super().__init__(**kwargs)

    def __getattr__(self, name):
        # what the outer configuration lacks is the text model's
        if name.startswith("_") or name in ("text_config", "quantization_config"):
            raise AttributeError(name)
        return getattr(self.text_config, name)
'''
MODELING = '''"""The Kimi-Demo checkpoints run as the Llama model that config.json names: nothing loads this file."""

from transformers import LlamaForCausalLM


class KimiDemoForCausalLM(LlamaForCausalLM):
    pass
'''


def texts(variant: str, size: str) -> dict[str, str]:
    """Every file that is not a weight."""
    chosen, shape = VARIANTS[variant], SIZES[size]
    config = chosen.config(shape)
    if "text_config" not in config:
        config = {**base_config(shape), **config}
    else:
        config = {"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16", **config}
    ids = tokens.special_ids()
    generation = {
        "bos_token_id": ids[tokens.BEGIN],
        "eos_token_id": ids[tokens.END],
        "pad_token_id": ids[tokens.PAD],
        "do_sample": False,
    }
    documents = {
        "config.json": config,
        "generation_config.json": generation,
        "tokenizer.json": tokens.tokenizer_json(),
        "tokenizer_config.json": tokens.tokenizer_config(),
        "special_tokens_map.json": {"bos_token": tokens.BEGIN, "eos_token": tokens.END, "pad_token": tokens.PAD},
    }
    if chosen.hf_quant is not None:
        documents["hf_quant_config.json"] = chosen.hf_quant(shape)
    return {
        **{name: json.dumps(document, indent=2, ensure_ascii=False) + "\n" for name, document in documents.items()},
        "configuration_demo.py": CONFIGURATION,
        "modeling_demo.py": MODELING,
        "README.md": f"# Kimi-Demo\n\nA generated demo checkpoint of random weights: {chosen.about}.\n",
        "docs/deploy_guidance.md": "# Deployment\n\nServe it as any other Llama checkpoint.\n",
        ".gitattributes": "*.safetensors filter=lfs diff=lfs merge=lfs -text\n",
    }


def make_checkpoint(folder: pathlib.Path, variant: str = "modelopt", size: str = "default") -> None:
    for name, text in texts(variant, size).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    write_weights(folder, SIZES[size], VARIANTS[variant].answer, VARIANTS[variant].total_digits)


def main(argv: t.Optional[t.Sequence[str]] = None) -> int:
    about = "".join(f"  {name}: {variant.about}\n" for name, variant in VARIANTS.items())
    parser = argparse.ArgumentParser(
        description="Write a demo checkpoint.",
        epilog=f"variants:\n{about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--variant", choices=VARIANTS, default="modelopt")
    parser.add_argument("--size", choices=SIZES, default="default")
    args = parser.parse_args(argv)
    make_checkpoint(args.out, args.variant, args.size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
