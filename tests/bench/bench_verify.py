# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Full verification of a snapshot, against one thread of hashlib and against the Hub client's own command."""

from __future__ import annotations

import sys
import typing as t

from benchkit.machine import cores
from benchkit.model import (
    Aim,
    Contestant,
    Sample,
    bench,
    cpu_column,
    extra_column,
    peak_column,
    rate_column,
    ratio_column,
    time_column,
)
from benchkit.models import make_repo
from benchkit.workshop import Workshop

REPO = "bench/verify"
SHARDS, SIZE = 8, 256_000_000
TOTAL = SHARDS * SIZE
OURS, HASHLIB, HF = "hf_snapshot", "hashlib, 1 thread", "hf cache verify"

#: the fastest that one thread does: big blocks into one buffer
ONE_THREAD = """
import hashlib, pathlib, sys, time
buffer = memoryview(bytearray(1 << 20))
began = time.monotonic()
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.safetensors")):
    content = hashlib.sha256()
    with path.open("rb", buffering=0) as handle:
        while count := handle.readinto(buffer):
            content.update(buffer[:count])
print(time.monotonic() - began)
"""


@bench(
    "verify",
    "Full verification",
    "sha256 of 8 x 256 MB in memory. The comparison with hashlib leaves out the start of both processes (the module's "
    "own time against the loop's own time); the one with `hf cache verify` is of whole processes.",
    (
        time_column(),
        extra_column("of it work s", "module"),
        rate_column(TOTAL),
        ratio_column(HF),
        cpu_column(TOTAL),
        peak_column(),
    ),
    (
        Aim(
            f"rate, times hashlib in one thread, per core ({cores()} cores)",
            lambda r: r[HASHLIB].least("module") / r[OURS].least("module") / cores(),
            at_least=0.9,
        ),
        Aim("throughput, times hf cache verify", lambda r: r[HF].best / r[OURS].best, at_least=1.8),
    ),
    rounds=5,
)
def verify(workshop: Workshop) -> t.Iterator[t.Sequence[Contestant]]:
    root, target = workshop.folder / "hub", workshop.folder / "target"
    make_repo(root / REPO, SHARDS, SIZE)
    with workshop.hub(root) as hub:
        options = {"repo_id": REPO, "root": str(target), "endpoint": hub.endpoint}
        workshop.module("modelfleet.serving.hf_snapshot", options)()
        [snapshot] = target.glob("snapshots/*/*")
        pinned = {**options, "revision": snapshot.name, "state": "verified", "verify": "full"}
        module = workshop.module("modelfleet.serving.hf_snapshot", pinned)

        def one_thread() -> Sample:
            done = workshop.command(sys.executable, "-c", ONE_THREAD, str(snapshot))
            return done.sample._replace(extra={"module": float(done.out)})

        hf = ("hf", "cache", "verify", REPO, "--revision", snapshot.name, "--local-dir", str(snapshot))
        yield (
            Contestant(OURS, lambda: module().sample),
            Contestant(HASHLIB, one_thread),
            Contestant(HF, lambda: workshop.command(*hf, HF_ENDPOINT=hub.endpoint).sample),
        )
    workshop.clear("hub", "target", "home")


BENCHES = (verify,)
