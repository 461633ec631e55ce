# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import GroupUse, Paging
from ansible_collections.modelfleet.serving.plugins.module_utils._source_group import (
    paging,
    parse_counters,
    parse_cpu_max,
    parse_io_max,
    parse_pressure,
    parse_throttle,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._source_unit import ControlGroups

CORES = len(os.sched_getaffinity(0))
UNIT = "models.slice/vllm.service"


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (parse_cpu_max, "200000 100000\n", 2.0),
        (parse_cpu_max, "max 100000\n", None),
        (parse_cpu_max, "-1\n 100000\n", None),
        (parse_cpu_max, "", None),
        (parse_throttle, "8:0 20971520\n8:16 1048576\n", 1048576.0),
        (parse_throttle, "", None),
        (parse_pressure, "some avg10=1.00 avg60=0.50 avg300=0.10 total=2500000\nfull avg10=0.00 total=1\n", 2.5),
        (parse_pressure, "", None),
        (parse_counters, "nr_periods 10\nnr_throttled 3\nodd\nname x\n", {"nr_periods": 10, "nr_throttled": 3}),
    ],
)
def test_parse(parse: t.Callable[[str], t.Any], text: str, expected: t.Any) -> None:
    assert parse(text) == expected


def test_parse_io_max() -> None:
    text = "8:0 rbps=20971520 wbps=max riops=max wiops=120\n8:16 rbps=1048576 wbps=max riops=50 wiops=max\n"
    assert parse_io_max(text, "rbps") == 1048576
    assert parse_io_max(text, "riops") == 50
    assert parse_io_max("8:0 rbps=max wbps=5 riops=max wiops=max\n", "rbps") is None


V2 = {
    f"{UNIT}/cpu.max": "max 100000\n",
    f"{UNIT}/cpu.stat": "usage_usec 7500000\nuser_usec 1\nnr_periods 4\nnr_throttled 0\n",
    f"{UNIT}/io.max": "8:0 rbps=20971520 wbps=max riops=max wiops=max\n",
    f"{UNIT}/io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000000\n",
    f"{UNIT}/memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n",
    f"{UNIT}/cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n",
    "models.slice/cpu.max": "150000 100000\n",
    "models.slice/cpu.stat": "usage_usec 9\nnr_periods 50\nnr_throttled 20\n",
    "models.slice/io.max": "8:0 rbps=99999999 wbps=max riops=400 wiops=max\n",
}
V1 = {
    f"cpu/{UNIT}/cpu.cfs_quota_us": "200000\n",
    f"cpu/{UNIT}/cpu.cfs_period_us": "100000\n",
    f"cpu/{UNIT}/cpu.stat": "nr_periods 30\nnr_throttled 15\nthrottled_time 123456\n",
    "cpu/models.slice/cpu.cfs_quota_us": "-1\n",
    "cpu/models.slice/cpu.cfs_period_us": "100000\n",
    f"blkio/{UNIT}/blkio.throttle.read_bps_device": "8:0 20971520\n",
    f"blkio/{UNIT}/blkio.throttle.read_iops_device": "",
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, GroupUse(cores=CORES)),
        (V2, GroupUse(CORES, 1.5, "models.slice", 50, 20, 7.5, 3.0, 1.0, 0.5, 20971520, 400)),
        (V1, GroupUse(CORES, 2.0, "", 30, 15, read_limit=20971520)),
        (
            {**V1, f"unified/{UNIT}/io.pressure": V2[f"{UNIT}/io.pressure"]},
            GroupUse(CORES, 2.0, "", 30, 15, io_wait_s=3.0, read_limit=20971520),
        ),
    ],
    ids=["nothing", "v2", "v1", "hybrid"],
)
def test_use(tmp_path: pathlib.Path, files: dict[str, str], expected: GroupUse) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="ascii")
    assert ControlGroups(str(tmp_path), str(tmp_path / "none")).use(f"/{UNIT}", os.getpid()) == expected


def test_use_of_a_process_that_is_gone(tmp_path: pathlib.Path) -> None:
    assert ControlGroups(str(tmp_path), str(tmp_path / "none")).use("", 2**30) == GroupUse()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pswpin 3\npswpout 9\nworkingset_refault_anon 5\nworkingset_refault_file 10\n", Paging(30, 100)),
        ("pswpin 0\nworkingset_refault 4\n", Paging(0, 40)),
        ("", Paging()),
    ],
)
def test_paging(tmp_path: pathlib.Path, text: str, expected: Paging) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text(text, encoding="ascii")
    assert paging(str(vmstat), 10) == expected


def test_paging_of_this_host() -> None:
    assert paging().swapped_in is not None
