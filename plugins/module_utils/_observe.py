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

import typing as t


class LogRecord(t.NamedTuple):
    """One line of text some process wrote, as written (prefixes, ANSI colours and bars not yet taken off)."""

    text: str
    #: process id the log source knows of (journald's ``_PID``), not the one in vLLM's own prefix
    pid: t.Optional[int] = None
    #: ``service``: the server's own output; ``systemd``: PID 1 about the unit; ``kernel``: the kernel's log
    side: str = "service"


class UnitState(t.NamedTuple):
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


class ProcSample(t.NamedTuple):
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
    read_bytes: t.Optional[int] = None
    majflt: t.Optional[int] = None


class GpuSample(t.NamedTuple):
    """One GPU, from NVML. ``None`` where the card or driver does not say."""

    index: int
    memory_used_bytes: t.Optional[int]
    memory_total_bytes: t.Optional[int] = None
    utilization_percent: t.Optional[int] = None
    power_mw: t.Optional[int] = None
    #: bytes held by the service's own processes; None where NVML does not list processes
    ours_bytes: t.Optional[int] = None


class Completion(t.NamedTuple):
    """One request for tokens and what came back."""

    status: t.Optional[int]
    text: str = ""
    completion_tokens: int = 0
    seconds: float = 0.0
    error: str = ""
    #: None: no known answer was asked for; otherwise whether the answer passed its check
    answer_ok: t.Optional[bool] = None


class HttpSample(t.NamedTuple):
    """The server's HTTP side. ``health`` is the status code of ``/health``, 0 when nothing answered."""

    health: t.Optional[int] = None
    error: str = ""
    #: ids listed by ``/v1/models``; None when not asked or no valid answer
    models: t.Optional[t.Tuple[str, ...]] = None
    models_status: t.Optional[int] = None
    completion: t.Optional[Completion] = None


class Totals(t.NamedTuple):
    """Sums over the service's processes, as a recording keeps them; the live wait has the processes themselves.

    A sum falls when a process ends, so only its rise is a sign of progress.
    """

    cpu_s: t.Optional[float] = None
    read_bytes: t.Optional[int] = None
    majflt: t.Optional[int] = None
    #: process count by state letter
    states: t.Optional[t.Mapping[str, int]] = None


class Observation(t.NamedTuple):
    """Everything seen in one poll."""

    #: seconds since the watch began, monotonic
    t: float
    #: text that appeared since the previous observation, in order
    log: t.Tuple[LogRecord, ...] = ()
    #: text after the last line end, not yet part of ``log``: a bar that redraws itself with ``\r`` lives here
    log_partial: str = ""
    unit: t.Optional[UnitState] = None
    procs: t.Optional[t.Tuple[ProcSample, ...]] = None
    totals: t.Optional[Totals] = None
    #: running nvcc, cicc, ptxas, ninja, cc1plus ... of the service
    compilers: t.Optional[int] = None
    gpus: t.Optional[t.Tuple[GpuSample, ...]] = None
    http: t.Optional[HttpSample] = None
    #: bytes under the service's compile caches
    cache_bytes: t.Optional[int] = None
    #: the watched process has ended with this status (negative: by that signal), where there is no unit to say so
    exit_code: t.Optional[int] = None
    #: the watched process is gone, status unknown
    gone: bool = False


__all__ = (
    "Completion",
    "GpuSample",
    "HttpSample",
    "LogRecord",
    "Observation",
    "ProcSample",
    "Totals",
    "UnitState",
)
