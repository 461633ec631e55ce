# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rule tables. Every row has cases that fail when the row is removed or its range moves."""

from __future__ import annotations

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils import _kv_rules as rules
from ansible_collections.modelfleet.serving.plugins.module_utils._kv_rules import numbers, offer, resolve


@pytest.mark.parametrize(
    ("method", "attention", "release", "row", "followed"),
    [
        ("modelopt-fp4", "mla_dense", "0.10.0", "auto_old", False),
        ("modelopt", "gqa", "0.13.0", "auto_old", False),
        ("modelopt-fp4", "mla_dense", "0.14.0", "auto_modelopt", True),
        ("modelopt", "gqa", "0.33.0", "auto_modelopt", True),
        ("compressed-tensors", "mla_dense", "0.11.2", "auto_ct_old", False),
        ("compressed-tensors", "gqa", "0.10.2", "auto_ct_old", False),
        ("compressed-tensors", "mla_dense", "0.12.0", "auto_ct_mla", False),
        ("compressed-tensors", "mla_sparse", "0.33.0", "auto_ct_mla", False),
        ("compressed-tensors", "gqa", "0.14.1", "auto_ct_attention_old", False),
        ("compressed-tensors", "gqa", "0.15.1", "auto_ct_attention", True),
        ("compressed-tensors", "gqa", "0.33.0", "auto_ct_attention", True),
    ],
)
def test_resolve(method: str, attention: str, release: str, row: str, followed: bool) -> None:
    found = resolve(method, attention, numbers(release))
    assert found is not None
    assert (found.id, found.followed) == (row, followed)


@pytest.mark.parametrize(("method", "release"), [("modelopt", "0.9.2"), ("fp8", "0.32.0"), ("", "0.32.0")])
def test_no_row_says_anything(method: str, release: str) -> None:
    assert resolve(method, "gqa", numbers(release)) is None


SUPPORT_CASES = [
    # attention, compute capability, release, KV-cache dtype, rows that declare it
    ("mla_dense", "12.0", "0.14.1", "auto", ["mla_dense_triton_0_10"]),
    ("mla_dense", "12.0", "0.14.1", "bfloat16", []),
    ("mla_dense", "12.0", "0.14.1", "fp8", []),
    ("mla_dense", "12.0", "0.15.1", "bfloat16", ["mla_dense_triton_0_15"]),
    ("mla_dense", "12.0", "0.17.1", "fp8", []),
    ("mla_dense", "12.0", "0.18.0", "fp8", ["mla_dense_triton_0_18"]),
    ("mla_dense", "12.0", "0.33.0", "fp8", ["mla_dense_triton_0_18"]),
    ("mla_dense", "12.1", "0.33.0", "float16", ["mla_dense_triton_0_18"]),
    ("mla_dense", "10.0", "0.11.0", "fp8", ["mla_dense_flashinfer", "mla_dense_cutlass", "mla_dense_flashmla"]),
    (
        "mla_dense",
        "10.3",
        "0.21.0",
        "fp8",
        [
            "mla_dense_flashinfer",
            "mla_dense_cutlass",
            "mla_dense_tokenspeed",
            "mla_dense_flashmla",
            "mla_dense_triton_0_18",
        ],
    ),
    ("mla_dense", "9.0", "0.11.0", "fp8", ["mla_dense_flashmla"]),
    ("mla_dense", "9.0", "0.11.0", "bfloat16", ["mla_dense_flashmla", "mla_dense_flash_attn"]),
    ("mla_sparse", "12.0", "0.23.0", "fp8", []),
    ("mla_sparse", "12.0", "0.24.0", "fp8", ["mla_sparse_sm120"]),
    ("mla_sparse", "12.0", "0.24.0", "fp8_ds_mla", ["mla_sparse_sm120"]),
    ("mla_sparse", "12.0", "0.24.0", "bfloat16", []),
    ("mla_sparse", "9.0", "0.17.1", "fp8_ds_mla", ["mla_sparse_flashmla"]),
    ("mla_sparse", "9.0", "0.17.1", "fp8", []),
    ("mla_sparse", "10.0", "0.18.0", "fp8", ["mla_sparse_flashmla"]),
    ("gqa", "12.0", "0.14.1", "auto", ["gqa_flash_attn", "gqa_flashinfer", "gqa_triton"]),
    ("gqa", "12.0", "0.14.1", "bfloat16", []),
    ("gqa", "12.0", "0.15.1", "bfloat16", ["gqa_flash_attn", "gqa_flashinfer", "gqa_triton"]),
    ("gqa", "12.0", "0.11.0", "fp8", ["gqa_flashinfer", "gqa_triton"]),
    ("gqa", "12.0", "0.30.0", "fp8", ["gqa_flashinfer", "gqa_triton", "gqa_b12x"]),
    ("gqa", "7.5", "0.30.0", "fp8", ["gqa_triton"]),
    ("gqa", "10.0", "0.20.0", "nvfp4", ["gqa_flashinfer_nvfp4"]),
    ("gqa", "12.0", "0.27.1", "nvfp4", []),
    ("gqa", "12.0", "0.28.0", "nvfp4", ["gqa_flashinfer_nvfp4_fa2"]),
]


@pytest.mark.parametrize(("attention", "gpu", "release", "kv", "rows"), SUPPORT_CASES)
def test_support(attention: str, gpu: str, release: str, kv: str, rows: list[str]) -> None:
    found = offer(attention, numbers(gpu), numbers(release))
    assert [row.id for row in found.declaring(kv)] == rows


def test_every_support_row_has_a_case() -> None:
    without_dtypes = {"mla_sparse_sm120_none"}
    assert {row.id for row in rules.SUPPORT} - without_dtypes == {row for case in SUPPORT_CASES for row in case[4]}


def test_sparse_mla_on_sm120_has_no_backend_before_0_24() -> None:
    found = offer("mla_sparse", (12, 0), (0, 23, 0))
    assert [(row.id, row.backend, row.kv_ok) for row in found.rows] == [("mla_sparse_sm120_none", "none", ())]


def test_auto_is_not_the_models_dtype_for_sparse_mla_on_sm120() -> None:
    found = offer("mla_sparse", (12, 0), (0, 24))
    assert [row.auto_becomes for row in found.declaring("auto")] == ["fp8_ds_mla"]
    assert found.model_dtype == ()


@pytest.mark.parametrize(
    ("attention", "gpu", "release", "context_parallel", "report"),
    [
        ("mla_dense", "12.0", "0.18.0", False, "mla_dense_sm120_fp8_shared_memory"),
        ("mla_dense", "12.0", "0.33.0", False, "mla_dense_sm120_fp8_shared_memory"),
        ("mla_dense", "12.0", "0.17.1", False, None),
        ("mla_dense", "9.0", "0.20.0", False, None),
        ("gqa", "12.0", "0.20.0", False, None),
        ("mla_dense", "9.0", "0.10.2", True, "mla_dense_fp8_context_parallel"),
        ("mla_dense", "9.0", "0.24.0", True, "mla_dense_fp8_context_parallel"),
        ("mla_dense", "9.0", "0.25.1", True, None),
        ("mla_dense", "9.0", "0.10.1.1", True, None),
    ],
)
def test_reports(attention: str, gpu: str, release: str, context_parallel: bool, report: str | None) -> None:
    found = offer(attention, numbers(gpu), numbers(release), context_parallel).report("fp8")
    assert (found.id if found else None) == report


def test_every_row_says_how_it_is_known_and_has_its_own_name() -> None:
    rows = [*rules.RESOLVE, *rules.SUPPORT, *rules.REPORTS]
    assert {row.evidence for row in rows} <= {"source", "reported", "measured"}
    assert all(row.source for row in rows)
    assert len({row.id for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("0.32.0", (0, 32, 0)),
        ("v0.14.1", (0, 14, 1)),
        ("0.10.1.1", (0, 10, 1, 1)),
        ("0.19.2rc1.dev134+gfe9c3d6c5.cu130", (0, 19, 2)),
        ("12.0", (12, 0)),
        ("9", (9,)),
    ],
)
def test_numbers(text: str, result: tuple[int, ...]) -> None:
    assert numbers(text) == result


def test_numbers_refuses_what_is_no_version() -> None:
    with pytest.raises(ValueError, match=r"^'nightly' does not begin with a number$"):
        numbers("nightly")
