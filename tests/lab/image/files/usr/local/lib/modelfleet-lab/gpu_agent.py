# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gives the vLLM processes of a test host the VRAM that they would hold on real cards.

Writes the state file of the emulated NVML from what runs here: a worker (or an engine that has none) holds a CUDA
context, then weights in proportion to its resident memory, and all that --gpu-memory-utilization allows once its
server listens. A process that is gone holds nothing. Files in nvml.d are added to the end, so they win; `process` lines
in them count only while that process lives.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time
import typing as t
from pathlib import Path

FOLDER = Path("/etc/modelfleet-lab")
PERIOD_S = 0.3

MIB = 1 << 20
TOTAL = 97_887 * MIB
RESERVE = 640 * MIB
CONTEXT = 520 * MIB
# A vLLM worker on CPU has this much resident when it has imported everything and loaded nothing ...
RESIDENT_BEFORE_WEIGHTS = 400 * MIB
# ... and the demo checkpoints are small: magnified, their weights can be seen on a 96 GB card.
MAGNIFIED = 32
WEIGHTS_AT_MOST = 70_000 * MIB
DEFAULT_UTILIZATION = 0.92
# An engine starts its workers within this time, if it has any.
ENGINE_GRACE_S = 2.0

_RANK = re.compile(r"_TP(\d+)")
_OVERRIDDEN_PROCESS = re.compile(r"\s*gpu\s+\S+\s+process\s+(\d+)\s")


class Process(t.NamedTuple):
    """What /proc says about one process."""

    pid: int
    parent: int
    started: int
    words: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def is_server(self) -> bool:
        """`vllm serve`, run as a script or as a module."""
        return "serve" in self.words and any(w.endswith(("/vllm", "vllm.entrypoints.cli.main")) for w in self.words[:4])


def snapshot(proc: Path = Path("/proc")) -> dict[int, Process]:
    """All processes that live; a zombie holds no memory any more."""
    found = {}
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text(errors="replace")
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # gone since the listing
        fields = stat[stat.rindex(")") + 2 :].split()
        if fields[0] not in "ZX":
            words = tuple(command.rstrip(b"\0 ").decode(errors="replace").split("\0"))
            found[int(entry.name)] = Process(int(entry.name), int(fields[1]), int(fields[19]), words)
    return found


def server_of(process: Process, processes: dict[int, Process]) -> Process | None:
    """The `vllm serve` that a process belongs to; None once that is gone."""
    while process.parent in processes:
        process = processes[process.parent]
        if process.is_server:
            return process
    return None


def option(words: t.Sequence[str], *names: str) -> str | None:
    """The value of an option of a command line, written either way."""
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else (words[number + 1] if number + 1 < len(words) else None)
    return None


def visible_gpus(pid: int) -> list[int]:
    """The cards that a process may use, in its order."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        environment = []
    for setting in environment:
        name, _equals, value = setting.partition(b"=")
        if name == b"CUDA_VISIBLE_DEVICES" and re.fullmatch(rb"\d+(,\d+)*", value):
            return [int(index) for index in value.split(b",")]
    return list(range(8))


def listening_inodes() -> set[str]:
    """Sockets that wait for TCP connections here."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                found.add(f"socket:[{fields[9]}]")
    return found


def listens(pid: int, inodes: set[str]) -> bool:
    """Whether the process has one of the sockets open."""
    folder = f"/proc/{pid}/fd"
    try:
        return any(os.readlink(f"{folder}/{fd}") in inodes for fd in os.listdir(folder))
    except OSError:
        return False


def resident(pid: int) -> int:
    """Bytes of memory that a process has resident."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class Agent:
    """Remembers what one look at the processes can't tell: who was ready before, and how long engines have lived."""

    def __init__(self) -> None:
        self._ready: dict[tuple[int, int], float] = {}
        self._first_seen: dict[tuple[int, int], float] = {}

    def state(self) -> str:
        """The content of the state file for this moment."""
        processes = snapshot()
        self._forget_all_but(processes)
        lines = ["# Written by modelfleet-lab-gpu-agent; put your own lines into nvml.d/*.state."]
        for holder in self._holders(processes):
            for gpu, amount in self._holdings(holder, processes):
                lines.append(f"gpu {gpu} process {holder.pid} {amount}")
        return "".join(f"{line}\n" for line in (*lines, *overrides(processes)))

    def _forget_all_but(self, processes: dict[int, Process]) -> None:
        living = {(p.pid, p.started) for p in processes.values()}
        for memory in (self._ready, self._first_seen):
            for gone in memory.keys() - living:
                del memory[gone]

    def _holders(self, processes: dict[int, Process]) -> t.Iterator[Process]:
        parents = {p.parent for p in processes.values()}
        for process in processes.values():
            if process.title.startswith("VLLM::Worker"):
                yield process
            elif process.title.startswith("VLLM::EngineCore"):
                first_seen = self._first_seen.setdefault((process.pid, process.started), time.monotonic())
                if process.pid not in parents and time.monotonic() - first_seen > ENGINE_GRACE_S:
                    yield process

    def _holdings(self, holder: Process, processes: dict[int, Process]) -> t.Iterator[tuple[int, int]]:
        key = (holder.pid, holder.started)
        server = server_of(holder, processes)
        if server and key not in self._ready and listens(server.pid, listening_inodes()):
            self._ready[key] = float(option(server.words, "--gpu-memory-utilization") or DEFAULT_UTILIZATION)
        if key in self._ready:
            amount = int(TOTAL * self._ready[key]) - RESERVE
        else:
            weights = (resident(holder.pid) - RESIDENT_BEFORE_WEIGHTS) * MAGNIFIED
            amount = CONTEXT + min(max(weights, 0), WEIGHTS_AT_MOST)
        # To the nearest 2 MiB, as CUDA allocates: the file then stays as it is while nothing much happens.
        rank = _RANK.search(holder.title)
        gpus = visible_gpus(holder.pid)
        yield gpus[int(rank[1]) % len(gpus) if rank else 0], amount - amount % (2 * MIB)


def overrides(processes: dict[int, Process]) -> t.Iterator[str]:
    """The lines of nvml.d/*.state, less the memory of processes that are gone."""
    for file in sorted((FOLDER / "nvml.d").glob("*.state")):
        try:
            lines = file.read_text().splitlines()
        except OSError:
            continue  # removed since the listing
        for line in lines:
            process = _OVERRIDDEN_PROCESS.match(line)
            if process is None or int(process[1]) in processes:
                yield line


def tell_systemd(word: str) -> None:
    """The notification of systemd's Type=notify."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.sendto(word.encode(), address.replace("@", "\0", 1) if address.startswith("@") else address)


def main() -> int:
    """Write the state file whenever something changed, for ever."""
    agent, written = Agent(), None
    target = FOLDER / "nvml.state"
    while True:
        state = agent.state()
        if state != written:
            temporary = target.with_suffix(".new")
            temporary.write_text(state)
            temporary.chmod(0o644)
            temporary.replace(target)
            if written is None:
                tell_systemd("READY=1")
            written = state
        time.sleep(PERIOD_S)


if __name__ == "__main__":
    sys.exit(main())
