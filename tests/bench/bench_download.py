# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cold download of 8 x 256 MB with the digest in the pass, against the tools that people use."""

from __future__ import annotations

import pathlib
import typing as t

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
from benchkit.process import CommandFailed
from benchkit.workshop import Workshop

REPO = "bench/cold"
SHARDS, SIZE = 8, 256_000_000
TOTAL = SHARDS * SIZE
OURS, HF, CURL = "hf_snapshot", "hf download", "curl -Z"
MEBI = 1 << 20


def complete(folder: pathlib.Path, total: int) -> None:
    """A contestant that left something out does not count."""
    found = sum(path.stat().st_size for path in folder.rglob("*.safetensors"))
    if found != total:
        raise CommandFailed(f"{folder} holds {found} of {total} bytes")


@bench(
    "download",
    "Cold download",
    "8 shards of 256 MB from a local Hub (a process on the same machine, sendfile from memory) into memory, whole "
    "processes from start to end. hf_snapshot computes and compares the sha256 of every byte while it arrives; "
    "the others verify nothing. hf is huggingface_hub 2.4 over HTTP.",
    (
        time_column(),
        rate_column(TOTAL),
        ratio_column(HF),
        cpu_column(TOTAL),
        peak_column(),
        extra_column("of it module s", "module"),
    ),
    (
        Aim("throughput, times hf download", lambda r: r[HF].best / r[OURS].best, at_least=3.5),
        Aim("throughput, times curl -Z", lambda r: r[CURL].best / r[OURS].best, at_least=1.3),
        Aim("memory of a process, MiB", lambda r: r[OURS].peak / MEBI, at_most=150, form="{:.0f}"),
    ),
)
def download(workshop: Workshop) -> t.Iterator[t.Sequence[Contestant]]:
    root = workshop.folder / "hub"
    make_repo(root / REPO, SHARDS, SIZE)
    workshop.warm(TOTAL)
    with workshop.hub(root) as hub:
        target = workshop.folder / "target"
        module = workshop.module(
            "modelfleet.serving.hf_snapshot", {"repo_id": REPO, "root": str(target), "endpoint": hub.endpoint}
        )
        urls = [f"{hub.endpoint}/{REPO}/resolve/main/{path.name}" for path in sorted((root / REPO).iterdir())]

        def ours() -> Sample:
            return _cold(workshop, lambda: module().sample)

        def hf() -> Sample:
            argv = ("hf", "download", REPO, "--local-dir", str(target))
            return _cold(workshop, lambda: workshop.command(*argv, HF_ENDPOINT=hub.endpoint).sample)

        def curl() -> Sample:
            argv = ("curl", "-Z", "--parallel-max", "8", "-sSfL", "--output-dir", str(target), "--create-dirs")
            return _cold(workshop, lambda: workshop.command(*argv, "--remote-name-all", *urls).sample)

        yield Contestant(OURS, ours), Contestant(HF, hf), Contestant(CURL, curl)
    workshop.clear("hub")


def _cold(workshop: Workshop, run: t.Callable[[], Sample]) -> Sample:
    workshop.clear("target", "home")
    sample = run()
    complete(workshop.folder / "target", TOTAL)
    workshop.clear("target", "home")
    return sample


BENCHES = (download,)
