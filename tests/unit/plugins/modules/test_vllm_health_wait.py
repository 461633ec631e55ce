# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import typing as t

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.modelfleet.serving.plugins.module_utils import _jmespath
from ansible_collections.modelfleet.serving.plugins.modules import vllm_health_wait

#: a process id no kernel gives
NOBODY = 2**22 + 1


def run(capfd: pytest.CaptureFixture[str], **params: t.Any) -> dict[str, t.Any]:
    with patch_module_args(params), pytest.raises(SystemExit):
        vllm_health_wait.main()
    result: dict[str, t.Any] = json.loads(capfd.readouterr().out)
    result.pop("invocation", None)
    return result


@pytest.fixture
def sleeper() -> t.Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process.pid
        process.kill()


def test_a_process_that_is_gone_fails_at_once_with_the_diagnosis(
    capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("OSError: [Errno 98] Address already in use\n")
    result = run(capfd, pid=NOBODY, log_file=str(log), poll_interval=0.1)
    assert result["failed"] is True
    assert result["changed"] is False
    assert (result["verdict"], result["timed_out"]) == ("dead", False)
    assert result["cause"]["id"] == "port_used"
    assert result["elapsed_s"] < 5
    assert result["msg"].startswith(f"process {NOBODY} is dead at stage process")
    assert f"Next: tail -n 100 {log}" in result["msg"]


def test_documented_return_values_are_those_returned(capfd: pytest.CaptureFixture[str]) -> None:
    documented = yaml.safe_load(vllm_health_wait.RETURN)
    result = run(capfd, pid=NOBODY, poll_interval=0.1)
    # warnings are the process's: those of other tests are among them
    assert set(result) - {"failed", "changed", "msg", "warnings"} == set(documented)


def test_time_limit_and_progress_file(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path, sleeper: int) -> None:
    progress = tmp_path / "progress.json"
    result = run(capfd, pid=sleeper, timeout=0.3, poll_interval=0.1, progress_file=str(progress))
    assert result["failed"] is True
    assert (result["verdict"], result["timed_out"]) == ("progressing", True)
    assert "was not ready within the limit" in result["msg"]
    state = json.loads(progress.read_text())
    assert (state["verdict"], state["stage"]) == ("progressing", "process")
    assert state["line"].startswith("process")


def test_a_progress_file_that_cannot_be_written_does_not_end_the_wait(
    capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path, sleeper: int
) -> None:
    result = run(capfd, pid=sleeper, timeout=0.2, poll_interval=0.1, progress_file=str(tmp_path / "no" / "p.json"))
    assert result["timed_out"] is True


@pytest.mark.parametrize("what", [{"pid": NOBODY}, {"unit": "no-such-vllm"}])
def test_check_mode_looks_once_and_does_not_fail(capfd: pytest.CaptureFixture[str], what: dict[str, t.Any]) -> None:
    result = run(capfd, **what, url="http://127.0.0.1:9", _ansible_check_mode=True)
    assert "failed" not in result
    assert result["looks"] == 1
    assert result["verdict"] != "ready"
    assert result["msg"]


def test_secrets_of_the_options_are_nowhere(capfd: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("non-default args: {'api_key': ['k3y-for-tests']}\nValueError: k3y-for-tests is no key\n")
    result = run(capfd, pid=NOBODY, log_file=str(log), url="http://127.0.0.1:9", api_key="k3y-for-tests")
    assert "k3y-for-tests" not in json.dumps(result)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "one of the following is required: unit, pid"),
        ({"unit": "a", "pid": 1}, "parameters are mutually exclusive: unit|pid"),
        ({"pid": 1, "known_answer": {}}, "one of the following is required: prompt, messages found in known_answer"),
        ({"pid": 1, "url": "localhost"}, "The URL 'localhost' must begin with http:// or https:// and name a host"),
    ],
)
def test_options(capfd: pytest.CaptureFixture[str], params: dict[str, t.Any], message: str) -> None:
    result = run(capfd, **params)
    assert result["failed"] is True
    assert result["msg"].startswith(message)


def test_a_query_needs_jmespath(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jmespath, "HAS_JMESPATH", False)
    result = run(capfd, pid=1, known_answer={"prompt": "a", "query": "b"})
    assert "Failed to import the required Python library (jmespath)" in result["msg"]


def test_documented_options_are_those_accepted() -> None:
    def shape(options: dict[str, t.Any], nested: str) -> dict[str, t.Any]:
        return {
            name: (spec["type"], spec.get("elements"), spec.get("default"), shape(spec.get(nested) or {}, nested))
            for name, spec in options.items()
        }

    documented = yaml.safe_load(vllm_health_wait.DOCUMENTATION)["options"]
    assert shape(documented, "suboptions") == shape(vllm_health_wait.ARGUMENTS, "options")
