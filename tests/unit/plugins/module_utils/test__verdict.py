# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fold, over sequences of looks that no recording has."""

from __future__ import annotations

import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.modelfleet.serving.plugins.module_utils._forecast import Forecast, Start
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import (
    Completion,
    GpuSample,
    GroupUse,
    HttpSample,
    LogRecord,
    Observation,
    ProcSample,
    Totals,
    UnitState,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._stages import BY_NAME, WEAK_FACTOR
from ansible_collections.modelfleet.serving.plugins.module_utils._verdict import Judge, JudgeConfig, Status

GIB = 2**30
MODEL = HttpSample(health=200, models=("demo",), models_status=200)


def record(text: str, level: str = "INFO") -> str:
    return f"(EngineCore pid=2) {level} 11-30 22:55:46 [x.py:1] {text}"


BANNER = "(APIServer pid=1) INFO 11-30 22:55:00 [utils.py:1] vLLM server version 0.20.0, serving model m"
ENGINE = record("Initializing a V1 LLM engine (v0.20.0) with config: model='m'")
WORKERS = record("world_size=8 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:1 backend=nccl")
NCCL = record("vLLM is using nccl==2.28.9")
LOADING = record("Starting to load model m...")
LOADED = record("Model loading took 1.1 GiB memory and 0.87 seconds")
AUTOTUNE = record("[Autotuner]: Autotuning process starts ...")
SERVING = "INFO:     Application startup complete."
BEAT = record("No available shared memory broadcast block found in 60 seconds. This typically happens when ...")


def shards(done: int, total: int, elapsed: int = 0, rate: str = "34.00s/it") -> str:
    clock = f"{elapsed // 60:02d}:{elapsed % 60:02d}<00:01, {rate if done else '?it/s'}"
    return f"Loading safetensors checkpoint shards: {done * 100 // total:3d}% Completed | {done}/{total} [{clock}]"


def unit(active: str = "active", sub: str = "running", **kwargs: typing.Any) -> UnitState:
    values: dict[str, typing.Any] = {
        "load_state": "loaded",
        "active_state": active,
        "sub_state": sub,
        "result": "success",
        "main_pid": 10,
        "n_restarts": 0,
        "restart": "always",
        "exec_main_code": 0,
        "exec_main_status": 0,
    }
    return UnitState(**{**values, **kwargs})


def proc(pid: int, name: str, state: str = "S", cpu_s: float = 0.0, read_bytes: int = 0) -> ProcSample:
    return ProcSample(pid, 1, 100 + pid, name, state, cpu_s, read_bytes, 0)


def gpus(used: int = GIB, util: int = 0) -> tuple[GpuSample, ...]:
    return tuple(GpuSample(n, used, 96 * GIB, util) for n in range(8))


def look(t: float, *lines: str, **kwargs: typing.Any) -> Observation:
    return Observation(t=t, log=tuple(LogRecord(line) for line in lines), **kwargs)


def mixed(*lines: str) -> tuple[LogRecord, ...]:
    """A journal: systemd's own lines are those marked so."""
    return tuple(
        LogRecord(line[len("systemd: ") :], 1, "systemd") if line.startswith("systemd: ") else LogRecord(line)
        for line in lines
    )


def systemd(t: float, *lines: str, **kwargs: typing.Any) -> Observation:
    return Observation(t=t, log=tuple(LogRecord(line, 1, "systemd") for line in lines), **kwargs)


def judge(*looks: Observation, **config: typing.Any) -> Status:
    """The last answer; the wait must not have ended before."""
    wait = Judge(JudgeConfig(**config))
    for seen in looks[:-1]:
        status = wait.feed(seen)
        assert not status.final, (seen.t, status)
    return wait.feed(looks[-1])


def first_final(looks: typing.Iterable[Observation], **config: typing.Any) -> tuple[float, Status]:
    wait = Judge(JudgeConfig(**config))
    for seen in looks:
        status = wait.feed(seen)
        if status.final:
            return seen.t, status
    raise AssertionError(f"never final: {status}")


# -- ready


def test_ready_needs_health_the_model_and_a_token() -> None:
    asked = MODEL._replace(completion=Completion(200, "yes", 4, 0.5))
    steps = [
        look(0, BANNER),
        look(1, SERVING),
        look(2, http=HttpSample(health=200)),
        look(3, http=MODEL),
        look(4, http=MODEL._replace(completion=Completion(200, "", 0))),
        look(5, http=asked),
    ]
    wait = Judge(JudgeConfig(expected_model="demo"))
    said = [wait.feed(seen) for seen in steps]
    assert [(status.stage, status.verdict) for status in said] == [
        ("config", "progressing"),
        ("http", "progressing"),
        ("model_listed", "progressing"),
        ("first_token", "progressing"),
        ("first_token", "progressing"),
        ("ready", "ready"),
    ]
    assert said[-1].final
    assert said[-1].evidence == ("/health answers 200", "/v1/models lists demo", "4 tokens in 0.5 s")


def test_ready_without_a_token_where_none_is_wanted() -> None:
    assert judge(look(0, SERVING, http=MODEL), want_completion=False).verdict == "ready"


def test_ready_with_the_known_answer() -> None:
    right = MODEL._replace(completion=Completion(200, "Paris", 1, 0.1, answer_ok=True))
    wrong = MODEL._replace(completion=Completion(200, "!!!!", 4, 0.1, answer_ok=False))
    assert judge(look(0, SERVING, http=wrong), look(1, http=right), want_known_answer=True).verdict == "ready"
    t, status = first_final([look(t, http=wrong) for t in range(9)], want_known_answer=True)
    assert t == 2
    assert (status.verdict, status.stage, status.cause and status.cause.id) == (
        "stalled",
        "known_answer",
        "wrong_answer",
    )
    assert status.evidence == ("3 wrong answers in a row, the last: '!!!!'",)


@pytest.mark.parametrize(
    ("http", "finding", "words"),
    [
        (
            HttpSample(health=200, models=("other",), models_status=200),
            "model_not_listed",
            "/v1/models lists other, for 10 s",
        ),
        (HttpSample(health=200, models_status=401), "http_refused", "/v1 answers 401, for 10 s"),
    ],
)
def test_an_answer_that_waiting_does_not_change_ends_the_wait(http: HttpSample, finding: str, words: str) -> None:
    t, status = first_final([look(t, SERVING, http=http) for t in range(0, 60, 2)], expected_model="demo")
    assert t == 10
    assert (status.verdict, status.cause and status.cause.id) == ("stalled", finding)
    assert status.evidence == (words,)


def test_one_look_at_a_server_with_a_key_says_that_the_key_is_wanted() -> None:
    status = judge(look(0, BANNER, SERVING, http=HttpSample(health=200, models_status=401)))
    assert (status.verdict, status.final, status.cause and status.cause.id) == ("progressing", False, "http_refused")
    assert status.evidence[:3] == (
        "/health answers 200",
        "/v1 answers 401",
        "last log line 0 s ago: Application startup complete.",
    )


# -- progressing and stalled


def steady(lines: tuple[str, ...], until: float, step: float = 2.0, **each: typing.Any) -> typing.Iterator[Observation]:
    """Looks that differ in nothing but what ``each`` makes of their time."""
    for n in range(int(until / step) + 1):
        t = n * step
        yield look(t, *(lines if n == 0 else ()), **{key: make(t) for key, make in each.items()})


def test_silence_stalls_at_the_budget_of_its_stage_and_not_before() -> None:
    t, status = first_final(steady((BANNER, ENGINE, LOADED), 2000))
    assert BY_NAME["compile"].budget_s < t <= BY_NAME["compile"].budget_s + 2
    assert (status.verdict, status.stage, status.cause and status.cause.id) == ("stalled", "compile", "no_progress")
    assert status.evidence[0] == "no sign of progress that counts in stage compile within its budget of 900 s"


def test_a_budget_can_be_set() -> None:
    t, _status = first_final(steady((BANNER, ENGINE, LOADED), 2000), stall_timeouts={"compile": 20})
    assert t == 22


def test_a_deadlock_in_nccl_is_not_hidden_by_spinning() -> None:
    spin = steady(
        (BANNER, ENGINE, WORKERS, NCCL),
        1000,
        gpus=lambda t: tuple(GpuSample(n, GIB, 96 * GIB, 100, 138_400 + 500 * n) for n in range(8)),
        procs=lambda t: tuple(proc(n, "VLLM::Worker_TP", "R", cpu_s=t) for n in range(8)),
    )
    t, status = first_final(spin)
    assert t <= BY_NAME["nccl"].budget_s + 2
    assert (status.stage, status.cause and status.cause.id) == ("nccl", "nccl_hang")
    assert status.cause is not None
    assert status.cause.line == "vLLM is using nccl==2.28.9"
    assert status.cause.cause.startswith("every GPU runs at 100 % with its memory flat and nothing is logged")
    assert "NCCL_P2P_DISABLE=1 to confirm; amd_iommu=off/iommu=off, ACS off" in status.cause.remedy
    assert status.evidence[:3] == (
        "no sign of progress that counts in stage nccl within its budget of 120 s",
        "8 ranks are to meet at tcp://127.0.0.1:1, 8 worker processes are on this host",
        "last log line 122 s ago: vLLM is using nccl==2.28.9",
    )
    assert "all GPUs at 100 % or more" in status.evidence
    assert status.evidence[-1] == "GPUs at 100 %, 138 to 142 W"


NODES = record("world_size=16 rank=8 local_rank=0 distributed_init_method=tcp://10.0.0.1:29501 backend=nccl")


@pytest.mark.parametrize("lines", [(BANNER, ENGINE, NODES), (BANNER, ENGINE, NODES, NCCL)], ids=["workers", "nccl"])
def test_a_peer_node_that_does_not_come(lines: tuple[str, ...]) -> None:
    """The GPUs of who waits for another host are idle."""
    idle = steady(
        lines,
        1000,
        gpus=lambda t: tuple(GpuSample(n, GIB, 96 * GIB, 0, 39_000) for n in range(8)),
        procs=lambda t: tuple(proc(10 + n, f"VLLM::Worker_TP{n}") for n in range(8)),
    )
    _t, status = first_final(idle)
    assert (status.verdict, status.cause and status.cause.id) == ("stalled", "peers_missing")
    assert status.evidence[1] == (
        "16 ranks are to meet at tcp://10.0.0.1:29501, 8 worker processes are on this host, the others must come from "
        "other hosts"
    )
    assert status.evidence[-1] == "GPUs at 0 %, 39 W"


def test_silence_in_nccl_of_who_has_all_ranks_is_not_the_peers_fault() -> None:
    quiet = steady(
        (BANNER, ENGINE, WORKERS, NCCL), 1000, procs=lambda t: tuple(proc(n, "VLLM::Worker_TP") for n in range(8))
    )
    _t, status = first_final(quiet)
    assert status.cause is not None
    assert (status.cause.id, status.cause.cause.partition(":")[0]) == ("nccl_hang", "stall candidate")


def test_ranks_that_spin_before_the_first_shard_are_not_loading() -> None:
    spin = steady(
        (BANNER, ENGINE, WORKERS, LOADING),
        2000,
        gpus=lambda t: gpus(util=100),
        procs=lambda t: tuple(proc(n, "VLLM::Worker_TP", "R", cpu_s=t) for n in range(4)),
    )
    t, status = first_final(spin)
    assert t <= BY_NAME["weights"].budget_s + 4
    assert (status.stage, status.cause and status.cause.id) == ("weights", "load_hang")


def test_heartbeats_are_no_progress() -> None:
    wait = Judge(JudgeConfig())
    status = wait.feed(look(0, BANNER, ENGINE, WORKERS))
    for n in range(1, 7):
        assert not status.final
        status = wait.feed(look(60.0 * n, BEAT))
    assert (status.verdict, status.stage, status.cause and status.cause.id) == ("stalled", "workers", "peers_missing")
    assert "6 heartbeats since, which say nothing about progress" in status.evidence


def test_answers_to_our_own_questions_are_no_progress() -> None:
    line = 'INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK'
    looks = (look(2.0 * n, *(() if n else (SERVING,)), line, http=MODEL) for n in range(500))
    t, status = first_final(looks)
    assert t <= BY_NAME["first_token"].budget_s + 2
    assert (status.stage, status.cause and status.cause.id) == ("first_token", "no_first_token")


def test_a_stuck_autotune_is_named() -> None:
    spin = steady((BANNER, ENGINE, LOADED, AUTOTUNE), 3000, gpus=lambda t: gpus(util=99))
    _t, status = first_final(spin)
    assert (status.stage, status.cause and status.cause.id) == ("warmup", "fi_autotune_hang")


@pytest.mark.parametrize(
    "moves",
    [
        {"compilers": lambda t: 37},
        {"procs": lambda t: (proc(2, "VLLM::EngineCor", "D", read_bytes=int(t * 1e6)),)},
        {"gpus": lambda t: gpus(used=GIB + int(t) * 2**21)},
        {"cache_bytes": int},
        {"log_partial": lambda t: f"Capturing CUDA graphs:  1%|#| {int(t)}/99999 [00:00<00:01, 1.00it/s]"},
    ],
    ids=lambda moves: next(iter(moves)),
)
def test_each_sign_of_work_keeps_a_silent_start_alive(moves: dict) -> None:
    status = judge(*steady((BANNER, ENGINE, LOADED), 5000, step=50, **moves))
    assert status.verdict == "progressing"


def test_cpu_time_alone_stretches_the_budget_but_has_an_end() -> None:
    busy = steady((BANNER, ENGINE, LOADED), 5000, step=10, procs=lambda t: (proc(2, "VLLM::EngineCor", "R", cpu_s=t),))
    t, status = first_final(busy)
    assert BY_NAME["compile"].budget_s * WEAK_FACTOR < t <= BY_NAME["compile"].budget_s * WEAK_FACTOR + 10
    assert status.verdict == "stalled"


def test_a_little_cpu_time_is_no_sign_at_all() -> None:
    idle = steady((BANNER, ENGINE, LOADED), 5000, procs=lambda t: (proc(2, "VLLM::EngineCor", "S", cpu_s=t * 0.01),))
    t, _status = first_final(idle)
    assert t <= BY_NAME["compile"].budget_s + 4


def test_a_stopped_process_is_found_within_seconds() -> None:
    def procs(t: float) -> tuple[ProcSample, ...]:
        stopped = t >= 30
        engine = proc(
            2, "VLLM::EngineCor", "T" if stopped else "R", cpu_s=min(t, 30.0), read_bytes=int(min(t, 30.0)) * GIB
        )
        return (proc(1, "vllm", cpu_s=t * 0.01), engine)

    t, status = first_final(steady((BANNER, ENGINE, LOADING, shards(3, 64)), 100, step=1, procs=procs))
    assert 30 < t <= 42
    assert (status.verdict, status.stage, status.cause and status.cause.id) == ("stalled", "weights", "process_stopped")
    assert status.evidence[0] == "VLLM::EngineCor (pid 2) has been stopped (state T) and used nothing for 10 s"


def test_a_process_that_is_stopped_and_continued_is_not_stalled() -> None:
    def procs(t: float) -> tuple[ProcSample, ...]:
        return (proc(2, "VLLM::EngineCor", "T", cpu_s=(t // 4) * 0.1, read_bytes=int(t // 4) * 2**24),)

    assert judge(*steady((BANNER, ENGINE, LOADING), 200, procs=procs)).verdict == "progressing"


def test_a_stopped_service_of_which_only_sums_are_known() -> None:
    """The API server still answers, which costs some CPU."""
    looks = steady(
        (BANNER, ENGINE, LOADING), 60, step=0.5, totals=lambda t: Totals(50 + t * 0.02, 9, 9, {"S": 2, "T": 1})
    )
    t, status = first_final(looks)
    assert t <= 12
    assert status.cause is not None
    assert status.cause.id == "process_stopped"


def test_a_process_blocked_in_the_kernel_is_named() -> None:
    blocked = steady((BANNER, ENGINE, LOADING), 1000, procs=lambda t: (proc(2, "VLLM::EngineCor", "D", cpu_s=1),))
    t, status = first_final(blocked)
    assert BY_NAME["weights"].budget_s < t <= BY_NAME["weights"].budget_s + 4
    assert status.cause is not None
    assert status.cause.id == "process_blocked"


def test_a_server_that_answers_elsewhere_is_told_so() -> None:
    _t, status = first_final(steady((BANNER, SERVING), 1000, http=lambda t: HttpSample(health=0)))
    assert (status.stage, status.cause and status.cause.id) == ("http", "http_silent")


# -- slow, shards and ETA


def load(total: int, per_shard: float, shown: int, extra: float = 0.0) -> list[Observation]:
    looks = [look(0, BANNER, ENGINE, LOADING), look(10, shards(0, total))]
    looks += [
        look(10 + n * per_shard, shards(n, total, int(n * per_shard), f"{per_shard:.2f}s/it"))
        for n in range(1, shown + 1)
    ]
    return [*looks, look(10 + shown * per_shard + extra)]


@pytest.mark.parametrize(("total", "per_shard"), [(119, 9.0), (64, 34.0)])
@pytest.mark.parametrize("part", [0.25, 0.5, 0.75])
def test_eta_of_a_steady_load(total: int, per_shard: float, part: float) -> None:
    shown = int(total * part)
    status = judge(*load(total, per_shard, shown))
    true = (total - shown) * per_shard
    assert (status.shards_done, status.shards_total) == (shown, total)
    assert status.eta_s == pytest.approx(true, rel=0.01)


def test_eta_counts_down_between_shards_and_follows_recent_ones() -> None:
    assert judge(*load(64, 34.0, 10, extra=20)).eta_s == pytest.approx(54 * 34.0 - 20)
    assert (judge(*load(64, 34.0, 10, extra=200)).eta_s or 0) > 1.4 * 54 * 34.0
    fast_then_slow = load(100, 2.0, 50)[:-1]
    t = fast_then_slow[-1].t
    later = [look(t + 20.0 * n, shards(50 + n, 100, int(t + 20 * n))) for n in range(1, 10)]
    assert judge(*fast_then_slow, *later).eta_s == pytest.approx(41 * 20.0)


def test_eta_is_unknown_before_the_first_shard_and_after_the_load() -> None:
    assert judge(*load(64, 34.0, 0)).eta_s is None
    assert judge(*load(3, 1.0, 3), look(30, LOADED)).eta_s is None


def test_states_seen_in_one_look_are_spread_by_the_bars_own_clock() -> None:
    bars = [shards(n, 64, n * 30, "30.00s/it") for n in range(9)]
    assert judge(look(0, BANNER), look(500, ENGINE, LOADING, *bars)).eta_s == pytest.approx(56 * 30, rel=0.01)


def test_bytes_are_known_with_the_checkpoint() -> None:
    status = judge(*load(64, 34.0, 16), checkpoint_bytes=640 * GIB)
    assert (status.bytes_done, status.bytes_total) == (160 * GIB, 640 * GIB)
    assert judge(*load(64, 34.0, 16)).bytes_total is None


@pytest.mark.parametrize(
    ("looks", "config", "why"),
    [
        (load(64, 34.0, 10), {"checkpoint_bytes": 64 * 9 * 10**9}, "34.0 s a shard, 265 MB/s"),
        (load(64, 34.0, 10), {"forecast": Forecast([Start({"weights": 576.0}, 64)])}, "34.0 s a shard, 9.0 s expected"),
        (load(100, 2.0, 50, extra=40), {}, "40.0 s a shard, 2.0 s before"),
    ],
    ids=["by the disk", "by what was expected", "by its own past"],
)
def test_slow_is_not_stalled(looks: list[Observation], config: dict, why: str) -> None:
    status = judge(*looks, **config)
    assert (status.verdict, status.stage, status.final, status.cause) == ("slow", "weights", False, None)
    assert status.evidence[0] == why


FILES = record("Filesystem type for checkpoints: NFS4. Checkpoint size: 552.10 GiB. Available RAM: 980.20 GiB.")


def slow_load(begin: str, **at_every_look: typing.Callable[[float], typing.Any]) -> Status:
    """Ten of 64 shards in 34 s each, looked at every two seconds; a shard took 9 s in the last start."""
    shown = {look.t: look.log for look in load(64, 34.0, 10)}
    looks = [
        Observation(
            t=float(t),
            log=(*shown.get(t, ()), *((LogRecord(begin),) if begin and t == 4 else ())),
            **{key: value(t) for key, value in at_every_look.items()},
        )
        for t in range(0, 351, 2)
    ]
    return judge(*looks, forecast=Forecast([Start({"weights": 576.0}, 64)]))


def reading(t: float) -> tuple[ProcSample, ...]:
    return (proc(1, "vllm"), proc(3, "VLLM::Worker_TP0", cpu_s=0.2 * t, read_bytes=int(310e6 * t)))


def waiting(t: float) -> GroupUse:
    return GroupUse(cores=64, cpu_s=0.2 * t, io_wait_s=0.8 * t)


def starving(t: float) -> GroupUse:
    return GroupUse(cores=64, quota_cores=2.0, periods=int(10 * t), throttled=int(9 * t), cpu_s=2.0 * t)


@pytest.mark.parametrize(
    ("begin", "looks", "bottleneck"),
    [
        ("", {"procs": reading, "group": waiting}, "disk 310 MB/s"),
        (FILES, {"procs": reading, "group": waiting}, "network file system nfs4 at 310 MB/s"),
        (FILES, {"group": lambda _t: GroupUse(cores=64)}, "network file system nfs4 at 272 MB/s"),
        ("", {"group": starving}, "CPU: limited to 2.0 cores by CPUQuota"),
        (
            "",
            {"group": starving, "compilers": lambda _t: 8},
            "JIT compile: 8 compilers, CPU: limited to 2.0 cores by CPUQuota",
        ),
    ],
    ids=["disk", "network", "network, by the bar", "quota", "compilers"],
)
def test_slow_says_what_it_waits_for(begin: str, looks: dict[str, typing.Any], bottleneck: str) -> None:
    status = slow_load(begin, **looks)
    assert (status.verdict, status.bottleneck) == ("slow", bottleneck)
    assert status.evidence[:2] == (bottleneck, "34.0 s a shard, 9.0 s expected")


def test_slow_where_nothing_shows_why() -> None:
    status = slow_load("")
    assert (status.verdict, status.bottleneck, status.evidence[0]) == ("slow", None, "34.0 s a shard, 9.0 s expected")


@pytest.mark.parametrize("stage", ["process", "compile", "warmup"])
def test_any_stage_is_slow_for_a_reason(stage: str) -> None:
    """By the start before, and by what it waits for at present."""
    lines = {"process": "", "compile": LOADED, "warmup": AUTOTUNE}
    steps = [look(0, BANNER) if stage != "process" else look(0, procs=(proc(1, "vllm"),))]
    steps += [look(2, lines[stage])] if lines[stage] else []
    steps += [
        look(float(t), procs=(proc(1, "vllm", cpu_s=0.9 * t),), group=GroupUse(cores=1, cpu_s=0.97 * t))
        for t in range(4, 90, 2)
    ]
    status = judge(*steps, forecast=Forecast([Start({stage: 20.0}, label="release 3")]))
    assert (status.verdict, status.stage, status.bottleneck) == ("slow", stage, "CPU 97 % of 1 core")
    assert status.evidence[1].endswith("20 s in release 3")


def test_no_bottleneck_unless_slow() -> None:
    status = judge(*load(64, 34.0, 10), look(360, group=starving(360)))
    assert (status.verdict, status.bottleneck) == ("progressing", None)


@pytest.mark.parametrize(
    ("looks", "config"),
    [
        (load(119, 9.0, 10), {"checkpoint_bytes": 540 * 10**9}),
        (
            load(64, 34.0, 10),
            {"forecast": Forecast([Start({"weights": 64 * 34.0}, 64)]), "checkpoint_bytes": 64 * 9 * 10**9},
        ),
        (load(64, 34.0, 10), {}),
        (load(3, 1.0, 1), {"checkpoint_bytes": 10**6}),
    ],
    ids=["500 MB/s", "as expected", "steady, nothing expected", "too short to tell"],
)
def test_not_slow(looks: list[Observation], config: dict) -> None:
    assert judge(*looks, **config).verdict == "progressing"


def test_the_weights_of_a_drafter_lead_back_once() -> None:
    done = record("Loading weights took 67.26 seconds")
    wait = Judge(JudgeConfig())
    wait.feed(look(0, BANNER, ENGINE, LOADING, shards(0, 2), shards(2, 2, 60), done))
    status = wait.feed(look(70, record("Loading drafter model..."), shards(0, 1)))
    assert (status.stage, status.shards_done, status.shards_total) == ("weights", 0, 1)
    status = wait.feed(look(100, shards(1, 1, 30), done, LOADED))
    assert status.stage == "compile"
    assert dict(status.stages)["weights"] == 30
    status = wait.feed(look(110, shards(0, 1)))
    assert status.stage == "compile"


# -- dead

BY_FORCE = "SIGKILL, by force: the OOM killer, kill -9, or systemd after a stop that took too long"


def death(*looks: Observation, **config: typing.Any) -> Status:
    _t, status = first_final([*looks, look(looks[-1].t + 2), look(looks[-1].t + 5)], **config)
    assert status.verdict == "dead"
    return status


def test_the_exit_status_in_words() -> None:
    status = death(look(0, BANNER), look(5, exit_code=-9))
    assert (status.exit_code, status.signal, status.cause and status.cause.id) == (-9, "SIGKILL", "sd_kill")
    assert status.evidence == (f"the server ended with status -9 ({BY_FORCE})",)


def test_a_unit_killed_by_a_signal() -> None:
    ended = unit("failed", "failed", result="signal", main_pid=0, exec_main_code=2, exec_main_status=9)
    status = death(look(0, BANNER, unit=unit()), look(5, unit=ended))
    assert (status.exit_code, status.signal) == (137, "SIGKILL")
    assert status.evidence[0] == f"the service failed with status 137 ({BY_FORCE}), result signal"


def test_a_unit_that_fails_before_its_process() -> None:
    ended = unit("failed", "failed", result="exit-code", main_pid=0, exec_main_code=1, exec_main_status=203)
    status = death(look(0, unit=unit("activating", "start", main_pid=0)), look(1, unit=ended))
    assert (status.stage, status.exit_code, status.cause and status.cause.id) == ("unit", 203, "sd_exit")
    assert status.evidence[0] == (
        "the service failed with status 203 (EXEC: systemd could not execute the program), result exit-code"
    )


def test_a_service_that_ended_before_the_watch_is_dead_at_the_first_look() -> None:
    ended = unit("inactive", "dead", main_pid=0, exec_main_code=1, exec_main_status=0)
    status = death(look(0, unit=ended))
    assert (status.exit_code, status.evidence[0].split(",")[0]) == (
        0,
        "the service ended with status 0 (as it does after an orderly stop",
    )


def test_a_unit_that_exits_0_is_dead_all_the_same() -> None:
    ended = unit("inactive", "dead", main_pid=0, exec_main_code=1, exec_main_status=0)
    status = death(look(0, BANNER, unit=unit()), look(5, unit=ended))
    assert (status.exit_code, status.signal, status.cause and status.cause.id) == (0, None, "sd_done")


def test_a_service_that_was_told_to_stop_is_told_from_one_that_ended() -> None:
    ended = unit("inactive", "dead", main_pid=0, exec_main_code=1, exec_main_status=0)
    lines = ("Stopping vllm@kimi.service - vLLM server kimi...", "vllm@kimi.service: Deactivated successfully.")
    told = tuple(LogRecord(line, 1, "systemd") for line in lines)
    stopped, by_itself = (death(Observation(0, log=log, unit=ended)).cause for log in (told, told[1:]))
    assert stopped is not None and (stopped.id, stopped.line) == ("sd_stopping", lines[0])
    assert by_itself is not None and by_itself.id == "sd_done"


def test_a_unit_that_does_not_exist() -> None:
    status = death(look(0, unit=unit("inactive", "dead", main_pid=0, load_state="not-found")))
    assert status.cause is not None
    assert status.cause.id == "unit_not_found"


OOM = record("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 3 has", "ERROR")


@pytest.mark.parametrize(
    "again",
    [
        unit("activating", "auto-restart", main_pid=0, exec_main_code=1, exec_main_status=1),
        unit(main_pid=77, n_restarts=1),
    ],
    ids=["between two starts", "started again"],
)
def test_a_restart_loop_is_not_waited_through(again: UnitState) -> None:
    t, status = first_final([look(0, BANNER, unit=unit()), look(4, OOM, unit=again)])
    assert t == 4
    assert (status.verdict, status.cause and status.cause.id) == ("dead", "cuda_oom")
    assert status.restarts == again.n_restarts
    assert "systemd starts it again" in status.evidence[0] or status.evidence == (
        f"start 1 of 1: ended after 4 s in stage engine: cuda_oom: {status.cycles[0].line}",
        "restart loop: systemd has started it again 1 time",
    )


def test_restarts_before_the_watch_are_not_a_loop() -> None:
    assert judge(look(0, BANNER, unit=unit(n_restarts=3)), look(5, unit=unit(n_restarts=3))).verdict == "progressing"


def test_a_restart_loop_told_by_the_journal_alone() -> None:
    said = [
        "vllm@x.service: Main process exited, code=exited, status=1/FAILURE",
        "vllm@x.service: Failed with result 'exit-code'.",
        "vllm@x.service: Scheduled restart job, restart counter is at 4.",
    ]
    lines = (LogRecord(OOM), *(LogRecord(line, 1, "systemd") for line in said))
    status = death(look(0, BANNER), Observation(t=5, log=lines))
    assert (status.restarts, status.exit_code, status.cause and status.cause.id) == (4, 1, "cuda_oom")
    assert "restart loop: systemd has started it again 4 times" in status.evidence


def test_a_kill_by_the_kernel_is_the_cause() -> None:
    killed = LogRecord("Out of memory: Killed process 2 (VLLM::EngineCor) total-vm:1kB, anon-rss:4kB", None, "kernel")
    ended = unit("failed", "failed", result="oom-kill", main_pid=0, exec_main_code=2, exec_main_status=9)
    status = death(look(0, BANNER, unit=unit()), Observation(t=5, log=(killed,), unit=ended))
    assert status.cause is not None
    assert status.cause.id == "k_oom"


def test_a_port_that_is_taken() -> None:
    trace = [
        "Traceback (most recent call last):",
        '  File "/opt/vllm/bin/vllm", line 8, in <module>',
        "    sys.exit(main())",
        "OSError: [Errno 98] Address already in use",
    ]
    status = death(look(0, BANNER), look(5, *trace))
    assert (status.stage, status.cause and status.cause.id) == ("config", "port_used")


def test_an_exception_that_is_in_no_table_is_still_shown() -> None:
    trace = ["Traceback (most recent call last):", '  File "/opt/vllm/bin/vllm", line 8, in <module>', "FooError: bar"]
    status = death(look(0, BANNER), look(5, *trace), look(6, exit_code=1))
    assert status.cause is not None
    assert (status.cause.id, status.cause.line) == ("sd_exit", "FooError: bar")


def test_a_503_after_200_is_the_death_of_the_engine() -> None:
    t, status = first_final(
        [look(0, SERVING, http=HttpSample(health=200)), *(look(1 + n, http=HttpSample(health=503)) for n in range(5))]
    )
    assert t <= 3
    assert (status.verdict, status.cause and status.cause.id) == ("dead", "engine_dead")


def test_an_engine_that_vanished_is_dead_before_anyone_says_so() -> None:
    both = (proc(1, "vllm"), proc(2, "VLLM::EngineCor"))
    looks = [look(0, BANNER, procs=both), *(look(float(n), procs=both[:1]) for n in range(1, 9))]
    t, status = first_final(looks)
    assert t <= 4
    assert status.evidence[0] == "VLLM::EngineCor (pid 2) is gone while the server still runs"


def test_the_first_request_that_kills_the_engine() -> None:
    failed = record("EngineCore encountered a fatal error.", "ERROR")
    looks = [
        look(0, SERVING, http=MODEL),
        look(1, failed, http=MODEL._replace(completion=Completion(500, error="InternalServerError"))),
        look(2, http=HttpSample(health=503)),
    ]
    status = death(*looks)
    assert (status.stage, status.cause and status.cause.id) == ("first_token", "engine_dead")


def test_a_line_after_which_nothing_comes_up_has_a_moment_for_its_cause() -> None:
    failed = record("EngineCore failed to start.", "ERROR")
    wait = Judge(JudgeConfig())
    wait.feed(look(0, BANNER))
    status = wait.feed(look(5, failed))
    assert (status.verdict, status.cause and status.cause.id) == ("progressing", "engine_failed")
    status = wait.feed(look(6, OOM))
    assert (status.verdict, status.cause and status.cause.id) == ("progressing", "cuda_oom")
    status = wait.feed(look(8))
    assert (status.verdict, status.final, status.cause and status.cause.id) == ("dead", True, "cuda_oom")


def test_children_and_their_signals() -> None:
    line = (
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': -9}"
    )
    status = death(look(0, BANNER), look(5, line), look(6, exit_code=1))
    assert status.cause is not None
    assert status.cause.id == "engine_init_failed"
    assert "EngineCore ended by SIGKILL" in status.evidence


def test_a_stop_that_was_asked_for_is_no_failure_but_an_end() -> None:
    stop = "(APIServer pid=1) INFO 11-30 23:05:23 [launcher.py:254] [shutdown] API server: shutdown triggered"
    status = death(look(0, BANNER), look(5, stop), look(6, exit_code=0))
    assert status.cause is not None
    assert status.cause.id == "sh_trigger"


def test_a_survived_complaint_does_not_kill() -> None:
    error = "(APIServer pid=1) ERROR 11-30 22:55:01 [x.py:1] GatedRepoError: 401 Client Error"
    assert judge(look(0, BANNER, error), look(20, ENGINE), look(60)).verdict == "progressing"


# -- a unit that does not run

IDLE = unit("inactive", "dead", main_pid=0)
SKIPPED = "x.service was skipped because of an unmet condition check (ConditionPathExists=/dev/nvidia0)."


@pytest.mark.parametrize(
    ("idle", "cause", "evidence"),
    [
        (IDLE, "unit_not_started", "the unit is not active, and no start of it is under way"),
        (IDLE._replace(load_state="not-found"), "unit_not_found", "systemd does not know the unit"),
        (IDLE._replace(load_state="masked"), "unit_masked", "the unit is masked"),
        (
            IDLE._replace(load_state="bad-setting", load_error="Unit x.service has a bad unit file setting."),
            "unit_bad",
            "systemd cannot load the unit: Unit x.service has a bad unit file setting.",
        ),
        (IDLE._replace(refused="condition"), "sd_condition", "the unit is not active, and no start of it is under way"),
        (IDLE._replace(refused="assert"), "sd_assert", "the unit is not active, and no start of it is under way"),
        (
            IDLE._replace(failed_needs=("models.mount (exit-code)",)),
            "sd_dependency",
            "the unit needs what failed: models.mount (exit-code)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "_" in value else "",
)
def test_a_unit_that_does_not_run_is_dead_within_a_few_looks(idle: UnitState, cause: str, evidence: str) -> None:
    t, status = first_final(steady((), 60, step=2, unit=lambda t: idle))
    assert t <= 4
    assert (status.verdict, status.stage, status.cause and status.cause.id) == ("dead", "unit", cause)
    assert status.evidence[0] == evidence
    # a single look says the same
    assert judge(look(0, unit=idle)).verdict == "dead"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (SKIPPED, "sd_condition"),
        ("x.service: Starting requested but asserts failed.", "sd_assert"),
        ("Dependency failed for x.service - vLLM server kimi.", "sd_dependency"),
        ("Stopping x.service - vLLM server kimi...", "sd_stopping"),
        ("x.service: Sent signal SIGTERM to main process 265 (vllm) on client request.", "sd_client"),
        # systemd forgets a unit that ended well; its journal does not
        ("x.service: Deactivated successfully.", "sd_done"),
        ("x.service: Main process exited, code=dumped, status=11/SEGV", "sd_kill"),
    ],
)
def test_the_journal_tells_what_systemd_has_forgotten(line: str, cause: str) -> None:
    t, status = first_final([systemd(0, line, unit=IDLE), *(look(float(n), unit=IDLE) for n in range(1, 9))])
    assert t <= 4
    assert (status.verdict, status.cause and status.cause.id) == ("dead", cause)
    assert status.cause is not None
    assert status.cause.line == line


def test_a_unit_that_is_started_after_all_is_not_dead() -> None:
    looks = [look(float(t), unit=IDLE) for t in range(3)]
    status = judge(*looks, look(3, BANNER, unit=unit(), procs=(proc(1, "vllm"),)), look(60, ENGINE, unit=unit()))
    assert (status.verdict, status.stage) == ("progressing", "engine")


QUEUED = IDLE._replace(job="start", waits_for=("models.mount/start", "disk.service/start"))


def test_a_start_that_waits_for_other_units_is_waited_for_and_names_them() -> None:
    status = judge(*(look(float(t), unit=QUEUED) for t in range(0, 120, 2)))
    assert (status.verdict, status.stage) == ("progressing", "unit")
    assert status.evidence[0] == (
        "systemd has a start job for the unit, which waits for models.mount (start), disk.service (start)"
    )
    t, status = first_final(steady((), 1000, unit=lambda t: QUEUED))
    assert BY_NAME["unit"].budget_s * WEAK_FACTOR < t <= BY_NAME["unit"].budget_s * WEAK_FACTOR + 4
    assert (status.verdict, status.cause and status.cause.id) == ("stalled", "unit_queued")


def test_a_restart_by_hand_is_no_end_and_the_new_start_is_judged_for_itself() -> None:
    old, new = unit(invocation_id="a"), unit(invocation_id="b", main_pid=20)
    going = unit("deactivating", "stop-sigterm", invocation_id="a", job="restart")
    engine = (proc(1, "vllm"), proc(2, "VLLM::EngineCor"))
    stopping = "Stopping x.service - vLLM server kimi..."
    status = judge(
        look(0, BANNER, ENGINE, OOM, unit=old, procs=engine),
        systemd(10, stopping, unit=going, procs=engine[:1]),
        look(20, unit=going, procs=engine[:1]),
        systemd(22, "x.service: Deactivated successfully.", "Stopped x.service.", "Started x.service.", unit=new),
        look(24, BANNER, unit=new, procs=(proc(20, "vllm"),)),
        look(40, unit=new, procs=(proc(20, "vllm"),)),
    )
    assert (status.verdict, status.stage, status.cause, status.cycles) == ("progressing", "config", None, ())
    assert status.evidence[-1] == "somebody started it anew meanwhile: this is about the new start"


def test_a_restart_by_hand_without_a_journal() -> None:
    looks = [
        look(0, BANNER, unit=unit(invocation_id="a"), procs=(proc(1, "vllm"), proc(2, "VLLM::EngineCor"))),
        *(look(float(t), unit=unit(invocation_id="b"), procs=(proc(20, "vllm"),)) for t in range(2, 20)),
    ]
    assert judge(*looks).verdict == "progressing"


# -- who stopped it

STOPPING = "Stopping x.service - vLLM server kimi..."
TRIGGERED = "(APIServer pid=1) INFO 11-30 23:05:23 [launcher.py:254] [shutdown] API server: shutdown triggered"
GONE = unit("inactive", "dead", main_pid=0, exec_main_code=1, exec_main_status=0)


@pytest.mark.parametrize(
    ("looks", "cause"),
    [
        ([systemd(5, STOPPING), look(6, TRIGGERED, unit=GONE)], "sd_stopping"),
        # the two write at the same moment
        ([look(5, TRIGGERED), systemd(6, STOPPING, unit=GONE)], "sd_stopping"),
        ([look(5, unit=unit("deactivating", "stop-sigterm", job="stop")), look(9, unit=GONE)], "sd_stopping"),
        ([look(5, TRIGGERED, unit=GONE)], "sh_trigger"),
        ([look(5, unit=GONE)], "sd_done"),
        ([systemd(5, "x.service: Deactivated successfully.", unit=GONE)], "sd_done"),
        # it was failing when it was stopped
        ([look(4, OOM), systemd(5, STOPPING, unit=GONE)], "cuda_oom"),
        # what it complained of and survived was not its end
        ([look(4, OOM, SERVING), systemd(5, STOPPING, unit=GONE)], "sd_stopping"),
    ],
    ids=[
        "stop",
        "stop, told late",
        "stop job",
        "signal",
        "by itself",
        "by itself, in the journal",
        "failing",
        "serving",
    ],
)
def test_who_stopped_it(looks: list[Observation], cause: str) -> None:
    status = death(look(0, BANNER, unit=unit()), *looks)
    assert status.cause is not None
    assert status.cause.id == cause


# -- the OOM killer

SIGKILLED = unit("failed", "failed", result="signal", main_pid=0, exec_main_code=2, exec_main_status=9)
EXITED = unit("failed", "failed", result="exit-code", main_pid=0, exec_main_code=1, exec_main_status=1)
CHILD_DIED = (
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': -9}"
)
KERNEL_OOM = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=VLLM::EngineCor,pid=2,uid=998"
LIMITED = EXITED._replace(memory_max=40 * 2**20)


@pytest.mark.parametrize(
    ("looks", "evidence"),
    [
        (
            [look(4, unit=unit(), oom_kills=1), look(6, CHILD_DIED, unit=LIMITED, oom_kills=1)],
            "the control group counts 1 of its processes ended by the kernel's OOM killer; "
            "MemoryMax= of the unit is 40 MiB",
        ),
        # the group, and its counter, had gone with its last process
        (
            [look(4, unit=SIGKILLED, host_oom_kills=8)],
            "in that moment the kernel's OOM killer ended a process on this host",
        ),
        (
            [look(4, unit=unit(), host_oom_kills=8), look(5, unit=SIGKILLED, host_oom_kills=8)],
            "in that moment the kernel's OOM killer ended a process on this host",
        ),
        (
            [look(4, unit=SIGKILLED._replace(result="oom-kill"))],
            "systemd saw the kernel's OOM killer end it (result oom-kill)",
        ),
        ([Observation(t=4, log=(LogRecord(KERNEL_OOM, None, "kernel"),), unit=SIGKILLED)], "kernel: " + KERNEL_OOM),
    ],
    ids=["of a child", "counted by the host", "counted a look before", "by systemd", "by the kernel"],
)
def test_the_oom_killer_is_the_cause(looks: list[Observation], evidence: str) -> None:
    status = death(look(0, BANNER, unit=unit(), oom_kills=0, host_oom_kills=7), *looks)
    assert status.cause is not None
    assert status.cause.id == "k_oom"
    assert evidence in status.evidence


@pytest.mark.parametrize(
    ("looks", "cause"),
    [
        # the host has killed somebody, but this one exited by itself
        ([look(4, unit=EXITED, host_oom_kills=8)], "sd_exit"),
        # somebody was killed long before
        (
            [look(4, unit=unit(), host_oom_kills=8), look(9, unit=unit()), look(12, unit=SIGKILLED, host_oom_kills=8)],
            "sd_kill",
        ),
        # it had named its cause before
        ([look(4, OOM, unit=unit()), look(5, unit=SIGKILLED, oom_kills=1)], "cuda_oom"),
    ],
    ids=["exited", "another time", "dying already"],
)
def test_not_every_kill_is_the_oom_killers(looks: list[Observation], cause: str) -> None:
    status = death(look(0, BANNER, unit=unit(), oom_kills=0, host_oom_kills=7), *looks)
    assert status.cause is not None
    assert status.cause.id == cause


def test_the_oom_killer_is_the_cause_where_no_unit_tells() -> None:
    main, engine = proc(1, "vllm"), proc(2, "VLLM::EngineCor")
    gone = death(look(0, procs=(main,), host_oom_kills=7), look(2, procs=(), gone=True, host_oom_kills=8))
    looks = [look(0, procs=(main, engine), host_oom_kills=7), look(2, procs=(main,), host_oom_kills=8)]
    lost = death(*looks, look(4, procs=(main,), host_oom_kills=8))
    for status in (gone, lost):
        assert status.cause is not None
        assert status.cause.id == "k_oom"
    # a process that ended when nobody was killed
    other = death(look(0, procs=(main,), host_oom_kills=7), look(2, procs=(), gone=True, host_oom_kills=7))
    assert other.cause is not None
    assert other.cause.id == "sd_exit"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("NVRM: Xid (PCI:0000:c1:00): 79, pid=2, name=VLLM::EngineCor, GPU has fallen off the bus.", "k_xid"),
        ("NVRM: GPU 0000:c1:00.0: GPU has fallen off the bus.", "k_aer"),
        # says that a program went wrong, which tells less than the program
        ("NVRM: Xid (PCI:0000:c1:00): 31, pid=2, name=VLLM::EngineCor, Ch 00000008, MMU Fault", "cuda_oom"),
    ],
)
def test_what_the_kernel_says_of_a_gpu(line: str, cause: str) -> None:
    seen = Observation(t=4, log=(LogRecord(line, None, "kernel"), LogRecord(OOM)), unit=EXITED)
    status = death(look(0, BANNER, unit=unit()), seen)
    assert status.cause is not None
    assert status.cause.id == cause


# -- in words


@pytest.mark.parametrize(
    ("lines", "ended", "cause", "line", "words"),
    [
        (
            ["systemd: x.service: Failed at step USER spawning /opt/vllm/bin/vllm: No such process"],
            EXITED._replace(exec_main_status=217),
            "sd_exit",
            "x.service: Failed at step USER spawning /opt/vllm/bin/vllm: No such process",
            "systemd could not start the program: status 217/USER, it could not take on the user",
        ),
        (
            ["systemd: x.service: Main process exited, code=exited, status=226/NAMESPACE"],
            EXITED._replace(exec_main_status=226),
            "sd_exit",
            "x.service: Main process exited, code=exited, status=226/NAMESPACE",
            "systemd could not start the program: status 226/NAMESPACE, it could not set up the sandbox's view of the "
            "files",
        ),
        # no line of the table, no traceback: what the program said last, not what systemd said of it
        (
            [
                "INFO starting",
                "error: the model folder is empty",
                "systemd: x.service: Main process exited, code=exited, status=1/FAILURE",
                "systemd: x.service: Failed with result 'exit-code'.",
            ],
            EXITED,
            "sd_exit",
            "error: the model folder is empty",
            "the main process ended by itself with status 1 (a Python error)",
        ),
        (
            [
                "pre-check failed: no VRAM",
                "systemd: x.service: Control process exited, code=exited, status=3/NOTIMPLEMENTED",
            ],
            EXITED._replace(exec_main_code=0, exec_main_status=0),
            "sd_control",
            "pre-check failed: no VRAM",
            "a command that the unit runs before or after the program failed (ExecStartPre=, ExecStartPost=)",
        ),
        (
            ["systemd: x.service: Main process exited, code=dumped, status=11/SEGV"],
            SIGKILLED._replace(exec_main_code=3, exec_main_status=11),
            "sd_kill",
            "x.service: Main process exited, code=dumped, status=11/SEGV",
            "a signal ended the main process: SIGSEGV, native code crashed on memory that is not its own",
        ),
    ],
    ids=["step", "status", "own words", "before the program", "core dump"],
)
def test_the_cause_in_words(lines: list[str], ended: UnitState, cause: str, line: str, words: str) -> None:
    status = death(look(0, unit=unit()), Observation(t=4, log=mixed(*lines), unit=ended))
    assert status.cause is not None
    assert (status.cause.id, status.cause.line, status.cause.cause) == (cause, line, words)


def test_who_is_left_behind_is_named_with_what_it_holds() -> None:
    limit = record(
        "TimeoutError: Timed out waiting for engine core processes to start. This is often caused by slow weight "
        "loading for large models. Waited 600s",
        "ERROR",
    )
    left = tuple(proc(2 + n, f"VLLM::Worker_TP{n}") for n in range(6))
    held = tuple(GpuSample(n, 80 * GIB, 96 * GIB, 0, ours_bytes=75 * GIB) for n in range(8))
    status = death(
        look(0, BANNER, procs=(proc(1, "vllm"), *left), gpus=held),
        look(600, limit, procs=left, gpus=held, exit_code=1),
        look(602, procs=left, gpus=held, exit_code=1),
    )
    assert status.cause is not None
    assert status.cause.id == "ready_timeout"
    assert "VLLM_ENGINE_READY_TIMEOUT_S=86400" in status.cause.remedy
    assert status.evidence[-1] == (
        "still there: VLLM::Worker_TP0 (pid 2), VLLM::Worker_TP1 (pid 3), VLLM::Worker_TP2 (pid 4), "
        "VLLM::Worker_TP3 (pid 5) and 2 more, 600.0 GiB of GPU memory"
    )


# -- loops


def cycle(number: int, *lines: str, code: int = 1) -> tuple[str, ...]:
    return (
        "systemd: Started x.service - vLLM server kimi.",
        *lines,
        f"systemd: x.service: Main process exited, code=exited, status={code}/FAILURE",
        "systemd: x.service: Failed with result 'exit-code'.",
        f"systemd: x.service: Scheduled restart job, restart counter is at {number}.",
        "systemd: Stopped x.service - vLLM server kimi.",
    )


LIMIT = (
    "systemd: x.service: Start request repeated too quickly.",
    "systemd: x.service: Failed with result 'exit-code'.",
)
BUSY = record("ValueError: Free memory on device cuda:0 (20.1/95.6 GiB) on startup is less than desired GPU", "ERROR")


def test_every_cycle_of_a_loop_has_its_cause_and_the_first_is_that_of_the_loop() -> None:
    """The first start leaves workers behind that the later ones suffer from."""
    ended = EXITED._replace(n_restarts=3, result="exit-code", start_limit="4 in 1min")
    log = mixed(*cycle(1, BANNER, ENGINE, OOM), *cycle(2, BANNER, ENGINE, BUSY), *cycle(3, BANNER, BUSY), *LIMIT)
    timed = tuple(entry._replace(at=1_796_100_264.0 + n) for n, entry in enumerate(log))
    status = judge(Observation(t=0, log=timed, unit=ended))
    assert (status.verdict, status.final, status.cause and status.cause.id) == ("dead", True, "cuda_oom")
    assert (status.restarts, status.exit_code, status.stage) == (3, 1, "engine")
    assert [(c.cause, c.stage, c.exit_code, c.seconds) for c in status.cycles] == [
        ("cuda_oom", "engine", 1, 5.0),
        ("gpu_busy", "engine", 1, 5.0),
        ("gpu_busy", "engine", 1, 4.0),
    ]
    assert status.as_result()["cycles"][0] == {
        "started_at": "2026-12-01T04:44:24Z",
        "seconds": 5.0,
        "stage": "engine",
        "exit_code": 1,
        "signal": None,
        "cause": "cuda_oom",
        "line": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 3 has",
    }
    assert [line.partition(":")[0] for line in status.evidence] == [
        "start 1 of 3",
        "starts 2 to 3 of 3",
        "systemd has given up",
    ]
    assert status.evidence[-1] == "systemd has given up: too many starts in a short time (4 in 1min are allowed)"


def test_a_start_in_the_midst_of_a_loop_is_watched_with_what_came_before() -> None:
    running = unit(n_restarts=1, invocation_id="b", main_pid=20)
    seen = Observation(t=0, log=mixed(*cycle(1, BANNER, OOM), "systemd: Started x.service.", BANNER), unit=running)
    status = judge(seen, look(10, ENGINE, unit=running))
    assert (status.verdict, status.stage, status.restarts) == ("progressing", "engine", 1)
    assert "restart loop: systemd has started it again 1 time" in status.evidence
    assert status.evidence[-1].startswith(
        "the start before this one: exit status 1 after 0 s in stage engine: cuda_oom"
    )
    # and ends with it
    again = unit("activating", "auto-restart", main_pid=0, exec_main_code=1, exec_main_status=1, n_restarts=1)
    again = again._replace(invocation_id="b", restart_sec="10s")
    t, status = first_final([seen, look(10, OOM, unit=again)])
    assert (t, status.verdict, status.cause and status.cause.id) == (10, "dead", "cuda_oom")
    assert status.evidence[-1] == "Restart=always of its unit brings it back after 10s: systemctl stop ends that"


def test_a_start_that_served_is_the_first_of_what_comes_after() -> None:
    """What ended a start of last week is not the cause of today's loop."""
    log = mixed(
        *cycle(1, BANNER, ENGINE, BUSY),
        *cycle(2, BANNER, SERVING, record("EngineCore encountered a fatal error.", "ERROR")),
        *cycle(3, BANNER, OOM),
        *LIMIT,
    )
    status = judge(Observation(t=0, log=log, unit=EXITED._replace(n_restarts=3)))
    assert (status.restarts, status.cause and status.cause.id) == (3, "cuda_oom")
    assert [cycle.cause for cycle in status.cycles] == ["engine_dead", "cuda_oom"]


def test_restarts_are_counted_since_somebody_started_it() -> None:
    stopped = ("systemd: Started x.service.", "systemd: Stopping x.service...", "systemd: Stopped x.service.")
    log = mixed(*cycle(4, OOM), *cycle(5, OOM), *stopped, *cycle(1, BUSY), "systemd: Started x.service.", BANNER)
    status = judge(Observation(t=0, log=log, unit=unit(n_restarts=1)))
    assert (status.restarts, [cycle.cause for cycle in status.cycles]) == (1, ["gpu_busy"])
    # and without systemd's own count
    assert judge(Observation(t=0, log=log)).restarts == 1


def test_the_present_start_is_one_of_the_loop_when_it_is_over() -> None:
    running = unit(n_restarts=1, invocation_id="b", main_pid=20)
    seen = Observation(t=0, log=mixed(*cycle(1, BANNER, OOM), "systemd: Started x.service.", BANNER), unit=running)
    ended = EXITED._replace(n_restarts=1, invocation_id="b")
    wait = Judge(JudgeConfig())
    assert wait.feed(seen).verdict == "progressing"
    status = wait.feed(look(5, BUSY, unit=ended))
    assert (status.verdict, status.final, status.cause and status.cause.id) == ("dead", True, "cuda_oom")
    assert [(cycle.cause, cycle.exit_code) for cycle in status.cycles] == [("cuda_oom", 1), ("gpu_busy", 1)]


def test_the_last_words_of_a_loop_are_waited_for() -> None:
    running = unit(n_restarts=1, invocation_id="b", main_pid=20)
    seen = Observation(t=0, log=mixed(*cycle(1, BANNER), "systemd: Started x.service.", BANNER), unit=running)
    ended = EXITED._replace(n_restarts=1, invocation_id="b")
    status = judge(seen, look(5, unit=ended), look(5.5, OOM, unit=ended))
    assert (status.final, status.cause and status.cause.id) == (True, "cuda_oom")


def test_a_look_that_shows_the_next_start_before_the_unit_does() -> None:
    """The unit is read before the journal: the restart may fall between the two."""
    old = unit(invocation_id="a", exec_main_code=0)
    new = unit(invocation_id="b", n_restarts=1, main_pid=20)
    looks = [
        look(0, BANNER, unit=old),
        Observation(t=2, log=mixed(*cycle(1, OOM)[1:], "systemd: Started x.service.", BANNER), unit=old),
        look(4, ENGINE, unit=new),
        look(6, unit=new),
    ]
    status = judge(*looks, restarts_allowed=2)
    assert (status.verdict, status.stage, len(status.cycles), status.restarts) == ("progressing", "engine", 1, 1)


@pytest.mark.parametrize(
    ("second", "verdict"), [(BUSY, "progressing"), (OOM, "dead")], ids=["another cause", "the same cause"]
)
def test_restarts_that_are_allowed_are_waited_for_until_a_cause_repeats(second: str, verdict: str) -> None:
    pause = unit("activating", "auto-restart", main_pid=0, exec_main_code=1, exec_main_status=1, invocation_id="a")
    looks = [
        look(0, BANNER, unit=unit(invocation_id="a")),
        look(2, OOM, unit=pause),
        look(9, unit=pause),
        Observation(t=10, log=mixed(*cycle(1)[1:]), unit=unit(invocation_id="b", n_restarts=1)),
        look(12, BANNER, unit=unit(invocation_id="b", n_restarts=1)),
        look(20, second, unit=pause._replace(invocation_id="b", n_restarts=1)),
    ]
    wait = Judge(JudgeConfig(restarts_allowed=2))
    said = [wait.feed(seen) for seen in looks]
    assert [status.verdict for status in said[:-1]] == ["progressing"] * 5
    assert said[1].evidence[0] == "systemd starts it again, restart 1 of 2 that are waited for"
    assert (said[-1].verdict, said[-1].final) == (verdict, verdict == "dead")


def test_more_restarts_than_allowed_are_a_loop() -> None:
    looks = [look(0, BANNER, unit=unit())]
    looks += [
        Observation(t=5.0 * n, log=mixed(*cycle(n, OOM if n % 2 else BUSY)[1:], BANNER), unit=unit(n_restarts=n))
        for n in range(1, 5)
    ]
    t, status = first_final(looks, restarts_allowed=2)
    assert (t, status.verdict, status.cause and status.cause.id) == (15, "dead", "cuda_oom")
    assert [c.cause for c in status.cycles] == ["cuda_oom", "gpu_busy", "cuda_oom"]


def test_a_loop_without_a_journal() -> None:
    t, status = first_final(
        [look(0, unit=unit(invocation_id="a")), look(2, unit=unit(invocation_id="b", n_restarts=1))]
    )
    assert (t, status.verdict, len(status.cycles)) == (2, "dead", 1)


# -- properties


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [BANNER, ENGINE, WORKERS, NCCL, LOADING, shards(0, 9), shards(5, 9), LOADED, AUTOTUNE, SERVING, BEAT]
            ),
            st.floats(min_value=0.1, max_value=50),
            st.booleans(),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_a_unit_that_is_active_and_moving_is_never_dead_or_stalled(looks: list[tuple[str, float, bool]]) -> None:
    wait = Judge(JudgeConfig())
    t = 0.0
    for n, (line, pause, reading) in enumerate(looks):
        t += pause
        engine = proc(2, "VLLM::EngineCor", "D" if reading else "R", cpu_s=t, read_bytes=n * 2**30)
        status = wait.feed(look(t, line, unit=unit(), procs=(proc(1, "vllm"), engine), gpus=gpus(used=n * GIB)))
        assert status.verdict in ("progressing", "slow")
        assert not status.final
