# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._unit_block import (
    Job,
    failed_needs,
    needed,
    parse_jobs,
    queued_job,
)

#: as systemd 252 prints them
QUEUED = """\
1787 vllm@kimi.service                                start waiting
└─   	waiting for job 1737 (models.mount/start) -     -
└─   	waiting for job 1738 (network-online.target/start) -     -
"""
RUNNING = "755 vllm@kimi.service start running\n"
ANOTHER = """\
1737 models.mount                                     start running
└─   	waiting for job 1736 (disk.service/start) -     -
1787 vllm@kimi.service                                restart waiting
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (QUEUED, Job("start", ("models.mount/start", "network-online.target/start"))),
        (RUNNING, Job("start")),
        # what another unit waits for is not this one's
        (ANOTHER, Job("restart")),
        ("No jobs running.\n", Job()),
        ("", Job()),
    ],
    ids=["waits", "runs", "of another", "none", "nothing"],
)
def test_parse_jobs(text: str, expected: Job) -> None:
    assert parse_jobs(text, "vllm@kimi.service") == expected


def test_queued_job_asks_for_the_unit_alone() -> None:
    asked: list[t.Sequence[str]] = []

    def run(command: t.Sequence[str]) -> tuple[int, str, str]:
        asked.append(command)
        return 0, QUEUED, ""

    assert queued_job(run, "vllm@kimi.service").type == "start"
    assert asked == [["systemctl", "list-jobs", "vllm@kimi.service", "--before", "--no-legend", "--no-pager", "--full"]]


def test_needed_leaves_out_what_every_service_has() -> None:
    properties = {
        "Requires": "sysinit.target system.slice -.mount models.mount",
        "Requisite": "gpu.service",
        "BindsTo": "models.mount",
        "Wants": "network-online.target",
    }
    assert needed(properties) == ("gpu.service", "models.mount")


SHOWN = """\
Id=models.mount
LoadState=loaded
ActiveState=failed
Result=exit-code

Id=gone.service
LoadState=not-found
ActiveState=inactive

Id=fine.service
LoadState=loaded
ActiveState=active
Result=success
"""


def test_failed_needs_says_which_and_why() -> None:
    names = ("models.mount", "gone.service", "fine.service")
    found = failed_needs(lambda command: (0, SHOWN, ""), names)
    assert found == ("models.mount (exit-code)", "gone.service (not-found)")


def test_nothing_is_asked_where_nothing_is_needed() -> None:
    def run(_command: t.Sequence[str]) -> tuple[int, str, str]:
        raise AssertionError("asked")

    assert failed_needs(run, ()) == ()
