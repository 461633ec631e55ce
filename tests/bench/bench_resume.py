# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Killed at 90 % and run again: how much comes twice."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import time
import typing as t

from benchkit.model import Aim, Contestant, Sample, bench, extra_column, time_column
from benchkit.models import make_repo
from benchkit.process import CommandFailed
from benchkit.workshop import Workshop
from hub.control import HubControl

REPO = "bench/resume"
SHARDS, SIZE = 8, 256_000_000
TOTAL = SHARDS * SIZE
KILL_AT = 0.9
OURS, HF, CURL = "hf_snapshot", "hf download", "curl -Z -C -"


@bench(
    "resume",
    "Killed at 90 %",
    "kill -9 when 90 % of 8 x 256 MB are on the disk, then the same command again to its end. What comes twice is what "
    "the Hub sent in both runs beyond the total, with all that was on its way when the process died. Seconds are of "
    "both runs. curl goes by the size alone and verifies nothing.",
    (
        time_column(),
        extra_column("killed at %", "killed", "{:.0f}"),
        extra_column("sent twice, % of the total", "twice", "{:.2f}", max),
    ),
    (Aim("sent twice, % of the total", lambda r: r[OURS].most("twice"), at_most=1.0),),
)
def resume(workshop: Workshop) -> t.Iterator[t.Sequence[Contestant]]:
    root, target = workshop.folder / "hub", workshop.folder / "target"
    make_repo(root / REPO, SHARDS, SIZE)
    workshop.warm(TOTAL)
    with workshop.hub(root) as hub:
        options = {"repo_id": REPO, "root": str(target), "endpoint": hub.endpoint}
        module = workshop.payload("modelfleet.serving.hf_snapshot", options)
        hf = ("hf", "download", REPO, "--local-dir", str(target))
        curl = ("curl", "-Z", "--parallel-max", "8", "-C", "-", "-sSfL", "--create-dirs", "--output-dir", str(target))
        urls = [f"{hub.endpoint}/{REPO}/resolve/main/{path.name}" for path in sorted((root / REPO).glob("*.saf*"))]

        def twice(*argv: str) -> t.Callable[[], Sample]:
            return lambda: _killed_and_again(workshop, hub, target, argv)

        yield (
            Contestant(OURS, twice(*module)),
            Contestant(HF, twice(*hf)),
            Contestant(CURL, twice(*curl, "--remote-name-all", *urls)),
        )
    workshop.clear("hub")


def _killed_and_again(workshop: Workshop, hub: HubControl, target: pathlib.Path, argv: t.Sequence[str]) -> Sample:
    workshop.clear("target", "home")
    hub.clear()
    began = time.monotonic()
    killed = _kill(argv, workshop.environment(HF_ENDPOINT=hub.endpoint), target)
    first = time.monotonic() - began
    _settle(hub)
    again = workshop.command(*argv, HF_ENDPOINT=hub.endpoint).sample
    found = sum(path.stat().st_size for path in target.rglob("*.safetensors"))
    if found != TOTAL:
        raise CommandFailed(f"{argv[0]}: {found} of {TOTAL} bytes after the second run")
    sent = sum(entry["sent"] for entry in hub.log("cdn"))
    workshop.clear("target", "home")
    return Sample(first + again.seconds, extra={"killed": 100 * killed, "twice": 100 * (sent - TOTAL) / TOTAL})


def _kill(argv: t.Sequence[str], env: t.Mapping[str, str], target: pathlib.Path) -> float:
    """Run ``argv`` until enough is on the disk, and kill its whole process group; the share that was there."""
    child = subprocess.Popen(
        argv, env=dict(env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    share = 0.0
    while child.poll() is None:
        share = _on_disk(target) / TOTAL
        if share >= KILL_AT:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return share
        time.sleep(0.005)
    raise CommandFailed(f"{argv[0]} ended with status {child.returncode} before it could be killed, at {share:.0%}")


def _on_disk(folder: pathlib.Path) -> int:
    """Bytes that the files below ``folder`` occupy; some vanish while they are counted."""
    total = 0
    for parent, _folders, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_blocks * 512
            except OSError:
                continue
    return total


def _settle(hub: HubControl) -> None:
    """Until the Hub has noticed that the client is gone."""
    before = -1
    while before != (before := sum(entry["sent"] for entry in hub.log("cdn"))):
        time.sleep(0.2)


BENCHES = (resume,)
