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
from ansible_collections.modelfleet.serving.plugins.module_utils._source_journal import (
    JOURNAL_ENTRIES,
    JournalFiles,
    JournalSource,
    decode_message,
    parse_entries,
    parse_entry,
)

BAR = "\rLoading safetensors checkpoint shards:  22% Completed | 14/64 [07:24<28:36, 34.34s/it]"


def entry(message: t.Any, cursor: str = "s=1;i=1", pid: str = "161", **fields: t.Any) -> str:
    values = {"__CURSOR": cursor, "MESSAGE": message, "_PID": pid, "_TRANSPORT": "stdout", **fields}
    # as journalctl spaces it
    return json.dumps(values, separators=(",", ":"))


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


class FakeFiles(JournalFiles):
    """Always says that something was written, unless it is given marks."""

    def __init__(self, *marks: t.Any) -> None:
        self.marks = list(marks)

    def mark(self) -> t.Any:
        return self.marks.pop(0) if self.marks else None


OURS = [
    "_SYSTEMD_UNIT=vllm@tiny.service",
    "+",
    "UNIT=vllm@tiny.service",
    "_UID=0",
    "+",
    "OBJECT_SYSTEMD_UNIT=vllm@tiny.service",
    "_UID=0",
    "+",
    "COREDUMP_UNIT=vllm@tiny.service",
    "_UID=0",
]


def journal(run: FakeJournal, *marks: t.Any) -> JournalSource:
    return JournalSource("vllm@tiny.service", run, files=FakeFiles(*marks))


def lines(*texts: str) -> tuple[int, str, str]:
    return 0, "\n".join(texts) + "\n", ""


def test_journal_goes_on_after_its_cursor() -> None:
    run = FakeJournal(lines(manager("Started", "c1"), entry("one", "c2")), lines(), lines(entry("two", "c3")))
    source = journal(run)
    source.since = "Tue 2026-12-01 05:42:50 UTC"
    assert [record.text for record in source.read().records] == ["Started", "one"]
    assert source.read().records == ()
    assert [record.text for record in source.read().records] == ["two"]
    limit = f"--lines={JOURNAL_ENTRIES}"
    assert run.asked == [
        [limit, "--boot", "--since=Tue 2026-12-01 05:42:50 UTC", *OURS],
        [limit, "--after-cursor=c2", *OURS],
        [limit, "--after-cursor=c2", *OURS],
    ]


def test_journal_of_a_unit_that_systemd_has_forgotten() -> None:
    run = FakeJournal(lines())
    journal(run).read()
    assert run.asked == [["--lines=500", "--boot", *OURS]]


def test_journal_that_cannot_be_read() -> None:
    run = FakeJournal((1, "", "No journal files were opened due to insufficient permissions.\n"))
    assert journal(run).read().notes == (
        "The journal of vllm@tiny.service could not be read: "
        "No journal files were opened due to insufficient permissions.",
    )


def test_journal_says_when_it_left_something_out() -> None:
    run = FakeJournal(lines(*(entry("x", f"c{n}") for n in range(JOURNAL_ENTRIES))))
    source = journal(run)
    source.since = "Tue 2026-12-01 05:42:50 UTC"
    assert source.read().notes == ("Only the last 5000 new journal entries were read.",)


def test_journal_is_not_asked_when_nothing_was_written() -> None:
    one, two = (("system.journal", 1, 8),), (("system.journal", 2, 8),)
    run = FakeJournal(lines(entry("one", "c1")), lines(entry("two", "c2")), lines())
    source = journal(run, one, one, two, two, two)
    source.since = "Tue 2026-12-01 05:42:50 UTC"
    assert [[record.text for record in source.read().records] for _look in range(4)] == [["one"], [], ["two"], []]
    # once more, since another start of the unit is to be shown
    source._cursor = ""
    source.since = "Tue 2026-12-01 06:00:00 UTC"
    source.read()
    assert len(run.asked) == 3


def test_a_journal_that_could_not_be_read_is_asked_again() -> None:
    run = FakeJournal((1, "", "Failed to open files"), lines(entry("one", "c1")))
    source = journal(run, ("same",), ("same",))
    assert source.read().records == ()
    assert [record.text for record in source.read().records] == ["one"]


def test_journal_files_show_what_is_written(tmp_path: pathlib.Path) -> None:
    files = JournalFiles((str(tmp_path / "none"), str(tmp_path)))
    assert files.mark() is None
    file = tmp_path / "0123" / "system.journal"
    file.parent.mkdir()
    file.write_bytes(b"12345678")
    first = files.mark()
    assert first == files.mark()
    # as journald does: the size stays, the time does not
    os.utime(file, ns=(1, 1))
    second = files.mark()
    assert None not in (first, second)
    assert first != second
    file.rename(file.with_name("archived.journal"))
    assert files.mark() != second


ACCESS = '(APIServer pid=161) INFO:     10.0.0.1:54838 - "POST /v1/chat/completions HTTP/1.1" 200 OK'


def test_the_access_log_is_left_out_and_its_cursor_counts() -> None:
    quoted = 'ERROR 11-30 22:55:00 [x.py:1] "GET /health HTTP/1.1" 200 is what was asked'
    out = lines(entry(ACCESS, "c1"), entry(quoted, "c2"), entry(f"{ACCESS}\nInvalid", "c3"), entry(ACCESS, "c4"))[1]
    entries = parse_entries(out)
    assert [record.text for record in entries.records] == [quoted, ACCESS, "Invalid"]
    assert (entries.cursor, entries.taken) == ("c4", 4)
    # as other releases of systemd space it: read like any other entry
    spaced = json.dumps({"__CURSOR": "c1", "MESSAGE": ACCESS}, separators=(" , ", " : "))
    assert [record.text for record in parse_entries(spaced).records] == [ACCESS]


def test_an_entry_with_odd_line_ends_is_one_entry() -> None:
    line = json.dumps({"__CURSOR": "c1", "MESSAGE": "a\u2028b\x85c", "_PID": "1"}, ensure_ascii=False)
    assert [record.text for record in parse_entries(line + "\n").records] == ["a\u2028b\x85c"]
