# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's network: a controller namespace with a bridge, and a namespace for each host.

No address of a lab exists outside its namespaces, so labs with the same addresses live side by side, and the machine's
own network never changes.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from .paths import LabError
from .shell import run

CONTROLLER_ADDRESS = "10.77.0.1"
_PREFIX = "10.77.0."
_FIRST, _LAST = 11, 250


def controller_namespace(lab: str) -> str:
    """The namespace in which the controller and the Hub of a lab run."""
    return f"mf-{lab}-ctl"


def host_namespace(lab: str, host: str) -> str:
    """The namespace of one host."""
    return f"mf-{lab}-host-{host}"


def namespace_path(namespace: str) -> Path:
    """Where iproute2 keeps it."""
    return Path("/run/netns") / namespace


def free_address(taken: set[str]) -> str:
    """The first address that no host has."""
    for last in range(_FIRST, _LAST + 1):
        if f"{_PREFIX}{last}" not in taken:
            return f"{_PREFIX}{last}"
    raise LabError(f"a lab holds at most {_LAST - _FIRST + 1} hosts")


def ensure_controller(lab: str) -> None:
    """Make the controller's namespace with its bridge."""
    namespace = controller_namespace(lab)
    if namespace_path(namespace).exists():
        return
    run(["ip", "netns", "add", namespace])
    for command in (
        ("link", "set", "lo", "up"),
        ("link", "add", "br0", "type", "bridge"),
        ("addr", "add", f"{CONTROLLER_ADDRESS}/24", "dev", "br0"),
        ("link", "set", "br0", "up"),
    ):
        run(["ip", "-n", namespace, *command])


def connect_host(lab: str, host: str, address: str) -> None:
    """Make a host's namespace and plug it into the bridge."""
    controller, namespace = controller_namespace(lab), host_namespace(lab, host)
    if namespace_path(namespace).exists():
        return
    port = "p" + address.rsplit(".", 1)[1]
    run(["ip", "netns", "add", namespace])
    run(["ip", "-n", controller, "link", "add", port, "type", "veth", "peer", "name", "host0", "netns", namespace])
    run(["ip", "-n", controller, "link", "set", port, "master", "br0", "up"])
    for command in (
        ("link", "set", "lo", "up"),
        ("addr", "add", f"{address}/24", "dev", "host0"),
        ("link", "set", "host0", "up"),
        ("route", "add", "default", "via", CONTROLLER_ADDRESS),
    ):
        run(["ip", "-n", namespace, *command])


def disconnect_host(lab: str, host: str, address: str) -> None:
    """Take a host off the network."""
    port = "p" + address.rsplit(".", 1)[1]
    # The pair goes with its first end; a namespace that a process still holds open would keep the other one.
    with contextlib.suppress(LabError):
        run(["ip", "-n", controller_namespace(lab), "link", "del", port])
    _delete(host_namespace(lab, host))


def remove_controller(lab: str) -> None:
    """Remove the controller's namespace."""
    _delete(controller_namespace(lab))


def pids_in_controller(lab: str) -> list[int]:
    """Processes that still live in the controller's namespace."""
    if not namespace_path(controller_namespace(lab)).exists():
        return []
    return [int(pid) for pid in run(["ip", "netns", "pids", controller_namespace(lab)]).split()]


def inside_controller(lab: str) -> list[str]:
    """What to put before a command to run it in the controller's namespace.

    nsenter and not `ip netns exec`: that one mounts a new /sys, in which the cgroups can't be seen.
    """
    path = namespace_path(controller_namespace(lab))
    if not path.exists():
        raise LabError(f"lab {lab!r} is not up; start it with `tests/lab/lab up --lab {lab}`")
    return ["nsenter", f"--net={path}"]


def _delete(namespace: str) -> None:
    if namespace_path(namespace).exists():
        run(["ip", "netns", "del", namespace])


__all__ = (
    "CONTROLLER_ADDRESS",
    "connect_host",
    "controller_namespace",
    "disconnect_host",
    "ensure_controller",
    "free_address",
    "host_namespace",
    "inside_controller",
    "namespace_path",
    "pids_in_controller",
    "remove_controller",
)
