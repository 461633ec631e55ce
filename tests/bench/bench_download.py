# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cold downloads with the digest in the pass, against the tools that people use."""

from __future__ import annotations

import pathlib
import subprocess
import typing as t

from benchkit.model import (
    Aim,
    Bench,
    Column,
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


def columns(total: int) -> tuple[Column, ...]:
    return (
        time_column(),
        rate_column(total),
        ratio_column(HF),
        cpu_column(total),
        peak_column(),
        extra_column("of it module s", "module"),
    )


def contestants(workshop: Workshop, shards: int, size: int, *hub_options: str) -> t.Iterator[t.Sequence[Contestant]]:
    """The three, each with an empty target in every run."""
    root, target = workshop.folder / "hub", workshop.folder / "target"
    total = make_repo(root / REPO, shards, size)
    workshop.warm(total)

    def cold(run: t.Callable[[], Sample]) -> t.Callable[[], Sample]:
        def measured() -> Sample:
            workshop.clear("target", "home")
            sample = run()
            found = sum(path.stat().st_size for path in target.rglob("*.safetensors"))
            if found != shards * size:
                raise CommandFailed(f"{target} holds {found} of {shards * size} bytes")
            workshop.clear("target", "home")
            return sample

        return measured

    with workshop.hub(root, *hub_options) as hub:
        options = {"repo_id": REPO, "root": str(target), "endpoint": hub.endpoint}
        module = workshop.module("modelfleet.serving.hf_snapshot", options)
        hf = ("hf", "download", REPO, "--local-dir", str(target))
        curl = ("curl", "-Z", "--parallel-max", "8", "-sSfL", "--create-dirs", "--output-dir", str(target))
        urls = [f"{hub.endpoint}/{REPO}/resolve/main/{path.name}" for path in sorted((root / REPO).iterdir())]
        yield (
            Contestant(OURS, cold(lambda: module().sample)),
            Contestant(HF, cold(lambda: workshop.command(*hf, HF_ENDPOINT=hub.endpoint).sample)),
            Contestant(CURL, cold(lambda: workshop.command(*curl, "--remote-name-all", *urls).sample)),
        )
    workshop.clear("hub")


MEMORY = Aim("memory of a process, MiB", lambda r: r[OURS].peak / MEBI, at_most=150, form="{:.0f}")


@bench(
    "download",
    "Cold download",
    "8 shards of 256 MB from a local Hub (one process on the same machine, sendfile from memory) into memory; whole "
    "processes from start to end. hf_snapshot computes and compares the sha256 of every byte while it arrives; the "
    "others verify nothing. hf is huggingface_hub 2.4 over HTTP. The module's own seconds begin when Ansible's part of "
    "its process, which is the same for every module, is over; they end with the proof and the manifest.",
    columns(TOTAL),
    (
        Aim("throughput, whole processes, times hf download", lambda r: r[HF].best / r[OURS].best, at_least=3.5),
        Aim(
            "throughput, without Ansible's own start, times curl -Z",
            lambda r: r[CURL].best / r[OURS].least("module"),
            at_least=1.3,
        ),
        MEMORY,
    ),
)
def download(workshop: Workshop) -> t.Iterator[t.Sequence[Contestant]]:
    yield from contestants(workshop, SHARDS, SIZE)


@bench(
    "download_tls",
    "Cold download by https",
    "The same with the bytes by TLS. The local Hub encrypts in Python on the same processors, which every contestant "
    "waits for, so that the ratios are nearer to one than with a CDN at the other end; CPU seconds are their own.",
    columns(TOTAL),
    (MEMORY,),
)
def download_tls(workshop: Workshop) -> t.Iterator[t.Sequence[Contestant]]:
    certificate, key = _certificate(workshop.folder)
    workshop.trust(certificate)
    yield from contestants(workshop, SHARDS, SIZE, "--cdn-tls", str(certificate), str(key))
    workshop.trust(None)


def _certificate(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    certificate, key = folder / "localhost.pem", folder / "localhost.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        + ["-addext", "subjectAltName=DNS:localhost", "-out", str(certificate), "-keyout", str(key)],
        check=True,
        capture_output=True,
    )
    return certificate, key


BIG = 4_000_000_000


@bench(
    "download_big",
    "One big file",
    "One shard of 4 GB: nothing to do in parallel but to receive, hash and write. Memory does not grow with the file.",
    columns(BIG),
    (MEMORY,),
    rounds=2,
)
def download_big(workshop: Workshop) -> t.Iterator[t.Sequence[Contestant]]:
    yield from contestants(workshop, 1, BIG)


BENCHES: tuple[Bench, ...] = (download, download_tls, download_big)
