# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Exit statuses and signals in words."""

from __future__ import annotations

import signal
import typing


class SystemdStatus(typing.NamedTuple):
    """A status that systemd itself gives when it could not start the program (systemd.exec(5), Process Exit Codes)."""

    code: int
    name: str
    #: what systemd could not do
    failed: str
    remedy: str


_PERMITTED = "what the host (or its container) permits: compare the unit's options with systemd-analyze security"

SYSTEMD_STATUSES = (
    SystemdStatus(200, "CHDIR", "enter the working directory", "WorkingDirectory= must exist for the user of the unit"),
    SystemdStatus(201, "NICE", "set the nice level", "Nice="),
    SystemdStatus(202, "FDS", "arrange the file descriptors", "the sockets and files of the unit"),
    SystemdStatus(203, "EXEC", "execute the program", "the path of ExecStart= must exist and be executable"),
    SystemdStatus(204, "MEMORY", "get the memory for the start", "free memory of the host"),
    SystemdStatus(205, "LIMITS", "set the resource limits", "Limit*= may not exceed what the host permits"),
    SystemdStatus(206, "OOM_ADJUST", "set the OOM score", "OOMScoreAdjust=; a container may not lower it"),
    SystemdStatus(207, "SIGNAL_MASK", "set the signal mask", "IgnoreSIGPIPE="),
    SystemdStatus(208, "STDIN", "open the standard input", "StandardInput="),
    SystemdStatus(209, "STDOUT", "open where the log goes", "StandardOutput=: its folder must exist and be writable"),
    SystemdStatus(210, "CHROOT", "change the root folder", "RootDirectory=, RootImage="),
    SystemdStatus(211, "IOPRIO", "set the I/O priority", "IOSchedulingClass=, IOSchedulingPriority="),
    SystemdStatus(212, "TIMERSLACK", "set the timer slack", "TimerSlackNSec="),
    SystemdStatus(213, "SECUREBITS", "set the secure bits", "SecureBits="),
    SystemdStatus(214, "SETSCHEDULER", "set the CPU scheduling", "CPUSchedulingPolicy=, CPUSchedulingPriority="),
    SystemdStatus(215, "CPUAFFINITY", "set the CPU affinity", "CPUAffinity= names CPUs that the host has not"),
    SystemdStatus(216, "GROUP", "take on the group", "Group= and SupplementaryGroups= must exist"),
    SystemdStatus(217, "USER", "take on the user", "User= must exist; getent passwd shows it"),
    SystemdStatus(218, "CAPABILITIES", "set the capabilities", "CapabilityBoundingSet=, AmbientCapabilities="),
    SystemdStatus(219, "CGROUP", "set up the control group", "Slice=, Delegate=; " + _PERMITTED),
    SystemdStatus(220, "SETSID", "make a session", "the host's kernel log"),
    SystemdStatus(221, "CONFIRM", "start: somebody at the console declined it", "systemd.confirm_spawn"),
    SystemdStatus(222, "STDERR", "open where the errors go", "StandardError=: its folder must exist and be writable"),
    SystemdStatus(224, "PAM", "set up the PAM session", "PAMName="),
    SystemdStatus(225, "NETWORK", "set up the network namespace", "PrivateNetwork=, NetworkNamespacePath="),
    SystemdStatus(
        226,
        "NAMESPACE",
        "set up the sandbox's view of the files",
        "a path of ReadWritePaths=, BindPaths= or the like that does not exist, or " + _PERMITTED,
    ),
    SystemdStatus(227, "NO_NEW_PRIVILEGES", "forbid new privileges", "NoNewPrivileges="),
    SystemdStatus(228, "SECCOMP", "filter the system calls", "SystemCallFilter=, SystemCallArchitectures="),
    SystemdStatus(229, "SELINUX_CONTEXT", "set the SELinux context", "SELinuxContext="),
    SystemdStatus(230, "PERSONALITY", "set the execution domain", "Personality="),
    SystemdStatus(231, "APPARMOR", "change to the AppArmor profile", "AppArmorProfile= must be loaded"),
    SystemdStatus(232, "ADDRESS_FAMILIES", "restrict the address families", "RestrictAddressFamilies="),
    SystemdStatus(233, "RUNTIME_DIRECTORY", "make the runtime folder", "RuntimeDirectory=: /run full or read-only"),
    SystemdStatus(235, "CHOWN", "change the owner of a socket", "SocketUser=, SocketGroup="),
    SystemdStatus(236, "SMACK_PROCESS_LABEL", "set the SMACK label", "SmackProcessLabel="),
    SystemdStatus(237, "KEYRING", "set up the kernel keyring", "KeyringMode="),
    SystemdStatus(238, "STATE_DIRECTORY", "make the state folder", "StateDirectory=: /var/lib full or read-only"),
    SystemdStatus(239, "CACHE_DIRECTORY", "make the cache folder", "CacheDirectory=: /var/cache full or read-only"),
    SystemdStatus(240, "LOGS_DIRECTORY", "make the log folder", "LogsDirectory=: /var/log full or read-only"),
    SystemdStatus(241, "CONFIGURATION_DIRECTORY", "make the configuration folder", "ConfigurationDirectory="),
    SystemdStatus(242, "NUMA_POLICY", "set the NUMA policy", "NUMAPolicy=, NUMAMask="),
    SystemdStatus(243, "CREDENTIALS", "read a credential", "LoadCredential=, SetCredential=: the file must exist"),
    SystemdStatus(244, "BPF", "set up BPF", "RestrictFileSystems=; " + _PERMITTED),
    SystemdStatus(245, "KSM", "set up kernel samepage merging", "MemoryKSM="),
)
BY_CODE = {row.code: row for row in SYSTEMD_STATUSES}

_PLAIN = {
    0: "as it does after an orderly stop, and also after its engine died",
    1: "a Python error",
    2: "a bad command line",
    126: "the command cannot be executed",
    127: "the command was not found",
    255: "a failure that has no status of its own",
}
_SIGNALS = {
    "SIGHUP": "its terminal was closed",
    "SIGINT": "Ctrl-C",
    "SIGQUIT": "somebody asked for a core dump",
    "SIGILL": "an instruction that this CPU does not have",
    "SIGTRAP": "a debugger or a failed check in native code",
    "SIGABRT": "native code gave up: a failed assertion, as in NCCL or PyTorch",
    "SIGBUS": "a mapped file was cut short under it, or /dev/shm is full",
    "SIGFPE": "a division by zero in native code",
    "SIGKILL": "by force: the OOM killer, kill -9, or systemd after a stop that took too long",
    "SIGSEGV": "native code crashed on memory that is not its own",
    "SIGPIPE": "whoever read its output is gone",
    "SIGTERM": "somebody asked it to stop",
    "SIGXCPU": "its limit of CPU time",
    "SIGXFSZ": "its limit of file size",
    "SIGSYS": "a system call that SystemCallFilter= of the unit forbids",
}


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_of(exit_code: int) -> typing.Optional[str]:
    """The signal in an exit status: negative as Python gives it, above 128 as a shell does."""
    if exit_code < 0:
        return signal_name(-exit_code)
    return signal_name(exit_code - 128) if 128 < exit_code <= 128 + 64 else None


def signal_words(name: str) -> str:
    """``SIGKILL, by force: the OOM killer, kill -9, ...``; the name alone where there is no more to say."""
    return f"{name}, {_SIGNALS[name]}" if name in _SIGNALS else name


def status_words(exit_code: int, *, by_systemd: bool = False) -> str:
    """An exit status in words. ``by_systemd``: from 200 on it is systemd's own, said instead of the program."""
    row = BY_CODE.get(exit_code) if by_systemd else None
    if row is not None:
        return f"status {exit_code} ({row.name}: systemd could not {row.failed})"
    name = signal_of(exit_code)
    if name is not None:
        return f"status {exit_code} ({signal_words(name)})"
    return f"status {exit_code} ({_PLAIN[exit_code]})" if exit_code in _PLAIN else f"status {exit_code}"


__all__ = (
    "BY_CODE",
    "SYSTEMD_STATUSES",
    "SystemdStatus",
    "signal_name",
    "signal_of",
    "signal_words",
    "status_words",
)
