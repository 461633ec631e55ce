# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The demo model's weights: random bf16, with an answer wired through them, written as safetensors by hand.

How a model of random weights comes to a known answer: attention and MLP write next to nothing into the residual
stream, so what reaches the head is the embedding of the last token. Each embedding carries, in a block of its own, the
role of its token (plain, "Paris", ".", the end), much stronger than its random part; the row of the head that should
win for a role has the same block set. So any prompt is followed by "Paris", that by ".", that by the end, with logits
that no rounding of bf16 or FP8 turns round.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import random
import typing as t

from checkpoints import tokens

Json = dict[str, t.Any]

#: of one bf16 number, the exponent's last bit and the mantissa are random, the rest is fixed: so the magnitudes lie
#: between a quarter and once the named power of two
NORMAL, SILENT = -5, -19
BLOCK = 32
WIRE = 0.25
BYTES = 2


@dataclasses.dataclass(frozen=True)
class Shape:
    hidden: int
    layers: int
    ffn: int
    heads: int
    kv_heads: int

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads


#: head_dim is at least 32: FP8 KV on a CPU needs a multiple of it, and 16 kills the engine at the first request
SIZES: t.Mapping[str, Shape] = {
    "small": Shape(hidden=256, layers=2, ffn=512, heads=8, kv_heads=4),
    "default": Shape(hidden=512, layers=6, ffn=5120, heads=8, kv_heads=4),
    "large": Shape(hidden=1024, layers=12, ffn=10240, heads=16, kv_heads=4),
}


class Tensor(t.NamedTuple):
    name: str
    shape: tuple[int, ...]
    make: t.Callable[[], bytes]

    @property
    def size(self) -> int:
        return math.prod(self.shape) * BYTES


def bf16(value: float) -> bytes:
    """One number whose bf16 form is exact (a power of two, zero)."""
    if value == 0:
        return b"\0\0"
    mantissa, exponent = math.frexp(value)
    if mantissa != 0.5:
        raise ValueError(f"{value} is not a power of two")
    return ((exponent - 1 + 127) << 7).to_bytes(2, "little")


def random_bf16(name: str, count: int, power: int) -> bytearray:
    """Random numbers of both signs and magnitudes of 2**power/4 to 2**power; the same ones for the same name."""
    data = bytearray(random.Random(name).randbytes(count * BYTES))
    high = (power - 1 + 127) >> 1
    data[1::2] = data[1::2].translate(bytes([high] * 128 + [0x80 | high] * 128))
    return data


def set_block(data: bytearray, row: int, width: int, role: int) -> None:
    """Give a row the mark of a role, and nothing in the blocks of the other roles."""
    start = row * width * BYTES
    data[start : start + 4 * BLOCK * BYTES] = bytes(4 * BLOCK * BYTES)
    start += role * BLOCK * BYTES
    data[start : start + BLOCK * BYTES] = bf16(WIRE) * BLOCK


def roles(answer: str) -> tuple[dict[int, int], list[int]]:
    """Token id -> role where it is not 0, and for each role the id that follows."""
    known = tokens.ids()
    first, dot, end = known[answer], known["."], known[tokens.END]
    if answer == "!":  # as real garbage looks: the same token for ever
        return {}, [first]
    return {first: 1, dot: 2, end: 3}, [first, dot, end, end]


def tensors(shape: Shape, answer: str = "Paris") -> t.Iterator[Tensor]:
    hidden, kv = shape.hidden, shape.kv_heads * shape.head_dim
    role_of, next_of = roles(answer)

    def embedding() -> bytes:
        data = random_bf16("embed", tokens.VOCABULARY * hidden, NORMAL)
        for token in range(tokens.VOCABULARY):
            set_block(data, token, hidden, role_of.get(token, 0))
        return bytes(data)

    def head() -> bytes:
        data = random_bf16("head", tokens.VOCABULARY * hidden, NORMAL)
        # a row can follow two roles (the end follows itself): the first wins the block, the second is never needed
        for role, token in reversed(list(enumerate(next_of))):
            set_block(data, token, hidden, role)
        return bytes(data)

    def noise(name: str, *size: int, power: int = NORMAL) -> Tensor:
        return Tensor(name, size, lambda: bytes(random_bf16(name, math.prod(size), power)))

    def ones(name: str) -> Tensor:
        return Tensor(name, (hidden,), lambda: bf16(1.0) * hidden)

    yield Tensor("model.embed_tokens.weight", (tokens.VOCABULARY, hidden), embedding)
    for number in range(shape.layers):
        layer = f"model.layers.{number}"
        yield ones(f"{layer}.input_layernorm.weight")
        yield noise(f"{layer}.self_attn.q_proj.weight", hidden, hidden)
        yield noise(f"{layer}.self_attn.k_proj.weight", kv, hidden)
        yield noise(f"{layer}.self_attn.v_proj.weight", kv, hidden)
        yield noise(f"{layer}.self_attn.o_proj.weight", hidden, hidden, power=SILENT)
        yield ones(f"{layer}.post_attention_layernorm.weight")
        yield noise(f"{layer}.mlp.gate_proj.weight", shape.ffn, hidden)
        yield noise(f"{layer}.mlp.up_proj.weight", shape.ffn, hidden)
        yield noise(f"{layer}.mlp.down_proj.weight", hidden, shape.ffn, power=SILENT)
    yield ones("model.norm.weight")
    yield Tensor("lm_head.weight", (tokens.VOCABULARY, hidden), head)


def split(parts: t.Sequence[Tensor], layers: int) -> list[list[Tensor]]:
    """Shards of uneven size, as real ones are: a small first, one of two layers, one a layer, a tiny last."""
    first = [part for part in parts if "embed" in part.name or "layers.0.self_attn" in part.name]
    last = [part for part in parts if part.name in ("model.norm.weight", "lm_head.weight")]
    middle = [part for part in parts if part not in first and part not in last]
    by_layer = [[part for part in middle if f"layers.{number}." in part.name] for number in range(layers)]
    return [first, by_layer[0] + by_layer[1], *by_layer[2:], last]


def write_safetensors(path: pathlib.Path, parts: t.Sequence[Tensor]) -> None:
    header: Json = {"__metadata__": {"format": "pt"}}
    at = 0
    for part in parts:
        header[part.name] = {"dtype": "BF16", "shape": list(part.shape), "data_offsets": [at, at + part.size]}
        at += part.size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data starts at a multiple of 8
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for part in parts:
            stream.write(part.make())


def write_weights(folder: pathlib.Path, shape: Shape, answer: str, total_digits: int = 5) -> None:
    """Shards and their index. Published names count the shards in five digits or in six."""
    shards = split(list(tensors(shape, answer)), shape.layers)
    weight_map: dict[str, str] = {}
    for number, parts in enumerate(shards, 1):
        name = f"model-{number:05}-of-{len(shards):0{total_digits}}.safetensors"
        write_safetensors(folder / name, parts)
        weight_map.update((part.name, name) for part in parts)
    total = sum(part.size for parts in shards for part in parts)
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
