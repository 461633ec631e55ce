# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._exit_words import (
    SYSTEMD_STATUSES,
    signal_of,
    signal_words,
    status_words,
)

BY_FORCE = "SIGKILL, by force: the OOM killer, kill -9, or systemd after a stop that took too long"

#: `systemd-analyze exit-status` of systemd 252; KSM came with 254
OF_SYSTEMD = """
CHDIR 200 NICE 201 FDS 202 EXEC 203 MEMORY 204 LIMITS 205 OOM_ADJUST 206 SIGNAL_MASK 207 STDIN 208 STDOUT 209
CHROOT 210 IOPRIO 211 TIMERSLACK 212 SECUREBITS 213 SETSCHEDULER 214 CPUAFFINITY 215 GROUP 216 USER 217
CAPABILITIES 218 CGROUP 219 SETSID 220 CONFIRM 221 STDERR 222 PAM 224 NETWORK 225 NAMESPACE 226
NO_NEW_PRIVILEGES 227 SECCOMP 228 SELINUX_CONTEXT 229 PERSONALITY 230 APPARMOR 231 ADDRESS_FAMILIES 232
RUNTIME_DIRECTORY 233 CHOWN 235 SMACK_PROCESS_LABEL 236 KEYRING 237 STATE_DIRECTORY 238 CACHE_DIRECTORY 239
LOGS_DIRECTORY 240 CONFIGURATION_DIRECTORY 241 NUMA_POLICY 242 CREDENTIALS 243 BPF 244 KSM 245
"""


def test_every_status_of_systemd_has_its_words() -> None:
    words = OF_SYSTEMD.split()
    expected = dict(zip(words[::2], map(int, words[1::2])))
    assert {row.name: row.code for row in SYSTEMD_STATUSES} == expected
    assert all(row.failed and row.remedy for row in SYSTEMD_STATUSES)


@pytest.mark.parametrize(
    ("code", "by_systemd", "words"),
    [
        (0, True, "status 0 (as it does after an orderly stop, and also after its engine died)"),
        (1, True, "status 1 (a Python error)"),
        (2, False, "status 2 (a bad command line)"),
        (3, False, "status 3"),
        (137, False, f"status 137 ({BY_FORCE})"),
        # a shell that was the main process tells so of its child
        (137, True, f"status 137 ({BY_FORCE})"),
        (-11, False, "status -11 (SIGSEGV, native code crashed on memory that is not its own)"),
        (-31, False, "status -31 (SIGSYS, a system call that SystemCallFilter= of the unit forbids)"),
        (203, True, "status 203 (EXEC: systemd could not execute the program)"),
        (217, True, "status 217 (USER: systemd could not take on the user)"),
        (226, True, "status 226 (NAMESPACE: systemd could not set up the sandbox's view of the files)"),
        # the same number from a program that systemd did not start
        (203, False, "status 203"),
        (255, True, "status 255 (a failure that has no status of its own)"),
        (-63, False, "status -63 (signal 63)"),
    ],
)
def test_status_words(code: int, by_systemd: bool, words: str) -> None:
    assert status_words(code, by_systemd=by_systemd) == words


@pytest.mark.parametrize(
    ("code", "name"), [(-9, "SIGKILL"), (143, "SIGTERM"), (128, None), (1, None), (193, None), (192, "SIGRTMAX")]
)
def test_signal_of(code: int, name: str | None) -> None:
    assert signal_of(code) == name


def test_a_signal_without_a_story_is_only_named() -> None:
    assert signal_words("SIGUSR2") == "SIGUSR2"
