# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Where the Python code of a server that stands still is, by ``py-spy dump``, on hosts that have py-spy.

It is never installed for this, and it reads the processes without stopping them. Values of variables are not asked for.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import ProcSample
from ansible_collections.modelfleet.serving.plugins.module_utils._source_proc import ProcReader
from ansible_collections.modelfleet.serving.plugins.module_utils._unit_block import RunCommand

PROGRAM = "py-spy"
#: seconds for one process, and processes that are asked
PATIENCE_S = 5
PROCESSES = 6
THREADS = 8
FRAMES = 30
#: frames of a stack that are shown in a message
SHOWN = 4

#: where the role host_tools puts its tools, unless told otherwise
_TOOLS = "/opt/modelfleet/tools/venv/bin"
_ENVIRONMENT = re.compile(r"(/\S*)/lib(?:64)?/python3\.\d+/site-packages/")
#: whoever waits for the others says least
_ORDER = ("VLLM::Worker", "VLLM::EngineCore", "VLLM::")


class Stack(t.NamedTuple):
    """One thread; the innermost frame comes first."""

    pid: int
    process: str
    thread: str
    frames: tuple[str, ...]

    def as_result(self) -> dict[str, t.Any]:
        return {"pid": self.pid, "process": self.process, "thread": self.thread, "frames": list(self.frames)}

    @property
    def words(self) -> str:
        return f"{self.process} (pid {self.pid}), {self.thread}: {' < '.join(self.frames[:SHOWN])}"


def parse_dump(text: str, process: str) -> tuple[Stack, ...]:
    """The answer of ``py-spy dump --json``, main thread first. Raises ValueError for anything else."""
    threads = json.loads(text)
    if not isinstance(threads, list):
        raise ValueError("not a list of threads")
    stacks = [
        Stack(
            int(thread["pid"]),
            process,
            str(thread.get("thread_name") or f"thread {thread.get('os_thread_id')}"),
            tuple(_frame(frame) for frame in thread["frames"][:FRAMES]),
        )
        for thread in threads
        if isinstance(thread, dict) and thread.get("frames")
    ]
    return tuple(sorted(stacks, key=lambda stack: stack.thread != "MainThread")[:THREADS])


def _frame(frame: t.Mapping[str, t.Any]) -> str:
    return f"{frame.get('name')} ({frame.get('short_filename') or frame.get('filename')}:{frame.get('line')})"


def worth_asking(procs: t.Iterable[ProcSample]) -> list[ProcSample]:
    """vLLM's own processes, workers first; where none has a title yet, those that are left."""
    alive = [proc for proc in procs if proc.state not in "ZX"]
    titled = [proc for proc in alive if proc.name.startswith("VLLM::")] or alive

    def rank(proc: ProcSample) -> tuple[int, int]:
        fits = (index for index, start in enumerate(_ORDER) if proc.name.startswith(start))
        return next(fits, len(_ORDER)), proc.pid

    return sorted(titled, key=rank)[:PROCESSES]


def environments(reader: ProcReader, procs: t.Iterable[ProcSample]) -> list[str]:
    """The bin folders of the Python environments that the processes run in."""
    found: list[str] = []
    for proc in procs:
        command = reader.text(proc.pid, "cmdline").split("\0")[:2]
        found += [os.path.dirname(word) for word in command if word.startswith("/")]
        match = _ENVIRONMENT.search(reader.text(proc.pid, "maps"))
        if match is not None:
            found.append(f"{match[1]}/bin")
    return list(dict.fromkeys(found))


def is_trusted(path: str) -> bool:
    """Whether nobody but root and this user can have put the program there, or can exchange it.

    A process names its environment itself: it must not make root run what it likes.
    """
    path = os.path.realpath(path)
    while True:
        try:
            status = os.stat(path)
        except OSError:
            return False
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
        if path == "/":
            return True
        path = os.path.dirname(path)


def find_program(own: t.Sequence[str], foreign: t.Iterable[str]) -> str:
    """py-spy on PATH, in ``own`` folders, or in ``foreign`` ones where it can be trusted; empty where there is none."""
    found = shutil.which(PROGRAM) or shutil.which(PROGRAM, path=os.pathsep.join((*own, _TOOLS)))
    if found:
        return found
    programs = (shutil.which(PROGRAM, path=folder) for folder in foreign)
    return next((program for program in programs if program and is_trusted(program)), "")


def dump(run: RunCommand, program: str, proc: ProcSample) -> tuple[tuple[Stack, ...], str]:
    """The stacks of a process, and why there are none."""
    limit = ["timeout", "--kill-after=1", str(PATIENCE_S)]
    status, out, err = run([*limit, program, "dump", "--json", "--nonblocking", "--pid", str(proc.pid)])
    if status == 0:
        try:
            return parse_dump(out, proc.name), ""
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            return (), f"the answer of {program} cannot be read: {exc}"
    if status in (124, 137):
        return (), f"{program} did not answer within {PATIENCE_S} s"
    said = (err or out).strip().splitlines()
    return (), f"{program} failed: {said[0] if said else f'exit status {status}'}"


__all__ = ("Stack", "dump", "environments", "find_program", "is_trusted", "parse_dump", "worth_asking")
