# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import pathlib
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils import _stacks
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import ProcSample
from ansible_collections.modelfleet.serving.plugins.module_utils._source_proc import ProcReader
from ansible_collections.modelfleet.serving.plugins.module_utils._stacks import (
    PROCESSES,
    Stack,
    dump,
    environments,
    find_program,
    is_trusted,
    parse_dump,
    worth_asking,
)


def proc(pid: int, name: str = "VLLM::Worker_TP0", state: str = "S") -> ProcSample:
    return ProcSample(pid, 1, 1, name, state, 0.0)


def frame(name: str, line: int) -> dict[str, t.Any]:
    return {"name": name, "filename": f"/opt/vllm/lib/{name}.py", "short_filename": f"{name}.py", "line": line}


# as py-spy 0.4.3 writes it
DUMP = json.dumps(
    [
        {"pid": 7, "thread_name": "loader", "os_thread_id": 9, "active": False, "frames": [frame("read", 1)]},
        {"pid": 7, "thread_name": None, "os_thread_id": 10, "frames": [frame("run", 2)]},
        {"pid": 7, "thread_name": "empty", "os_thread_id": 11, "frames": []},
        {
            "pid": 7,
            "thread_name": "MainThread",
            "os_thread_id": 7,
            "frames": [
                frame("ncclCommInitRank", 412),
                frame("init", 140),
                frame("load", 9),
                frame("main", 3),
                frame("m", 1),
            ],
            "process_info": None,
        },
    ]
)
MAIN = Stack(
    7,
    "VLLM::Worker_TP0",
    "MainThread",
    (
        "ncclCommInitRank (ncclCommInitRank.py:412)",
        "init (init.py:140)",
        "load (load.py:9)",
        "main (main.py:3)",
        "m (m.py:1)",
    ),
)


def test_parse_dump_puts_the_main_thread_first() -> None:
    stacks = parse_dump(DUMP, "VLLM::Worker_TP0")
    assert stacks[0] == MAIN
    assert [(stack.thread, stack.frames) for stack in stacks[1:]] == [
        ("loader", ("read (read.py:1)",)),
        ("thread 10", ("run (run.py:2)",)),
    ]


def test_words() -> None:
    assert MAIN.words == (
        "VLLM::Worker_TP0 (pid 7), MainThread: ncclCommInitRank (ncclCommInitRank.py:412) < init (init.py:140) < "
        "load (load.py:9) < main (main.py:3)"
    )


@pytest.mark.parametrize(
    ("answer", "stacks", "why"),
    [
        ((0, DUMP, ""), 3, ""),
        (
            (0, "Process 7: vllm", ""),
            0,
            "the answer of py-spy cannot be read: Expecting value: line 1 column 1 (char 0)",
        ),
        ((0, "{}", ""), 0, "the answer of py-spy cannot be read: not a list of threads"),
        ((124, "", ""), 0, "py-spy did not answer within 5 s"),
        ((137, "", ""), 0, "py-spy did not answer within 5 s"),
        ((1, "", "Error: Permission Denied\nStack backtrace:"), 0, "py-spy failed: Error: Permission Denied"),
        ((3, "", ""), 0, "py-spy failed: exit status 3"),
    ],
)
def test_dump(answer: tuple[int, str, str], stacks: int, why: str) -> None:
    asked: list[t.Sequence[str]] = []

    def run(arguments: t.Sequence[str]) -> tuple[int, str, str]:
        asked.append(arguments)
        return answer

    found, said = dump(run, "py-spy", proc(7))
    assert (len(found), said) == (stacks, why)
    # never one that stops the process
    assert asked == [["timeout", "--kill-after=1", "5", "py-spy", "dump", "--json", "--nonblocking", "--pid", "7"]]


@pytest.mark.parametrize(
    ("procs", "expected"),
    [
        ([proc(1, "VLLM::APIServer"), proc(2, "VLLM::EngineCore"), proc(4, "VLLM::Worker_TP1"), proc(3)], [3, 4, 2, 1]),
        ([proc(1, "vllm"), proc(2, "python3")], [1, 2]),
        ([proc(1, "VLLM::APIServer"), proc(2, "ninja")], [1]),
        ([proc(1, state="Z")], []),
        ([proc(n) for n in range(1, 20)], list(range(1, PROCESSES + 1))),
    ],
)
def test_worth_asking(procs: list[ProcSample], expected: list[int]) -> None:
    assert [sample.pid for sample in worth_asking(procs)] == expected


def test_environments(tmp_path: pathlib.Path) -> None:
    for pid, cmdline, maps in (
        (1, "/opt/vllm/bin/python3\0/opt/vllm/bin/vllm\0serve\0/srv/models/x\0", ""),
        (
            2,
            "VLLM::EngineCore\0",
            "7f-8f r-xp 0 08:1 5   /opt/other/lib/python3.12/site-packages/torch/lib/libtorch.so\n",
        ),
    ):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_text(cmdline, encoding="ascii")
        (tmp_path / str(pid) / "maps").write_text(maps, encoding="ascii")
    reader = ProcReader(str(tmp_path))
    assert environments(reader, (proc(1), proc(2), proc(3))) == ["/opt/vllm/bin", "/opt/other/bin"]


def program(folder: pathlib.Path) -> str:
    folder.mkdir(parents=True)
    path = folder / "py-spy"
    path.write_text("#!/bin/sh\n", encoding="ascii")
    path.chmod(0o755)
    return str(path)


def test_find_program(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, foreign, on_path = tmp_path / "own", tmp_path / "foreign", tmp_path / "path"
    monkeypatch.setenv("PATH", str(on_path))
    monkeypatch.setattr(_stacks, "_TOOLS", str(tmp_path / "tools"))
    monkeypatch.setattr(_stacks, "is_trusted", lambda path: "foreign" in path)
    assert find_program([str(own)], [str(foreign)]) == ""
    assert program(foreign) == find_program([str(own)], [str(foreign)])
    assert program(own) == find_program([str(own)], [str(foreign)])
    assert program(on_path) == find_program([str(own)], [str(foreign)])


def test_what_others_can_exchange_is_not_run(tmp_path: pathlib.Path) -> None:
    # /bin/sh and all above it belong to root alone
    assert is_trusted("/bin/sh")
    evil = program(tmp_path / "bin")
    os.chmod(tmp_path / "bin", 0o777)
    assert not is_trusted(evil)
    # a name that leads to one
    os.symlink(evil, tmp_path / "link")
    assert not is_trusted(str(tmp_path / "link"))
    assert not is_trusted(str(tmp_path / "none"))
