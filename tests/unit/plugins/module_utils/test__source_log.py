# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import pathlib
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord
from ansible_collections.modelfleet.serving.plugins.module_utils._source_log import (
    JOURNAL_ENTRIES,
    PARTIAL_BYTES,
    FileSource,
    JournalSource,
    decode_message,
    parse_entry,
)

BAR = "\rLoading safetensors checkpoint shards:  22% Completed | 14/64 [07:24<28:36, 34.34s/it]"


def entry(message: t.Any, cursor: str = "s=1;i=1", pid: str = "161", **fields: t.Any) -> str:
    return json.dumps({"__CURSOR": cursor, "MESSAGE": message, "_PID": pid, "_TRANSPORT": "stdout", **fields})


def manager(message: str, cursor: str = "s=1;i=1") -> str:
    fields = {"__CURSOR": cursor, "MESSAGE": message, "_PID": "1", "UNIT": "vllm@tiny.service"}
    return json.dumps({**fields, "_TRANSPORT": "journal"})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        # as journalctl shows a message with a control character, or with bytes that are no UTF-8
        (list(BAR.encode()), BAR),
        ([0xFF, 0x41], "\ufffdA"),
        ([], ""),
        (["one", "two"], "one\ntwo"),
        ([[72, 105], "there"], "Hi\nthere"),
        # longer than --all would have shown
        (None, ""),
    ],
)
def test_decode_message(value: t.Any, expected: str) -> None:
    assert decode_message(value) == expected


@pytest.mark.parametrize(
    ("line", "records"),
    [
        (entry("hello"), [LogRecord("hello", 161, "service")]),
        (entry(list((BAR + "\n").encode())), [LogRecord(BAR, 161, "service")]),
        (entry("a\r\nb\r\n"), [LogRecord("a", 161), LogRecord("b", 161)]),
        (manager("Started vllm@tiny.service."), [LogRecord("Started vllm@tiny.service.", 1, "systemd")]),
        (
            json.dumps({"__CURSOR": "c", "MESSAGE": "NVRM: Xid", "_TRANSPORT": "kernel"}),
            [LogRecord("NVRM: Xid", None, "kernel")],
        ),
    ],
)
def test_parse_entry(line: str, records: list[LogRecord]) -> None:
    parsed = parse_entry(line)
    assert parsed is not None
    assert list(parsed.records) == records


@pytest.mark.parametrize("line", ["", "-- No entries --", "{", "[]", '{"MESSAGE": "no cursor"}'])
def test_parse_entry_of_anything_else(line: str) -> None:
    assert parse_entry(line) is None


class FakeJournal:
    """Answers journalctl and keeps what it was asked."""

    def __init__(self, *answers: tuple[int, str, str]) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    def __call__(self, command: t.Sequence[str]) -> tuple[int, str, str]:
        manner = ("--output", "--all", "--quiet", "--no-pager")
        self.asked.append([word for word in command[1:] if not word.startswith(manner)])
        return self.answers.pop(0)


def lines(*texts: str) -> tuple[int, str, str]:
    return 0, "\n".join(texts) + "\n", ""


def test_journal_goes_on_after_its_cursor() -> None:
    run = FakeJournal(lines(manager("Started", "c1"), entry("one", "c2")), lines(), lines(entry("two", "c3")))
    source = JournalSource("vllm@tiny.service", run)
    source.invocation = "aa"
    assert [record.text for record in source.read().records] == ["Started", "one"]
    assert source.read().records == ()
    assert [record.text for record in source.read().records] == ["two"]
    limit = f"--lines={JOURNAL_ENTRIES}"
    assert run.asked == [
        [limit, "_SYSTEMD_INVOCATION_ID=aa", "+", "INVOCATION_ID=aa", "_PID=1"],
        [limit, "--unit=vllm@tiny.service", "--after-cursor=c2"],
        [limit, "--unit=vllm@tiny.service", "--after-cursor=c2"],
    ]


def test_journal_of_a_unit_that_systemd_has_forgotten() -> None:
    run = FakeJournal(lines())
    JournalSource("vllm@tiny.service", run).read()
    assert run.asked == [["--lines=500", "--unit=vllm@tiny.service", "--boot"]]


def test_journal_that_cannot_be_read() -> None:
    run = FakeJournal((1, "", "No journal files were opened due to insufficient permissions.\n"))
    assert JournalSource("vllm@tiny.service", run).read().notes == (
        "The journal of vllm@tiny.service could not be read: "
        "No journal files were opened due to insufficient permissions.",
    )


def test_journal_says_when_it_left_something_out() -> None:
    run = FakeJournal(lines(*(entry("x", f"c{n}") for n in range(JOURNAL_ENTRIES))))
    source = JournalSource("u", run)
    source.invocation = "aa"
    assert source.read().notes == ("Only the last 5000 new journal entries were read.",)


# -- files ---------------------------------------------------------------------------------------------------------


def texts(source: FileSource) -> list[str]:
    return [record.text for record in source.read().records]


def test_file_gives_whole_lines_and_the_rest_apart(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\r\ntwo\nCapturing: 10%\rCapturing: 20%")
    source = FileSource(str(path))
    reading = source.read()
    assert [record.text for record in reading.records] == ["one", "two"]
    assert reading.partial == "Capturing: 10%\rCapturing: 20%"
    with path.open("ab") as handle:
        handle.write(b"\rCapturing: 100%\nthree\n")
    reading = source.read()
    assert [record.text for record in reading.records] == [
        "Capturing: 10%\rCapturing: 20%\rCapturing: 100%",
        "three",
    ]
    assert reading.partial == ""
    assert source.read() == ((), "", (), False)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_file_gives_the_same_whatever_the_bound(tmp_path: pathlib.Path, size: int) -> None:
    path = tmp_path / "log"
    path.write_bytes("eins\nzwei äöü\n\xff\n".encode() + b"\xff\xfe bad\nlast".replace(b"last", b""))
    source = FileSource(str(path), limit=size)
    found: list[str] = []
    for _attempt in range(1000):
        reading = source.read()
        found += [record.text for record in reading.records]
        if not reading.more:
            break
    assert found == ["eins", "zwei äöü", "ÿ", "\ufffd\ufffd bad"]


def test_file_that_is_not_there_yet(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    source = FileSource(str(path))
    assert source.read().notes == (f"The log file {path} could not be read: No such file or directory",)
    path.write_text("one\n")
    assert source.read() == ((LogRecord("one"),), "", (), False)


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, ["old", "new"]), (4, ["new"]), (8, []), (100, ["old", "new"])], ids=str
)
def test_file_from_an_offset(tmp_path: pathlib.Path, offset: int, expected: list[str]) -> None:
    path = tmp_path / "log"
    path.write_text("old\nnew\n")
    assert texts(FileSource(str(path), offset)) == expected


def test_file_that_is_rotated_is_read_to_its_end_first(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\n")
    source = FileSource(str(path))
    assert texts(source) == ["one"]
    with path.open("a") as handle:
        handle.write("two\nunfinished")
    os.rename(path, tmp_path / "log.1")
    assert texts(source) == ["two"]
    assert texts(source) == []
    path.write_text("three\n")
    reading = source.read()
    assert [record.text for record in reading.records] == ["unfinished", "three"]
    assert reading.notes == (f"{path} was replaced (rotated) and is read from its start.",)


def test_file_that_is_truncated(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\nunfinished")
    source = FileSource(str(path))
    assert texts(source) == ["one", "two"]
    path.write_text("three\n")
    reading = source.read()
    assert reading.records == (LogRecord("three"),)
    assert reading.notes == (f"{path} was truncated and is read from its start again.",)


def test_file_with_a_bar_that_never_ends_its_line_takes_constant_memory(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"\rstep %07d" % number for number in range(20000)))
    partial = FileSource(str(path)).read().partial
    assert len(partial) == PARTIAL_BYTES
    assert partial.endswith("\rstep 0019999")
