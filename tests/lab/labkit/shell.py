# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Running commands, and saying what is going on while they take their time."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

from .paths import LabError

_REMINDER_S = 10.0


def say(text: str) -> None:
    """One line of progress. On stderr, so that output meant for other programs stays clean."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


def run(command: t.Sequence[str | Path], **kwargs: t.Any) -> str:
    """Run to the end and give its output; LabError with the end of its messages if it fails."""
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **kwargs)
    except FileNotFoundError as exc:
        raise LabError(f"{command[0]} is not installed here; run scripts/bootstrap.sh lab as root first") from exc
    if done.returncode != 0:
        raise LabError(_failed(command, done.returncode, done.stderr or done.stdout))
    return done.stdout


def stream(command: t.Sequence[str | Path], on_line: t.Callable[[str], None], **kwargs: t.Any) -> None:
    """Like run(), but hands over each line of output as it comes."""
    tail: list[str] = []
    with subprocess.Popen(
        [str(c) for c in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        **kwargs,
    ) as process:
        if process.stdout is not None:
            for line in process.stdout:
                tail = [*tail[-30:], line]
                on_line(line.rstrip("\n"))
    if process.returncode != 0:
        raise LabError(_failed(command, process.returncode, "".join(tail)))


def _failed(command: t.Sequence[str | Path], returncode: int, output: str) -> str:
    shown = " ".join(shlex.quote(str(c)) for c in command[:6]) + (" ..." if len(command) > 6 else "")
    return f"`{shown}` ended with {returncode}:\n" + "\n".join(output.strip().splitlines()[-15:])


class Step:
    """A piece of work that may take a while: says when it starts and ends, and how far it is every ten seconds."""

    def __init__(self, title: str) -> None:
        self._title = title
        self.detail = ""
        self._over = threading.Event()
        self._begun = time.monotonic()

    def __enter__(self) -> Step:
        say(f"{self._title} ...")
        self._reminder = threading.Thread(target=self._remind, daemon=True)
        self._reminder.start()
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *_unused: object) -> None:
        self._over.set()
        self._reminder.join()
        self._tell("failed after" if exc_type else "done in")

    def _remind(self) -> None:
        while not self._over.wait(_REMINDER_S):
            self._tell("still at it,")

    def _tell(self, what: str) -> None:
        seconds = time.monotonic() - self._begun
        say(f"{self._title}: {what} {seconds:.0f} s" + (f"; {self.detail}" if self.detail else ""))


__all__ = ("Step", "run", "say", "stream")
