# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of the test hosts."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import sys
import typing as t
from pathlib import Path

from . import cgroups, hosts, image, network, processes, supervisor
from .paths import SSH_KEY, STATE, LabError
from .shell import say

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def main(argv: list[str]) -> int:
    """Run one command; gives its exit status."""
    arguments = _parser().parse_args(argv)
    try:
        if os.geteuid() != 0:
            raise LabError("the test hosts are containers: run this as root")
        hosts.check_name("lab", arguments.lab)
        return arguments.command(arguments) or 0
    except LabError as exc:
        say(f"error: {exc}")
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab", description="Test hosts with a real systemd, sshd and vLLM (CPU).")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: t.Callable[[argparse.Namespace], t.Any], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("--lab", default="lab", metavar="NAME", help="which lab; several may be up (default: lab)")
        sub.set_defaults(command=function)
        return sub

    command("build", _build, "build the images that hosts are made of, and say where they are")
    sub = command("up", _up, "start hosts and wait until they answer; those that are up stay as they are")
    sub.add_argument("-n", type=int, default=1, metavar="N", help="how many, called h1 to hN (default: 1)")
    sub.add_argument("--names", type=_list, metavar="A,B", help="their names, instead of -n")
    sub.add_argument("--memory", type=_size, metavar="SIZE", help="limit of each host's memory, such as 4G")
    sub.add_argument("--models-size", type=_size, metavar="SIZE", help="/srv/models as a file system of this size")
    sub.add_argument(
        "--loop",
        type=_size,
        action="append",
        default=[],
        metavar="SIZE",
        help="an empty disk for each host, /dev/disk/by-id/modelfleet-lab-disk0 and so on; may be repeated",
    )
    for option in ("--bind", "--bind-ro"):
        sub.add_argument(
            option, type=_bind, action="append", default=[], metavar="SRC:DST", help="show a folder to the hosts"
        )
    sub = command("down", _down, "power hosts off and remove every trace of them")
    sub.add_argument("--all", action="store_true", help="the hosts of all labs")
    sub.add_argument("names", nargs="*", metavar="HOST", help="only these (default: the whole lab)")
    sub = command("ssh", _ssh, "a shell on a host, or one command")
    sub.add_argument("host", metavar="HOST")
    sub.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD")
    sub = command("reboot", _reboot, "reboot hosts and wait until they are up again")
    sub.add_argument("names", nargs="+", metavar="HOST")
    sub = command("run", _run, "run a command where the controller is: in the network of the hosts")
    sub.add_argument("words", nargs=argparse.REMAINDER, metavar="-- CMD")
    sub = command("status", _status, "all hosts of all labs")
    sub.add_argument("--json", action="store_true", help="for programs")
    sub = command("inventory", _inventory, "an Ansible inventory of the hosts (YAML)")
    sub.add_argument("--group", default="lab", metavar="NAME", help="the group they are in (default: lab)")
    command("prune", _prune, "delete images and wheels from the cache that nothing uses any more")
    sub = command("_supervise", _supervise, "for the lab's own use")
    sub.add_argument("host")
    return parser


def _list(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMGT]?)(?:i?B)?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: want a number and K, M, G or T, such as 200M")
    return int(match[1]) * _UNITS[match[2]]


def _bind(text: str) -> tuple[str, str]:
    source, _colon, target = text.partition(":")
    if not source.startswith("/") or not target.startswith("/") or not Path(source).exists():
        raise argparse.ArgumentTypeError(f"{text!r}: want SRC:DST, both absolute, SRC existing")
    return source, target


def _build(_arguments: argparse.Namespace) -> None:
    for path in (*image.ensure().layers, SSH_KEY):
        print(path)


def _up(arguments: argparse.Namespace) -> None:
    names = arguments.names or [f"h{number}" for number in range(1, arguments.n + 1)]
    for name in names:
        hosts.check_name("host", name)
    options = {
        "memory_bytes": arguments.memory,
        "models_bytes": arguments.models_size,
        "disk_bytes": arguments.loop,
        "binds": dict(arguments.bind),
        "binds_ro": dict(arguments.bind_ro),
    }
    images = image.ensure()
    with _lock(arguments.lab):
        hosts.up(arguments.lab, names, images, options)


def _down(arguments: argparse.Namespace) -> None:
    for lab in hosts.labs() if arguments.all else [arguments.lab]:
        with _lock(lab):
            for name in arguments.names:
                hosts.load(lab, name)
            hosts.down(lab, arguments.names or None)


def _ssh(arguments: argparse.Namespace) -> None:
    (host,) = hosts.load(arguments.lab, arguments.host)
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    command = hosts.ssh_command(host, words)
    os.execvp(command[0], command)


def _run(arguments: argparse.Namespace) -> None:
    words = arguments.words[1:] if arguments.words[:1] == ["--"] else arguments.words
    if not words:
        raise LabError("what shall be run? `lab run -- CMD...`")
    command = [*network.inside_controller(arguments.lab), *words]
    # Another lab has the same addresses: an ssh master left by one must never serve a playbook meant for the other.
    control = {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(hosts.control_folder(arguments.lab))}
    named = {"MODELFLEET_LAB": arguments.lab, "MODELFLEET_LAB_KEY": str(SSH_KEY)}
    os.execvpe(command[0], command, {**os.environ, **control, **named})


def _reboot(arguments: argparse.Namespace) -> None:
    for host in [host for name in arguments.names for host in hosts.load(arguments.lab, name)]:
        hosts.reboot(host)


def _status(arguments: argparse.Namespace) -> None:
    rows: list[dict[str, t.Any]] = [
        {
            "lab": lab,
            "host": host.name,
            "address": host.address,
            "running": host.running,
            "pid": processes.recorded(host.supervisor_file),
            "memory_bytes": cgroups.memory_now(lab, host.name),
            "memory_limit_bytes": host.memory_bytes,
            "log": str(host.log),
        }
        for lab in hosts.labs()
        for host in hosts.load(lab)
    ]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    if not rows:
        print("no lab is up")
    for row in rows:
        memory = f"{(row['memory_bytes'] or 0) >> 20} MiB"
        state = "up" if row["running"] else "stopped"
        print(f"{row['lab']:<10} {row['host']:<12} {row['address']:<14} {state:<8} {memory:>9}  {row['log']}")


def _inventory(arguments: argparse.Namespace) -> None:
    network.inside_controller(arguments.lab)
    variables = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(SSH_KEY),
        "ansible_ssh_common_args": " ".join(hosts.SSH_OPTIONS),
        "ansible_control_path_dir": str(hosts.control_folder(arguments.lab)),
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    members = {host.name: {"ansible_host": host.address} for host in hosts.load(arguments.lab)}
    # JSON is YAML, and needs no library
    print(json.dumps({"all": {"vars": variables, "children": {arguments.group: {"hosts": members}}}}, indent=2))


def _prune(_arguments: argparse.Namespace) -> None:
    running = [host for lab in hosts.labs() for host in hosts.load(lab)]
    image.prune({Path(p) for host in running for p in (*host.layers, *host.binds_ro)})


def _supervise(arguments: argparse.Namespace) -> int:
    (host,) = hosts.load(arguments.lab, arguments.host)
    return supervisor.supervise(host)


@contextlib.contextmanager
def _lock(lab: str) -> t.Iterator[None]:
    STATE.mkdir(parents=True, exist_ok=True)
    with open(STATE / f"{lab}.lock", "w", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


__all__ = ("main",)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
