# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""From the options of ``vllm_health_wait`` to the sources it watches and the judge it asks."""

from __future__ import annotations

import re
import time
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils import _jmespath, _known_answer, _source_http
from ansible_collections.modelfleet.serving.plugins.module_utils._diagnosis import Target
from ansible_collections.modelfleet.serving.plugins.module_utils._examine import Examiner
from ansible_collections.modelfleet.serving.plugins.module_utils._forecast import Forecast, Start
from ansible_collections.modelfleet.serving.plugins.module_utils._nvml import NvmlReader
from ansible_collections.modelfleet.serving.plugins.module_utils._observe import GroupUse
from ansible_collections.modelfleet.serving.plugins.module_utils._source_gpu import GpuSource
from ansible_collections.modelfleet.serving.plugins.module_utils._source_journal import JournalSource
from ansible_collections.modelfleet.serving.plugins.module_utils._source_kernel import KernelSource
from ansible_collections.modelfleet.serving.plugins.module_utils._source_log import FileSource, LogSource
from ansible_collections.modelfleet.serving.plugins.module_utils._source_port import PortSource, local_address
from ansible_collections.modelfleet.serving.plugins.module_utils._source_proc import FamilySource, ProcReader
from ansible_collections.modelfleet.serving.plugins.module_utils._source_storage import StorageSource
from ansible_collections.modelfleet.serving.plugins.module_utils._source_unit import (
    ControlGroups,
    UnitReading,
    UnitSource,
    own_cgroup,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._sources import (
    FamilyService,
    ServiceSource,
    Sources,
    UnitService,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._stages import NAMES
from ansible_collections.modelfleet.serving.plugins.module_utils._status import JudgeConfig
from ansible_collections.modelfleet.serving.plugins.module_utils._unit_block import RunCommand

Params = t.Mapping[str, t.Any]
_UNIT_SUFFIX = re.compile(r"\.(service|scope)$")


class OptionError(Exception):
    """An option has a value that cannot be worked with; the text says which and why."""


def target(params: Params) -> Target:
    unit = params["unit"] or ""
    return Target(
        unit=unit if not unit or _UNIT_SUFFIX.search(unit) else f"{unit}.service",
        pid=params["pid"] or 0,
        log_file=params["log_file"] or "",
        url=params["url"] or "",
    )


def judge_config(params: Params) -> JudgeConfig:
    """Raises :class:`OptionError`."""
    return JudgeConfig(
        stall_timeouts={name: _seconds(name, value) for name, value in (params["stall_timeouts"] or {}).items()},
        expected_model=params["model"],
        want_completion=bool(params["url"]) and params["completion"],
        want_known_answer=bool(params["url"]) and params["completion"] and params["known_answer"] is not None,
        checkpoint_bytes=params["checkpoint_bytes"],
        forecast=Forecast([_start(index, start) for index, start in enumerate(params["earlier_starts"] or ())]),
        restarts_allowed=params["max_restarts"],
    )


def _start(index: int, given: Params) -> Start:
    unknown = sorted({str(stage.get("name")) for stage in given["stages"]} - set(NAMES))
    if unknown:
        raise OptionError(f"earlier_starts[{index}] has stages that do not exist: {', '.join(unknown)}.")
    try:
        stages = {stage["name"]: float(stage["seconds"]) for stage in given["stages"]}
    except (KeyError, TypeError, ValueError) as exc:
        raise OptionError(
            f"earlier_starts[{index}].stages must be a list of name and seconds, as stages of an earlier result; "
            f"found {given['stages']!r}."
        ) from exc
    return Start(stages, given["shards_total"], given["label"])


def _seconds(name: str, value: t.Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as exc:
        raise OptionError(f"stall_timeouts.{name} must be a number of seconds, not {value!r}.") from exc


def sources(params: Params, run_command: RunCommand) -> Sources:
    """Raises :class:`OptionError`."""
    what = target(params)
    reader = ProcReader()
    kernel = KernelSource(run_command, time.time())
    logs: list[LogSource] = []
    service: ServiceSource
    if what.unit:
        journal = JournalSource(what.unit, run_command)
        logs.append(journal)
        service = _unit_service(what.unit, run_command, reader, journal, kernel)
    else:
        service = FamilyService(FamilySource(what.pid, reader).read, lambda: _group_of(reader, what.pid))
        kernel.since = _started(reader, what.pid) or kernel.since
    if what.log_file:
        logs.append(FileSource(what.log_file, params["log_offset"]))
    endpoint = _endpoint(what.url) if what.url else None
    return Sources(
        service,
        logs,
        kernel,
        GpuSource(NvmlReader(params["library_path"])),
        _http(params, endpoint) if endpoint else None,
        _port(endpoint, reader) if endpoint and params["verify_listener"] else None,
        tuple(params["cache_paths"] or ()),
        StorageSource(),
    )


def examiner(run_command: RunCommand) -> Examiner:
    return Examiner(run_command, ProcReader())


def _unit_service(
    unit: str, run_command: RunCommand, reader: ProcReader, journal: JournalSource, kernel: KernelSource
) -> UnitService:
    def tell(reading: UnitReading) -> None:
        if reading.state is not None:
            journal.since = reading.began
            journal.looped = reading.state.n_restarts > 0
        if reading.started_s is not None:
            kernel.since = time.time() - (time.monotonic() - reading.started_s)

    return UnitService(UnitSource(unit, run_command).read, ControlGroups(), reader, tell)


def _group_of(reader: ProcReader, pid: int) -> t.Optional[GroupUse]:
    group = own_cgroup(reader.text(pid, "cgroup"))
    # what shares the root group with all others has no limits of its own
    return ControlGroups().use(group, pid)


def _started(reader: ProcReader, pid: int) -> t.Optional[float]:
    stat = reader.stat(pid)
    if stat is None:
        return None
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - reader.seconds(stat.start_ticks))


def _endpoint(url: str) -> _source_http.Endpoint:
    try:
        return _source_http.parse_url(url)
    except ValueError as exc:
        raise OptionError(str(exc)) from exc


def _port(endpoint: _source_http.Endpoint, reader: ProcReader) -> t.Optional[PortSource]:
    address = None if endpoint.unix_socket else local_address(endpoint.host)
    return PortSource(address, endpoint.port, reader) if address else None


def _http(params: Params, endpoint: _source_http.Endpoint) -> _source_http.HttpSource:
    tls = None
    if endpoint.scheme == "https":
        try:
            tls = _source_http.tls_context(params["validate_certs"], params["ca_path"])
        except OSError as exc:
            raise OptionError(f"The certificates in ca_path {params['ca_path']!r} cannot be used: {exc}.") from exc
    options = params["known_answer"]
    if options is not None:
        _check_known_answer(options)
    plan = _source_http.Plan(
        model=params["model"],
        completion=params["completion"],
        known=None if options is None else lambda model: _known_answer.known_answer(options, model),
        search=_jmespath.search if _jmespath.HAS_JMESPATH else None,
        timeout=params["completion_timeout"],
    )
    return _source_http.HttpSource(_source_http.HttpClient(endpoint, params["api_key"], tls), plan)


def _check_known_answer(options: Params) -> None:
    try:
        re.compile(options["pattern"] or "")
    except re.error as exc:
        raise OptionError(f"known_answer.pattern {options['pattern']!r} is not a regular expression: {exc}.") from exc
    if options["query"]:
        try:
            _jmespath.check(options["query"])
        except _jmespath.QueryError as exc:
            raise OptionError(f"known_answer.query: {exc}.") from exc


__all__ = ("OptionError", "examiner", "judge_config", "sources", "target")
