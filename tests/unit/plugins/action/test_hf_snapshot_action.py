# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.action.hf_snapshot import ActionModule, amount, duration

GIB = 1 << 30
STATE = {
    "phase": "download",
    "message": "",
    "files_done": 2,
    "files_total": 9,
    "bytes_done": 3_330_000_000,
    "bytes_total": 13_314_398_617,
    "bytes_downloaded": GIB,
    "rate_bytes_s": 310_000_000,
    "eta_s": 30,
    "retries": 0,
    "current": ["model-00003.safetensors"],
}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({}, "download 3.1/12.4 GiB 25%  2/9 files  310 MB/s  ETA 0m30s"),
        ({"phase": "verify"}, "verify 3.1/12.4 GiB 25%  2/9 files  310 MB/s  ETA 0m30s"),
        ({"rate_bytes_s": 0, "eta_s": None}, "download 3.1/12.4 GiB 25%  2/9 files"),
        (
            {"rate_bytes_s": 0, "eta_s": None, "message": "m: waiting for http://peer, which is getting it"},
            "download 3.1/12.4 GiB 25%  2/9 files  m: waiting for http://peer, which is getting it",
        ),
        ({"message": "m: waiting for http://peer"}, "download 3.1/12.4 GiB 25%  2/9 files  310 MB/s  ETA 0m30s"),
        (
            {"retries": 3, "message": "m: status 503 from http://cdn/x"},
            "download 3.1/12.4 GiB 25%  2/9 files  310 MB/s  ETA 0m30s  3 retries, last: m: status 503 from http://cdn/x",
        ),
        ({"eta_s": 3900}, "download 3.1/12.4 GiB 25%  2/9 files  310 MB/s  ETA 1h05m"),
        (
            {"bytes_done": 512, "bytes_total": 2048, "rate_bytes_s": 2_500_000, "eta_s": 1},
            "download 0.5/2.0 KiB 25%  2/9 files  2.5 MB/s  ETA 0m01s",
        ),
    ],
)
def test_progress_line(change: dict[str, t.Any], line: str) -> None:
    assert ActionModule.progress_line(t.cast(ActionModule, None), {**STATE, **change}) == line


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ({}, ""),
        ({"phase": "list", "message": "listing acme/tiny main"}, "listing acme/tiny main"),
        ({"phase": "lock", "message": "waiting for another run: x"}, "waiting for another run: x"),
        ({**STATE, "bytes_total": 0, "message": ""}, ""),
    ],
)
def test_states_without_bytes(state: dict[str, t.Any], line: str) -> None:
    assert ActionModule.progress_line(t.cast(ActionModule, None), state) == line


def test_amounts_share_the_unit_of_the_total() -> None:
    assert amount(0, 500) == "0/500 B"
    assert amount(1 << 20, 10 << 20) == "1.0/10.0 MiB"
    assert amount(0, 600 * GIB) == "0.0/600.0 GiB"


def test_duration() -> None:
    assert [duration(seconds) for seconds in (0, 59.9, 60, 3600)] == ["0m00s", "0m59s", "1m00s", "1h00m"]


def test_it_runs_the_module_of_its_name() -> None:
    assert ActionModule._MODULE == "modelfleet.serving.hf_snapshot"
