# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turns a recorded start into the observations a live wait would have made, and judges them by the same fold."""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import pathlib
import re
import typing
import zlib

from ansible_collections.modelfleet.serving.plugins.module_utils._cycles import ANEW, Splitter
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import (
    Completion,
    GpuSample,
    HttpSample,
    LogRecord,
    Observation,
    Totals,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._verdict import Judge, JudgeConfig, Status
from ansible_collections.modelfleet.serving.plugins.module_utils._vllm_log import parse_bar, strip_ansi

#: ``journalctl -o short``, ``short-precise`` and ``short-iso``
_JOURNAL = re.compile(
    r"^(?:(?P<mon>[A-Z][a-z]{2}) [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*) "
    r"\S+ (?P<ident>[^\s:\[]+)(?:\[(?P<pid>\d+)\])?: (?P<text>.*)$",
    re.DOTALL,
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d(?:[.,]\d+)?)"
_STAMPS = tuple(
    re.compile(pattern + _CLOCK)
    for pattern in (
        r"^(?P<name>[A-Z][a-z]{2}) (?P<day>[ \d]\d) ",
        r"^(?:\(.*?\) )?\d{4}-(?P<mon>\d\d)-(?P<day>\d\d)[ T]",
        r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<mon>\d\d)-(?P<day>\d\d) ",
        r"^\[?[IWEF](?P<mon>\d\d)(?P<day>\d\d) ",
    )
)
_SIDES = {"systemd": "systemd", "kernel": "kernel"}
_ACCESS = re.compile(r'"(?P<method>GET|POST) (?P<path>/\S*) HTTP/[\d.]+" (?P<status>\d{3})')
_SCRIPT_EXIT = re.compile(rb'^Script done on .*COMMAND_EXIT_CODE="(\d+)"', re.MULTILINE)
#: how long after its last line a recorded log is still watched, where that line says that the server ends
_AFTER_S = 5.0


_YEAR_S = 366 * 86400.0
_HALF_YEAR_S = _YEAR_S / 2


class TimedRecord(typing.NamedTuple):
    t: float
    record: LogRecord


def _stamp_seconds(line: str) -> typing.Optional[float]:
    for pattern in _STAMPS:
        match = pattern.search(line)
        if match is None:
            continue
        found = match.groupdict()
        month = _MONTHS.index(found["name"]) + 1 if found.get("name") in _MONTHS else int(found.get("mon") or 0)
        try:
            day = datetime.date(2000, month, int(found["day"]))
        except ValueError:
            continue
        clock = int(found["h"]) * 3600 + int(found["m"]) * 60 + float(found["s"].replace(",", "."))
        return day.toordinal() * 86400 + clock
    return None


#: how systemd and the kernel begin their lines, where nothing else says that it was they
_SYSTEMD_LINE = re.compile(r"^\S+\.(?:service|scope): ")
_KERNEL_LINE = re.compile(
    r"^(?:\[ *\d+\.\d+\] |(?:Memory cgroup out|Out) of memory: Killed|oom-kill:|NVRM: |pcieport )|\]: segfault at "
)


def _last_start(records: list[TimedRecord]) -> list[TimedRecord]:
    """Leave out what came before somebody started the service anew; restarts by systemd belong to the same start."""
    splitter, begin = Splitter(), 0
    for index, (_t, record) in enumerate(records):
        if splitter.split((record,))[0].how == ANEW:
            begin = index
    first = records[begin].t if records else 0.0
    return [TimedRecord(t - first, record) for t, record in records[begin:]]


def read_records(data: bytes) -> list[TimedRecord]:
    """The lines of a plain log, a typescript or a journal, each with its second of the recording."""
    lines = data.decode("utf-8", errors="replace").split("\n")
    records: list[TimedRecord] = []
    first: typing.Optional[float] = None
    t = 0.0
    bar_began = ("", 0.0)
    for line in lines:
        if not line.strip() or line.startswith(("Script started on ", "Script done on ", "$ ", "-- ")):
            continue
        seconds = _stamp_seconds(strip_ansi(line))
        if seconds is not None:
            first = seconds if first is None else first
            if seconds < first - _HALF_YEAR_S:
                seconds += _YEAR_S  # stamps have no year
            t = max(t, seconds - first)
        drawn = parse_bar(line)
        if drawn is not None:
            # a bar has no time of day, but a clock of its own
            if bar_began[0] != drawn.desc or drawn.done == 0:
                bar_began = (drawn.desc, t - drawn.elapsed_s)
            t = max(t, bar_began[1] + drawn.elapsed_s)
        records.append(TimedRecord(t, _record(line)))
    return _last_start(records)


def _record(line: str) -> LogRecord:
    journal = _JOURNAL.match(line)
    if journal is None:
        kernel, systemd = _KERNEL_LINE.search(line), _SYSTEMD_LINE.match(line)
        return LogRecord(line.rstrip("\r"), None, "kernel" if kernel else "systemd" if systemd else "service")
    side = _SIDES.get(journal["ident"], "service")
    return LogRecord(journal["text"], int(journal["pid"]) if journal["pid"] else None, side)


def http_of(records: typing.Iterable[LogRecord]) -> typing.Optional[HttpSample]:
    """What the access log shows of requests that somebody made: the HTTP side of a recording."""
    health = models = completion = None
    for record in records:
        match = _ACCESS.search(strip_ansi(record.text)) if "HTTP/1." in record.text else None
        if match is None:
            continue
        status, path = int(match["status"]), match["path"]
        if path == "/health":
            health = status
        elif path == "/v1/models" and status == 200:
            models = ()
        elif match["method"] == "POST" and path.endswith("/completions") and _is_answer(status):
            completion = Completion(status=status, completion_tokens=1 if status == 200 else 0)
    if health is None and models is None and completion is None:
        return None
    return HttpSample(health=health, models=models, completion=completion)


def _is_answer(status: int) -> bool:
    """Whether it is about tokens: a wrong model name or a missing key says nothing about the server."""
    return status == 200 or status >= 500


def _asked(row: typing.Mapping[str, typing.Any]) -> Completion:
    status, body = row["asked"]
    try:
        answer = json.loads(body)
        tokens = int(answer.get("usage", {}).get("completion_tokens", 0))
        text = str(answer.get("choices", [{}])[0].get("text", ""))
    except (ValueError, AttributeError, IndexError, TypeError):
        tokens, text = 0, ""
    return Completion(status=status, text=text, completion_tokens=tokens)


def observations_of_log(data: bytes, at: typing.Optional[float]) -> list[Observation]:
    """Without samples: one observation for each second that the log names."""
    grouped: dict[float, list[LogRecord]] = {}
    for t, record in read_records(data):
        if at is None or t <= at:
            grouped.setdefault(t, []).append(record)
    seen = [Observation(t=t, log=tuple(records), http=http_of(records)) for t, records in grouped.items()]
    if at is not None and (not seen or seen[-1].t < at):
        seen.append(Observation(t=at))
    return seen


def observations_of_samples(data: bytes, rows: typing.Sequence[dict], at: typing.Optional[float]) -> list[Observation]:
    """With samples: one observation a row; the log grows to the size each row gives."""
    seen = []
    size = 0
    rest = b""
    for row in rows:
        if at is not None and row["t"] > at:
            break
        grown = max(size, _line_end(data, row.get("log") or 0))
        new = rest + data[size:grown]
        # a bar that redraws itself ends its line with CR
        ended = max(new.rfind(b"\n"), new.rfind(b"\r")) + 1
        complete, partial = new[:ended], new[ended:]
        lines = complete.decode("utf-8", errors="replace").split("\n")
        records = tuple(_record(line) for line in lines if line.strip())
        size, rest = grown, partial
        seen.append(_observation(row, records, partial.decode("utf-8", errors="replace")))
    if at is None and rows:
        tail = (rest + data[size:]).decode("utf-8", errors="replace").split("\n")
        records = tuple(_record(line) for line in tail if line.strip())
        seen.append(Observation(t=rows[-1]["t"], log=records, http=http_of(records)))
    return seen


def _line_end(data: bytes, size: int) -> int:
    """The end of the line, or of the bar's state, that a size falls into.

    Names and addresses in the recordings were replaced by longer ones after the sizes were taken, so that a size falls
    some bytes short of the line that was out by then. vLLM writes its lines whole.
    """
    if not size or size >= len(data) or data[size - 1 : size] in (b"\n", b"\r"):
        return size
    ends = [end + 1 for end in (data.find(b"\n", size), data.find(b"\r", size)) if end >= 0]
    return min(ends, default=len(data))


def _observation(row: typing.Mapping[str, typing.Any], records: tuple[LogRecord, ...], partial: str) -> Observation:
    http = http_of(records)
    if row.get("health") is not None:
        http = (http or HttpSample())._replace(health=row["health"], error=row.get("err") or "")
    if row.get("asked"):
        http = (http or HttpSample())._replace(completion=_asked(row))
    gpus = totals = None
    if row.get("used") is not None:
        ours = sum(size for _pid, size in row.get("procs") or ())
        gpus = (
            GpuSample(
                index=0,
                memory_used_bytes=row["used"],
                utilization_percent=row.get("util"),
                power_mw=row.get("power_mw"),
                ours_bytes=ours,
            ),
        )
    if row.get("cpu_s") is not None:
        totals = Totals(row["cpu_s"], row.get("read_bytes"), row.get("majflt"), row.get("states"))
    return Observation(
        t=row["t"],
        log=records,
        log_partial=partial,
        totals=totals,
        compilers=row.get("compilers"),
        gpus=gpus,
        http=http,
        exit_code=row.get("rc") if "used" in row else None,
    )


def wanted(data: bytes, rows: typing.Sequence[dict]) -> JudgeConfig:
    """A recording can only be asked for what was tried in it: tokens, where somebody asked for some."""
    asked = any(row.get("asked") for row in rows)
    tried = (http_of([LogRecord(line)]) for line in data.decode("utf-8", errors="replace").split("\n"))
    return JudgeConfig(want_completion=asked or any(http and http.completion for http in tried))


def replay(
    data: bytes,
    rows: typing.Sequence[dict] = (),
    exit_code: typing.Optional[int] = None,
    at: typing.Optional[float] = None,
) -> Status:
    """What the wait would have said."""
    seen = observations_of_samples(data, rows, at) if rows else observations_of_log(data, at)
    script = _SCRIPT_EXIT.search(data)
    if exit_code is None and script is not None and int(script[1]):
        exit_code = int(script[1])
    if not seen:
        seen = [Observation(t=0.0)]
    if at is None and exit_code is not None:
        seen.append(Observation(t=seen[-1].t, exit_code=exit_code))
    judge = Judge(wanted(data, rows))
    ready = None
    for observation in seen:
        status = judge.feed(observation)
        if status.verdict == "ready":
            ready = status
        elif status.verdict == "stalled":
            return status
    if at is None and not status.final and status.cause is not None:
        status = judge.feed(Observation(t=seen[-1].t + _AFTER_S))
    # A wait is over once the server is ready. Recordings go on: an end that somebody asked for, or that nothing
    # in the log calls a failure, is the recorder's; any other is the server's.
    if ready is not None and status.verdict != "ready" and (judge.stop_requested or _is_plain_end(status)):
        return ready
    return status


def _is_plain_end(status: Status) -> bool:
    return status.cause is not None and status.cause.id == "sd_done"


class NoEvidence(Exception):
    """There is nothing in the recording that could be judged; the text says why."""


#: of a file that is text, at most this share of its bytes is none
_STRANGE_SHARE = 0.2
_TEXT = bytes(range(0x20, 0x7F)) + b"\n\r\t\x1b\x07\x08"


def read_bytes(path: pathlib.Path) -> bytes:
    """A file, also one that is compressed. Raises OSError, and :class:`NoEvidence` for what is no recording."""
    data = path.read_bytes()
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
        raise NoEvidence(f"{path} is gzipped and damaged: {exc}") from exc


def is_text(data: bytes) -> bool:
    """A log may hold a few bytes that are no text, such as those of a crash; UTF-8 of any language is text."""
    strange = data.decode("utf-8", errors="replace").count("\ufffd")
    strange += len([byte for byte in data.translate(None, _TEXT) if byte < 0x20 or byte == 0x7F])
    return strange <= len(data) * _STRANGE_SHARE


def check_evidence(
    path: pathlib.Path, log: bytes, rows: typing.Optional[typing.Sequence[dict]], exit_code: typing.Optional[int]
) -> None:
    """Raises :class:`NoEvidence`. Samples or an exit status are evidence too: a server may die without a word."""
    if not is_text(log[: 1 << 20]):
        raise NoEvidence(f"{path} is not text: neither a log, nor a typescript, nor the text of a journal")
    if rows is not None and not all(isinstance(row, dict) and "t" in row for row in rows):
        raise NoEvidence("each line of the samples has to be an object with the key t, the second of the recording")
    if not log.strip() and not rows and exit_code is None:
        raise NoEvidence(f"{path} is empty: it says nothing about any server, and neither samples nor exit code do")


def main(argv: typing.Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="replay", description="What vllm_health_wait would have said of a recording.")
    parser.add_argument(
        "log", type=pathlib.Path, help="plain log, typescript, or text of journalctl -o short; may be gzipped"
    )
    parser.add_argument("--samples", type=pathlib.Path, help="JSON lines, one look at the server each")
    parser.add_argument("--exit-code", type=int, help="how the server's process ended")
    parser.add_argument("--at", type=float, help="second of the recording to judge at, instead of its end")
    options = parser.parse_args(argv)
    rows = []
    try:
        if options.samples is not None:
            with options.samples.open(encoding="utf-8") as lines:
                rows = [json.loads(line) for line in lines if line.strip()]
        log = read_bytes(options.log)
        check_evidence(options.log, log, rows if options.samples is not None else None, options.exit_code)
    except NoEvidence as exc:
        parser.error(f"no evidence: {exc}")
    except OSError as exc:
        parser.error(f"no evidence: {exc.filename or options.log} cannot be read: {exc.strerror or exc}")
    except ValueError as exc:
        parser.error(f"no evidence: {options.samples} is not JSON lines: {exc}")
    status = replay(log, rows, options.exit_code, options.at)
    print(json.dumps(status.as_result(), indent=2, ensure_ascii=False))
    return 0
