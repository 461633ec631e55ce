# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading log lines, and what a whole log comes to."""

from __future__ import annotations

import typing

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._log_fold import LogFold, News
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord
from ansible_collections.modelfleet.serving.plugins.module_utils._vllm_log import (
    Bar,
    Line,
    parse_bar,
    parse_line,
    pieces,
    presentable,
)

LINES = {
    "a record with its prefix (to 0.30)": (
        "(EngineCore pid=813) INFO 11-30 22:55:46 [gpu_model_runner.py:4777] Starting to load model m...",
        Line("EngineCore pid=813", "INFO", "11-30 22:55:46", "Starting to load model m...", "gpu_model_runner.py:4777"),
    ),
    "the prefix of 0.10": (
        "(VllmWorker rank=3 pid=420) INFO 07-25 12:00:00 [parallel_state.py:1] text",
        Line("VllmWorker rank=3 pid=420", "INFO", "07-25 12:00:00", "text", "parallel_state.py:1"),
    ),
    "a doubled prefix (0.16, 0.17)": (
        "(Worker pid=9) (Worker_TP1 pid=9) WARNING 11-30 22:55:46 [x.py:1] text",
        Line("Worker_TP1 pid=9", "WARNING", "11-30 22:55:46", "text", "x.py:1"),
    ),
    "prefixes of two processes at once": (
        "(Worker pid=422) (Worker pid=421) WARNING 11-30 22:55:46 [x.py:1] text",
        Line("Worker pid=421", "WARNING", "11-30 22:55:46", "text", "x.py:1"),
    ),
    "Ray around it": (
        "(RayWorkerWrapper pid=248, ip=10.1.160.68) INFO 11-30 22:55:46 [x.py:1] text",
        Line("RayWorkerWrapper pid=248", "INFO", "11-30 22:55:46", "text", "x.py:1"),
    ),
    "a path instead of a name (DEBUG, 0.12 on)": (
        "DEBUG 11-30 22:55:46 [v1/engine/utils.py:950] Waiting for 1 local, 0 remote core engine proc(s) to start.",
        Line("", "DEBUG", "11-30 22:55:46", "Waiting for 1 local, 0 remote core engine proc(s) to start.",
             "v1/engine/utils.py:950"),
    ),
    "VLLM_LOGGING_PREFIX": (
        "[node3] INFO 11-30 22:55:46 [x.py:1] text",
        Line("", "INFO", "11-30 22:55:46", "text", "x.py:1"),
    ),
    "VLLM_LOGGING_PREFIX before a prefix (0.31 on)": (
        "[node3] (EngineCore pid=813) INFO 11-30 22:55:46 [x.py:1] text",
        Line("EngineCore pid=813", "INFO", "11-30 22:55:46", "text", "x.py:1"),
    ),
    "what a collector of logs puts before each line": (
        "vllm-1  | (EngineCore pid=813) INFO 11-30 22:55:46 [x.py:1] text",
        Line("EngineCore pid=813", "INFO", "11-30 22:55:46", "text", "x.py:1"),
    ),
    "an exception nobody caught, by torch": (
        "(Worker_TP0 pid=9) [rank0]: ValueError: text",
        Line("Worker_TP0 pid=9", "", "", "ValueError: text"),
    ),
    "the same without a prefix (0.31 on)": (
        "[rank3]: Traceback (most recent call last):",
        Line("", "", "", "Traceback (most recent call last):"),
    ),
    "FlashInfer": (
        "2026-11-30 22:55:46,250 - INFO - autotuner.py:457 - flashinfer.jit: [Autotuner]: Autotuning process ends",
        Line("", "INFO", "11-30 22:55:46", "[Autotuner]: Autotuning process ends", "autotuner.py:457"),
    ),
    "JSON (--logging-config.formatter json, 0.32 on)": (
        '{"asctime": "2026-11-30 22:55:46,250", "levelname": "INFO", "name": "vllm.v1.engine.core", '
        '"processName": "EngineCore", "process": 813, "message": "text \\"quoted\\""}',
        Line("EngineCore pid=813", "INFO", "11-30 22:55:46", 'text "quoted"', "vllm.v1.engine.core:0"),
    ),
    "JSON of somebody else": (
        '{"message": "text"}',
        Line("", "", "", '{"message": "text"}'),
    ),
    "source text of a traceback": (
        '(EngineCore pid=813)     raise ValueError("INFO 11-30 22:55:46 [x.py:1] text")',
        Line("EngineCore pid=813", "", "", '    raise ValueError("INFO 11-30 22:55:46 [x.py:1] text")'),
    ),
    "colours": (
        "\x1b[0;36m(APIServer pid=4208)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m11-30 23:11:57\x1b[0m "
        "\x1b[90m[a.py:3]\x1b[0m text",
        Line("APIServer pid=4208", "INFO", "11-30 23:11:57", "text", "a.py:3"),
    ),
    "uvicorn": (
        "INFO:     Application startup complete.",
        Line("", "INFO", "", "Application startup complete."),
    ),
    "uvicorn with prefix and colours": (
        "(APIServer pid=689) \x1b[32mINFO\x1b[0m:     Started server process [689]",
        Line("APIServer pid=689", "INFO", "", "Started server process [689]"),
    ),
    "a bare traceback": (
        "(EngineCore pid=813)     self.run()",
        Line("EngineCore pid=813", "", "", "    self.run()"),
    ),
    "a record without text": (
        "(APIServer pid=689) INFO 11-30 22:55:00 [utils.py:299] ",
        Line("APIServer pid=689", "INFO", "11-30 22:55:00", "", "utils.py:299"),
    ),
    "something else": (
        "[W1130 22:55:45.6 socket.cpp:207] [c10d] text",
        Line("", "", "", "[W1130 22:55:45.6 socket.cpp:207] [c10d] text"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line"), LINES.values(), ids=LINES)
def test_parse_line(text: str, line: Line) -> None:
    assert parse_line(text) == line


BARS = {
    "Loading safetensors checkpoint shards:  22% Completed | 14/64 [07:24<28:36, 34.34s/it]":
        Bar("Loading safetensors checkpoint shards", 14, 64, 444, 1 / 34.34, weights=True, files=True),
    "Loading safetensors checkpoint shards:   0% Completed | 0/16 [00:00<?, ?it/s]":
        Bar("Loading safetensors checkpoint shards", 0, 16, 0, None, weights=True, files=True),
    "Loading safetensors checkpoint shards (eager): 100% Completed | 3/3 [1:00:01<00:00,  5.56it/s]":
        Bar("Loading safetensors checkpoint shards (eager)", 3, 3, 3601, 5.56, weights=True, files=True),
    "Multi-thread loading shards:  50% Completed | 60/119 [01:00<01:00,  1.00it/s]":
        Bar("Multi-thread loading shards", 60, 119, 60, 1.0, weights=True, files=True),
    "Loading safetensors using Runai Model Streamer:  50% Completed | 1.2k/2.4k [00:10<00:10, 120it/s]":
        Bar("Loading safetensors using Runai Model Streamer", 1200, 2400, 10, 120, weights=True, files=False),
    "Loading safetensors using InstantTensor loader:  50% Completed | 1.2G/2.4G [00:10<00:10, 120MB/s]":
        Bar("Loading safetensors using InstantTensor loader", 1.2e9, 2.4e9, 10, 120e6, weights=True, files=False),
    "Capturing CUDA graphs (decode, FULL):  35%|███▌      | 12/35 [00:03<00:06,  3.52it/s]":
        Bar("Capturing CUDA graphs (decode, FULL)", 12, 35, 3, 3.52, weights=False, files=False),
    "Loading safetensors using Fastsafetensor loader:  50% Completed | 1/2 [00:10<00:10, 10.00s/it]":
        Bar("Loading safetensors using Fastsafetensor loader", 1, 2, 10, 0.1, weights=True, files=False),
    "Loading fastsafetensors checkpoint shards: 100% Completed | 15/15 [00:30<00:00,  2.00s/it]":
        Bar("Loading fastsafetensors checkpoint shards", 15, 15, 30, 0.5, weights=True, files=False),
    "Multi-thread loading pt checkpoint shards:  50% Completed | 1/2 [00:10<00:10, 10.00s/it]":
        Bar("Multi-thread loading pt checkpoint shards", 1, 2, 10, 0.1, weights=True, files=True),
    "Loading np_cache checkpoint shards:  50% Completed | 1/2 [00:10<00:10, 10.00s/it]":
        Bar("Loading np_cache checkpoint shards", 1, 2, 10, 0.1, weights=True, files=True),
    "100% of the text": None,
    "Loading safetensors checkpoint shards:  22% Completed | 14/64 [07:24<28": None,
}  # fmt: skip


@pytest.mark.parametrize(("text", "drawn"), BARS.items(), ids=lambda value: value if isinstance(value, str) else "")
def test_parse_bar(text: str, drawn: typing.Optional[Bar]) -> None:
    assert parse_bar(text) == drawn


def test_pieces_are_split_at_either_line_end() -> None:
    assert list(pieces("a\rb\r\nc\n\nd")) == ["a", "b", "c", "d"]
    assert list(pieces("a")) == ["a"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("non-default args: {'api_key': ['sk-abcdef'], 'port': 1}", "non-default args: ..."),
        ("got api_key='s3cr3t' here", "got api_key=*** here"),
        ("--hf-token: hf_abcdefghijklmnopq", "--hf-token: ***"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        ("max_tokens is 16", "max_tokens is 16"),
        ("x" * 700, "x" * 596 + " ..."),
    ],
)
def test_presentable_hides_secrets(text: str, shown: str) -> None:
    assert presentable(text) == shown


# -- the fold


def feed(log: LogFold, *texts: str, partial: str = "") -> News:
    return log.feed([LogRecord(text) for text in texts], partial)


def shards(done: int, total: int, prefix: str = "") -> str:
    share = f"{done / total:4.0%} Completed | {done}/{total}"
    return f"{prefix}Loading safetensors checkpoint shards: {share} [00:01<00:01, 1.00it/s]"


def test_what_counts_as_a_new_line() -> None:
    log = LogFold()
    assert feed(log, "INFO 11-30 22:55:00 [x.py:1] Using max model len 4096", "anything").lines == 2
    beat = "INFO 11-30 22:56:00 [shm_broadcast.py:1] No available shared memory broadcast block found in 60 seconds."
    assert feed(log, beat, beat).lines == 0
    assert (log.heartbeats, log.heartbeats_in_row) == (2, 2)
    assert feed(log, 'INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK') == News()
    statistics = "INFO 11-30 22:57:00 [loggers.py:1] Engine 000: Avg prompt throughput: 0.0 tokens/s"
    assert feed(log, statistics, "", "  ").lines == 0
    assert log.last_line == "anything"


def test_a_bar_moves_inside_one_unfinished_line() -> None:
    log = LogFold()
    bars = [f"Capturing CUDA graphs (decode, FULL):  {n}0%|#| {n}/10 [00:0{n}<00:01, 1.00it/s]" for n in range(4)]
    assert [drawn.done for drawn in feed(log, partial=bars[0]).bars] == [0]
    assert [drawn.done for drawn in feed(log, bars[0], partial=bars[1]).bars] == [1]
    assert feed(log, partial=bars[1]).bars == ()
    # of several states at once the last one says it all
    news = feed(log, "\r".join(bars[1:]))
    assert [drawn.done for drawn in news.bars] == [3]
    assert set(news.stages) == {"cuda_graphs"}


def test_a_bar_in_one_line_does_not_start_over_when_the_line_ends() -> None:
    log = LogFold()
    states = [
        f"Loading safetensors using InstantTensor loader:  {n}0% Completed | {n}.0G/9.0G [00:0{n}<00:01, 1GB/s]"
        for n in range(4)
    ]
    feed(log, "", partial=states[0])
    feed(log, "\r".join(states[:2]), partial=states[2])
    feed(log, "\r".join(states[2:]))
    assert log.weights_pass == 1
    assert log.weights is not None
    assert log.weights.done == 3e9


def test_the_weights_of_a_drafter_are_a_second_pass() -> None:
    log = LogFold()
    feed(log, shards(0, 2), shards(1, 2), shards(2, 2))
    assert log.weights_pass == 1
    feed(log, shards(0, 1), shards(1, 1))
    assert log.weights_pass == 2


def test_bars_of_two_engines_are_one_pass() -> None:
    log = LogFold()
    feed(log, shards(3, 9, "(EngineCore_DP0 pid=1) "), shards(2, 9, "(EngineCore_DP1 pid=2) "), shards(4, 9))
    assert log.weights_pass == 1
    assert log.weights is not None
    assert log.weights.done == 4


ROOT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB"


def test_the_earliest_specific_line_beats_generic_and_later_ones() -> None:
    log = LogFold()
    feed(
        log,
        "(Worker_TP3 pid=3) ERROR 11-30 22:55:00 [m.py:9] WorkerProc failed to start.",
        "(Worker_TP3 pid=3) ERROR 11-30 22:55:00 [m.py:9] Traceback (most recent call last):",
        '(Worker_TP3 pid=3) ERROR 11-30 22:55:00 [m.py:9]   File "x.py", line 1, in f',
        f"(Worker_TP3 pid=3) ERROR 11-30 22:55:00 [m.py:9] {ROOT}",
        "(Worker_TP0 pid=1) ERROR 11-30 22:55:01 [m.py:9] RuntimeError: NCCL error: unhandled system error",
        "(EngineCore pid=2) ERROR 11-30 22:55:01 [m.py:9] EngineCore failed to start.",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    )
    assert log.specific is not None
    assert (log.specific.row.id, log.specific.proc, log.specific.line) == ("cuda_oom", "Worker_TP3 pid=3", ROOT)
    assert log.generic is not None
    assert log.generic.row.id == "worker_failed"
    assert log.exception == ROOT


def test_a_complaint_that_the_server_survived_is_not_the_cause() -> None:
    log = LogFold()
    feed(
        log,
        "INFO 11-30 22:55:00 [x.py:1] Using max model len 4096",
        "ERROR 11-30 22:55:00 [x.py:1] Error retrieving file list: 401 Client Error",
        "INFO 11-30 22:55:01 [x.py:1] Initializing a V1 LLM engine (v0.20.0) with config: x",
        "INFO 11-30 22:55:02 [x.py:1] world_size=1 rank=0 local_rank=0 distributed_init_method=tcp://x",
        "INFO 11-30 22:55:03 [x.py:1] Starting to load model m...",
        ROOT,
    )
    assert log.specific is not None
    assert log.specific.row.id == "cuda_oom"


def test_interleaved_tracebacks_are_kept_apart() -> None:
    log = LogFold()
    feed(
        log,
        "(Worker_TP0 pid=1) Traceback (most recent call last):",
        "(Worker_TP1 pid=2) Traceback (most recent call last):",
        '(Worker_TP1 pid=2)   File "x.py", line 1, in f',
        '(Worker_TP0 pid=1)   File "x.py", line 1, in f',
        "(Worker_TP0 pid=1) ValueError: the first",
        "(Worker_TP1 pid=2) ValueError: the second",
    )
    assert log.exception == "ValueError: the first"


def test_a_validation_error_says_what_is_wrong_on_its_next_line() -> None:
    log = LogFold()
    feed(
        log,
        "Traceback (most recent call last):",
        '  File "/opt/vllm/bin/vllm", line 8, in <module>',
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        "  Value error, something new. [type=value_error]",
    )
    assert log.main_exception == "Value error, something new. [type=value_error]"


def test_what_follows_an_orderly_stop_is_no_failure() -> None:
    log = LogFold()
    feed(
        log,
        "(APIServer pid=1) INFO 11-30 23:05:23 [launcher.py:254] [shutdown] API server: shutdown triggered",
        "(APIServer pid=1) ERROR 11-30 23:05:23 [a.py:1] EngineDeadError: EngineCore encountered an issue.",
    )
    assert log.stop is not None
    assert (log.generic, log.specific, log.ending) == (None, None, None)


def test_a_stop_of_the_engine_alone_is_a_failure() -> None:
    log = LogFold()
    feed(
        log,
        "(EngineCore pid=2) INFO 11-30 23:20:40 [core.py:1454] [shutdown] EngineCore: trigger received signal=SIGTERM",
        "(APIServer pid=1) WARNING 11-30 23:20:44 [c.py:817] [shutdown] MPClient: engine core exited unexpectedly",
        "INFO:     Shutting down",
    )
    assert log.stop is None
    assert log.ending is not None
    assert log.ending.row.id == "engine_dead"


def test_memory_does_not_grow_with_the_log() -> None:
    log = LogFold()
    feed(log, *(f"(Worker pid={n}) Traceback (most recent call last):" for n in range(200)))
    feed(
        log, *(row for n in range(3000) for row in (f"line {n}", f"ERROR 11-30 22:55:00 [x.py:1] 429 Client Error {n}"))
    )
    assert len(log.tail) == 5
    assert len(log._tracebacks._open) <= 32
    assert len(log._specific) == 1
