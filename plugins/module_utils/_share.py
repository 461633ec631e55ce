# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What snapshot_share decides: whether the share that runs is the one that is wanted, and the unit that it runs in."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._names import REPO_ID
from ansible_collections.modelfleet.serving.plugins.module_utils._share_rules import token_digest

UNIT = "modelfleet-share-{name}.service"
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
#: a token that somebody thought of could be guessed
TOKEN_MINIMUM = 32
_STATUS = re.compile(r"listening on (\S+):(\d+), settings ([0-9a-f]+)")
_RUNNING = ("active", "activating", "reloading")


class ShareError(Exception):
    """The task cannot be done; the text says why and what to do."""


class Property(t.NamedTuple):
    """A property of the unit, and what it is for."""

    name: str
    value: str
    reason: str


#: what the server may do: read, and answer those who ask
SANDBOX = (
    Property("Type", "notify", "started means listening"),
    Property("NotifyAccess", "main", "by the server itself"),
    Property("TimeoutStartSec", "30", "it has nothing to load"),
    Property("TimeoutStopSec", "5", "a receiver goes on elsewhere"),
    Property("DynamicUser", "yes", "a user that owns nothing, and a file system without a place to write to"),
    Property("CapabilityBoundingSet", "CAP_DAC_READ_SEARCH", "no more than the next line"),
    Property("AmbientCapabilities", "CAP_DAC_READ_SEARCH", "files get their mode when a download ends"),
    Property("SystemCallFilter", "@system-service", "what a server needs"),
    Property("SystemCallFilter", "~open_by_handle_at", "with the capability, a way around what is hidden"),
    Property("SystemCallArchitectures", "native", "one interface of the kernel"),
    Property("NoNewPrivileges", "yes", "for good"),
    Property("PrivateDevices", "yes", "no devices"),
    Property("ProtectHome", "tmpfs", "nothing of users"),
    Property("ProtectClock", "yes", "no clock to set"),
    Property("ProtectHostname", "yes", "no name to set"),
    Property("ProtectKernelLogs", "yes", "no messages of the kernel"),
    Property("ProtectKernelTunables", "yes", "no settings of the kernel"),
    Property("ProtectKernelModules", "yes", "no modules of the kernel"),
    Property("ProtectControlGroups", "yes", "no settings of other units"),
    Property("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX", "the network, and systemd"),
    Property("RestrictNamespaces", "yes", "no mounts of its own"),
    Property("RestrictRealtime", "yes", "never ahead of a server that answers users"),
    Property("LockPersonality", "yes", "no other interface of the kernel"),
    Property("MemoryDenyWriteExecute", "yes", "no code that was not there before"),
    Property("LimitNOFILE", "4096", "two a connection"),
    Property("Nice", "5", "a server that answers users comes first"),
)
#: folders that are left as they are: what a Python of the system needs, and what the properties above take care of
LEFT_FOLDERS = (
    "bin",
    "dev",
    "gnu",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "nix",
    "proc",
    "root",
    "sbin",
    "sys",
    "tmp",
    "usr",
)
#: what is needed of the others
NEEDED_PATHS = ("/etc/ld.so.cache", "/run/systemd/notify")


class Wanted(t.NamedTuple):
    """The module's options. ``address`` as given; ``port`` 0 for any."""

    name: str
    state: str
    root: str
    repo_id: str
    address: str
    interface: str
    port: int
    token: str
    place: int | None
    max_connections: int
    idle_timeout: int
    lifetime: int

    @property
    def unit(self) -> str:
        return UNIT.format(name=self.name)


class Running(t.NamedTuple):
    """A unit as systemd shows it."""

    active_state: str
    status_text: str = ""


class Endpoint(t.NamedTuple):
    """Where a share listens, and by which settings."""

    address: str
    port: int
    settings: str


class ShareIO(t.Protocol):
    """The host."""

    def problem(self) -> str:
        """Why no unit can be started here; empty when one can."""

    def running(self, unit: str) -> Running:
        """The unit as it is."""

    def own_address(self, interface: str) -> str:
        """The address of ``interface``, or of the way to the default gateway. Raises :class:`ShareError`."""

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder."""

    def code_digest(self) -> str:
        """What the server's code is known by."""

    def start(self, wanted: Wanted, config: t.Mapping[str, t.Any]) -> None:
        """Start the unit, and return when it listens. Raises :class:`ShareError`."""

    def stop(self, unit: str) -> None:
        """Stop the unit. Raises :class:`ShareError`."""

    def snapshots(self, root: str, repo_id: str) -> list[dict[str, t.Any]]:
        """What there is to share."""


def endpoint_of(running: Running) -> Endpoint | None:
    """Where a running share listens; None when none runs."""
    match = _STATUS.fullmatch(running.status_text.strip())
    if running.active_state not in _RUNNING or match is None:
        return None
    return Endpoint(match[1].strip("[]"), int(match[2]), match[3])


def server_config(wanted: Wanted, address: str) -> dict[str, t.Any]:
    """What the server is told; no more of the token than what it takes to know it again."""
    return {
        "root": wanted.root,
        "repo_id": wanted.repo_id,
        "address": address,
        "port": wanted.port,
        "token_sha256": token_digest(wanted.token),
        "place": wanted.place,
        "max_connections": wanted.max_connections,
        "idle_timeout": wanted.idle_timeout,
    }


def fingerprint(wanted: Wanted, config: t.Mapping[str, t.Any], code: str) -> str:
    """Equal for shares that need no restart to be each other."""
    text = json.dumps([dict(config), wanted.lifetime, code], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def unit_properties(lifetime: int, folders: t.Iterable[str], visible: t.Iterable[str]) -> list[str]:
    """The unit's properties, as ``NAME=VALUE``: of the host's top ``folders`` it sees nothing but ``visible``."""
    shown = sorted({*visible, *NEEDED_PATHS} - {"/"})
    properties = [f"{row.name}={row.value}" for row in SANDBOX]
    properties.append(f"RuntimeMaxSec={lifetime}")
    for name in sorted(folders):
        # a folder that is shown itself cannot be hidden as well
        if name not in LEFT_FOLDERS and f"/{name}" not in shown:
            properties.append(f"TemporaryFileSystem={quoted(f'/{name}')}:ro")
    properties.extend(f"BindReadOnlyPaths={quoted(f'-{path}')}" for path in shown)
    return properties


def quoted(path: str) -> str:
    """A path for systemd's lists of paths, where blanks, colons and quotes in it are its own."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def check(wanted: Wanted) -> None:
    """Refuse options that can't work."""
    if not NAME.fullmatch(wanted.name):
        raise ShareError(f"name {wanted.name!r} is not made of small letters, digits and inner hyphens, at most 64.")
    if wanted.state == "stopped":
        return
    if len(wanted.token) < TOKEN_MINIMUM:
        raise ShareError(
            f"token has {len(wanted.token)} characters, but needs {TOKEN_MINIMUM} or more. Make one up for each run, "
            "for example by the lookup ansible.builtin.password with length=48 on /dev/null."
        )
    if wanted.repo_id and not REPO_ID.fullmatch(wanted.repo_id):
        raise ShareError(f"repo_id {wanted.repo_id!r} is not of the form OWNER/NAME.")
    if wanted.port and not 1024 <= wanted.port <= 65535:
        raise ShareError(f"port is {wanted.port}, but must be 0 (any) or from 1024 to 65535.")
    for name in ("max_connections", "idle_timeout", "lifetime"):
        if getattr(wanted, name) < 1:
            raise ShareError(f"{name} is {getattr(wanted, name)}, but must be at least 1.")
    if wanted.address:
        try:
            ipaddress.ip_address(wanted.address)
        except ValueError:
            raise ShareError(f"address {wanted.address!r} is not an IP address.") from None


def run(wanted: Wanted, check_mode: bool, io: ShareIO) -> dict[str, t.Any]:
    """Do what the options ask; the module's result."""
    check(wanted)
    problem = io.problem()
    if problem:
        raise ShareError(problem)
    now = io.running(wanted.unit)
    return _stopped(wanted, now, check_mode, io) if wanted.state == "stopped" else _started(wanted, now, check_mode, io)


def _stopped(wanted: Wanted, now: Running, check_mode: bool, io: ShareIO) -> dict[str, t.Any]:
    changed = now.active_state in _RUNNING
    if changed and not check_mode:
        io.stop(wanted.unit)
    return _result(wanted, changed, endpoint_of(now), None)


def _started(wanted: Wanted, now: Running, check_mode: bool, io: ShareIO) -> dict[str, t.Any]:
    if not io.is_folder(wanted.root):
        if not check_mode:
            raise ShareError(f"root {wanted.root} is not a folder. Make it before anything in it is shared.")
        return _result(wanted, True, endpoint_of(now), None)
    address = wanted.address or io.own_address(wanted.interface)
    config = server_config(wanted, address)
    settings = fingerprint(wanted, config, io.code_digest())
    before = endpoint_of(now)
    if before is not None and before.settings == settings:
        return {**_result(wanted, False, before, before), "snapshots": io.snapshots(wanted.root, wanted.repo_id)}
    if check_mode:
        after = Endpoint(address, wanted.port, settings)
    else:
        if now.active_state in _RUNNING:
            io.stop(wanted.unit)
        io.start(wanted, {**config, "fingerprint": settings})
        started = endpoint_of(io.running(wanted.unit))
        if started is None:
            raise ShareError(f"{wanted.unit} was started and ended at once: look at journalctl -u {wanted.unit}.")
        after = started
    return {**_result(wanted, True, before, after), "snapshots": io.snapshots(wanted.root, wanted.repo_id)}


def _result(wanted: Wanted, changed: bool, before: Endpoint | None, after: Endpoint | None) -> dict[str, t.Any]:
    # a port that is not known before the start (check mode) makes no address that could be used
    known = after is not None and after.port != 0
    return {
        "changed": changed,
        "name": wanted.name,
        "unit": wanted.unit,
        "state": wanted.state,
        "address": after.address if after else None,
        "port": after.port if after and known else None,
        "url": url_of(after) if after and known else None,
        "snapshots": [],
        "diff": {"before": _line(before), "after": _line(after) if wanted.state == "started" else "stopped\n"},
    }


def _line(endpoint: Endpoint | None) -> str:
    if endpoint is None:
        return "stopped\n"
    return f"listening on {endpoint.address} port {endpoint.port or 'any'}, settings {endpoint.settings}\n"


def url_of(endpoint: Endpoint) -> str:
    host = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
    return f"http://{host}:{endpoint.port}"


__all__ = (
    "Endpoint",
    "Running",
    "ShareError",
    "ShareIO",
    "Wanted",
    "endpoint_of",
    "fingerprint",
    "quoted",
    "run",
    "server_config",
    "unit_properties",
    "url_of",
)
