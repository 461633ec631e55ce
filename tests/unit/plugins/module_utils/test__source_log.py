# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.modelfleet.serving.plugins.module_utils import _source_log
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import LogRecord
from ansible_collections.modelfleet.serving.plugins.module_utils._source_log import (
    LINE_HEAD,
    LONGEST_LINE,
    FileSource,
    LogReading,
    shorten,
)


def lines_of(reading: LogReading) -> list[str]:
    assert not any(record.text for record in reading.records)
    texts = [record.raw.decode("utf-8", "replace") for record in reading.records]
    return [line for text in texts for line in text.split("\n") if line]


def texts(source: FileSource) -> list[str]:
    return lines_of(source.read())


def test_file_gives_whole_lines_and_the_rest_apart(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\r\ntwo\nCapturing: 10%\rCapturing: 20%")
    source = FileSource(str(path))
    reading = source.read()
    assert lines_of(reading) == ["one", "two", "Capturing: 10%"]
    assert reading.partial == "Capturing: 20%"
    with path.open("ab") as handle:
        handle.write(b"\rCapturing: 100%\nthree\n")
    reading = source.read()
    assert lines_of(reading) == ["Capturing: 20%", "Capturing: 100%", "three"]
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
        found += lines_of(reading)
        if not reading.more:
            break
    assert found == ["eins", "zwei äöü", "ÿ", "\ufffd\ufffd bad"]


def test_file_that_is_not_there_yet(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    source = FileSource(str(path))
    assert source.read().notes == (f"The log file {path} could not be read: No such file or directory",)
    path.write_text("one\n")
    assert source.read() == ((LogRecord("", raw=b"one"),), "", (), False)


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
    assert lines_of(reading) == ["unfinished", "three"]
    assert reading.notes == (f"{path} was replaced (rotated) and is read from its start.",)


def test_file_that_is_truncated(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\nunfinished")
    source = FileSource(str(path))
    assert texts(source) == ["one", "two"]
    path.write_text("three\n")
    reading = source.read()
    assert reading.records == (LogRecord("", raw=b"three"),)
    assert reading.notes == (f"{path} was truncated and is read from its start again.",)


def test_file_that_is_truncated_and_grown_as_long_again(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\n")
    source = FileSource(str(path))
    assert texts(source) == ["one", "two"]
    # copytruncate keeps the inode; by the next look as much has been written as before, or more
    path.write_text("three\nfour\n")
    assert texts(source) == ["three", "four"]


def test_rotation_while_there_is_more_than_one_look_takes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"old {n}\n" for n in range(100)))
    source = FileSource(str(path), limit=64)
    found = texts(source)
    os.rename(path, tmp_path / "log.1")
    path.write_text("new\n")
    for _look in range(100):
        found += texts(source)
    assert found == [*(f"old {n}" for n in range(100)), "new"]


def test_a_pipe_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    os.mkfifo(path)
    assert FileSource(str(path)).read().notes == (f"The log file {path} could not be read: it is not a regular file",)


def test_a_bar_that_never_ends_its_line_takes_constant_memory(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"\rstep %07d" % number for number in range(20000)))
    assert FileSource(str(path)).read().partial == "step 0019999"


@pytest.mark.parametrize("block", [1000, 10**9], ids=["in portions", "at once"])
def test_of_a_long_line_both_ends_are_kept(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(_source_log, "BLOCK_BYTES", block)
    path = tmp_path / "log"
    path.write_bytes(b"one\n" + b"a" * LONGEST_LINE + b"m" * 50_000 + b"z" * LONGEST_LINE + b"\ntwo\n" + b"x" * 50_000)
    reading = FileSource(str(path)).read()
    assert lines_of(reading) == ["one", "a" * LINE_HEAD + "z" * (LONGEST_LINE - LINE_HEAD), "two"]
    assert reading.partial == "x" * LONGEST_LINE


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(min_value=0, max_value=3), max_size=30),
    st.lists(st.integers(min_value=1, max_value=40), min_size=1, max_size=60),
)
def test_a_line_is_shortened_alike_in_whatever_portions_it_comes(kinds: list[int], sizes: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_source_log, "LONGEST_LINE", 20)
        patch.setattr(_source_log, "LINE_HEAD", 12)
        data = b"".join((b"\n", b"ab", b"0123456789", b"xyz" * 20)[kind] for kind in kinds)
        rest, found, at, turn = b"", b"", 0, 0
        while at < len(data):
            size = sizes[turn % len(sizes)]
            portion = rest + data[at : at + size]
            at, turn = at + size, turn + 1
            end = portion.rfind(b"\n") + 1
            found, rest = found + shorten(portion[:end]), shorten(portion[end:])
        assert found + rest == shorten(data)
        assert all(len(line) <= 20 for line in shorten(data).split(b"\n"))
