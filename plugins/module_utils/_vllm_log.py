# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Reading lines of a vLLM log, 0.10 to 0.33: prefixes, colours, carriage returns, records and progress bars."""

from __future__ import annotations

import json
import re
import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._redact import redact

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")

#: how the names of vLLM's processes begin
PREFIX_NAMES = (
    "APIServer|ApiServer|EngineCore|Worker|VllmWorker|DPCoordinator|DPSupervisor|RayWorkerWrapper|"
    "MainProcess|SpawnProcess|ForkProcess"
)
#: ``(EngineCore pid=813) ``; may be missing, doubled, or belong to another process that wrote at the same moment
_ONE_PREFIX = rf"\((?P<proc>(?:{PREFIX_NAMES})[^()]*?) pid=(?P<pid>\d+)(?:, ip=[\d.]+)?\)\s?"
#: torch puts ``[rank0]: `` before each line of an exception that nobody caught
_PREFIX = re.compile(rf"(?:{_ONE_PREFIX})+(?:\[rank\d+\]:\s?)?|\[rank\d+\]:\s?")
_LATE_PREFIX = re.compile(rf"(?:{_ONE_PREFIX})+$")
_LEVELS = "DEBUG|INFO|WARNING|ERROR|CRITICAL"
_RECORD = re.compile(
    rf"(?P<level>{_LEVELS}) (?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d) \[(?P<origin>[^\]\s:]+:\d+)\] ?(?P<text>.*)$",
    re.DOTALL,
)
_UVICORN = re.compile(rf"(?P<level>{_LEVELS}):\s{{2,}}(?P<text>.*)$", re.DOTALL)
#: 2026-01-31 12:00:00,123 - INFO - autotuner.py:457 - flashinfer.jit: [Autotuner]: ...
_FLASHINFER = re.compile(
    rf"\d{{4}}-(?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d),\d+ - (?P<level>{_LEVELS}) - "
    r"(?P<origin>[^\s:]+:\d+) - [\w.]+: (?P<text>.*)$",
    re.DOTALL,
)
_JSON_RECORD = '"message": "'

#: every loader of vLLM, and fastsafetensors, draw it in this form
_SHARD_BAR = re.compile(
    r"(?P<desc>(?:Loading|Multi-thread loading) [\w .()-]{1,80}):\s*"
    r"\d{1,3}% Completed \| (?P<n>[\d.]+[kMGTP]?)/(?P<total>[\d.]+[kMGTP]?) "
    r"\[(?P<elapsed>[\d:]+)<[\d:?]+, +(?P<rate>[^\]]+)\]"
)
_OTHER_BAR = re.compile(
    r"(?P<desc>[^|]{3,160}?):\s*\d{1,3}%\|[^|\r\n]*\|\s*(?P<n>[\d.]+[kMGTP]?)/(?P<total>[\d.]+[kMGTP]?) "
    r"\[(?P<elapsed>[\d:]+)<[\d:?]+,\s*(?P<rate>[^\]]*)"
)
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)(?:(s)/\w|([kMGTP]?)\w*/\w)")
_UNITS = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
#: bars whose numbers are not files: tensors (Runai), bytes (InstantTensor), groups of as many files as there are ranks
_NOT_FILES = (
    "Runai Model Streamer",
    "InstantTensor loader",
    "Fastsafetensor loader",
    "fastsafetensors checkpoint shards",
)

#: Lines that repeat what the server was asked: any word may be in them, so none of them means anything.
ECHOED_REQUESTS = (
    "Received request ",
    "Generated response ",
    " details: prompt: ",
    " JSON body: ",
)
#: the same, over many lines
ECHO_OF_LINES = "Using supplied chat template:"
#: the same for configuration and for what the engine was doing
ECHOES = (
    "non-default args:",
    "LLM engine (v",
    "Dumping scheduler output",
    "Dumping scheduler stats",
    ECHO_OF_LINES,
)
_ALL_ECHOES = (*ECHOED_REQUESTS, *ECHOES)

_SHOWN = 600


class Line(typing.NamedTuple):
    """One line without prefix and colours."""

    #: process that wrote it, such as ``EngineCore pid=813``; empty when it does not say
    proc: str
    #: DEBUG ... CRITICAL; empty for what is not a log record: bars, bare tracebacks, warnings of libraries
    level: str
    #: ``MM-DD HH:MM:SS`` or empty
    stamp: str
    text: str
    #: ``file:line`` of the source that wrote it, or empty
    origin: str = ""


class Bar(typing.NamedTuple):
    """One state of a progress bar."""

    desc: str
    done: float
    total: float
    #: the bar's own clock, whole seconds
    elapsed_s: float
    #: what the bar says of its own speed; None for the first draw
    per_s: typing.Optional[float]
    #: the bar of the weights
    weights: bool
    #: ``done`` and ``total`` count files
    files: bool


def pieces(text: str) -> typing.Sequence[str]:
    """The lines inside a text: bars redraw themselves behind ``\\r``, journald keeps several lines in one message."""
    if "\r" not in text and "\n" not in text:
        return (text,)
    return [piece for piece in text.replace("\r", "\n").split("\n") if piece]


def strip_ansi(text: str) -> str:
    return _ANSI.sub("", text) if "\x1b" in text else text


def parse_line(text: str) -> Line:
    """Take prefix and record header off one line. Never fails; what is not recognised stays in ``text``."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if text[:1] == "{" and is_json_record(text):
        text = next(iter(plain_records(text)))
    proc = ""
    prefix = _PREFIX.match(text)
    if prefix:
        proc = f"{prefix['proc']} pid={prefix['pid']}" if prefix["proc"] else ""
        text = text[prefix.end() :]
    if text[:1] == " ":
        # source text of a traceback, which may well hold a record
        return Line(proc, "", "", text)
    record = _RECORD.match(text)
    if record is None and "] " in text:
        record = _RECORD.search(text)
        if record is not None and not proc:
            # VLLM_LOGGING_PREFIX, or what collected the log, stands before the process
            prefix = _LATE_PREFIX.search(text, 0, record.start())
            proc = f"{prefix['proc']} pid={prefix['pid']}" if prefix else ""
    if record is not None:
        return Line(proc, record["level"], record["stamp"], record["text"], record["origin"])
    return _other_record(proc, text)


def _other_record(proc: str, text: str) -> Line:
    record = _UVICORN.match(text)
    if record is not None:
        return Line(proc, record["level"], "", record["text"])
    record = _FLASHINFER.match(text)
    if record is not None:
        return Line(proc, record["level"], record["stamp"], record["text"], record["origin"])
    return Line(proc, "", "", text)


def plain_records(text: str) -> typing.Sequence[str]:
    """The lines of text for which one line of ``--logging-config.formatter json`` (0.32 on) stands."""
    try:
        fields = json.loads(text)
        stamp = str(fields["asctime"])[5:19]
        head = f"({fields['processName']} pid={fields['process']}) {fields['levelname']} {stamp} [{fields['name']}:0] "
        said = f"{fields['message']}\n{fields.get('exc_info') or ''}"
    except (ValueError, LookupError, TypeError):
        return (text,)
    return [head + line for line in said.rstrip("\n").split("\n")]


def is_json_record(text: str) -> bool:
    return text.startswith("{") and _JSON_RECORD in text


def is_echo(text: str) -> bool:
    return any(echo in text for echo in _ALL_ECHOES)


def presentable(text: str) -> str:
    """A log line as it may leave the host: of bearable length, without secrets and without the server's arguments."""
    for echo in _ALL_ECHOES:
        start = text.find(echo)
        if start >= 0:
            text = f"{text[: start + len(echo)]} ..."
    text = redact(text).strip()
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]} ..."


def _number(text: str) -> float:
    return float(text[:-1]) * _UNITS[text[-1]] if text[-1] in _UNITS else float(text)


def _seconds(text: str) -> float:
    total = 0.0
    for part in text.split(":"):
        total = total * 60 + int(part or 0)
    return total


def _per_second(text: str) -> typing.Optional[float]:
    """``34.34s/it`` and ``3.52it/s``, also with unit prefixes; None for ``?it/s``."""
    match = _RATE.match(text)
    value = float(match[1]) if match else 0.0
    if match is None or value == 0:
        return None
    return 1 / value if match[2] else value * _UNITS.get(match[3], 1.0)


def parse_bar(text: str) -> typing.Optional[Bar]:
    """The progress bar on one line, if there is one."""
    weights = "% Completed | " in text
    if not weights and "%|" not in text:
        return None
    match = _SHARD_BAR.search(text) if weights else _OTHER_BAR.match(text)
    if match is None:
        return None
    desc, done, total, elapsed, rate = match.groups()
    desc = desc.strip()
    try:
        return Bar(
            desc,
            _number(done),
            _number(total),
            _seconds(elapsed),
            _per_second(rate),
            weights,
            weights and not desc.endswith(_NOT_FILES),
        )
    except ValueError:
        return None


def bar_before_record(text: str) -> typing.Optional[Bar]:
    """The state of a bar that has not ended its line when a record was written behind it."""
    record = _RECORD.search(text) if "] " in text else None
    return parse_bar(text[: record.start()]) if record else None


__all__ = (
    "ECHOED_REQUESTS",
    "ECHOES",
    "ECHO_OF_LINES",
    "PREFIX_NAMES",
    "Bar",
    "Line",
    "bar_before_record",
    "is_echo",
    "is_json_record",
    "parse_bar",
    "parse_line",
    "pieces",
    "plain_records",
    "presentable",
    "strip_ansi",
)
