# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process beside each host: starts its systemd in a container, again after a reboot, and ends it when told to."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import time

from . import cgroups, network, processes
from .hosts import Host

# With --keep-unit systemd-nspawn does not start the container again by itself, it ends with this status.
_REBOOT = 133
# Longer than the 10 s after which systemd in the host kills what does not stop by itself (DefaultTimeoutStopSec).
_POWEROFF_S = 20.0


def supervise(host: Host) -> int:
    """Keep the host running until it powers off or this process gets SIGTERM."""
    processes.record(host.supervisor_file, os.getpid())
    stopping: list[float] = []
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopping.append(time.monotonic()))
    while True:
        groups = cgroups.create(host.lab, host.name, host.memory_bytes)
        enter = functools.partial(cgroups.enter, groups)
        container = subprocess.Popen(_command(host), stdin=subprocess.DEVNULL, preexec_fn=enter)
        processes.record(host.container_file, container.pid)
        status = _wait(container, stopping)
        print(f"supervisor: container of {host.name} ended with {status}", flush=True)
        if status != _REBOOT or stopping:
            host.container_file.unlink(missing_ok=True)
            host.supervisor_file.unlink(missing_ok=True)
            return status


def _wait(container: subprocess.Popen[bytes], stopping: list[float]) -> int:
    told = False
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return container.wait(timeout=0.2)
        if stopping and not told:
            container.terminate()
            told = True
        if stopping and time.monotonic() - stopping[0] > _POWEROFF_S:
            container.kill()


def _command(host: Host) -> list[str]:
    command = ["systemd-nspawn", "--quiet", f"--directory={host.root}", f"--machine={host.lab}-{host.name}"]
    command += [f"--hostname={host.name}", "--register=no", "--keep-unit", "--kill-signal=SIGRTMIN+4"]
    command += [f"--network-namespace-path={network.namespace_path(network.host_namespace(host.lab, host.name))}"]
    command += [
        "--capability=CAP_NET_ADMIN",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--console=pipe",
    ]
    for option, binds in (("--bind", host.all_binds), ("--bind-ro", host.binds_ro)):
        command += [f"{option}={source}:{target}" for source, target in binds.items()]
    return [*command, "/usr/local/sbin/lab-init"]


__all__ = ("supervise",)
