# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What can be seen of a starting vLLM server: plain observations, no judgement.

The sources (``_sources.py``, or a recording read by ``tests/replay``) make one :class:`Observation` a poll;
``_verdict.py`` folds a sequence of them into stage, progress, ETA and verdict. Every part of an observation is
optional: ``None`` means "not looked at or not to be had", which is never the same as zero.
"""

from __future__ import annotations

import dataclasses
import typing


class LogRecord(typing.NamedTuple):
    """Text that some process wrote, as written (prefixes, ANSI colours and bars not yet taken off): whole lines,
    any number of them, without the last one's end.
    """

    text: str
    #: process id the log source knows of (journald's ``_PID``), not the one in vLLM's own prefix
    pid: typing.Optional[int] = None
    #: ``service``: the server's own output; ``systemd``: PID 1 about the unit; ``kernel``: the kernel's log
    side: str = "service"
    #: seconds since the epoch, where the source knows them
    at: typing.Optional[float] = None
    #: the bytes as they were read, where nobody has needed their text yet; ``text`` is empty then
    raw: bytes = b""


class UnitState(typing.NamedTuple):
    """The properties of a systemd unit that say how its process fares (names as in ``systemctl show``)."""

    load_state: str
    active_state: str
    sub_state: str
    result: str
    main_pid: int
    n_restarts: int
    #: ``Restart=``: no, on-failure, always ...
    restart: str
    #: ``ExecMainCode``: 0 unknown or running, 1 exited, 2 killed, 3 dumped (CLD_* of waitid)
    exec_main_code: int
    #: exit status, or the signal number when killed
    exec_main_status: int
    #: ``InvocationID``: changes with every start of the unit
    invocation_id: str = ""
    #: what systemd is about to do with it (start, stop, restart ...); empty when nothing
    job: str = ""
    #: units whose jobs its own job waits for, each with its job: ``models.mount/start``
    waits_for: tuple[str, ...] = ()
    #: units it needs that failed or do not exist, each with why
    failed_needs: tuple[str, ...] = ()
    #: ``condition`` or ``assert``: why its last start was not even tried
    refused: str = ""
    #: why systemd cannot load it
    load_error: str = ""
    #: ``MemoryMax=`` in bytes; None without a limit
    memory_max: typing.Optional[int] = None
    #: ``RestartSec=`` and the start limit, in systemd's words: ``10s``, ``5 in 10min``
    restart_sec: str = ""
    start_limit: str = ""


class ProcSample(typing.NamedTuple):
    """One process of the service, from ``/proc/<pid>``."""

    pid: int
    ppid: int
    #: field 22 of ``/proc/<pid>/stat``, clock ticks after boot: with the pid it names one process for good
    start_ticks: int
    #: process title or command name, for example ``VLLM::EngineCore``
    name: str
    #: R, S, D, T, Z ... as in ``/proc/<pid>/stat``
    state: str
    cpu_s: float
    #: ``read_bytes`` of ``/proc/<pid>/io``; None where the kernel or permissions hide it
    read_bytes: typing.Optional[int] = None
    majflt: typing.Optional[int] = None


@dataclasses.dataclass(frozen=True)
class GpuSample:
    """One GPU, from NVML. ``None`` where the card or driver does not say."""

    index: int
    memory_used_bytes: typing.Optional[int]
    memory_total_bytes: typing.Optional[int] = None
    utilization_percent: typing.Optional[int] = None
    power_mw: typing.Optional[int] = None
    #: bytes held by the service's own processes; None where NVML does not list processes
    ours_bytes: typing.Optional[int] = None


class Completion(typing.NamedTuple):
    """One request for tokens and what came back."""

    status: typing.Optional[int]
    text: str = ""
    completion_tokens: int = 0
    seconds: float = 0.0
    error: str = ""
    #: None: no known answer was asked for; otherwise whether the answer passed its check
    answer_ok: typing.Optional[bool] = None
    #: digest of the first tokens of a known answer
    fingerprint: typing.Optional[str] = None


class HttpSample(typing.NamedTuple):
    """The server's HTTP side. ``health`` is the status code of ``/health``, 0 when nothing answered."""

    health: typing.Optional[int] = None
    error: str = ""
    #: ids listed by ``/v1/models``; None when not asked or no valid answer
    models: typing.Optional[tuple[str, ...]] = None
    models_status: typing.Optional[int] = None
    completion: typing.Optional[Completion] = None
    #: who else listens on the port, in words; then nothing was asked and ``health`` is None
    foreign: str = ""
    #: seconds a request for tokens has been under way without an answer; None when none is
    asked_s: typing.Optional[float] = None


class Totals(typing.NamedTuple):
    """Sums over the service's processes, as a recording keeps them; the live wait has the processes themselves.

    A sum falls when a process ends, so only its rise is a sign of progress.
    """

    cpu_s: typing.Optional[float] = None
    read_bytes: typing.Optional[int] = None
    majflt: typing.Optional[int] = None
    #: process count by state letter
    states: typing.Optional[typing.Mapping[str, int]] = None


class GroupUse(typing.NamedTuple):
    """What the service's control group may use, has used and had to wait for; counters only grow.

    The limits are the tightest ones of the group and those above it.
    """

    #: CPUs that the service may run on, and how many of them a quota is worth
    cores: typing.Optional[int] = None
    quota_cores: typing.Optional[float] = None
    #: the group that has the quota, where it is not the service's own
    quota_of: str = ""
    #: periods of the quota in which the group ran, and those in which it had to pause
    periods: typing.Optional[int] = None
    throttled: typing.Optional[int] = None
    cpu_s: typing.Optional[float] = None
    #: seconds in which some process waited for a disk, for memory, for a core (PSI; cgroup v2 alone has it)
    io_wait_s: typing.Optional[float] = None
    memory_wait_s: typing.Optional[float] = None
    cpu_wait_s: typing.Optional[float] = None
    #: bytes and operations a second that may be read from one disk
    read_limit: typing.Optional[int] = None
    read_ops_limit: typing.Optional[int] = None


class Storage(typing.NamedTuple):
    """The file system that the checkpoint lies on."""

    fs_type: str
    mount: str = ""


class Paging(typing.NamedTuple):
    """What the whole host had to read again for want of memory, in bytes since it booted."""

    #: from swap
    swapped_in: typing.Optional[int] = None
    #: files whose pages had been dropped shortly before
    refaulted: typing.Optional[int] = None


class Observation(typing.NamedTuple):
    """Everything seen in one poll."""

    #: seconds since the watch began, monotonic
    t: float
    #: text that appeared since the previous observation, in order
    log: tuple[LogRecord, ...] = ()
    #: text after the last line end (LF, or the CR by which a bar redraws itself), not yet part of ``log``
    log_partial: str = ""
    unit: typing.Optional[UnitState] = None
    procs: typing.Optional[tuple[ProcSample, ...]] = None
    totals: typing.Optional[Totals] = None
    #: running nvcc, cicc, ptxas, ninja, cc1plus ... of the service
    compilers: typing.Optional[int] = None
    gpus: typing.Optional[tuple[GpuSample, ...]] = None
    http: typing.Optional[HttpSample] = None
    #: bytes under the service's compile caches
    cache_bytes: typing.Optional[int] = None
    #: the watched process has ended with this status (negative: by that signal), where there is no unit to say so
    exit_code: typing.Optional[int] = None
    #: the watched process is gone, status unknown
    gone: bool = False
    #: processes of the service that the kernel's OOM killer has ended, as its control group counts them
    oom_kills: typing.Optional[int] = None
    #: the same of all processes of the host, whoever's
    host_oom_kills: typing.Optional[int] = None
    #: what a source could not do and why, for the evidence: "the journal cannot be read: ..."
    notes: tuple[str, ...] = ()
    group: typing.Optional[GroupUse] = None
    storage: typing.Optional[Storage] = None
    paging: typing.Optional[Paging] = None


__all__ = (
    "Completion",
    "GpuSample",
    "GroupUse",
    "HttpSample",
    "LogRecord",
    "Observation",
    "Paging",
    "ProcSample",
    "Storage",
    "Totals",
    "UnitState",
)
