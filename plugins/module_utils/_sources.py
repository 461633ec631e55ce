# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""All sources of a wait together: one :class:`Observation` a look.

The order of a look matters. Processes and unit are read before the log, so that the last words of a process seen dead
are in the same observation; HTTP comes last, because only it may take seconds.
"""

from __future__ import annotations

import os
import threading
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import (
    GpuSample,
    GroupUse,
    HttpSample,
    LogRecord,
    Observation,
    ProcSample,
    Storage,
    UnitState,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._source_group import paging
from ansible_collections.modelfleet.serving.plugins.module_utils._source_kernel import KernelSource
from ansible_collections.modelfleet.serving.plugins.module_utils._source_log import LogReading, LogSource
from ansible_collections.modelfleet.serving.plugins.module_utils._source_proc import (
    Family,
    ProcReader,
    is_compiler,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._source_unit import UnitReading, host_oom_kills

#: the kernel's log is read on every such look, and at once when something may have ended
KERNEL_EVERY = 15
#: files counted below a cache folder in one look
CACHE_FILES = 5000
CACHE_EVERY = 5
OOM_NOTE = (
    "The kernel's OOM killer has ended {count} of the service's processes: its memory limit or the host is too small."
)


_NOT_RUNNING = ("failed", "inactive", "deactivating")


class Service(t.NamedTuple):
    """The watched service in one look: by its unit, or by its main process."""

    procs: tuple[ProcSample, ...] = ()
    unit: t.Optional[UnitState] = None
    ended: bool = False
    exit_code: t.Optional[int] = None
    oom_kills: t.Optional[int] = None
    notes: tuple[str, ...] = ()
    group: t.Optional[GroupUse] = None


class ServiceSource(t.Protocol):
    """Finds the service's processes."""

    def read(self) -> Service:
        """One look; never raises for a process that vanishes."""


class Groups(t.Protocol):
    """See ``_source_unit.ControlGroups``."""

    def pids(self, control_group: str) -> tuple[int, ...]:
        """The processes of a group."""

    def oom_kills(self, control_group: str) -> t.Optional[int]:
        """How many of them the OOM killer has ended."""

    def use(self, control_group: str, pid: int) -> GroupUse:
        """What it may use and waits for; ``pid`` is one of its processes."""


class Gpus(t.Protocol):
    """See ``_source_gpu.GpuSource``."""

    note: str

    def read(self, pids: t.Collection[int]) -> t.Optional[tuple[GpuSample, ...]]:
        """One sample a GPU, or None."""


class Http(t.Protocol):
    """See ``_source_http.HttpSource``."""

    done: threading.Event

    @property
    def busy(self) -> bool:
        """A request for tokens is under way."""

    def look(self) -> HttpSample:
        """Ask what may be asked now."""

    def forget(self) -> None:
        """The server is another one from now on."""


class Port(t.Protocol):
    """See ``_source_port.PortSource``."""

    def foreign(self, pids: t.Collection[int]) -> str:
        """Who else has the port, in words."""


class Storages(t.Protocol):
    """See ``_source_storage.StorageSource``."""

    def read(self, procs: t.Sequence[ProcSample]) -> t.Optional[Storage]:
        """Where the weights of these processes are, once that is known."""


class UnitService:
    """A service that is a systemd unit; also tells the journal which start to show."""

    def __init__(
        self,
        unit: t.Callable[[], UnitReading],
        groups: Groups,
        reader: ProcReader,
        on_unit: t.Callable[[UnitReading], None],
    ) -> None:
        self._unit = unit
        self._groups = groups
        self._oom: tuple[str, t.Optional[int]] = ("", None)
        self._reader = reader
        self._on_unit = on_unit

    def read(self) -> Service:
        reading = self._unit()
        if reading.state is None:
            return Service(notes=(reading.error,))
        self._on_unit(reading)
        pids = set(self._groups.pids(reading.control_group))
        if reading.state.main_pid:
            # its control group may be out of sight, the main process is not
            pids.add(reading.state.main_pid)
        samples = (self._reader.sample(pid) for pid in sorted(pids))
        kills = self._oom_kills(reading)
        notes = (OOM_NOTE.format(count=kills),) if kills else ()
        main = reading.state.main_pid or min(pids, default=0)
        return Service(
            tuple(sample for sample in samples if sample),
            unit=reading.state,
            oom_kills=kills,
            notes=notes,
            group=self._groups.use(reading.control_group, main) if main else None,
        )

    def _oom_kills(self, reading: UnitReading) -> t.Optional[int]:
        """The group and its counter go with the last process, and what was counted stays true for that start."""
        start = reading.state.invocation_id if reading.state else ""
        kills = self._groups.oom_kills(reading.control_group)
        if kills is not None or start != self._oom[0]:
            self._oom = (start, kills)
        return self._oom[1]


class FamilyService:
    """A service that is a process and what it started."""

    def __init__(self, family: t.Callable[[], Family], use: t.Callable[[], t.Optional[GroupUse]]) -> None:
        self._family = family
        #: of the control group that the process is in
        self._use = use

    def read(self) -> Service:
        family = self._family()
        group = None if family.ended else self._use()
        return Service(family.procs, ended=family.ended, exit_code=family.exit_code, group=group)


class Sources:
    """Everything that is looked at. ``service`` is required, the rest is None where it is not wanted or not there."""

    def __init__(
        self,
        service: ServiceSource,
        logs: t.Sequence[LogSource] = (),
        kernel: t.Optional[KernelSource] = None,
        gpus: t.Optional[Gpus] = None,
        http: t.Optional[Http] = None,
        port: t.Optional[Port] = None,
        caches: t.Sequence[str] = (),
        storage: t.Optional[Storages] = None,
    ) -> None:
        self._service = service
        self._logs = logs
        self._kernel = kernel
        self._gpus = gpus
        self._http = http
        self._port = port
        self._caches = caches
        self._storage = storage
        self._looks = 0
        self._cache_bytes: t.Optional[int] = None
        self._main: t.Optional[tuple[str, int]] = None
        self._before: frozenset[tuple[int, int]] = frozenset()
        self._host_oom: t.Optional[int] = None
        #: more log is waiting, the next look should come at once
        self.more = False

    @property
    def busy(self) -> bool:
        """A request for tokens is under way: looking again is worth while even where nothing is waited for."""
        return self._http is not None and self._http.busy

    def pause(self, seconds: float) -> None:
        """Sleep, but no longer than until an answer arrives."""
        (self._http.done if self._http else threading.Event()).wait(seconds)

    def observe(self, now: float) -> Observation:
        service = self._service.read()
        readings = [log.read() for log in self._logs]
        self.more = any(reading.more for reading in readings)
        host_oom = host_oom_kills()
        readings.append(self._kernel_log(service, host_oom))
        self._looks += 1
        pids = {proc.pid for proc in service.procs}
        gpus = self._gpus.read(pids) if self._gpus else None
        notes = [note for reading in readings for note in reading.notes]
        if self._gpus and self._gpus.note:
            notes.append(self._gpus.note)
        http = self._look_at_http(service, pids)
        return Observation(
            t=now,
            log=in_order(record for reading in readings for record in reading.records),
            log_partial=next((reading.partial for reading in readings if reading.partial), ""),
            unit=service.unit,
            procs=service.procs,
            compilers=sum(1 for proc in service.procs if is_compiler(proc.name)),
            gpus=gpus,
            http=http,
            cache_bytes=self._caches_size(),
            exit_code=service.exit_code,
            gone=service.ended,
            oom_kills=service.oom_kills,
            host_oom_kills=host_oom,
            notes=(*service.notes, *notes),
            group=service.group,
            storage=self._storage.read(service.procs) if self._storage else None,
            paging=paging(),
        )

    def _kernel_log(self, service: Service, host_oom: t.Optional[int]) -> LogReading:
        if self._kernel is None:
            return LogReading()
        self._kernel.pids.update(proc.pid for proc in service.procs)
        alive = frozenset((proc.pid, proc.start_ticks) for proc in service.procs if proc.state not in "ZX")
        lost, self._before = self._before - alive, alive
        killed = host_oom != self._host_oom and self._host_oom is not None
        self._host_oom = host_oom
        unit = service.unit
        over = service.ended or (unit is not None and (unit.active_state in _NOT_RUNNING or not unit.main_pid))
        if over or lost or killed or self._looks % KERNEL_EVERY == 0:
            return self._kernel.read()
        return LogReading()

    def _look_at_http(self, service: Service, pids: t.Collection[int]) -> t.Optional[HttpSample]:
        if self._http is None:
            return None
        main = _main_process(service)
        if main is not None and self._main is not None and main != self._main:
            self._http.forget()
        self._main = main or self._main
        foreign = self._port.foreign(pids) if self._port else ""
        if foreign:
            return HttpSample(foreign=foreign)
        if main is None:
            # whatever answers now is not the service
            return HttpSample(health=0, error="the service has no main process")
        return self._http.look()

    def _caches_size(self) -> t.Optional[int]:
        if self._caches and self._looks % CACHE_EVERY == 1:
            self._cache_bytes = sum(tree_size(path) for path in self._caches)
        return self._cache_bytes


def _main_process(service: Service) -> t.Optional[tuple[str, int]]:
    """What tells one run of the server from the next; None when it does not run."""
    if service.unit is not None:
        running = service.unit.main_pid or service.unit.active_state in ("active", "reloading")
        return (service.unit.invocation_id, service.unit.main_pid) if running else None
    return None if service.ended or not service.procs else ("", 0)


def in_order(records: t.Iterable[LogRecord]) -> tuple[LogRecord, ...]:
    """By time, as far as it is known: what the kernel says of an end belongs before systemd's next start."""
    keyed, last = [], float("-inf")
    for record in records:
        if record.side != "kernel" and record.at is not None:
            last = record.at
        at = record.at if record.at is not None else last
        keyed.append((at, record))
    if not any(record.side == "kernel" for _at, record in keyed):
        return tuple(record for _at, record in keyed)
    return tuple(record for _at, record in sorted(keyed, key=lambda pair: pair[0]))


def tree_size(path: str, limit: int = CACHE_FILES) -> int:
    """Bytes of the files below ``path``, of the first ``limit`` of them; what vanishes meanwhile counts nothing."""
    total = 0
    for folder, _names, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
            limit -= 1
            if limit <= 0:
                return total
    return total


__all__ = ("FamilyService", "Service", "ServiceSource", "Sources", "UnitService", "in_order", "tree_size")
