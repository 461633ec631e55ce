# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a real systemd, its journal and the kernel leave of a service that does not run, as vllm_health_wait judges it.

Small units instead of vLLM: how a unit ends does not depend on what it runs.
"""

from __future__ import annotations

import json
import threading
import typing as t

import pytest

from .conftest import CLONE
from .harness import Lab

HOST = "demo1"
LONG = "/bin/sleep 1000"
PRINT_AND_FAIL = "/bin/sh -c 'sleep 1; echo \"OSError: [Errno 98] Address already in use\"; exit 1'"


@pytest.fixture(scope="module")
def bare() -> t.Iterator[Lab]:
    """A host that nothing was deployed to."""
    lab = Lab(f"ends{CLONE}", "inventories/demo")
    lab.down()
    lab.up("--names", HOST)
    yield lab
    lab.down()


class Unit(t.NamedTuple):
    """A unit of the tests: lines of its sections, and what is done before the wait begins."""

    exec_start: str = LONG
    unit: str = ""
    service: str = ""
    before: str = ""


def write(lab: Lab, name: str, what: Unit) -> str:
    text = f"[Unit]\n{what.unit}\n[Service]\nType=exec\n{what.service}\nExecStart={what.exec_start}\n"
    lab.host(HOST, f"cat > /etc/systemd/system/{name}.service <<'E'\n{text}E\nsystemctl daemon-reload")
    if what.before:
        lab.host(HOST, what.before.format(unit=name))
    return f"{name}.service"


#: the module writes it after each look
LOOKED = "/run/ends-progress.json"


def waited(lab: Lab, tmp_path, unit: str, **options: t.Any) -> dict[str, t.Any]:
    given = {"unit": unit, "poll_interval": 1, "progress_file": LOOKED, **options}
    return lab.module(HOST, "vllm_health_wait", given, tmp_path)


class Meanwhile:
    """Does something on the host when the wait has looked at it."""

    def __init__(self, lab: Lab, command: str) -> None:
        lab.host(HOST, f"rm -f {LOOKED}")
        self._thread = threading.Thread(target=self._run, args=(lab, command))

    @staticmethod
    def _run(lab: Lab, command: str) -> None:
        lab.wait_for(HOST, f"test -s {LOOKED}", 90)
        lab.host(HOST, command)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._thread.join(120)


START = "systemctl start --no-block {unit}; sleep 0.5"
NEVER_STARTED = {
    "idle": (Unit(), "unit_not_started", "no start of it is under way"),
    "stopped": (Unit(before="systemctl start {unit}; systemctl stop {unit}"), "sd_stopping", "Stopping"),
    "signalled": (Unit(before="systemctl start {unit}; systemctl kill {unit}; sleep 0.5"), "sd_client", "SIGTERM"),
    "condition": (
        Unit(unit="ConditionPathExists=/nowhere", before=START),
        "sd_condition",
        "ConditionPathExists=/nowhere",
    ),
    "assertion": (Unit(unit="AssertPathExists=/nowhere", before=START), "sd_assert", "asserts failed"),
    "needs": (
        Unit(unit="Requires=absent.service\nAfter=absent.service", before=START + " || true"),
        None,
        "absent.service",
    ),
    "path": (Unit("/nowhere/vllm serve", before=START), "sd_exit", "203 (EXEC: systemd could not execute the program)"),
    "user": (Unit(service="User=nobody-here", before=START), "sd_exit", "Failed at step USER"),
    "folder": (Unit(service="WorkingDirectory=/nowhere", before=START), "sd_exit", "200 (CHDIR"),
    "before": (
        Unit(service="ExecStartPre=/bin/sh -c 'echo no VRAM: cannot start; exit 3'", before=START),
        "sd_control",
        "no VRAM: cannot start",
    ),
}


@pytest.fixture(scope="module")
def told(bare: Lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, t.Any]]:
    """What is said of each of these units, in one play: Ansible takes longer to begin than the module to judge."""
    units = [write(bare, f"ends-{name}", what) for name, (what, _cause, _word) in NEVER_STARTED.items()]
    bare.host(HOST, "systemctl mask ends-masked.service")
    units += ["ends-absent.service", "ends-masked.service"]
    out = tmp_path_factory.mktemp("told") / "results.json"
    tasks = [
        {
            "modelfleet.serving.vllm_health_wait": {"unit": "{{ item }}", "poll_interval": 1},
            "loop": units,
            "register": "said",
            "ignore_errors": True,
        },
        {
            "ansible.builtin.copy": {"content": "{{ said.results | to_json }}", "dest": str(out), "mode": "0600"},
            "delegate_to": "localhost",
        },
    ]
    book = out.with_name("play.json")
    book.write_text(json.dumps([{"hosts": HOST, "gather_facts": False, "tasks": tasks}]))
    done = bare.playbook(str(book))
    assert out.exists(), done.out
    return {result["item"]: result for result in json.loads(out.read_text())}


@pytest.mark.parametrize("name", NEVER_STARTED)
def test_a_unit_that_does_not_run_is_told_within_seconds(told: dict[str, dict[str, t.Any]], name: str) -> None:
    _what, cause, word = NEVER_STARTED[name]
    result = told[f"ends-{name}.service"]
    assert result["verdict"] == "dead", result
    assert result["elapsed_s"] < 20, result
    assert word in result["msg"], result["msg"]
    assert cause is None or result["cause"]["id"] == cause, result["msg"]


@pytest.mark.parametrize(("name", "cause"), [("absent", "unit_not_found"), ("masked", "unit_masked")])
def test_a_unit_that_cannot_be_started(told: dict[str, dict[str, t.Any]], name: str, cause: str) -> None:
    result = told[f"ends-{name}.service"]
    assert (result["verdict"], result["cause"]["id"]) == ("dead", cause), result
    assert result["elapsed_s"] < 20


def test_a_start_that_waits_for_another_unit_is_waited_for(bare: Lab, tmp_path) -> None:
    bare.host(
        HOST,
        "printf '[Service]\\nType=oneshot\\nExecStart=/bin/sleep 60\\n' > /etc/systemd/system/ends-disk.service",
    )
    what = Unit(unit="Requires=ends-disk.service\nAfter=ends-disk.service", before=START)
    result = waited(bare, tmp_path, write(bare, "ends-queued", what), timeout=4)
    assert (result["verdict"], result["timed_out"], result["stage"]) == ("progressing", True, "unit"), result["_output"]
    assert "which waits for ends-disk.service (start)" in result["evidence"][0], result["evidence"]
    bare.host(HOST, "systemctl stop ends-disk ends-queued")


EAT = "bytearray(200 << 20)"
GO = "until [ -e /run/ends-go ]; do sleep 0.2; done"


@pytest.mark.parametrize(
    "command",
    [
        f"/bin/sh -c '{GO}; exec python3 -c \"{EAT}\"'",
        # of a child; the service goes on for a while and ends with 1
        f"/bin/sh -c '{GO}; python3 -c \"{EAT}\"; sleep 4; exit 1'",
    ],
    ids=["main process", "child"],
)
def test_the_oom_killer_is_recognised(bare: Lab, tmp_path, command: str) -> None:
    what = Unit(command, service="MemoryMax=40M", before="rm -f /run/ends-go; systemctl start {unit}")
    unit = write(bare, "ends-oom", what)
    with Meanwhile(bare, "touch /run/ends-go"):
        result = waited(bare, tmp_path, unit)
    assert result["verdict"] == "dead", result["_output"]
    assert result["cause"]["id"] in ("k_oom", "sd_oom"), result["msg"]
    assert "OOM killer ended" in result["msg"] or "counts 1 of its processes" in result["msg"]


RESTARTING = Unit(service="Restart=always\nRestartSec=4", before="systemctl start {unit}")


def test_a_stop_by_somebody(bare: Lab, tmp_path) -> None:
    unit = write(bare, "ends-run", RESTARTING)
    with Meanwhile(bare, f"systemctl stop {unit}"):
        result = waited(bare, tmp_path, unit)
    assert (result["verdict"], result["cause"]["id"]) == ("dead", "sd_stopping"), result["_output"]


def test_a_restart_by_somebody_is_followed(bare: Lab, tmp_path) -> None:
    unit = write(bare, "ends-run", RESTARTING)
    with Meanwhile(bare, f"systemctl restart {unit}"):
        result = waited(bare, tmp_path, unit, timeout=12)
    assert (result["verdict"], result["timed_out"]) == ("progressing", True), result["_output"]
    assert "somebody started it anew meanwhile: this is about the new start" in result["evidence"]


def test_a_kill_is_told_with_what_systemd_does_about_it(bare: Lab, tmp_path) -> None:
    unit = write(bare, "ends-run", RESTARTING)
    with Meanwhile(bare, f"kill -SEGV $(systemctl show -p MainPID --value {unit})"):
        result = waited(bare, tmp_path, unit)
    assert (result["verdict"], result["signal"], result["cause"]["id"]) == ("dead", "SIGSEGV", "sd_kill")
    assert "Restart=always of its unit brings it back after 4s: systemctl stop ends that" in result["evidence"]
    bare.host(HOST, f"systemctl stop {unit}")


LOOP = Unit(
    PRINT_AND_FAIL,
    unit="StartLimitIntervalSec=120\nStartLimitBurst=3",
    service="Restart=always\nRestartSec=1",
    before="systemctl reset-failed {unit}; systemctl start {unit}; true",
)


def test_a_loop_is_told_once_with_every_start(bare: Lab, tmp_path) -> None:
    unit = write(bare, "ends-loop", LOOP)
    # as one who looks when it is over
    bare.wait_for(HOST, f"test $(systemctl show -p Result --value {unit}) = exit-code -a "
                  f"$(systemctl show -p ActiveState --value {unit}) = failed", 30)  # fmt: skip
    result = waited(bare, tmp_path, unit)
    assert (result["verdict"], result["cause"]["id"]) == ("dead", "port_used"), result["_output"]
    assert [(cycle["cause"], cycle["exit_code"]) for cycle in result["cycles"]] == [("port_used", 1)] * 3
    assert result["cycles"][0]["started_at"] < result["cycles"][-1]["started_at"]
    assert "systemd has given up: too many starts in a short time (3 in 2min are allowed)" in result["evidence"]
    assert result["elapsed_s"] < 15


def test_restarts_that_are_allowed_end_with_the_second_of_the_same_cause(bare: Lab, tmp_path) -> None:
    unit = write(bare, "ends-again", LOOP)
    result = waited(bare, tmp_path, unit, max_restarts=9)
    assert (result["verdict"], result["cause"]["id"]) == ("dead", "port_used"), result["_output"]
    assert len(result["cycles"]) >= 2
