# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import UnitState
from ansible_collections.modelfleet.serving.plugins.module_utils._source_unit import (
    ControlGroups,
    UnitReading,
    UnitSource,
    cgroup_folders,
    cgroup_pids,
    host_oom_kills,
    oom_kills,
    own_cgroup,
    parse_show,
    unit_state,
)

RUNNING = """Restart=on-failure
NRestarts=2
ExecMainStartTimestampMonotonic=5240188011
MainPID=161
Result=success
ExecMainCode=0
ExecMainStatus=0
LoadState=loaded
ActiveState=active
SubState=running
InvocationID=0d5a8c1e0f1c4a0c9a1d3f1f6a2f9b11
ControlGroup=/system.slice/system-vllm.slice/vllm@tiny.service
"""
KILLED = RUNNING.replace("MainPID=161", "MainPID=0").replace("ExecMainCode=0", "ExecMainCode=2")
KILLED = KILLED.replace("ExecMainStatus=0", "ExecMainStatus=9").replace("Result=success", "Result=signal")
KILLED = KILLED.replace("active\nSubState=running", "failed\nSubState=failed")
KILLED = KILLED.replace("ControlGroup=/system.slice/system-vllm.slice/vllm@tiny.service", "ControlGroup=")
ABSENT = "LoadState=not-found\nActiveState=inactive\nSubState=dead\nMainPID=0\nRestart=no\nResult=success\n"
INVOCATION = "0d5a8c1e0f1c4a0c9a1d3f1f6a2f9b11"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            RUNNING,
            UnitState("loaded", "active", "running", "success", 161, 2, "on-failure", 0, 0, INVOCATION),
        ),
        (KILLED, UnitState("loaded", "failed", "failed", "signal", 0, 2, "on-failure", 2, 9, INVOCATION)),
        (ABSENT, UnitState("not-found", "inactive", "dead", "success", 0, 0, "no", 0, 0, "")),
        # systemd older than a property leaves it out; one it cannot tell is not a number
        ("LoadState=loaded\nNRestarts=[not set]\n", UnitState("loaded", "", "", "", 0, 0, "", 0, 0, "")),
    ],
    ids=["running", "killed", "not found", "old systemd"],
)
def test_unit_state(text: str, expected: UnitState) -> None:
    assert unit_state(parse_show(text)) == expected


def test_parse_show_keeps_equals_signs_in_values() -> None:
    assert parse_show("Environment=A=1 B=2\nnoise\n") == {"Environment": "A=1 B=2"}


def reply(status: int, out: str, err: str) -> UnitReading:
    return UnitSource("vllm@tiny.service", lambda command: (status, out, err)).read()


def test_unit_source_reads_group_and_start() -> None:
    reading = reply(0, RUNNING, "")
    assert reading.control_group == "/system.slice/system-vllm.slice/vllm@tiny.service"
    assert reading.started_s == pytest.approx(5240.188011)
    assert (reading.error, reading.began) == ("", "")


def test_unit_source_keeps_the_time_as_systemd_writes_it() -> None:
    assert reply(0, RUNNING + "InactiveExitTimestamp=Tue 2026-12-01 05:42:50 UTC\n", "").began == (
        "Tue 2026-12-01 05:42:50 UTC"
    )
    assert reply(0, RUNNING + "InactiveExitTimestamp=n/a\n", "").began == ""


def test_unit_source_asks_only_for_what_it_reads() -> None:
    asked: list[t.Sequence[str]] = []

    def run(command: t.Sequence[str]) -> tuple[int, str, str]:
        asked.append(command)
        return 0, RUNNING, ""

    UnitSource("vllm@tiny.service", run).read()
    assert asked[0][:3] == ["systemctl", "show", "vllm@tiny.service"]
    assert "--property=InvocationID" in asked[0]


@pytest.mark.parametrize(
    ("status", "out", "err", "error"),
    [
        (
            1,
            "",
            "Failed to connect to bus: Host is down\n",
            "systemctl show vllm@tiny.service: Failed to connect to bus: Host is down",
        ),
        (0, "", "", "systemctl show vllm@tiny.service: exit status 0 and no output"),
        (
            127,
            "",
            "systemctl: No such file or directory",
            "systemctl show vllm@tiny.service: systemctl: No such file or directory",
        ),
    ],
)
def test_unit_source_says_why_systemd_could_not_be_asked(status: int, out: str, err: str, error: str) -> None:
    assert reply(status, out, err) == UnitReading(None, error=error)


V1 = "9:name=systemd:/\n8:pids:/\n0::/\n"
NESTED_V1 = "12:memory:/x\n1:name=systemd:/machine.slice/h1/init.scope\n0::/machine.slice/h1/init.scope\n"
V2 = "0::/init.scope\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [(V1, "/"), (NESTED_V1, "/machine.slice/h1/init.scope"), (V2, "/init.scope"), ("", "/"), ("0::/\n", "/")],
)
def test_own_cgroup(text: str, expected: str) -> None:
    assert own_cgroup(text) == expected


UNIT = "/system.slice/vllm@tiny.service"


@pytest.mark.parametrize(
    ("group", "own", "expected"),
    [
        (UNIT, "/", ["systemd" + UNIT, "unified" + UNIT, UNIT[1:]]),
        (UNIT, "/init.scope", ["systemd" + UNIT, "unified" + UNIT, UNIT[1:]]),
        (
            UNIT,
            "/machine.slice/h1/init.scope",
            [
                prefix + path
                for prefix, path in [
                    ("systemd", UNIT),
                    ("systemd/machine.slice/h1", UNIT),
                    ("unified", UNIT),
                    ("unified/machine.slice/h1", UNIT),
                    ("", UNIT[1:]),
                    ("machine.slice/h1", UNIT),
                ]
            ],
        ),
        # without a namespace systemd's own answer already has the whole path
        (
            "/machine.slice/h1" + UNIT,
            "/machine.slice/h1/init.scope",
            [prefix + "machine.slice/h1" + UNIT for prefix in ("systemd/", "unified/", "")],
        ),
        ("", "/", []),
        # the root group would be everything on the host
        ("/", "/", []),
    ],
)
def test_cgroup_folders(group: str, own: str, expected: list[str]) -> None:
    assert cgroup_folders(group, root="/cg", own=own) == tuple(f"/cg/{path}" for path in expected)


def test_cgroup_pids_of_subgroups_and_vanished_groups(tmp_path: pathlib.Path) -> None:
    service = tmp_path / "systemd" / "vllm.service"
    (service / "payload").mkdir(parents=True)
    (service / "cgroup.procs").write_text("161\n0\n")
    (service / "payload" / "cgroup.procs").write_text("170\n165\n")
    folders = [str(tmp_path / "none"), str(service)]
    assert cgroup_pids(folders) == (161, 165, 170)
    assert cgroup_pids([str(tmp_path / "none")]) == ()


def test_cgroup_pids_passes_over_an_empty_hierarchy(tmp_path: pathlib.Path) -> None:
    # the hybrid layout has the unit's folder in both hierarchies, and the processes in one
    for name, text in (("a", ""), ("b", "7\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").write_text(text)
    assert cgroup_pids([str(tmp_path / "a"), str(tmp_path / "b")]) == (7,)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"memory/system.slice/v.service/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"}, 2),
        ({"system.slice/v.service/memory.events": "low 0\noom 3\noom_kill 1\noom_group_kill 0\n"}, 1),
        ({"memory/system.slice/v.service/memory.oom_control": "oom_kill 0\n"}, 0),
        # kernels before 4.13 do not count
        ({"memory/system.slice/v.service/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n"}, None),
        ({}, None),
    ],
    ids=["v1", "v2", "none", "old kernel", "group gone"],
)
def test_oom_kills(tmp_path: pathlib.Path, files: dict[str, str], expected: int | None) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    assert oom_kills("/system.slice/v.service", str(tmp_path)) == expected


def test_control_groups_below_that_of_the_container(tmp_path: pathlib.Path) -> None:
    (tmp_path / "init").write_text(NESTED_V1)
    service = tmp_path / "systemd/machine.slice/h1/system.slice/vllm@tiny.service"
    service.mkdir(parents=True)
    (service / "cgroup.procs").write_text("161\n")
    groups = ControlGroups(str(tmp_path), str(tmp_path / "init"))
    assert groups.pids(UNIT) == (161,)
    assert groups.oom_kills(UNIT) is None
    assert ControlGroups(str(tmp_path), str(tmp_path / "none")).pids(UNIT) == ()


# -- what keeps it from running

IDLE = ABSENT.replace("not-found", "loaded") + "ExecMainCode=0\nJob=\nMemoryMax=infinity\n"
JOBS = "1787 vllm@tiny.service start waiting\n└─ waiting for job 1737 (models.mount/start) - -\n"
NEEDS = "Id=models.mount\nLoadState=loaded\nActiveState=failed\nResult=exit-code\n"


@pytest.mark.parametrize(
    ("text", "expected", "commands"),
    [
        (RUNNING + "Job=12\n", {"job": "", "failed_needs": ()}, ["show"]),
        (
            IDLE.replace("Job=", "Job=1787"),
            {"job": "start", "waits_for": ("models.mount/start",)},
            ["show", "list-jobs"],
        ),
        (IDLE + "Requires=system.slice\n", {"failed_needs": ()}, ["show"]),
        (IDLE + "BindsTo=models.mount\n", {"failed_needs": ("models.mount (exit-code)",)}, ["show", "show"]),
        # it ran: what it needs is not why it does not any more
        (KILLED + "BindsTo=models.mount\n", {"failed_needs": ()}, ["show"]),
    ],
    ids=["running", "queued", "needs nothing", "needs what failed", "has run"],
)
def test_what_keeps_it_from_running_is_asked_only_then(
    text: str, expected: dict[str, t.Any], commands: list[str]
) -> None:
    asked: list[str] = []

    def run(command: t.Sequence[str]) -> tuple[int, str, str]:
        asked.append(command[1])
        return 0, JOBS if command[1] == "list-jobs" else NEEDS if command[2] == "models.mount" else text, ""

    state = UnitSource("vllm@tiny.service", run).read().state
    assert state is not None
    assert {key: getattr(state, key) for key in expected} == expected
    assert asked == commands


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "ConditionResult=no\nConditionTimestampMonotonic=0\nAssertResult=no\nAssertTimestampMonotonic=0\n",
            {"refused": ""},
        ),
        ("ConditionResult=no\nConditionTimestampMonotonic=5\nAssertResult=yes\n", {"refused": "condition"}),
        ("ConditionResult=yes\nAssertResult=no\nAssertTimestampMonotonic=5\n", {"refused": "assert"}),
        ("MemoryMax=41943040\n", {"memory_max": 41943040}),
        ("MemoryMax=infinity\n", {"memory_max": None}),
        ("StartLimitBurst=4\nStartLimitIntervalUSec=1min\nRestartUSec=2s\n", {"start_limit": "4 in 1min"}),
        ("StartLimitBurst=5\nStartLimitIntervalUSec=0\n", {"start_limit": ""}),
        (
            'LoadError=org.freedesktop.systemd1.BadUnitSetting "Unit x.service has a bad unit file setting."\n',
            {"load_error": "Unit x.service has a bad unit file setting."},
        ),
    ],
)
def test_more_of_a_unit(text: str, expected: dict[str, t.Any]) -> None:
    state = unit_state(parse_show("LoadState=loaded\n" + text))
    assert {key: getattr(state, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("pgfault 5\noom_kill 19\n", 19), ("pgfault 5\n", None), ("oom_kill x\n", None), (None, None)],
)
def test_host_oom_kills(tmp_path: pathlib.Path, text: str | None, expected: int | None) -> None:
    path = tmp_path / "vmstat"
    if text is not None:
        path.write_text(text)
    assert host_oom_kills(str(path)) == expected
