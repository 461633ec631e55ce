# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run with nothing to do."""

from __future__ import annotations

import typing as t

from benchkit.model import Aim, Column, Contestant, Sample, bench, extra_column, peak_column, time_column
from benchkit.models import make_repo
from benchkit.workshop import Workshop
from hub.control import HubControl

REPO = "bench/idle"
SHARDS = 119
PINNED, BRANCH, PING = "hf_snapshot, commit", "hf_snapshot, branch", "ping, an empty module"
HF_PINNED, HF_BRANCH = "hf download, commit", "hf download, branch"


@bench(
    "idle",
    "Nothing to do",
    "119 shards that are all there. Whole processes; a module's process includes Ansible's own part of it, which the "
    "empty module `ansible.builtin.ping` shows. Requests are counted by the Hub.",
    (
        time_column(),
        Column("CPU s", lambda series, _all: f"{series.cpu:.2f}"),
        extra_column("of it module s", "module", "{:.3f}"),
        extra_column("requests", "requests", "{:.0f}", max),
        peak_column(),
    ),
    (
        Aim("requests for a commit", lambda r: r[PINNED].most("requests"), at_most=0, form="{:.0f}"),
        Aim("requests for a branch", lambda r: r[BRANCH].most("requests"), at_most=1, form="{:.0f}"),
        Aim("module time for a commit, s", lambda r: r[PINNED].least("module"), at_most=0.15, form="{:.3f}"),
        Aim(
            "processor time of a process for a commit, above an empty module's, s",
            lambda r: r[PINNED].cpu - r[PING].cpu,
            at_most=0.15,
            form="{:.3f}",
        ),
    ),
    rounds=7,
)
def idle(workshop: Workshop) -> t.Iterator[t.Sequence[Contestant]]:
    root, target, other = workshop.folder / "hub", workshop.folder / "target", workshop.folder / "hf"
    make_repo(root / REPO, SHARDS, 4096)
    with workshop.hub(root) as hub:
        options = {"repo_id": REPO, "root": str(target), "endpoint": hub.endpoint}
        branch = workshop.module("modelfleet.serving.hf_snapshot", options)
        branch()
        [commit] = [snapshot.name for snapshot in target.glob("snapshots/*/*")]
        pinned = workshop.module("modelfleet.serving.hf_snapshot", {**options, "revision": commit})
        ping = workshop.module("ansible.builtin.ping", {})

        def hf(*words: str) -> Sample:
            argv = ("hf", "download", REPO, "--local-dir", str(other), *words)
            return workshop.command(*argv, HF_ENDPOINT=hub.endpoint).sample

        hf()
        yield (
            Contestant(PINNED, _counted(hub, lambda: pinned().sample)),
            Contestant(BRANCH, _counted(hub, lambda: branch().sample)),
            Contestant(PING, lambda: ping().sample),
            Contestant(HF_PINNED, _counted(hub, lambda: hf("--revision", commit))),
            Contestant(HF_BRANCH, _counted(hub, hf)),
        )
    workshop.clear("hub", "target", "hf", "home")


def _counted(hub: HubControl, run: t.Callable[[], Sample]) -> t.Callable[[], Sample]:
    def counted() -> Sample:
        hub.clear()
        sample = run()
        return sample._replace(extra={**sample.extra, "requests": hub.count()})

    return counted


BENCHES = (idle,)
