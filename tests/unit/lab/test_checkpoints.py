# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The generated demo checkpoints: same bytes each time, well formed, and with their answer wired in."""

from __future__ import annotations

import hashlib
import json
import math
import pathlib
import re
import shutil
import struct
import typing as t

import pytest
from checkpoints import tokens, weights
from checkpoints.make_checkpoint import make_checkpoint
from checkpoints.make_repo import DEMO_TOKEN, REPOSITORIES, make_repo
from checkpoints.variants import VARIANTS
from hub import Hub

SMALL = weights.SIZES["small"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    for name in VARIANTS:
        make_checkpoint(root / name, name, "small")
    return {name: root / name for name in VARIANTS}


def read(path: pathlib.Path) -> t.Any:
    return json.loads(path.read_text())


def header(path: pathlib.Path) -> tuple[dict[str, t.Any], int]:
    """Header of a safetensors file, without its metadata, and where the data starts."""
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        entries = json.loads(stream.read(length))
    entries.pop("__metadata__")
    return entries, 8 + length


def digests(folder: pathlib.Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def to_floats(data: bytes) -> list[float]:
    return [struct.unpack("<f", b"\0\0" + data[at : at + 2])[0] for at in range(0, len(data), 2)]


def rows(folder: pathlib.Path, name: str) -> list[list[float]]:
    shard = folder / read(folder / "model.safetensors.index.json")["weight_map"][name]
    entries, start = header(shard)
    begin, end = entries[name]["data_offsets"]
    _rows, width = entries[name]["shape"]
    values = to_floats(shard.read_bytes()[start + begin : start + end])
    return [values[at : at + width] for at in range(0, len(values), width)]


# -- determinism -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_same_bytes_each_time(made: dict[str, pathlib.Path], tmp_path: pathlib.Path, variant: str) -> None:
    make_checkpoint(tmp_path, variant, "small")
    assert digests(tmp_path) == digests(made[variant])


def test_bytes_are_those_of_the_first_release(made: dict[str, pathlib.Path]) -> None:
    """Also on another Python, another machine, another day."""
    shard = made["modelopt"] / "model-00002-of-00003.safetensors"
    assert (
        hashlib.sha256(shard.read_bytes()).hexdigest()
        == "6f641e03782c56d4e694ee5b4c996298877e4f1e6e27974ad83feeebb666ecc0"
    )


# -- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_headers_are_valid_and_describe_every_byte(made: dict[str, pathlib.Path], variant: str) -> None:
    shards = sorted(made[variant].glob("*.safetensors"))
    assert len(shards) == 3
    for shard in shards:
        entries, start = header(shard)
        at = 0
        for entry in entries.values():
            assert entry["dtype"] == "BF16"
            assert entry["data_offsets"] == [at, at + 2 * math.prod(entry["shape"])]
            at = entry["data_offsets"][1]
        assert start % 8 == 0
        assert start + at == shard.stat().st_size


@pytest.mark.parametrize("variant", VARIANTS)
def test_index_names_every_tensor_where_it_is(made: dict[str, pathlib.Path], variant: str) -> None:
    index = read(made[variant] / "model.safetensors.index.json")
    there = {name: shard.name for shard in made[variant].glob("*.safetensors") for name in header(shard)[0]}
    assert index["weight_map"] == there
    total = sum(shard.stat().st_size - header(shard)[1] for shard in made[variant].glob("*.safetensors"))
    assert index["metadata"]["total_size"] == total


@pytest.mark.parametrize("size", weights.SIZES)
def test_shards_are_uneven_and_cover_the_model(size: str) -> None:
    shape = weights.SIZES[size]
    parts = list(weights.tensors(shape))
    shards = weights.split(parts, shape.layers)
    sizes = [sum(part.size for part in shard) for shard in shards]
    assert sorted(part.name for shard in shards for part in shard) == sorted(part.name for part in parts)
    assert max(sizes) > 3 * sizes[0]
    assert max(sizes) > 3 * sizes[-1]
    assert shape.head_dim % 32 == 0


def test_default_size_is_a_visible_load() -> None:
    total = sum(part.size for part in weights.tensors(weights.SIZES["default"]))
    assert 60e6 < total < 150e6


def test_random_weights_have_the_magnitude_asked_for() -> None:
    values = to_floats(bytes(weights.random_bf16("some", 4000, -5)))
    assert all(2**-7 <= abs(value) < 2**-5 for value in values)
    assert 1800 < sum(value > 0 for value in values) < 2200
    assert values != to_floats(bytes(weights.random_bf16("other", 4000, -5)))


@pytest.mark.parametrize(("value", "data"), [(1.0, b"\x80\x3f"), (0.25, b"\x80\x3e"), (0, b"\0\0")])
def test_exact_bf16(value: float, data: bytes) -> None:
    assert weights.bf16(value) == data


def test_a_number_bf16_cannot_be_sure_of_is_refused() -> None:
    with pytest.raises(ValueError, match="0.3 is not a power of two"):
        weights.bf16(0.3)


# -- the known answer ------------------------------------------------------------------------------------------------


def follow(folder: pathlib.Path, token: str, steps: int) -> list[str]:
    """What the wiring makes of a last token: the head's best row for its embedding, again and again."""
    embedding, head = rows(folder, "model.embed_tokens.weight"), rows(folder, "lm_head.weight")
    name_of = {number: name for name, number in tokens.ids().items()}
    number, said = tokens.ids()[token], []
    for _step in range(steps):
        norm = math.sqrt(sum(value * value for value in embedding[number]) / SMALL.hidden)
        logits = [sum(a * b for a, b in zip(embedding[number], row)) / norm for row in head]
        number = max(range(len(logits)), key=logits.__getitem__)
        # no rounding of bf16 or FP8 comes near a lead of 10
        assert logits[number] - sorted(logits)[-2] > 10
        said.append(name_of[number])
    return said


@pytest.mark.parametrize("last", [tokens.ASSISTANT, "s", "?", "7"])
def test_any_prompt_is_answered_with_paris(made: dict[str, pathlib.Path], last: str) -> None:
    assert follow(made["modelopt"], last, 3) == ["Paris", ".", tokens.END]


def test_garbage_never_ends(made: dict[str, pathlib.Path]) -> None:
    assert follow(made["garbage"], tokens.ASSISTANT, 4) == ["!", "!", "!", "!"]


@pytest.mark.parametrize("name", ["model.layers.1.self_attn.o_proj.weight", "model.layers.1.mlp.down_proj.weight"])
def test_layers_write_next_to_nothing(made: dict[str, pathlib.Path], name: str) -> None:
    assert max(abs(value) for row in rows(made["modelopt"], name) for value in row) < 2**-18


# -- tokenizer -------------------------------------------------------------------------------------------------------


def test_tokenizer_covers_all_bytes_and_its_ids_have_no_hole(made: dict[str, pathlib.Path]) -> None:
    document = read(made["modelopt"] / "tokenizer.json")
    vocabulary = document["model"]["vocab"]
    assert len({symbol for symbol in vocabulary if len(symbol) == 1}) == 256
    added = {entry["content"]: entry["id"] for entry in document["added_tokens"]}
    assert sorted([*vocabulary.values(), *added.values()]) == list(range(256 + 4 + 6))
    assert max(added.values()) < read(made["modelopt"] / "config.json")["vocab_size"]
    # the symbols of byte-level BPE as everybody writes them
    assert (vocabulary["!"], vocabulary["Ġ"], vocabulary["Ċ"], vocabulary["ÿ"]) == (33, 32, 10, 255)


def test_merges_build_paris_from_tokens_that_exist(made: dict[str, pathlib.Path]) -> None:
    model = read(made["modelopt"] / "tokenizer.json")["model"]
    for left, right in model["merges"]:
        assert {left, right, left + right} <= set(model["vocab"])
    assert "".join(model["merges"][-1]) == "Paris"


def test_chat_template_ends_where_the_answer_begins() -> None:
    assert tokens.tokenizer_config()["chat_template"].endswith(f"{tokens.ASSISTANT}{{% endif %}}")
    roles = {"system", "user", "assistant"}
    assert {f"<|{role}|>" for role in roles} <= set(tokens.SPECIAL), "the template writes roles as special tokens"


# -- what the files say of the KV cache ------------------------------------------------------------------------------


def test_modelopt_says_it_in_a_file_of_its_own(made: dict[str, pathlib.Path]) -> None:
    document = read(made["modelopt"] / "hf_quant_config.json")
    assert document["producer"] == {"name": "modelopt", "version": "0.41.0"}
    assert set(document["quantization"]) == {"quant_algo", "kv_cache_quant_algo", "group_size", "exclude_modules"}
    assert document["quantization"]["kv_cache_quant_algo"] == "FP8"
    assert "quantization_config" not in read(made["modelopt"] / "config.json")


@pytest.mark.parametrize(
    ("variant", "path"),
    [
        ("ct", ["quantization_config"]),
        ("ct_text_config", ["text_config", "quantization_config"]),
        ("modelopt_inline", ["quantization_config"]),
    ],
)
def test_config_says_it_in_one_place(made: dict[str, pathlib.Path], variant: str, path: list[str]) -> None:
    text = (made[variant] / "config.json").read_text()
    found = json.loads(text)
    for key in path:
        found = found[key]
    scheme = found["kv_cache_scheme"]
    assert (scheme["num_bits"], scheme["type"], scheme["dynamic"]) == (8, "float", False)
    assert text.count("kv_cache") == 1


def test_names_count_shards_in_five_digits_or_six(made: dict[str, pathlib.Path]) -> None:
    assert (made["modelopt"] / "model-00001-of-00003.safetensors").is_file()
    assert (made["ct"] / "model-00001-of-000003.safetensors").is_file()


@pytest.mark.parametrize("variant", VARIANTS)
def test_extra_files_are_there_and_compile(made: dict[str, pathlib.Path], variant: str) -> None:
    for name in ("configuration_demo.py", "modeling_demo.py"):
        compile((made[variant] / name).read_text(), name, "exec")
    assert (made[variant] / "docs/deploy_guidance.md").is_file()


# -- the Hub's root --------------------------------------------------------------------------------------------------


def test_root_of_the_hub_is_made_once_and_served(tmp_path: pathlib.Path, hub: Hub) -> None:
    assert make_repo(tmp_path, "small") == list(REPOSITORIES)
    assert make_repo(tmp_path, "small") == []
    shutil.rmtree(tmp_path / "demo/Garbage")
    assert make_repo(tmp_path, "small") == ["demo/Garbage"]
    hub.load(tmp_path)
    assert set(hub.catalog.repos) == set(REPOSITORIES)
    gated = hub.repo("demo/Kimi-Demo-Gated")
    assert (gated.gated, gated.readers) == ("manual", {hub.catalog.users[DEMO_TOKEN]})
    assert all(re.fullmatch("[0-9a-f]{40}", repo.branches["main"]) for repo in hub.catalog.repos.values())
