# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The slices of a detached job: what a look's text means, and when a line is printed."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError

from ansible_collections.modelfleet.serving.plugins.plugin_utils._detached import (
    KEPT_MINUTES,
    DetachedAction,
    LineThrottle,
)

RUNNING = json.dumps({"started": True, "finished": False, "ansible_job_id": "j1.2"})
RESULT = json.dumps({"changed": False, "verdict": "ready"})


class Action(DetachedAction):
    """Answers looks from a script: callables get the command and return what the shell printed."""

    def __init__(self, answers):
        self._answers = list(answers)
        self.said = []
        self.resets = 0

    def _low_level_execute_command(self, cmd, sudoable=True, **kwargs):
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        job, progress, alive = answer
        marks = [word for word in cmd.split() if word.startswith("modelfleet-")]
        return {"stdout": f"{job}\n{marks[0].rstrip(';')}\n{progress}\n{marks[1].rstrip(';')}\n{alive}\n"}

    def progress_line(self, state):
        return f"step {state['step']}"

    def _say(self, host, line):
        self.said.append(line)

    def _reset_connection(self):
        self.resets += 1


def watch(monkeypatch, answers):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    action = Action(answers)
    return action, action._watch("h1", "/root/.ansible_async/j1.2", "/p.json", LineThrottle(clock=lambda: 0.0), 0)


def progress(step):
    return json.dumps({"step": step, "pid": 77})


def test_a_result_ends_the_watch(monkeypatch):
    action, finished = watch(monkeypatch, [(RUNNING, progress(1), "unknown"), (RESULT, progress(2), "")])
    assert finished is True
    assert action.said == ["step 1"]


def test_a_vanished_process_is_not_a_result(monkeypatch):
    answers = [(RUNNING, progress(1), "unknown"), *[(RUNNING, progress(1), "")] * 3]
    _action, finished = watch(monkeypatch, answers)
    assert finished is False


def test_the_result_may_come_after_the_process_has_gone(monkeypatch):
    answers = [(RUNNING, progress(1), "unknown"), (RUNNING, progress(1), ""), (RESULT, progress(1), "")]
    _action, finished = watch(monkeypatch, answers)
    assert finished is True


def test_work_that_vanishes_is_started_again_and_then_given_up():
    action = Action([])
    starts, discarded = [], []
    action._start = lambda args, task_vars: (starts.append(1) or {}, "/job", "/p.json")
    action._watch = lambda *args: False
    action._discard = discarded.append
    outcome = action._run_detached({}, {"inventory_hostname": "h1"})
    assert outcome["failed"] and "was started 4 times on h1 and its process vanished each time" in outcome["msg"]
    assert len(starts) == 4 and discarded == ["/job"] * 4
    assert [line.rsplit(" ", 1)[1] for line in action.said] == ["(1/3)", "(2/3)", "(3/3)"]


def test_a_lost_connection_loses_nothing(monkeypatch):
    answers = [(RUNNING, progress(1), "unknown"), AnsibleConnectionFailure("no route"), (RESULT, progress(2), "")]
    action, finished = watch(monkeypatch, answers)
    assert finished is True
    assert action.resets == 1
    assert action.said[1] == "connection lost; the work goes on there, trying to reach it again"
    assert action.said[2].startswith("reached again after ")


def test_a_worker_whose_playbook_was_killed_does_not_linger(monkeypatch):
    parents = iter([100, 100, 1])
    monkeypatch.setattr("os.getppid", lambda: next(parents))
    with pytest.raises(AnsibleError, match="ansible-playbook is gone"):
        watch(monkeypatch, [(RUNNING, progress(1), "unknown"), (RUNNING, progress(2), "alive")])


def test_an_answer_without_marks_counts_as_no_answer():
    action = Action([])
    action._low_level_execute_command = lambda cmd, sudoable: {"stdout": "", "stderr": "sudo: a password is required"}
    with pytest.raises(AnsibleConnectionFailure, match="sudo: a password is required"):
        action._look("/job", "/p.json", None)


@pytest.mark.parametrize(
    ("text", "finished"),
    [(RUNNING, False), (RESULT, True), ("", False), ("{half", False), ('{"failed": true, "msg": "x"}', True)],
)
def test_job_finished(text, finished):
    assert DetachedAction._job_finished(text) is finished


def test_lines_come_less_often_the_longer_it_takes():
    now = [0.0]
    throttle = LineThrottle(clock=lambda: now[0])
    assert throttle.passes("a")
    assert not throttle.passes("b"), "five seconds apart at first"
    now[0] = 5.0
    assert throttle.passes("b")
    now[0] = 4000.0
    assert not throttle.passes("b"), "an unchanged line is never printed twice"
    assert throttle.passes("c")
    now[0] = 4050.0
    assert not throttle.passes("d"), "a minute apart after an hour"


class Shell(DetachedAction):
    """Runs the commands of an action here."""

    def __init__(self):
        pass

    def _low_level_execute_command(self, cmd, sudoable=True, **kwargs):
        done = subprocess.run(["sh", "-c", cmd], capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return {"stdout": done.stdout}


def job(folder: pathlib.Path, name: str, minutes: float) -> pathlib.Path:
    """The folder of a job in which nothing was written for so many minutes."""
    made = folder / name
    made.mkdir()
    (made / "j1.2").write_text(RUNNING)
    (made / "progress.json").write_text(progress(1))
    then = time.time() - 60 * minutes
    for path in (made / "j1.2", made / "progress.json", made):
        os.utime(path, (then, then))
    return made


@pytest.fixture
def alive(tmp_path):
    """A process of the job in the folder ``it's alive``, whatever process ids its progress file has."""
    folder = tmp_path / "modelfleet-fetch-it's alive"
    process = subprocess.Popen(["sleep", "60"], env={"ANSIBLE_ASYNC_DIR": str(folder), "PATH": os.environ["PATH"]})
    yield job(tmp_path, folder.name, 3 * KEPT_MINUTES)
    process.kill()
    process.wait()


def test_a_start_removes_what_dead_jobs_of_its_kind_left_and_nothing_else(tmp_path, alive):
    dead = job(tmp_path, "modelfleet-fetch-dead", KEPT_MINUTES + 2)
    kept = {
        alive.name,
        job(tmp_path, "modelfleet-fetch-maybe asked for", KEPT_MINUTES - 2).name,
        job(tmp_path, "modelfleet-wait-other kind", 3 * KEPT_MINUTES).name,
        job(tmp_path, "j77.78", 3 * KEPT_MINUTES).name,
    }
    folder = tmp_path / "modelfleet-fetch-new"
    Shell()._make_folder(f"{tmp_path}/modelfleet-fetch-", str(folder))
    assert not dead.exists()
    assert {path.name for path in tmp_path.iterdir()} == {*kept, folder.name}
    assert folder.stat().st_mode & 0o777 == 0o700, "results are nobody else's to read"


def test_the_first_job_of_a_host_makes_the_folder(tmp_path):
    Shell()._make_folder(
        f"{tmp_path}/.ansible_async/modelfleet-fetch-", f"{tmp_path}/.ansible_async/modelfleet-fetch-1"
    )
    assert (tmp_path / ".ansible_async/modelfleet-fetch-1").is_dir()


def test_what_a_vanished_job_left_is_removed_at_once_but_not_below_one_that_lives(tmp_path, alive):
    dead = job(tmp_path, "modelfleet-fetch-dead", 0)
    for folder in (dead, alive):
        Shell()._discard(f"{folder}/j1.2")
    assert not dead.exists() and alive.exists()
