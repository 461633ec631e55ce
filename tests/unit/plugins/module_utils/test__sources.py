# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import threading
import time
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import (
    GpuSample,
    GroupUse,
    HttpSample,
    LogRecord,
    ProcSample,
    UnitState,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._source_kernel import KernelSource
from ansible_collections.modelfleet.serving.plugins.module_utils._source_log import LogReading
from ansible_collections.modelfleet.serving.plugins.module_utils._source_proc import Family, ProcReader
from ansible_collections.modelfleet.serving.plugins.module_utils._source_unit import UnitReading
from ansible_collections.modelfleet.serving.plugins.module_utils._sources import (
    FamilyService,
    Service,
    Sources,
    UnitService,
    in_order,
    tree_size,
)


def unit(active: str = "active", main_pid: int = 40, invocation: str = "aa") -> UnitState:
    return UnitState("loaded", active, "running", "success", main_pid, 0, "no", 0, 0, invocation)


def proc(pid: int, name: str = "vllm") -> ProcSample:
    return ProcSample(pid, 1, 1000, name, "S", 1.0)


class Script:
    """Gives its entries one after the other, the last one for ever."""

    def __init__(self, *entries: t.Any) -> None:
        self.entries = list(entries)
        self.reads = 0

    def read(self, *_args: t.Any) -> t.Any:
        self.reads += 1
        return self.entries.pop(0) if len(self.entries) > 1 else self.entries[0]


class FakeGpus(Script):
    note = ""


class FakeHttp:
    def __init__(self) -> None:
        self.done = threading.Event()
        self.busy = False
        self.looks = 0
        self.forgotten = 0

    def look(self) -> HttpSample:
        self.looks += 1
        return HttpSample(health=200)

    def forget(self) -> None:
        self.forgotten += 1


class FakePort:
    def __init__(self, text: str = "") -> None:
        self.text = text
        self.asked: list[set[int]] = []

    def foreign(self, pids: t.Collection[int]) -> str:
        self.asked.append(set(pids))
        return self.text


RUNNING = Service((proc(40), proc(41, "ptxas"), proc(42, "ninja")), unit=unit())


def test_everything_comes_together() -> None:
    gpus = (GpuSample(0, 5),)
    logs = [
        Script(LogReading((LogRecord("journal"),), notes=("no journal",), more=True)),
        Script(LogReading((LogRecord("file"),), partial="10%")),
    ]
    http = FakeHttp()
    sources = Sources(Script(RUNNING), logs, None, FakeGpus(gpus), http, FakePort())
    seen = sources.observe(3.0)
    assert seen.t == 3.0
    assert [record.text for record in seen.log] == ["journal", "file"]
    assert seen.log_partial == "10%"
    assert seen.unit == unit()
    assert seen.procs == RUNNING.procs
    assert seen.compilers == 2
    assert seen.gpus == gpus
    assert seen.http == HttpSample(health=200)
    assert (seen.exit_code, seen.gone) == (None, False)
    assert seen.notes == ("no journal",)
    assert sources.more


def test_without_anything_but_processes() -> None:
    seen = Sources(Script(Service(ended=True, exit_code=-9))).observe(0.0)
    assert (seen.exit_code, seen.gone, seen.http, seen.gpus, seen.cache_bytes) == (-9, True, None, None, None)
    assert not Sources(Script(RUNNING)).busy


def test_nothing_is_asked_of_a_foreign_server() -> None:
    http, port = FakeHttp(), FakePort("port 8000 is held by pid 50 (nginx)")
    seen = Sources(Script(RUNNING), http=http, port=port).observe(0.0)
    assert seen.http == HttpSample(foreign="port 8000 is held by pid 50 (nginx)")
    assert http.looks == 0
    assert port.asked == [{40, 41, 42}]


@pytest.mark.parametrize(
    ("service", "asked"),
    [
        (Service(unit=unit("failed", 0)), False),
        (Service(unit=unit("activating", 0)), False),
        (Service(unit=unit("activating", 40)), True),
        # a unit that remains after exit has no main process
        (Service(unit=unit("active", 0)), True),
        (Service((proc(40),)), True),
        (Service((proc(41),), ended=True), False),
        (Service(), False),
    ],
)
def test_only_a_running_service_is_asked(service: Service, asked: bool) -> None:
    http = FakeHttp()
    seen = Sources(Script(service), http=http).observe(0.0)
    assert http.looks == int(asked)
    if not asked:
        assert seen.http == HttpSample(health=0, error="the service has no main process")


def test_a_restarted_service_has_to_answer_again() -> None:
    http = FakeHttp()
    services = [
        Service(unit=unit(invocation="aa", main_pid=40)),
        Service(unit=unit(invocation="aa", main_pid=40)),
        Service(unit=unit("activating", 0)),
        Service(unit=unit(invocation="bb", main_pid=50)),
    ]
    sources = Sources(Script(*services), http=http)
    forgotten = []
    for now in range(4):
        sources.observe(float(now))
        forgotten.append(http.forgotten)
    assert forgotten == [0, 0, 0, 1]


class FakeKernel(KernelSource):
    def __init__(self) -> None:
        self.pids: set[int] = set()
        self.reads = 0

    def read(self) -> LogReading:
        self.reads += 1
        return LogReading((LogRecord("Out of memory", side="kernel"),))


def test_the_kernel_is_asked_seldom_and_when_something_ended() -> None:
    kernel = FakeKernel()
    running = Sources(Script(RUNNING), kernel=kernel)
    for now in range(15):
        running.observe(float(now))
    assert kernel.reads == 1
    assert kernel.pids == {40, 41, 42}
    for service in (Service(unit=unit("failed", 0)), Service(unit=unit("inactive", 0)), Service(ended=True)):
        kernel = FakeKernel()
        ended = Sources(Script(RUNNING, service), kernel=kernel)
        ended.observe(0.0)
        assert [record.side for record in ended.observe(1.0).log] == ["kernel"]


@pytest.mark.parametrize(
    "then",
    [
        Service((proc(40),), unit=unit()),
        Service((proc(40), proc(41, "ptxas"), proc(42, "ninja")._replace(state="Z")), unit=unit()),
        Service(unit=unit("activating", 0)),
        Service((proc(40), proc(41, "ptxas"), proc(42, "ninja")), unit=unit("deactivating")),
    ],
    ids=["a process less", "a zombie", "between two starts", "ending"],
)
def test_the_kernel_is_asked_when_something_may_have_ended(then: Service) -> None:
    kernel = FakeKernel()
    sources = Sources(Script(RUNNING, RUNNING, then), kernel=kernel)
    reads = []
    for now in range(3):
        sources.observe(float(now))
        reads.append(kernel.reads)
    assert reads == [1, 1, 2]


def test_what_the_kernel_says_stands_where_it_belongs() -> None:
    journal = [LogRecord("exited", 1, "systemd", 10.0), LogRecord("restart", 1, "systemd", 15.0)]
    file = LogRecord("no time")
    kernel = LogRecord("killed", None, "kernel", 9.5)
    assert [record.text for record in in_order([*journal, file, kernel])] == ["killed", "exited", "restart", "no time"]
    # nothing is moved without need: clocks may be set back
    back = [LogRecord("a", at=10.0), LogRecord("b", at=5.0)]
    assert in_order(back) == tuple(back)


def test_gpus_that_cannot_be_watched_are_noted() -> None:
    gpus = FakeGpus(None)
    gpus.note = "The GPUs are not watched: no library."
    assert Sources(Script(RUNNING), gpus=gpus).observe(0.0).notes == ("The GPUs are not watched: no library.",)


def test_caches_are_measured_now_and_then(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 10)
    sources = Sources(Script(RUNNING), caches=(str(tmp_path), str(tmp_path / "none")))
    sizes = []
    for now in range(6):
        sizes.append(sources.observe(float(now)).cache_bytes)
        (tmp_path / "a").write_bytes(b"x" * 20)
    assert sizes == [10] * 5 + [20]


def test_tree_size_stops_at_its_limit(tmp_path: pathlib.Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).write_bytes(b"xx")
    assert tree_size(str(tmp_path)) == 20
    assert tree_size(str(tmp_path), limit=3) == 6


def test_a_pause_ends_with_the_answer() -> None:
    http = FakeHttp()
    sources = Sources(Script(RUNNING), http=http)
    threading.Timer(0.05, http.done.set).start()
    began = time.monotonic()
    sources.pause(10.0)
    assert time.monotonic() - began < 5.0


# -- the two kinds of service --------------------------------------------------------------------------------------


class FakeReader(ProcReader):
    def __init__(self, *pids: int) -> None:
        self.alive = pids

    def sample(self, pid: int) -> ProcSample | None:
        return proc(pid) if pid in self.alive else None


class FakeGroups:
    def __init__(self, pids: tuple[int, ...] = (), oom_kills: list[int | None] | None = None) -> None:
        self._pids = pids
        self._oom_kills = oom_kills or [None]
        self.asked: list[str] = []

    def pids(self, control_group: str) -> tuple[int, ...]:
        self.asked.append(control_group)
        return self._pids

    def use(self, control_group: str, pid: int) -> GroupUse:
        return GroupUse(quota_of=f"{control_group} {pid}")

    def oom_kills(self, control_group: str) -> int | None:
        return self._oom_kills.pop(0) if len(self._oom_kills) > 1 else self._oom_kills[0]


def test_unit_service_has_group_and_main_process() -> None:
    told: list[UnitReading] = []
    reading = UnitReading(unit(main_pid=40), "/system.slice/vllm.service", 5.0)
    groups = FakeGroups((41, 42))
    service = UnitService(lambda: reading, groups, FakeReader(40, 41), told.append).read()
    # 42 has vanished between the two looks
    assert [sample.pid for sample in service.procs] == [40, 41]
    assert service.unit == reading.state
    assert service.notes == ()
    assert service.group == GroupUse(quota_of="/system.slice/vllm.service 40")
    assert groups.asked == ["/system.slice/vllm.service"]
    assert told == [reading]


def test_unit_service_remembers_the_oom_killer_until_the_next_start() -> None:
    readings = [UnitReading(unit(invocation=name)) for name in ("aa", "aa", "aa", "bb")]
    service = UnitService(Script(*readings).read, FakeGroups(oom_kills=[0, 2, None, None]), FakeReader(), print)
    looks = [service.read() for _reading in readings]
    assert [look.oom_kills for look in looks] == [0, 2, 2, None]
    assert looks[0].notes == ()
    assert looks[2].notes == (
        "The kernel's OOM killer has ended 2 of the service's processes: its memory limit or the host is too small.",
    )


def test_unit_service_without_systemd() -> None:
    service = UnitService(lambda: UnitReading(None, error="no bus"), FakeGroups(), FakeReader(), print).read()
    assert service == Service(notes=("no bus",))


def test_family_service() -> None:
    group = GroupUse(cores=4)
    service = FamilyService(lambda: Family((proc(41),), False, None), lambda: group).read()
    assert service == Service((proc(41),), group=group)
    service = FamilyService(lambda: Family((proc(41),), True, -9), lambda: group).read()
    assert service == Service((proc(41),), ended=True, exit_code=-9)
