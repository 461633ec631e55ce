# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A start that goes wrong ends with the right verdict and cause, within seconds of its being knowable.

Times are bounds on the verdict after the fault, far below any time-out: they prove that no clock was waited for.
"""

from __future__ import annotations

import threading
import time

import pytest

UNIT = "vllm@kimi.service"
URL = "http://10.77.0.11:8000"
MODEL = "kimi-demo"
#: as seen inside the host; comm is cut to 15 characters
ENGINE = "pgrep -f '^VLLM::EngineCore'"
LOADING = f"{ENGINE} >/dev/null && journalctl -u {UNIT} --since @$(cat /tmp/began) | grep -q 'Starting to load model'"


@pytest.fixture(scope="module", autouse=True)
def _one_server_at_a_time(lab):
    """Two cores: the other host's server would only make these starts slow."""
    lab.host("demo2", f"systemctl stop {UNIT}", timeout=180)
    yield
    lab.host("demo1", f"systemctl reset-failed {UNIT}; systemctl restart {UNIT}; true", timeout=180)


def test_status_tells_a_service_that_was_stopped_from_one_that_died(lab):
    since = lab.host("demo2", f"systemctl show -p StateChangeTimestamp --value {UNIT}").strip()
    done = lab.playbook("playbooks/status.yml", "--limit", "demo2")
    assert f"{UNIT}: inactive (dead) since {since}" in done.out, done.out
    assert "server: stopped by request" in done.out, done.out


@pytest.fixture
def stopped(lab):
    # KILL at once: a server that is still starting ignores TERM
    lab.host(
        "demo1",
        f"systemctl kill -s KILL {UNIT}; systemctl stop {UNIT}; systemctl reset-failed {UNIT}; date +%s >/tmp/began",
        check=False,
        timeout=180,
    )
    yield
    lab.host("demo1", f"systemctl kill -s KILL {UNIT}; systemctl stop {UNIT}; true", timeout=180)


class Waiting:
    """vllm_health_wait at work on demo1 while the test does harm."""

    def __init__(self, lab, tmp_path):
        self.result, self.ended = None, None
        self._thread = threading.Thread(target=self._wait, args=(lab, tmp_path))

    def _wait(self, lab, tmp_path):
        self.result = lab.module("demo1", "vllm_health_wait", {"unit": UNIT, "url": URL, "model": MODEL}, tmp_path)
        self.ended = time.monotonic()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self._thread.join(300)
        assert self.result is not None, "the wait did not end"


def harmed_while_loading(lab, tmp_path, command):
    """Start the service, do ``command`` to it while it loads; the wait's result, and seconds from the harm to it."""
    lab.host("demo1", f"systemctl start {UNIT}")
    with Waiting(lab, tmp_path) as waiting:
        lab.wait_for("demo1", LOADING, 90)
        lab.host("demo1", command)
        harmed = time.monotonic()
    return waiting.result, waiting.ended - harmed


def test_engine_core_killed_during_the_load(lab, stopped, tmp_path):
    result, seconds = harmed_while_loading(lab, tmp_path, f"kill -KILL $({ENGINE})")
    assert result["verdict"] == "dead", result["_output"]
    assert result["cause"]["id"], result
    assert seconds < 60, result["_output"]


def test_main_process_killed(lab, stopped, tmp_path):
    result, seconds = harmed_while_loading(lab, tmp_path, f"kill -KILL $(systemctl show -p MainPID --value {UNIT})")
    assert result["verdict"] == "dead", result["_output"]
    assert "SIGKILL" in result["msg"], result["msg"]
    assert seconds < 60, result["_output"]


def test_engine_core_stopped_during_the_load(lab, stopped, tmp_path):
    result, seconds = harmed_while_loading(lab, tmp_path, f"kill -STOP $({ENGINE})")
    assert result["verdict"] == "stalled", result["_output"]
    assert "stopped" in result["msg"].lower(), result["msg"]
    assert seconds < 90, result["_output"]


@pytest.fixture
def squatter(lab):
    """Another process on the service's port, gone afterwards however the test ends."""
    lab.host("demo1", "systemd-run --unit=e2e-squatter --collect python3 -m http.server --bind 10.77.0.11 8000")
    lab.wait_for("demo1", "ss -ltn | grep -q ':8000 '", 20)
    yield
    lab.host("demo1", "systemctl stop e2e-squatter")


def test_port_taken_by_another_process(lab, stopped, squatter, tmp_path):
    lab.host("demo1", f"systemctl start {UNIT}")
    began = time.monotonic()
    with Waiting(lab, tmp_path) as waiting:
        pass
    assert waiting.result["verdict"] == "dead", waiting.result["_output"]
    assert "port" in waiting.result["cause"]["id"], waiting.result["cause"]
    assert waiting.ended - began < 120, waiting.result["_output"]


def test_preflight_names_who_holds_the_port(lab, stopped, squatter):
    done = lab.playbook("playbooks/deploy_kimi.yml", "--limit", "demo1")
    assert done.rc != 0
    assert "8000" in done.out and "e2e-squatter" in done.out, done.out
