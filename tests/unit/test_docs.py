# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pages that are written from tables agree with them."""

from __future__ import annotations

import importlib.util
import pathlib
import types

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._findings import FINDINGS
from ansible_collections.modelfleet.serving.plugins.module_utils._signatures import SIGNATURES
from ansible_collections.modelfleet.serving.plugins.module_utils._stage_lines import STAGE_LINES
from ansible_collections.modelfleet.serving.plugins.module_utils._stages import STAGES

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def diagnosis() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("diagnosis", ROOT / "scripts" / "diagnosis.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_on_diagnosis_is_up_to_date(diagnosis: types.ModuleType) -> None:
    written = (ROOT / "docs" / "diagnosis.md").read_text(encoding="utf-8")
    assert written == diagnosis.page(), "make docs writes it anew"


def test_every_row_is_on_the_page_once(diagnosis: types.ModuleType) -> None:
    lines = diagnosis.page().split("\n")
    for row in (*SIGNATURES, *FINDINGS):
        assert lines.count(f"### {row.id}") == 1, row.id
    for line in STAGE_LINES:
        assert sum(text.startswith(f"| `{line.stage}` | {line.id} | ") for text in lines) == 1, line.id


def test_everything_a_stage_has_is_in_words(diagnosis: types.ModuleType) -> None:
    assert set(diagnosis.ABOUT) == {stage.name for stage in STAGES}
    assert set(diagnosis.SIGNS) == {sign for stage in STAGES for sign in stage.full | stage.weak}
