# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""KV-cache dtypes: how vLLM chooses one from a checkpoint, and which ones each attention kind can run.

Three tables, a row a fact, each with how well it is known:

* ``source``: read in the source of the releases in its range,
* ``reported``: somebody saw it on real hardware and said so in public,
* ``measured``: seen by ourselves.

``RESOLVE`` says what ``--kv-cache-dtype auto`` becomes, ``SUPPORT`` what attention backends declare, ``REPORTS`` what
happens in spite of the declaration. Where a report contradicts a declaration, the report decides what is safe.
A new release is a new row, or an end to a row's range; never a new branch.

KV-cache dtypes are named ``fp8`` (all spellings of it), ``nvfp4``, ``fp8_ds_mla``, ``bfloat16`` and ``auto`` (the
model's own dtype, which vLLM also calls auto).
"""

from __future__ import annotations

import re
import typing as t

Numbers = tuple[int, ...]

GQA = "gqa"
MLA_DENSE = "mla_dense"
MLA_SPARSE = "mla_sparse"
ALL_KINDS = (GQA, MLA_DENSE, MLA_SPARSE)


class Range(t.NamedTuple):
    """Half open: ``low`` belongs to it, ``below`` does not. Numbers as in a version, or in a compute capability."""

    low: Numbers
    below: Numbers | None = None

    def holds(self, value: Numbers) -> bool:
        return self.low <= value and (self.below is None or value < self.below)


#: any release that was looked at, and later ones
SINCE_0_10 = Range((0, 10))
ANY_GPU = Range((0,))
CC_8_TO_12_1 = Range((8, 0), (12, 2))
CC_9 = Range((9,), (10,))
CC_9_10 = Range((9,), (11,))
CC_10 = Range((10,), (11,))
CC_12 = Range((12,), (13,))


class Resolve(t.NamedTuple):
    """What ``--kv-cache-dtype auto`` becomes. The first row that matches counts."""

    id: str
    #: beginning of ``quant_method``
    quant_method: str
    attention: tuple[str, ...]
    releases: Range
    #: whether the entry in the checkpoint is followed; otherwise the cache has the model's dtype
    followed: bool
    evidence: str
    source: str


class Support(t.NamedTuple):
    """An attention backend and the KV-cache dtypes that it declares."""

    id: str
    attention: str
    backend: str
    gpus: Range
    releases: Range
    kv_ok: tuple[str, ...]
    evidence: str
    source: str
    #: dtypes of ``kv_ok`` that came with a later release
    kv_since: tuple[tuple[str, Numbers], ...] = ()
    #: what this backend makes of ``auto`` where that is not the model's dtype
    auto_becomes: str = ""
    error: str = ""
    fix: str = ""
    note: str = ""

    def declares(self, kv: str, release: Numbers) -> bool:
        return kv in self.kv_ok and release >= dict(self.kv_since).get(kv, ())


class Report(t.NamedTuple):
    """A dtype that does not work although a backend declares it."""

    id: str
    attention: str
    gpus: Range
    releases: Range
    kv: str
    evidence: str
    source: str
    error: str
    #: only with decode context parallel
    context_parallel: bool = False


VLLM_SOURCE = "vLLM source of 0.10 to 0.33"

RESOLVE = (
    Resolve(
        "auto_old", "modelopt", (GQA, MLA_DENSE, MLA_SPARSE), Range((0, 10), (0, 14)), False, "source", VLLM_SOURCE
    ),
    Resolve(
        "auto_modelopt",
        "modelopt",
        ALL_KINDS,
        Range((0, 14)),
        True,
        "source",
        f"{VLLM_SOURCE}; vllm-project/vllm#29980",
    ),
    Resolve(
        "auto_ct_old",
        "compressed-tensors",
        ALL_KINDS,
        Range((0, 10), (0, 12)),
        False,
        "source",
        VLLM_SOURCE,
    ),
    Resolve("auto_ct_mla", "compressed-tensors", (MLA_DENSE, MLA_SPARSE), Range((0, 12)), False, "source", VLLM_SOURCE),
    Resolve(
        "auto_ct_attention_old", "compressed-tensors", (GQA,), Range((0, 12), (0, 15)), False, "source", VLLM_SOURCE
    ),
    Resolve("auto_ct_attention", "compressed-tensors", (GQA,), Range((0, 15)), True, "source", VLLM_SOURCE),
)

#: releases that know NVFP4 as a KV-cache dtype; before, the entry was not understood and gave the model's dtype
NVFP4_RELEASES = Range((0, 20))

BF16_FLAG = (("bfloat16", (0, 15)),)

# in the order in which a reader wants to see them: backends of few GPUs before those of all
SUPPORT = (
    Support(
        "mla_dense_flashinfer",
        MLA_DENSE,
        "FLASHINFER_MLA",
        CC_10,
        Range((0, 11)),
        ("auto", "bfloat16", "fp8"),
        "source",
        VLLM_SOURCE,
    ),
    Support(
        "mla_dense_cutlass",
        MLA_DENSE,
        "CUTLASS_MLA",
        CC_10,
        Range((0, 11)),
        ("auto", "bfloat16", "fp8"),
        "source",
        VLLM_SOURCE,
    ),
    Support(
        "mla_dense_tokenspeed", MLA_DENSE, "TOKENSPEED_MLA", CC_10, Range((0, 21)), ("fp8",), "source", VLLM_SOURCE
    ),
    Support(
        "mla_dense_flashmla",
        MLA_DENSE,
        "FLASHMLA",
        CC_9_10,
        Range((0, 11)),
        ("auto", "bfloat16", "fp8"),
        "source",
        VLLM_SOURCE,
    ),
    Support(
        "mla_dense_flash_attn",
        MLA_DENSE,
        "FLASH_ATTN_MLA",
        CC_9,
        Range((0, 11)),
        ("auto", "bfloat16"),
        "source",
        VLLM_SOURCE,
    ),
    Support(
        "mla_dense_triton_0_10",
        MLA_DENSE,
        "TRITON_MLA",
        ANY_GPU,
        Range((0, 10), (0, 15)),
        ("auto",),
        "source",
        f"{VLLM_SOURCE}; reported in vllm-project/vllm#32732 and #35577",
        error="TritonMLA V1 with FP8 KV cache (to 0.11.0), No valid attention backend found (later)",
        fix="null the entries of the checkpoint (0.14) or leave --kv-cache-dtype at auto (before); bfloat16 is refused",
    ),
    Support(
        "mla_dense_triton_0_15",
        MLA_DENSE,
        "TRITON_MLA",
        ANY_GPU,
        Range((0, 15), (0, 18)),
        ("auto", "bfloat16"),
        "source",
        VLLM_SOURCE,
        error="No valid attention backend found",
        fix="null the entries of the checkpoint, or --kv-cache-dtype bfloat16",
    ),
    Support(
        "mla_dense_triton_0_18",
        MLA_DENSE,
        "TRITON_MLA",
        ANY_GPU,
        Range((0, 18)),
        ("auto", "float16", "bfloat16", "fp8"),
        "source",
        f"{VLLM_SOURCE}; vllm-project/vllm#34597",
    ),
    Support(
        "mla_sparse_sm120_none",
        MLA_SPARSE,
        "none",
        CC_12,
        Range((0, 11), (0, 24)),
        (),
        "source",
        f"{VLLM_SOURCE}; reported in vllm-project/vllm#31936, #38006 and #45317",
        error="No valid attention backend found ... use_sparse=True",
        fix="vLLM 0.24 or later",
    ),
    Support(
        "mla_sparse_sm120",
        MLA_SPARSE,
        "FLASHINFER_MLA_SPARSE_SM120",
        CC_12,
        Range((0, 24)),
        ("auto", "fp8", "fp8_ds_mla"),
        "source",
        VLLM_SOURCE,
        auto_becomes="fp8_ds_mla",
        error="bfloat16 and float16 are refused",
        fix="leave the KV cache in FP8",
        note="needs a bf16 model, index_topk 2048 and the sparse-MLA decode API of FlashInfer",
    ),
    Support(
        "mla_sparse_flashmla",
        MLA_SPARSE,
        "FLASHMLA_SPARSE",
        CC_9_10,
        Range((0, 11)),
        ("auto", "bfloat16", "fp8_ds_mla", "fp8"),
        "source",
        VLLM_SOURCE,
        kv_since=(("fp8", (0, 18)),),
    ),
    Support(
        "gqa_flash_attn",
        GQA,
        "FLASH_ATTN",
        CC_12,
        Range((0, 11)),
        ("auto", "bfloat16"),
        "source",
        VLLM_SOURCE,
        kv_since=BF16_FLAG,
        note="FP8 only on compute capability 9 with FlashAttention 3, later on 10 with 4",
    ),
    Support(
        "gqa_flashinfer",
        GQA,
        "FLASHINFER",
        CC_8_TO_12_1,
        Range((0, 11)),
        ("auto", "bfloat16", "fp8"),
        "source",
        VLLM_SOURCE,
        kv_since=BF16_FLAG,
    ),
    Support("gqa_flashinfer_nvfp4", GQA, "FLASHINFER", CC_10, NVFP4_RELEASES, ("nvfp4",), "source", VLLM_SOURCE),
    Support(
        "gqa_flashinfer_nvfp4_fa2", GQA, "FLASHINFER", CC_8_TO_12_1, Range((0, 28)), ("nvfp4",), "source", VLLM_SOURCE
    ),
    Support(
        "gqa_triton",
        GQA,
        "TRITON_ATTN",
        ANY_GPU,
        Range((0, 11)),
        ("auto", "bfloat16", "fp8"),
        "source",
        VLLM_SOURCE,
        kv_since=BF16_FLAG,
    ),
    Support(
        "gqa_b12x",
        GQA,
        "B12X",
        CC_12,
        Range((0, 30)),
        ("auto", "bfloat16", "fp8"),
        "source",
        VLLM_SOURCE,
        note="only with --attention-backend B12X",
    ),
)

REPORTS = (
    Report(
        "mla_dense_sm120_fp8_shared_memory",
        MLA_DENSE,
        CC_12,
        Range((0, 18)),
        "fp8",
        "reported",
        "vllm-project/vllm#46721 (Kimi NVFP4 on eight RTX PRO 6000) and #53748 (0.27.1)",
        "the FP8 decode kernel of TRITON_MLA asks for 102,400 bytes of shared memory and the GPU has 101,376, and "
        "the server crashes",
    ),
    Report(
        "mla_dense_fp8_context_parallel",
        MLA_DENSE,
        ANY_GPU,
        Range((0, 10, 2), (0, 25)),
        "fp8",
        "source",
        f"{VLLM_SOURCE}; vllm-project/vllm#44044",
        "AssertionError DCP not support fp8 kvcache now., after the weights are loaded",
        context_parallel=True,
    ),
)


def numbers(text: str) -> Numbers:
    """The leading numbers of a version or compute capability: ``0.19.2rc1.dev3+cu130`` is 0.19.2.

    Raises ValueError when there are none.
    """
    found = re.match(r"\s*v?(\d+(?:\.\d+)*)", text)
    if not found:
        raise ValueError(f"{text!r} does not begin with a number")
    return tuple(int(part) for part in found.group(1).split("."))


def resolve(quant_method: str, attention: str, release: Numbers) -> Resolve | None:
    """The row that says whether vLLM follows a KV-cache entry, or None where no row does."""
    for row in RESOLVE:
        if quant_method.startswith(row.quant_method) and attention in row.attention and row.releases.holds(release):
            return row
    return None


class Offer(t.NamedTuple):
    """What the tables say of one attention kind on one GPU in one release."""

    rows: tuple[Support, ...]
    reports: tuple[Report, ...]
    release: Numbers

    def declaring(self, kv: str) -> tuple[Support, ...]:
        return tuple(row for row in self.rows if row.declares(kv, self.release))

    def report(self, kv: str) -> Report | None:
        return next((report for report in self.reports if report.kv == kv), None)

    @property
    def model_dtype(self) -> tuple[Support, ...]:
        """Rows with which a checkpoint that asks for nothing has a cache of the model's own dtype."""
        return tuple(row for row in self.declaring("auto") if not row.auto_becomes)


def offer(attention: str, gpu: Numbers, release: Numbers, context_parallel: bool = False) -> Offer:
    return Offer(
        tuple(
            row for row in SUPPORT if row.attention == attention and row.gpus.holds(gpu) and row.releases.holds(release)
        ),
        tuple(
            report
            for report in REPORTS
            if report.attention == attention
            and report.gpus.holds(gpu)
            and report.releases.holds(release)
            and (context_parallel or not report.context_parallel)
        ),
        release,
    )


__all__ = (
    "GQA",
    "MLA_DENSE",
    "MLA_SPARSE",
    "NVFP4_RELEASES",
    "REPORTS",
    "RESOLVE",
    "SUPPORT",
    "Numbers",
    "Offer",
    "Range",
    "Report",
    "Resolve",
    "Support",
    "numbers",
    "offer",
    "resolve",
)
