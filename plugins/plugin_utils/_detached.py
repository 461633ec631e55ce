# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is PRIVATE to the collection. It can have breaking changes at any time.

"""Action plugin base for modules that work for minutes or hours.

The module runs on the host under Ansible's own ``async_wrapper``, so that it lives on when the connection does not.
The action asks for its progress file in short slices, and prints a line for the host when it has moved. What is lost
with a connection is the view, never the work; work that is gone (the host rebooted, somebody killed it) is started
again, which is safe because the modules built on this converge.

Each job has a folder of its own below Ansible's ``async_dir``, for its result and its progress, and its processes name
that folder in their environment. So a look tells which folders are of jobs that live, and the others can go.

The module's arguments lie on the host while it works, in Ansible's own payload (a folder of mode 0700, as for every
``async`` task), so a secret among them is as safe as the remote temporary folder.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import time
import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()

#: seconds; async_wrapper wants a limit, the modules have their own
JOB_LIMIT = 30 * 24 * 3600
#: how often work that vanished from the host is started again
RESTARTS = 3
#: seconds without a connection before the action gives up (the job goes on)
OFFLINE_LIMIT = 1800.0
#: minutes that the folder of a job without a process is kept: its action may be offline and yet come for the result
KEPT_MINUTES = 2 * int(OFFLINE_LIMIT / 60)
#: what is in a job's folder beside the file of async_wrapper
PROGRESS = "progress.json"
#: shell: true when a process belongs to the job whose folder is "$folder"
LIVES = 'grep -qsazxF "ANSIBLE_ASYNC_DIR=$folder" /proc/[0-9]*/environ'
#: shell, with the folders of jobs after it: removes those that nobody works in and nobody comes back to
SWEEP = f"""for folder in "$@"; do
  [ -d "$folder" ] || continue
  [ -z "$(find "$folder" -mmin -{KEPT_MINUTES} 2>/dev/null | head -n 1)" ] || continue
  {LIVES} || rm -rf "$folder"
done"""
#: keys that belong to async_status, not to the module
JOB_KEYS = ("ansible_job_id", "finished", "results_file", "started", "stderr", "stderr_lines", "stdout", "stdout_lines")


class Slice(t.NamedTuple):
    """What one look at the host found."""

    finished: bool
    progress: dict[str, t.Any]
    #: the module's process is there; None when its id is not known yet
    alive: bool | None


class LineThrottle:
    """Lets a changed line through at once when little was printed, less often the longer the work takes."""

    def __init__(self, clock: t.Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._last: float | None = None
        self._line = ""

    def passes(self, line: str) -> bool:
        now = self._clock()
        # 5 s at first, a line a minute for work that takes hours
        gap = min(60.0, max(5.0, (now - self._began) / 20))
        if not line or line == self._line or (self._last is not None and now - self._last < gap):
            return False
        self._last, self._line = now, line
        return True


class DetachedAction(ActionBase):
    """Runs :attr:`_MODULE` detached and shows its progress; a subclass says how a line reads."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False
    _MODULE = ""

    def progress_line(self, state: dict[str, t.Any]) -> str:
        """One line of plain text for a progress state, without the host's name; empty for nothing to say."""
        raise NotImplementedError

    def poll_seconds(self, args: t.Mapping[str, t.Any]) -> float:
        """Seconds between two looks at the host."""
        return 2.0

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        del tmp
        task_vars = task_vars or {}
        args = dict(self._task.args)
        if self._task.check_mode or args.get("progress_file"):
            return {**result, **self._execute_module(module_name=self._MODULE, module_args=args, task_vars=task_vars)}
        return {**result, **self._run_detached(args, task_vars)}

    # -- the job on the host ------------------------------------------------------------

    def _run_detached(self, args: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        host = str(task_vars.get("inventory_hostname", "host"))
        throttle = LineThrottle()
        for attempt in range(1 + RESTARTS):
            if attempt:
                self._say(
                    host, f"the work is gone from the host (rebooted or killed?), started again ({attempt}/{RESTARTS})"
                )
            started, job, progress_path = self._start(args, task_vars)
            if not job:
                return started
            if self._watch(host, job, progress_path, throttle, self.poll_seconds(args)):
                return self._collect(job, task_vars)
            self._discard(job)
        return {
            "failed": True,
            "msg": f"{self._MODULE} was started {1 + RESTARTS} times on {host} and its process vanished each time. "
            "Look at the host: journalctl -b -1 -e, dmesg for the OOM killer, last -x reboot.",
        }

    def _start(self, args: dict[str, t.Any], task_vars: dict[str, t.Any]) -> tuple[dict[str, t.Any], str, str]:
        configured = self.get_shell_option("async_dir", default="~/.ansible_async")
        shell, limit = self._connection._shell, self._task.async_val
        kind = shell.join_path(self._remote_expand_user(configured), f"modelfleet-{self._MODULE.rsplit('.', 1)[-1]}-")
        folder = f"{kind}{secrets.token_hex(8)}"
        progress_path = shell.join_path(folder, PROGRESS)
        self._make_folder(kind, folder)
        # both sides must mean the same folder: the wrapper takes ~ from HOME, the expansion above from passwd
        self._task.async_val = JOB_LIMIT
        shell.set_option("async_dir", folder)
        try:
            started = self._execute_module(
                module_name=self._MODULE,
                module_args={**args, "progress_file": progress_path},
                task_vars=task_vars,
                wrap_async=True,
            )
        finally:
            self._task.async_val = limit
            shell.set_option("async_dir", configured)
        return started, str(started.get("results_file", "")), progress_path

    def _make_folder(self, kind: str, folder: str) -> None:
        """Make the job's folder, and remove those of jobs of the same kind that ended when nobody looked."""
        sweep = f"sh -c {shlex.quote(SWEEP)} sweep {shlex.quote(kind)}*"
        self._low_level_execute_command(f"{sweep}; umask 077; mkdir -p {shlex.quote(folder)}", sudoable=True)

    def _discard(self, job: str) -> None:
        """Remove what a job has left that vanished without a result."""
        folder = shlex.quote(job.rsplit("/", 1)[0])
        self._low_level_execute_command(f"folder={folder}; {LIVES} || rm -rf {folder}", sudoable=True)

    def _watch(self, host: str, job: str, progress_path: str, throttle: LineThrottle, poll: float) -> bool:
        """Look until the job has a result (true) or its process is gone without one (false)."""
        lost_since: float | None = None
        missing = 0
        pid: int | None = None
        playbook = os.getppid()
        while True:
            if os.getppid() != playbook:
                # ansible-playbook was killed and left this worker behind: nobody is there to be told anything
                raise AnsibleError(
                    f"ansible-playbook is gone; {self._MODULE} goes on at {host}, run the playbook again"
                )
            try:
                look = self._look(job, progress_path, pid)
            except AnsibleConnectionFailure as exc:
                now = time.monotonic()
                if lost_since is None:
                    lost_since = now
                    self._say(host, "connection lost; the work goes on there, trying to reach it again")
                if now - lost_since > OFFLINE_LIMIT:
                    raise AnsibleError(
                        f"{host} could not be reached for {OFFLINE_LIMIT / 60:.0f} minutes: {exc}. {self._MODULE} may "
                        "still be at work there; run the playbook again to take up its result."
                    ) from exc
                time.sleep(5)
                self._reset_connection()
                continue
            if lost_since is not None:
                self._say(host, f"reached again after {time.monotonic() - lost_since:.0f} s")
                lost_since = None
            if look.finished:
                return True
            pid = look.progress.get("pid", pid)
            # one more look: a job writes its result after its process has ended
            missing = missing + 1 if look.alive is False else 0
            if missing > 2:
                return False
            line = self.progress_line(look.progress) if look.progress else ""
            if throttle.passes(line):
                self._say(host, line)
            time.sleep(poll)

    def _look(self, job: str, progress_path: str, pid: int | None) -> Slice:
        mark = f"modelfleet-{secrets.token_hex(8)}"
        command = "; ".join(
            [
                f"cat {shlex.quote(job)}",
                f"echo; echo {mark}",
                f"cat {shlex.quote(progress_path)}",
                f"echo; echo {mark}",
                f"test -d /proc/{int(pid)} && echo alive" if pid else "echo unknown",
            ]
        )
        answer = self._low_level_execute_command(f"( {command} ) 2>/dev/null", sudoable=True)
        parts = str(answer.get("stdout", "")).split(mark)
        if len(parts) != 3:
            # no marks: the shell never ran (a sudo prompt, a full disk ...); its own words say why
            raise AnsibleConnectionFailure(
                f"no answer to a look at {job}: {answer.get('stderr') or answer.get('stdout') or 'nothing'}"
            )
        alive = None if "unknown" in parts[2] else "alive" in parts[2]
        return Slice(self._job_finished(parts[0]), _json_object(parts[1]), alive)

    @staticmethod
    def _job_finished(text: str) -> bool:
        state = _json_object(text)
        # async_wrapper writes {"started": true, "finished": false} first and the module's own result last
        return bool(state) and not (state.get("started") and not state.get("finished"))

    def _collect(self, job: str, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        folder, job_id = job.rsplit("/", 1)
        outcome = self._execute_module(
            module_name="ansible.legacy.async_status",
            module_args={"jid": job_id, "mode": "status", "_async_dir": folder},
            task_vars=task_vars,
        )
        self._low_level_execute_command(f"rm -rf {shlex.quote(folder)}", sudoable=True)
        return {key: value for key, value in outcome.items() if key not in JOB_KEYS}

    # -- small things -------------------------------------------------------------------

    def _reset_connection(self) -> None:
        # a ControlPersist master of before a reboot answers nothing until it is dropped
        reset = getattr(self._connection, "reset", None)
        if reset is not None:
            try:
                reset()
            except AnsibleError as exc:
                display.vvv(f"reset of the connection: {exc}")

    def _say(self, host: str, line: str) -> None:
        display.display(f"{host}  {line}")


def _json_object(text: str) -> dict[str, t.Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


__all__ = ("DetachedAction", "LineThrottle", "Slice")
