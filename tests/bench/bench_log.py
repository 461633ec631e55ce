# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""100 MB of a server's log: what vllm_health_wait takes for it, against what people search logs with."""

from __future__ import annotations

import gzip
import os
import pathlib
import random
import sys
import typing as t

from benchkit.model import (
    Aim,
    Contestant,
    Sample,
    bench,
    cpu_column,
    peak_column,
    rate_column,
    ratio_column,
    time_column,
)
from benchkit.process import CommandFailed
from benchkit.workshop import TOP, Workshop

RECORDINGS = TOP / "tests/recordings/vllm-0.20.0-h200"
TOTAL = 100_000_000
OURS, GREP, LOOP = "vllm_health_wait", "grep -F", "Python loop"
MEBI = 1 << 20

READER = """
import sys
from ansible_collections.modelfleet.serving.plugins.module_utils._log_fold import LogFold
from ansible_collections.modelfleet.serving.plugins.module_utils._source_log import FileSource
source, log = FileSource(sys.argv[1]), LogFold()
while True:
    reading = source.read()
    log.feed(reading.records, reading.partial)
    if not reading.more:
        break
print(log.lines, log.weights.done, len(log.seen))
"""
#: the least that a script of one's own does: one regular expression a line
SEARCHER = """
import re, sys
search = re.compile("Traceback|ERROR|CRITICAL|out of memory|Loading weights took|startup complete").search
print(sum(1 for line in open(sys.argv[1], encoding="utf-8", errors="replace") if search(line)))
"""
NEEDLES = """
from ansible_collections.modelfleet.serving.plugins.module_utils._signatures import SIGNATURES
from ansible_collections.modelfleet.serving.plugins.module_utils._stage_lines import STAGE_LINES
print("\\n".join(sorted({needle for row in (*SIGNATURES, *STAGE_LINES) for needle in row.needles})))
"""


def recording(name: str) -> str:
    return gzip.decompress((RECORDINGS / f"{name}.log.gz").read_bytes()).decode("utf-8", "replace")


def served(dice: random.Random) -> t.Iterator[str]:
    """A start, and then what a busy server writes: requests, statistics, and now and then an exception."""
    yield recording("cold")
    trace = recording("killengine").partition("Traceback")[2]
    head = "(APIServer pid=4208)"
    while True:
        for _line in range(200):
            address = f"10.77.{dice.randrange(255)}.{dice.randrange(255)}:{dice.randrange(65536)}"
            path = dice.choice(("/v1/chat/completions", "/v1/completions", "/health", "/metrics"))
            yield f'{head} INFO:     {address} - "POST {path} HTTP/1.1" 200 OK\n'
        for _line in range(4):
            tokens = " ".join(str(dice.randrange(100_000)) for _token in range(60))
            name = f"chatcmpl-{dice.getrandbits(128):032x}"
            yield f"{head} INFO 11-30 23:12:07 [logger.py:43] Received request {name}: prompt: 'about {tokens}'\n"
        yield (
            f"{head} INFO 11-30 23:12:{dice.randrange(60):02} [loggers.py:259] Engine 000: Avg prompt throughput: "
            f"{dice.random() * 900:.1f} tokens/s, Avg generation throughput: {dice.random() * 900:.1f} tokens/s, "
            f"Running: {dice.randrange(64)} reqs, Waiting: 0 reqs, GPU KV cache usage: {dice.random() * 99:.1f}%\n"
        )
        yield f"{head} ERROR 11-30 23:12:09 [serving.py:7] Error in preprocessing prompt\nTraceback{trace[:2000]}\n"


def restarted(dice: random.Random) -> t.Iterator[str]:
    """A service that systemd starts again and again, for weeks."""
    while True:
        yield recording("truncated").replace("11-30 22:59", f"11-30 {dice.randrange(24):02}:{dice.randrange(60):02}")


def make_log(path: pathlib.Path, parts: t.Iterator[str]) -> None:
    size = 0
    with path.open("wb") as handle:
        while size < TOTAL:
            size += handle.write(next(parts).encode())


def contestants(workshop: Workshop, parts: t.Iterator[str]) -> t.Sequence[Contestant]:
    log, needles = workshop.folder / "log", workshop.folder / "needles"
    make_log(log, parts)
    collections = {"PYTHONPATH": os.environ["ANSIBLE_COLLECTIONS_PATH"]}
    needles.write_text(workshop.command(sys.executable, "-c", NEEDLES, **collections).out, encoding="utf-8")

    def ours() -> Sample:
        done = workshop.command(sys.executable, "-c", READER, str(log), **collections)
        lines, shards, seen = done.out.split()
        if int(lines) < TOTAL // 500 or float(shards) < 8 or int(seen) < 10:
            raise CommandFailed(f"the log was not read: {done.out}")
        return done.sample

    def grep() -> Sample:
        return workshop.command("grep", "-c", "-a", "-F", "-f", str(needles), str(log)).sample

    def loop() -> Sample:
        return workshop.command(sys.executable, "-c", SEARCHER, str(log)).sample

    return Contestant(OURS, ours), Contestant(GREP, grep), Contestant(LOOP, loop)


COLUMNS = (time_column(), rate_column(TOTAL), ratio_column(LOOP), cpu_column(TOTAL), peak_column())
AIMS = (
    Aim("CPU seconds for 100 MB", lambda results: results[OURS].cpu, at_most=2.0),
    Aim("memory of the process, MiB", lambda results: results[OURS].peak / MEBI, at_most=80, form="{:.0f}"),
)
ABOUT = (
    "Whole processes from start to end. vllm_health_wait reads stages, bars, tracebacks and the cause of a failure out "
    "of it; grep -F only counts the lines that hold one of the same texts; the loop in Python tries one small regular "
    "expression a line."
)


@bench("log", "100 MB of log: a start and what a busy server writes then", ABOUT, COLUMNS, AIMS)
def log_of_a_server(workshop: Workshop) -> t.Iterator[t.Sequence[Contestant]]:
    yield contestants(workshop, served(random.Random(1)))


@bench("log-restarts", "100 MB of log: starts that fail, over and over", ABOUT, COLUMNS, AIMS)
def log_of_restarts(workshop: Workshop) -> t.Iterator[t.Sequence[Contestant]]:
    yield contestants(workshop, restarted(random.Random(1)))


BENCHES = (log_of_a_server, log_of_restarts)
