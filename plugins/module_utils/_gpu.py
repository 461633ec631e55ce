# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What a host's GPUs are and who uses them, out of NVML's answers and ``/proc``.

Pure: everything is read through :class:`Nvml` and :class:`Processes`. Drivers, cards and virtual machines differ in
what they answer, so no answer is taken for granted: what is not to be had is ``None``, never zero and never a failure.
"""

from __future__ import annotations

import contextlib
import typing as t


class NvmlFault(Exception):
    """NVML answered with an error. ``name`` is the binding's class name without its prefix, e.g. ``GpuIsLost``."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{text} ({name})")
        self.name = name
        self.text = text


class Nvml(t.Protocol):
    """The NVML library. Every method may raise :class:`NvmlFault`."""

    def open(self) -> None:
        """Load and initialise the library."""

    def call(self, function: str, *args: t.Any) -> t.Any:
        """Call an NVML function by its name in the Python binding and return what the binding returns."""

    def close(self) -> None:
        """Shut the library down."""


class Processes(t.Protocol):
    """What ``/proc`` says of a process; None where the process is gone, hidden or in another PID namespace."""

    def status(self, pid: int) -> str | None:
        """``/proc/<pid>/status``."""

    def cmdline(self, pid: int) -> str | None:
        """``/proc/<pid>/cmdline``, words separated by NUL."""

    def cgroup(self, pid: int) -> str | None:
        """``/proc/<pid>/cgroup``."""

    def user_name(self, uid: int) -> str:
        """The account of ``uid``, or the number as text where there is none."""


class Query(t.NamedTuple):
    """One question to a GPU: NVML functions tried in turn until one is known, and the facts their answer becomes."""

    subset: str
    keys: tuple[str, ...]
    functions: tuple[str, ...]
    convert: t.Callable[[t.Any], tuple[t.Any, ...]]
    args: tuple[t.Any, ...] = ()


class Hint(t.NamedTuple):
    """Why NVML can't be used at all, and what to do about it."""

    fault: str
    reason: str


#: errors that mean "this card, driver or binding does not say": the value is unknown, nothing is wrong
NO_VALUE = ("NotSupported", "FunctionNotFound", "Deprecated", "ArgumentVersionMismatch", "NoData")

#: errors after which asking the same GPU further is pointless
GONE = ("GpuIsLost", "ResetRequired", "GpuNotFound", "DriverNotLoaded", "Uninitialized")

HINTS = (
    Hint(
        "LibraryNotFound",
        "The NVML library could not be loaded: {text}. A host without NVIDIA GPUs has none. Where there are GPUs, "
        "install the NVIDIA driver, which brings it, or point library_path at it.",
    ),
    Hint(
        "DriverNotLoaded",
        "The NVML library is installed, but the NVIDIA kernel driver is not loaded. Load it with 'modprobe nvidia' and "
        "look for NVRM lines in the kernel log if that fails.",
    ),
    Hint(
        "LibRmVersionMismatch",
        "The NVML library and the loaded NVIDIA kernel driver are of different versions: the driver was updated and "
        "the old one is still loaded. Reboot the host, or stop all that uses the GPUs and reload the nvidia modules.",
    ),
    Hint(
        "NoPermission",
        "The NVIDIA driver refused access to this user. Run with become, or check the permissions of /dev/nvidia*.",
    ),
)

NO_DEVICES = (
    "The NVIDIA driver is loaded but sees no GPU. Compare with 'lspci -d 10de:' and look for NVRM and Xid lines in the "
    "kernel log."
)

_ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}


def _same(value: t.Any) -> tuple[t.Any]:
    return (value,)


def _text(value: t.Any) -> tuple[str]:
    # bindings before 11.5 hand out bytes
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value),)


def _enabled(value: t.Any) -> tuple[bool]:
    return (bool(value),)


def _current_enabled(value: t.Sequence[int]) -> tuple[bool]:
    # (current, pending): what counts is what is in force now
    return (bool(value[0]),)


def _watts(value: int) -> tuple[float]:
    return (value / 1000,)


def _memory(value: t.Any) -> tuple[t.Any, ...]:
    # version 1 has no "reserved" and counts the driver's reserve as used
    return value.total, value.used, getattr(value, "reserved", None), value.free


def _cuda_version(value: int) -> tuple[str]:
    return (f"{value // 1000}.{value % 1000 // 10}",)


_SYSTEM = (
    Query("system", ("driver_version",), ("nvmlSystemGetDriverVersion",), _text),
    Query("system", ("nvml_version",), ("nvmlSystemGetNVMLVersion",), _text),
    Query(
        "system",
        ("cuda_version",),
        ("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"),
        _cuda_version,
    ),
)

# Only functions with a version in their name, or with a single version: the binding turns a missing function behind an
# unversioned name into an exception that is no NVMLError.
_PROCESS_LISTS = (
    ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ("nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
    ("nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"),
)

_MEMORY_KEYS = ("memory_total_bytes", "memory_used_bytes", "memory_reserved_bytes", "memory_free_bytes")

_DEVICE = (
    Query("identity", ("uuid",), ("nvmlDeviceGetUUID",), _text),
    Query("identity", ("name",), ("nvmlDeviceGetName",), _text),
    Query("identity", ("pci_bus_id",), ("nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo"), lambda v: _text(v.busId)),
    Query(
        "devices",
        ("compute_capability",),
        ("nvmlDeviceGetCudaComputeCapability",),
        lambda v: (f"{v[0]}.{v[1]}",),
    ),
    Query(
        "devices",
        ("architecture",),
        ("nvmlDeviceGetArchitecture",),
        lambda v: (_ARCHITECTURES.get(v),),
    ),
    Query("devices", _MEMORY_KEYS, ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"), _memory),
    Query("devices", ("ecc_enabled",), ("nvmlDeviceGetEccMode",), _current_enabled),
    Query("devices", ("mig_enabled",), ("nvmlDeviceGetMigMode",), _current_enabled),
    Query("devices", ("persistence_enabled",), ("nvmlDeviceGetPersistenceMode",), _enabled),
    Query("devices", ("power_draw_watts",), ("nvmlDeviceGetPowerUsage",), _watts),
    Query(
        "devices",
        ("power_limit_watts",),
        ("nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetEnforcedPowerLimit"),
        _watts,
    ),
    Query("devices", ("pcie_generation",), ("nvmlDeviceGetCurrPcieLinkGeneration",), _same),
    Query("devices", ("pcie_generation_max",), ("nvmlDeviceGetMaxPcieLinkGeneration",), _same),
    Query("devices", ("pcie_width",), ("nvmlDeviceGetCurrPcieLinkWidth",), _same),
    Query("devices", ("pcie_width_max",), ("nvmlDeviceGetMaxPcieLinkWidth",), _same),
    # 0 is the sensor on the GPU's die
    Query(
        "devices",
        ("temperature_celsius",),
        ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"),
        _same,
        (0,),
    ),
    Query("devices", ("utilization_percent",), ("nvmlDeviceGetUtilizationRates",), lambda v: (v.gpu,)),
)


def _ask(nvml: Nvml, functions: tuple[str, ...], args: tuple[t.Any, ...]) -> t.Any:
    """Answer of the first function that has one. Raises the last NvmlFault when none has."""
    last = NvmlFault("FunctionNotFound", "Function Not Found")
    for function in functions:
        try:
            return nvml.call(function, *args)
        except NvmlFault as fault:
            if fault.name not in NO_VALUE:
                raise
            last = fault
    raise last


def _answer(
    nvml: Nvml, query: Query, handle: tuple[t.Any, ...], facts: dict[str, t.Any], errors: list[dict[str, str]]
) -> bool:
    """Put the query's answer into ``facts``. False when the GPU is gone and need not be asked again."""
    try:
        facts.update(zip(query.keys, query.convert(_ask(nvml, query.functions, handle + query.args))))
    except NvmlFault as fault:
        if fault.name not in NO_VALUE:
            errors.append({"query": query.functions[0], "error": fault.name, "message": fault.text})
        return fault.name not in GONE
    return True


def cgroup_unit(cgroup: str | None, init_cgroup: str | None = None) -> str | None:
    """The systemd unit that ``/proc/<pid>/cgroup`` names, or None.

    On a host with version 1 hierarchies systemd's own is the named one. ``init_cgroup`` is the file of PID 1: in a
    container without a cgroup namespace all paths start with that of the container's init.
    """
    path = _systemd_path(cgroup)
    if path is None:
        return None
    root = _systemd_path(init_cgroup) or ""
    root = root[: -len("/init.scope")] if root.endswith("/init.scope") else ""
    if root and path.startswith(root + "/"):
        path = path[len(root) :]
    for part in path.split("/"):
        # below its unit a process may live in a cgroup of the unit's own making, or of a user's systemd
        if part.endswith((".service", ".scope")):
            # systemd puts an underscore before names that would collide with a controller's files
            return part[1:] if part.startswith("_") else part
    return None


def _systemd_path(cgroup: str | None) -> str | None:
    by_controller = {}
    for line in (cgroup or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            by_controller[parts[1]] = parts[2]
    return by_controller.get("name=systemd", by_controller.get(""))


def process_name(cmdline: str | None, status: str | None) -> str | None:
    """What the process calls itself: its title or its program, without arguments (those may hold secrets)."""
    first = (cmdline or "").split("\0", 1)[0]
    if first.startswith("/"):
        first = first.split(" ", 1)[0].rsplit("/", 1)[-1]
    return first or _status_field(status, "Name")


def _status_field(status: str | None, field: str) -> str | None:
    for line in (status or "").splitlines():
        key, _colon, value = line.partition(":")
        if key == field:
            return value.strip()
    return None


def _process(pid: int, used: int | None, processes: Processes) -> dict[str, t.Any]:
    status = processes.status(pid)
    # real, effective, saved, file system: the effective one is what ps calls the user
    uids = (_status_field(status, "Uid") or "").split()
    return {
        "pid": pid,
        "name": process_name(processes.cmdline(pid), status),
        "used_memory_bytes": used,
        "user": processes.user_name(int(uids[1])) if len(uids) > 1 else None,
        "unit": cgroup_unit(processes.cgroup(pid), processes.cgroup(1)),
    }


def _device_processes(
    nvml: Nvml, handle: t.Any, processes: Processes, errors: list[dict[str, str]]
) -> list[dict[str, t.Any]] | None:
    """Everything that holds a context on the GPU, or None when the driver lists nothing of any kind."""
    used: dict[int, int | None] = {}
    answered = False
    for functions in _PROCESS_LISTS:
        listed: dict[str, t.Any] = {}
        query = Query("processes", ("list",), functions, _same)
        go_on = _answer(nvml, query, (handle,), listed, errors)
        answered = answered or "list" in listed
        for entry in listed.get("list", ()):
            # a process with compute and graphics contexts is in two lists, with the same memory
            used[entry.pid] = max(used.get(entry.pid) or 0, entry.usedGpuMemory or 0) or None
        if not go_on:
            break
    return [_process(pid, used[pid], processes) for pid in sorted(used)] if answered else None


def _device(nvml: Nvml, index: int, subsets: t.Collection[str], processes: Processes) -> dict[str, t.Any]:
    facts: dict[str, t.Any] = {"index": index}
    facts.update((key, None) for query in _DEVICE for key in query.keys)
    errors: list[dict[str, str]] = []
    facts.update(processes=None, errors=errors)
    found: dict[str, t.Any] = {}
    handle_query = Query("identity", ("handle",), ("nvmlDeviceGetHandleByIndex",), _same)
    if not _answer(nvml, handle_query, (index,), found, errors) or "handle" not in found:
        return facts
    handle = found["handle"]
    for query in _DEVICE:
        if query.subset in ("identity", *subsets) and not _answer(nvml, query, (handle,), facts, errors):
            return facts
    if "processes" in subsets:
        facts["processes"] = _device_processes(nvml, handle, processes, errors)
    return facts


def unavailable_reason(fault: NvmlFault) -> str:
    """A sentence for the user: why there are no facts and what to do."""
    for hint in HINTS:
        if hint.fault == fault.name:
            return hint.reason.format(text=fault.text)
    return f"NVML could not be used: {fault}. Compare with what nvidia-smi says on this host."


def gather(subsets: t.Collection[str], nvml: Nvml, processes: Processes) -> dict[str, t.Any]:
    """The facts of this host. Never fails for want of a GPU, a driver or an answer."""
    facts: dict[str, t.Any] = {"available": False, "reason": None}
    facts.update((key, None) for query in _SYSTEM for key in query.keys)
    facts.update(count=0, devices=[])
    try:
        nvml.open()
    except NvmlFault as fault:
        return {**facts, "reason": unavailable_reason(fault)}
    try:
        for query in _SYSTEM:
            _answer(nvml, query, (), facts, [])
        count = nvml.call("nvmlDeviceGetCount")
        devices = [_device(nvml, index, subsets, processes) for index in range(count)]
    except NvmlFault as fault:
        return {**facts, "reason": unavailable_reason(fault)}
    finally:
        # a driver that went away meanwhile has its own entries above
        with contextlib.suppress(NvmlFault):
            nvml.close()
    return {
        **facts,
        "available": count > 0,
        "reason": None if count else NO_DEVICES,
        "count": count,
        "devices": devices,
    }


__all__ = (
    "GONE",
    "HINTS",
    "NO_DEVICES",
    "NO_VALUE",
    "Hint",
    "Nvml",
    "NvmlFault",
    "Processes",
    "Query",
    "cgroup_unit",
    "gather",
    "process_name",
    "unavailable_reason",
)
