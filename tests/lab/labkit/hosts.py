# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Test hosts: an overlay of the images, a network namespace and a systemd of their own."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import time
import typing as t
import uuid
from pathlib import Path

from . import cgroups, image, network, processes
from .paths import HERE, SSH_KEY, STATE, LabError
from .shell import run, say

# A loaded machine can take long; what is broken says so earlier, by going down.
_BOOT_S = 180.0
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
# The hosts are as old as their lab: there is nothing to know them by.
SSH_OPTIONS = (
    *("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"),
    *("-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15"),
)


@dataclasses.dataclass(frozen=True)
class Host:
    """What a host was asked to be; kept in its folder, so that every command sees the same."""

    lab: str
    name: str
    address: str
    layers: list[str]
    memory_bytes: int | None = None
    models_bytes: int | None = None
    disk_bytes: list[int] = dataclasses.field(default_factory=list)
    binds: dict[str, str] = dataclasses.field(default_factory=dict)
    binds_ro: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return lab_folder(self.lab) / "hosts" / self.name

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def log(self) -> Path:
        return self.folder / "console.log"

    @property
    def supervisor_file(self) -> Path:
        return self.folder / "supervisor.json"

    @property
    def container_file(self) -> Path:
        return self.folder / "container.json"

    @property
    def loop_devices(self) -> list[str]:
        """The loop devices of its disks, in their order; those attached now."""
        return [d for d in (_loop_device(disk) for disk in self.disks) if d]

    @property
    def disks(self) -> list[Path]:
        return [self.folder / f"disk{number}.img" for number in range(len(self.disk_bytes))]

    @property
    def models_mount(self) -> Path:
        """Where the machine mounts a /srv/models of limited size."""
        return self.folder / "models"

    @property
    def all_binds(self) -> dict[str, str]:
        """Everything that the host may write to and that is not its own."""
        models = {str(self.models_mount): "/srv/models"} if self.models_bytes else {}
        return {**models, **{device: device for device in self.loop_devices}, **self.binds}

    @property
    def running(self) -> bool:
        return processes.recorded(self.supervisor_file) is not None

    def save(self) -> None:
        (self.folder / "host.json").write_text(json.dumps(dataclasses.asdict(self), indent=1))


def lab_folder(lab: str) -> Path:
    """Where a lab keeps its hosts."""
    return STATE / lab


def labs() -> list[str]:
    """The labs that exist."""
    return sorted(p.name for p in STATE.iterdir() if (p / "hosts").is_dir()) if STATE.is_dir() else []


def load(lab: str, name: str | None = None) -> list[Host]:
    """The hosts of a lab in the order of their addresses, or the one called ``name``."""
    found = []
    for file in (lab_folder(lab) / "hosts").glob("*/host.json"):
        with contextlib.suppress(FileNotFoundError):  # taken down just now
            found.append(Host(**json.loads(file.read_text())))
    found.sort(key=lambda host: int(host.address.rsplit(".", 1)[1]))
    if name is None:
        return found
    named = [host for host in found if host.name == name]
    if not named:
        known = ", ".join(host.name for host in found) or "no host at all"
        raise LabError(f"lab {lab!r} has no host {name!r}; it has {known}")
    return named


def check_name(what: str, name: str) -> None:
    """Names end up in paths, interface and machine names."""
    if not _NAME.fullmatch(name):
        raise LabError(f"{what} {name!r}: want lower case letters, digits and '-', a letter first, 31 at most")


def up(lab: str, names: list[str], images: image.Images, options: dict[str, t.Any]) -> list[Host]:
    """Start the named hosts and wait until they are up; leaves those alone that run already."""
    (lab_folder(lab) / "hosts").mkdir(parents=True, exist_ok=True)
    network.ensure_controller(lab)
    known = {host.name: host for host in load(lab)}
    started = []
    for name in names:
        host = known.get(name) or Host(
            lab,
            name,
            network.free_address({h.address for h in known.values()}),
            [str(layer) for layer in images.layers],
            **{**options, "binds_ro": {str(images.wheelhouse): "/srv/wheelhouse", **options["binds_ro"]}},
        )
        if host.running:
            say(f"{name} is up already at {host.address}")
            continue
        known[name] = host
        _prepare(host)
        started.append(host)
    _write_hosts_files(lab, list(known.values()))
    for host in started:
        _launch(host)
    for host in started:
        say(f"{host.name} is up at {host.address} ({_wait_until_up(host)})")
    return started


def _prepare(host: Host) -> None:
    """Everything of a host but its processes. Each step works on what an interrupted one left."""
    new = not (host.folder / "host.json").exists()
    for folder in ("upper", "work", "root"):
        (host.folder / folder).mkdir(parents=True, exist_ok=True)
    host.save()
    if not os.path.ismount(host.root):
        lower = ":".join(host.layers)
        overlay = f"lowerdir={lower},upperdir={host.folder / 'upper'},workdir={host.folder / 'work'}"
        try:
            run(["mount", "-t", "overlay", f"lab-{host.lab}-{host.name}", "-o", overlay, host.root])
        except LabError as exc:
            raise LabError(
                f"{exc}\nThe kernel must be able to mount an overlay at {host.folder}; on a file system that is itself"
                " an overlay it can't: set MODELFLEET_LAB_STATE and MODELFLEET_CACHE to folders on a plain one"
            ) from exc
    if new:
        _personalise(host)
    for disk, size in zip(host.disks, host.disk_bytes):
        if not disk.exists():
            _sparse_file(disk, size)
        if not _loop_device(disk):
            run(["losetup", "--find", disk])
    disks = "".join(f"modelfleet-lab-disk{n} {device}\n" for n, device in enumerate(host.loop_devices))
    (host.root / "etc/modelfleet-lab/disks").write_text(disks)
    if host.models_bytes:
        _mount_models(host, host.models_bytes)
    network.connect_host(host.lab, host.name, host.address)


def _personalise(host: Host) -> None:
    etc = host.root / "etc"
    (etc / "hostname").write_text(f"{host.name}\n")
    # With an id at the first boot, systemd does not think that it has to preset every unit.
    (etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
    (etc / "modelfleet-lab").mkdir(exist_ok=True)
    ssh = host.root / "root/.ssh"
    ssh.mkdir(mode=0o700, exist_ok=True)
    shutil.copyfile(SSH_KEY.with_suffix(".pub"), ssh / "authorized_keys")
    (ssh / "authorized_keys").chmod(0o600)


def _mount_models(host: Host, size: int) -> None:
    """A small file system of its own below /srv/models, to fill up."""
    volume, mount = host.folder / "models.img", host.models_mount
    if not volume.exists():
        _sparse_file(volume, size)
        run(["mkfs.ext4", "-q", "-m", "0", volume])
    mount.mkdir(exist_ok=True)
    if not os.path.ismount(mount):
        run(["mount", "-o", "loop", volume, mount])


def _write_hosts_files(lab: str, everyone: list[Host]) -> None:
    lines = ["127.0.0.1 localhost", f"{network.CONTROLLER_ADDRESS} controller hub"]
    lines += [f"{host.address} {host.name}" for host in everyone]
    for host in everyone:
        (host.root / "etc/hosts").write_text("".join(f"{line}\n" for line in lines))


def _launch(host: Host) -> None:
    command = [sys.executable, str(HERE / "main.py"), "_supervise", "--lab", host.lab, host.name]
    with open(host.log, "ab") as log:
        # Apart from the shell that started it, so that it stays when that goes.
        supervisor = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    deadline = time.monotonic() + 10.0
    while processes.recorded(host.container_file) is None:
        if supervisor.poll() is not None or time.monotonic() > deadline:
            raise LabError(f"{host.name} did not start; the end of {host.log}:\n{_log_tail(host)}")
        time.sleep(0.02)


def _wait_until_up(host: Host) -> str:
    """Wait for ssh and for systemd to have started everything; gives systemd's word for its state."""
    deadline = time.monotonic() + _BOOT_S
    state = ""
    while time.monotonic() < deadline:
        if not host.running:
            raise LabError(f"{host.name} went down while starting; the end of {host.log}:\n{_log_tail(host)}")
        done = subprocess.run(
            ssh_command(host, ["systemctl", "is-system-running", "--wait"]), capture_output=True, text=True, check=False
        )
        state = done.stdout.strip() or done.stderr.strip()
        if state in ("running", "degraded"):
            return state
        time.sleep(0.1)
    raise LabError(f"{host.name} is not up after {_BOOT_S:.0f} s: {state}; the end of {host.log}:\n{_log_tail(host)}")


def ssh_command(host: Host, command: t.Sequence[str], *options: str) -> list[str]:
    """ssh to a host, from the controller's namespace."""
    ssh = ["ssh", "-i", str(SSH_KEY), *SSH_OPTIONS, *options, f"root@{host.address}"]
    return [*network.inside_controller(host.lab), *ssh, *command]


def reboot(host: Host) -> None:
    """Reboot a host and wait until it is up again."""

    def boot_id() -> str:
        command = ssh_command(host, ["cat", "/proc/sys/kernel/random/boot_id"])
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    before = boot_id()
    if not before:
        raise LabError(f"{host.name} does not answer over ssh, so it can't be told to reboot; see {host.log}")
    subprocess.run(ssh_command(host, ["systemctl", "reboot"]), capture_output=True, check=False)
    deadline = time.monotonic() + _BOOT_S
    while boot_id() in ("", before):
        if not host.running:
            raise LabError(f"{host.name} went down instead of up again; the end of {host.log}:\n{_log_tail(host)}")
        if time.monotonic() > deadline:
            raise LabError(f"{host.name} did not come back within {_BOOT_S:.0f} s of its reboot; see {host.log}")
        time.sleep(0.1)
    say(f"{host.name} is up again ({_wait_until_up(host)})")


def down(lab: str, names: list[str] | None = None) -> None:
    """Power the hosts off and remove every trace of them; of the lab too, if none is left."""
    everyone = load(lab)
    hosts = [host for host in everyone if names is None or host.name in names]
    _end_ssh_masters(lab)
    for host in hosts:  # all at once, then wait for each
        pid = processes.recorded(host.supervisor_file)
        if pid:
            os.kill(pid, 15)
    left: list[str] = []
    for host in hosts:
        left += _remove(host)
        say(f"{host.name} is gone")
    if len(hosts) == len(everyone):
        _remove_lab(lab)
    if left:
        raise LabError("could not be removed: " + ", ".join(left))


def _remove(host: Host) -> list[str]:
    processes.end(host.supervisor_file, grace_s=30.0)
    processes.end(host.container_file, grace_s=5.0)  # left over only if the supervisor was killed
    network.disconnect_host(host.lab, host.name, host.address)
    left = [str(group) for group in cgroups.remove(host.lab, host.name)]
    for disk in host.disks:
        device = _loop_device(disk)
        if device:
            run(["losetup", "--detach", device])
    for mount in (host.root, host.models_mount):
        if os.path.ismount(mount):
            _unmount(mount)
    shutil.rmtree(host.folder)
    return left


def _unmount(mount: Path) -> None:
    for _attempt in range(50):
        with contextlib.suppress(LabError):
            run(["umount", mount])
            return
        time.sleep(0.1)
    raise LabError(f"{mount} is busy; see who uses it with `fuser -vm {mount}`, then run the same command again")


def _remove_lab(lab: str) -> None:
    own = {os.getpid(), os.getppid()}
    for pid in (p for p in network.pids_in_controller(lab) if p not in own):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            say(f"still running in the controller's namespace, and left alone: {pid} {words}")
    network.remove_controller(lab)
    cgroups.remove(lab)
    shutil.rmtree(lab_folder(lab), ignore_errors=True)


def control_folder(lab: str) -> Path:
    """Where Ansible keeps its ssh masters: two labs have the same addresses and must not share them."""
    return lab_folder(lab) / "cp"


def _end_ssh_masters(lab: str) -> None:
    for socket in control_folder(lab).glob("*"):
        subprocess.run(["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "lab"], capture_output=True, check=False)


def _loop_device(file: Path) -> str | None:
    return run(["losetup", "--noheadings", "--output=NAME", "--associated", file]).strip() or None


def _sparse_file(path: Path, size: int) -> None:
    with open(path, "wb") as file:
        file.truncate(size)


def _log_tail(host: Host) -> str:
    return "\n".join(host.log.read_text(errors="replace").splitlines()[-20:]) if host.log.exists() else "(no log)"


__all__ = (
    "SSH_OPTIONS",
    "Host",
    "check_name",
    "control_folder",
    "down",
    "lab_folder",
    "labs",
    "load",
    "reboot",
    "ssh_command",
    "up",
)
