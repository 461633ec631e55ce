# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What a checkpoint's JSON files say about attention and quantisation, and in which places vLLM looks for it."""

from __future__ import annotations

import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._json_text import JsonTextError, parse
from ansible_collections.modelfleet.serving.plugins.module_utils._kv_rules import GQA, MLA_DENSE, MLA_SPARSE

CONFIG = "config.json"
HF_QUANT_CONFIG = "hf_quant_config.json"

Document = t.Mapping[str, t.Any]


class CheckpointError(Exception):
    """The files are not those of a checkpoint; the message is fit for the user."""


class Place(t.NamedTuple):
    """A quantisation block: an object in which, or in whose ``quantization``, vLLM may find the KV-cache dtype."""

    file: str
    path: tuple[str, ...]


class Entry(t.NamedTuple):
    """A key that says something about the KV cache, as found."""

    file: str
    path: tuple[str, ...]
    value: t.Any
    #: of the block that it stands in, ``modelopt...`` for the shapes that ModelOpt writes without naming itself
    quant_method: str

    @property
    def key(self) -> str:
        return ".".join(self.path)


class Attention(t.NamedTuple):
    """A key that only models of this attention kind have."""

    key: str
    kind: str


class Checkpoint(t.NamedTuple):
    """The JSON files of a checkpoint that decide how vLLM runs it."""

    texts: t.Mapping[str, str]
    documents: t.Mapping[str, Document]


#: in the order in which vLLM looks; the first block that is there counts
PLACES = (
    Place(CONFIG, ("quantization_config",)),
    Place(HF_QUANT_CONFIG, ()),
    Place(CONFIG, ("compression_config",)),
    Place(CONFIG, ("text_config", "quantization_config")),
    Place(CONFIG, ("text_config", "compression_config")),
)

#: within a block; the first that is not empty counts, so all of them matter
ENTRY_PATHS = (
    ("quantization", "kv_cache_scheme"),
    ("kv_cache_scheme",),
    ("quantization", "kv_cache_quant_algo"),
    ("kv_cache_quant_algo",),
)

#: sparse models have the keys of both MLA kinds
ATTENTION = (
    Attention("index_topk", MLA_SPARSE),
    Attention("kv_lora_rank", MLA_DENSE),
)


def parse_object(text: str, name: str) -> Document:
    """Raises CheckpointError when ``text`` is not one JSON object."""
    try:
        document = parse(text)
    except JsonTextError as exc:
        raise CheckpointError(
            f"{name} is not valid JSON: {exc}. Verify the snapshot with modelfleet.serving.hf_snapshot, or report "
            "it to the publisher of the checkpoint."
        ) from exc
    if not isinstance(document, dict):
        raise CheckpointError(f"{name} holds a JSON {type(document).__name__}, not an object.")
    return document


def read(texts: t.Mapping[str, str], where: str) -> Checkpoint:
    """The checkpoint whose files are ``texts``; ``where`` names it in errors."""
    if CONFIG not in texts:
        raise CheckpointError(
            f"{where} has no {CONFIG}: it is not a checkpoint that vLLM can load, or its download is not complete."
        )
    return Checkpoint(texts, {name: parse_object(text, f"{where}/{name}") for name, text in texts.items()})


def find(document: t.Any, path: t.Iterable[str]) -> t.Any:
    """The value at ``path``, or None where there is none."""
    for key in path:
        if not isinstance(document, dict):
            return None
        document = document.get(key)
    return document


def attention(checkpoint: Checkpoint) -> str:
    """The attention kind: grouped-query attention unless a key of an MLA model says otherwise."""
    config = checkpoint.documents[CONFIG]
    for row in ATTENTION:
        if find(config, (row.key,)) or find(config, ("text_config", row.key)):
            return row.kind
    return GQA


def _blocks(checkpoint: Checkpoint) -> t.Iterator[tuple[Place, Document]]:
    for place in PLACES:
        block = find(checkpoint.documents.get(place.file), place.path)
        if isinstance(block, dict):
            yield place, block


def _quant_method(place: Place, block: Document) -> str:
    # the separate file is ModelOpt's alone, and its shape inside config.json has no quant_method either
    if place.file == HF_QUANT_CONFIG or find(block, ("producer", "name")) == "modelopt":
        return "modelopt"
    return str(block.get("quant_method") or "").lower().replace("_", "-")


def _block_entries(place: Place, block: Document) -> t.Iterator[Entry]:
    for path in ENTRY_PATHS:
        value = find(block, path)
        if value is not None:
            yield Entry(place.file, place.path + path, value, _quant_method(place, block))


def entries(checkpoint: Checkpoint) -> tuple[Entry, ...]:
    """All KV-cache entries that are not null, in all places, whether this or that release reads them or not."""
    return tuple(entry for place, block in _blocks(checkpoint) for entry in _block_entries(place, block))


def effective_entry(checkpoint: Checkpoint) -> Entry | None:
    """The one entry that vLLM goes by when it follows entries at all."""
    for place, block in _blocks(checkpoint):
        return next((entry for entry in _block_entries(place, block) if entry.value), None)
    return None


def asked_dtype(entry: Entry) -> str:
    """The dtype that an entry asks for: ``fp8``, ``nvfp4``, or ``auto`` for what vLLM does not understand."""
    value = entry.value
    if entry.quant_method.startswith("compressed-tensors"):
        # any scheme at all is taken for FP8; the string is ModelOpt's and means nothing here
        return "fp8" if entry.path[-1] == "kv_cache_scheme" else "auto"
    if isinstance(value, dict):
        shape = (value.get("num_bits"), value.get("type"))
        if shape == (8, "float") and value.get("dynamic") is False:
            return "fp8"
        return "nvfp4" if shape == (4, "float") else "auto"
    return {"fp8": "fp8", "nvfp4": "nvfp4"}.get(str(value).lower(), "auto")


__all__ = (
    "ATTENTION",
    "CONFIG",
    "ENTRY_PATHS",
    "HF_QUANT_CONFIG",
    "PLACES",
    "Checkpoint",
    "CheckpointError",
    "Document",
    "Entry",
    "Place",
    "asked_dtype",
    "attention",
    "effective_entry",
    "entries",
    "find",
    "parse_object",
    "read",
)
