# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib
import types
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._gpu import (
    NO_DEVICES,
    NvmlFault,
    cgroup_unit,
    gather,
    process_name,
    unavailable_reason,
)

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures"
ALL = ("devices", "processes")
MIB = 1 << 20

NOT_SUPPORTED = NvmlFault("NotSupported", "Not Supported")
NOT_FOUND = NvmlFault("FunctionNotFound", "Function Not Found")
DEPRECATED = NvmlFault("Deprecated", "Requested functionality has been deprecated")
LOST = NvmlFault("GpuIsLost", "GPU is lost")
NO_PERMISSION = NvmlFault("NoPermission", "Insufficient Permissions")


def record(**fields: t.Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(**fields)


def rtx_pro_6000(index: int, **changes: t.Any) -> dict[str, t.Any]:
    """What an idle RTX PRO 6000 Blackwell answers, by function."""
    return {
        "nvmlDeviceGetUUID": f"GPU-00000000-0000-4000-8000-00000000000{index}",
        "nvmlDeviceGetName": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "nvmlDeviceGetPciInfo_v3": record(busId=f"00000000:{1 + index * 0x20:02X}:00.0"),
        "nvmlDeviceGetCudaComputeCapability": [12, 0],
        "nvmlDeviceGetArchitecture": 10,
        "nvmlDeviceGetMemoryInfo_v2": record(total=97887 * MIB, used=0, reserved=636 * MIB, free=97251 * MIB),
        "nvmlDeviceGetMemoryInfo": record(total=97887 * MIB, used=636 * MIB, free=97251 * MIB),
        "nvmlDeviceGetEccMode": [1, 1],
        "nvmlDeviceGetMigMode": [0, 1],
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetPowerUsage": 39120,
        "nvmlDeviceGetPowerManagementLimit": 600000,
        "nvmlDeviceGetCurrPcieLinkGeneration": 1,
        "nvmlDeviceGetMaxPcieLinkGeneration": 5,
        "nvmlDeviceGetCurrPcieLinkWidth": 16,
        "nvmlDeviceGetMaxPcieLinkWidth": 16,
        "nvmlDeviceGetTemperatureV": 31,
        "nvmlDeviceGetUtilizationRates": record(gpu=0, memory=0),
        "nvmlDeviceGetComputeRunningProcesses_v3": [],
        "nvmlDeviceGetGraphicsRunningProcesses_v3": [],
        "nvmlDeviceGetMPSComputeRunningProcesses_v3": [],
        **changes,
    }


SYSTEM = {
    "nvmlSystemGetDriverVersion": "595.58.03",
    "nvmlSystemGetNVMLVersion": b"13.595.58.03",
    "nvmlSystemGetCudaDriverVersion_v2": 13020,
}


class FakeNvml:
    """NVML answering from tables. A value that is a fault is raised; a function not listed does not exist."""

    def __init__(
        self,
        devices: t.Sequence[t.Mapping[str, t.Any] | NvmlFault],
        system: t.Mapping[str, t.Any] | None = None,
        open_fault: NvmlFault | None = None,
    ) -> None:
        self.devices = devices
        self.system = {"nvmlDeviceGetCount": len(devices), **(SYSTEM if system is None else system)}
        self.open_fault = open_fault
        self.is_open = False
        self.calls: list[tuple[t.Any, ...]] = []

    def open(self) -> None:
        if self.open_fault:
            raise self.open_fault
        self.is_open = True

    def call(self, function: str, *args: t.Any) -> t.Any:
        self.calls.append((function, *args))
        answers: t.Mapping[str, t.Any] = self.system
        if function == "nvmlDeviceGetHandleByIndex":
            device = self.devices[args[0]]
            answers = {function: device if isinstance(device, NvmlFault) else args[0]}
        elif args:
            answers = t.cast("t.Mapping[str, t.Any]", self.devices[args[0]])
        value = answers.get(function, NOT_FOUND)
        if isinstance(value, NvmlFault):
            raise value
        return value

    def close(self) -> None:
        self.is_open = False


class FakeProcesses:
    def __init__(self, **files: t.Mapping[int, str]) -> None:
        self.files = files

    def status(self, pid: int) -> str | None:
        return self.files.get("status", {}).get(pid)

    def cmdline(self, pid: int) -> str | None:
        return self.files.get("cmdline", {}).get(pid)

    def cgroup(self, pid: int) -> str | None:
        return self.files.get("cgroup", {}).get(pid)

    def user_name(self, uid: int) -> str:
        return {0: "root", 998: "vllm"}.get(uid, str(uid))


def test_a_card_that_answers_everything() -> None:
    nvml = FakeNvml([rtx_pro_6000(0)])
    assert gather(ALL, nvml, FakeProcesses()) == {
        "available": True,
        "reason": None,
        "driver_version": "595.58.03",
        "nvml_version": "13.595.58.03",
        "cuda_version": "13.2",
        "count": 1,
        "devices": [
            {
                "index": 0,
                "uuid": "GPU-00000000-0000-4000-8000-000000000000",
                "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
                "pci_bus_id": "00000000:01:00.0",
                "compute_capability": "12.0",
                "architecture": "blackwell",
                "memory_total_bytes": 97887 * MIB,
                "memory_used_bytes": 0,
                "memory_reserved_bytes": 636 * MIB,
                "memory_free_bytes": 97251 * MIB,
                "ecc_enabled": True,
                "mig_enabled": False,
                "persistence_enabled": True,
                "power_draw_watts": 39.12,
                "power_limit_watts": 600.0,
                "pcie_generation": 1,
                "pcie_generation_max": 5,
                "pcie_width": 16,
                "pcie_width_max": 16,
                "temperature_celsius": 31,
                "utilization_percent": 0,
                "processes": [],
                "errors": [],
            }
        ],
    }
    assert not nvml.is_open


@pytest.mark.parametrize("fault", [NOT_SUPPORTED, NOT_FOUND, DEPRECATED], ids=lambda fault: fault.name)
@pytest.mark.parametrize(
    ("functions", "keys"),
    [
        (["nvmlDeviceGetName"], ["name"]),
        (["nvmlDeviceGetCudaComputeCapability"], ["compute_capability"]),
        (["nvmlDeviceGetArchitecture"], ["architecture"]),
        (
            ["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"],
            ["memory_total_bytes", "memory_used_bytes", "memory_reserved_bytes", "memory_free_bytes"],
        ),
        (["nvmlDeviceGetEccMode"], ["ecc_enabled"]),
        (["nvmlDeviceGetMigMode"], ["mig_enabled"]),
        (["nvmlDeviceGetPersistenceMode"], ["persistence_enabled"]),
        (["nvmlDeviceGetPowerUsage"], ["power_draw_watts"]),
        (["nvmlDeviceGetPowerManagementLimit"], ["power_limit_watts"]),
        (["nvmlDeviceGetCurrPcieLinkWidth"], ["pcie_width"]),
        (["nvmlDeviceGetTemperatureV"], ["temperature_celsius"]),
        (["nvmlDeviceGetUtilizationRates"], ["utilization_percent"]),
    ],
    ids=lambda value: value[0],
)
def test_what_one_card_of_three_does_not_say_is_null_and_no_error(
    fault: NvmlFault, functions: list[str], keys: list[str]
) -> None:
    dumb = rtx_pro_6000(1, **dict.fromkeys(functions, fault))
    devices = gather(ALL, FakeNvml([rtx_pro_6000(0), dumb, rtx_pro_6000(2)]), FakeProcesses())["devices"]
    assert {key for key, value in devices[1].items() if value is None} == set(keys)
    assert devices[1]["errors"] == []
    for index in (0, 2):
        assert None not in devices[index].values()


@pytest.mark.parametrize(
    ("missing", "instead", "key", "value"),
    [
        ("nvmlDeviceGetTemperatureV", {"nvmlDeviceGetTemperature": 55}, "temperature_celsius", 55),
        (
            "nvmlDeviceGetPowerManagementLimit",
            {"nvmlDeviceGetEnforcedPowerLimit": 450000},
            "power_limit_watts",
            450.0,
        ),
        (
            "nvmlDeviceGetPciInfo_v3",
            {"nvmlDeviceGetPciInfo": record(busId=b"0000:41:00.0")},
            "pci_bus_id",
            "0000:41:00.0",
        ),
        ("nvmlDeviceGetMemoryInfo_v2", {}, "memory_used_bytes", 636 * MIB),
        ("nvmlDeviceGetMemoryInfo_v2", {}, "memory_reserved_bytes", None),
        ("nvmlDeviceGetArchitecture", {"nvmlDeviceGetArchitecture": 99}, "architecture", None),
    ],
)
def test_older_functions_step_in(missing: str, instead: dict[str, t.Any], key: str, value: t.Any) -> None:
    answers = rtx_pro_6000(0, **{missing: NOT_FOUND, **instead})
    assert gather(ALL, FakeNvml([answers]), FakeProcesses())["devices"][0][key] == value


def test_memory_version_2_is_not_asked_twice() -> None:
    nvml = FakeNvml([rtx_pro_6000(0)])
    gather(ALL, nvml, FakeProcesses())
    assert ("nvmlDeviceGetMemoryInfo", 0) not in nvml.calls


def test_a_lost_gpu_keeps_its_index_and_the_others_their_facts() -> None:
    facts = gather(ALL, FakeNvml([rtx_pro_6000(0), LOST, rtx_pro_6000(2)]), FakeProcesses())
    assert (facts["available"], facts["count"]) == (True, 3)
    assert [device["index"] for device in facts["devices"]] == [0, 1, 2]
    lost = facts["devices"][1]
    assert lost["errors"] == [
        {"query": "nvmlDeviceGetHandleByIndex", "error": "GpuIsLost", "message": "GPU is lost"},
    ]
    assert {key for key, value in lost.items() if value is not None} == {"index", "errors"}
    assert facts["devices"][2]["name"] == "NVIDIA RTX PRO 6000 Blackwell Server Edition"


def test_a_gpu_lost_half_way_is_not_asked_further() -> None:
    nvml = FakeNvml([rtx_pro_6000(0, nvmlDeviceGetEccMode=LOST)])
    device = gather(ALL, nvml, FakeProcesses())["devices"][0]
    assert device["errors"] == [{"query": "nvmlDeviceGetEccMode", "error": "GpuIsLost", "message": "GPU is lost"}]
    assert device["compute_capability"] == "12.0"
    assert device["processes"] is None
    assert nvml.calls[-1] == ("nvmlDeviceGetEccMode", 0)


def test_an_error_about_one_value_is_named_and_the_rest_goes_on() -> None:
    answers = rtx_pro_6000(0, nvmlDeviceGetPowerUsage=NO_PERMISSION)
    device = gather(ALL, FakeNvml([answers]), FakeProcesses())["devices"][0]
    assert device["power_draw_watts"] is None
    assert device["temperature_celsius"] == 31
    assert device["errors"] == [
        {"query": "nvmlDeviceGetPowerUsage", "error": "NoPermission", "message": "Insufficient Permissions"}
    ]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            NvmlFault("LibraryNotFound", "libnvidia-ml.so.1: cannot open shared object file"),
            "install the NVIDIA driver",
        ),
        (NvmlFault("DriverNotLoaded", "Driver Not Loaded"), "modprobe nvidia"),
        (NvmlFault("LibRmVersionMismatch", "RM has detected an NVML/RM version mismatch."), "Reboot the host"),
        (NO_PERMISSION, "become"),
        (NvmlFault("Unknown", "Unknown Error"), "NVML could not be used: Unknown Error (Unknown). Compare with"),
    ],
)
def test_no_nvml_is_a_reason_and_not_a_failure(fault: NvmlFault, words: str) -> None:
    facts = gather(ALL, FakeNvml([], open_fault=fault), FakeProcesses())
    assert words in facts["reason"]
    assert facts == {
        "available": False,
        "reason": unavailable_reason(fault),
        "driver_version": None,
        "nvml_version": None,
        "cuda_version": None,
        "count": 0,
        "devices": [],
    }


def test_a_driver_without_gpus_says_so() -> None:
    facts = gather(ALL, FakeNvml([]), FakeProcesses())
    assert (facts["available"], facts["count"], facts["reason"]) == (False, 0, NO_DEVICES)
    assert facts["driver_version"] == "595.58.03"


def test_a_driver_that_goes_away_after_the_start() -> None:
    gone = NvmlFault("DriverNotLoaded", "Driver Not Loaded")
    nvml = FakeNvml([], system={"nvmlDeviceGetCount": gone})
    facts = gather(ALL, nvml, FakeProcesses())
    assert facts["available"] is False
    assert facts["reason"] == unavailable_reason(gone)
    assert not nvml.is_open


@pytest.mark.parametrize(
    ("subsets", "power", "processes"), [(("devices",), 39.12, None), (("processes",), None, []), ((), None, None)]
)
def test_only_what_is_asked_for_is_gathered(
    subsets: tuple[str, ...], power: float | None, processes: list[t.Any] | None
) -> None:
    device = gather(subsets, FakeNvml([rtx_pro_6000(0)]), FakeProcesses())["devices"][0]
    assert (device["power_draw_watts"], device["processes"]) == (power, processes)
    assert device["uuid"] == "GPU-00000000-0000-4000-8000-000000000000"


def test_processes_are_told_with_user_and_unit_and_once() -> None:
    answers = rtx_pro_6000(
        0,
        nvmlDeviceGetComputeRunningProcesses_v3=NOT_FOUND,
        nvmlDeviceGetComputeRunningProcesses_v2=[
            record(pid=900, usedGpuMemory=75 * 1024 * MIB),
            record(pid=77, usedGpuMemory=None),
        ],
        nvmlDeviceGetGraphicsRunningProcesses_v3=[record(pid=900, usedGpuMemory=75 * 1024 * MIB)],
        nvmlDeviceGetMPSComputeRunningProcesses_v3=NOT_SUPPORTED,
    )
    processes = FakeProcesses(
        status={900: "Name:\tVLLM::EngineCor\nUid:\t998\t998\t998\t998\n"},
        cmdline={900: "VLLM::EngineCore\0\0\0\0"},
        cgroup={900: "0::/system.slice/system-vllm.slice/vllm@kimi.service\n"},
    )
    assert gather(ALL, FakeNvml([answers]), processes)["devices"][0]["processes"] == [
        {"pid": 77, "name": None, "used_memory_bytes": None, "user": None, "unit": None},
        {
            "pid": 900,
            "name": "VLLM::EngineCore",
            "used_memory_bytes": 75 * 1024 * MIB,
            "user": "vllm",
            "unit": "vllm@kimi.service",
        },
    ]


def test_processes_are_unknown_where_no_list_is_to_be_had() -> None:
    answers = {key: value for key, value in rtx_pro_6000(0).items() if "RunningProcesses" not in key}
    device = gather(ALL, FakeNvml([answers]), FakeProcesses())["devices"][0]
    assert device["processes"] is None
    assert device["errors"] == []


@pytest.mark.parametrize(
    ("cgroup", "init", "unit"),
    [
        ("0::/system.slice/vllm@kimi.service\n", None, "vllm@kimi.service"),
        ("0::/system.slice/vllm@kimi.service/workers\n", None, "vllm@kimi.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service\n", None, "user@1000.service"),
        ("0::/user.slice/user-0.slice/session-3.scope\n", None, "session-3.scope"),
        ("0::/system.slice/docker-0123abcd.scope\n", None, "docker-0123abcd.scope"),
        ("0::/system.slice/_memory.stat.service\n", None, "memory.stat.service"),
        ("0::/\n", None, None),
        ("0::/docker/0123abcd\n", None, None),
        (
            "12:memory:/x.service\n1:name=systemd:/system.slice/a.service\n0::/system.slice/b.service\n",
            None,
            "a.service",
        ),
        ("4:cpu,cpuacct:/\n1:name=systemd:/system.slice/a.service\n", None, "a.service"),
        (
            "0::/machine.slice/box.service/payload/system.slice/vllm@kimi.service\n",
            "0::/machine.slice/box.service/payload/init.scope\n",
            "vllm@kimi.service",
        ),
        ("0::/init.scope\n", "0::/init.scope\n", "init.scope"),
        ("nonsense\n", None, None),
        ("", None, None),
        (None, None, None),
    ],
)
def test_cgroup_unit(cgroup: str | None, init: str | None, unit: str | None) -> None:
    assert cgroup_unit(cgroup, init) == unit


@pytest.mark.parametrize(
    ("cmdline", "status", "name"),
    [
        ("VLLM::Worker_TP0\0", "Name:\tVLLM::Worker_TP\n", "VLLM::Worker_TP0"),
        ("/opt/vllm/bin/python\0/opt/vllm/bin/vllm\0serve\0--api-key\0hunter2\0", None, "python"),
        ("/usr/bin/thing --token hunter2\0", None, "thing"),
        ("python3\0train.py\0", None, "python3"),
        ("", "Name:\tkworker/0:1\n", "kworker/0:1"),
        (None, None, None),
    ],
)
def test_process_name_has_no_arguments(cmdline: str | None, status: str | None, name: str | None) -> None:
    assert process_name(cmdline, status) == name


def replay(recording: t.Mapping[str, t.Any]) -> FakeNvml:
    """A recording of all NVML answers of a real card as a fake."""

    def value(answer: t.Any) -> t.Any:
        if isinstance(answer, dict):
            if "error" in answer:
                return NvmlFault(answer["error"].replace("NVMLError_", ""), answer["text"])
            return record(**answer)
        return answer

    devices = []
    for answers in recording["devices"]:
        device = {name: value(answer) for name, answer in answers.items() if name.startswith("nvmlDevice")}
        device["nvmlDeviceGetMemoryInfo_v2"] = record(**answers["memory_v2"])
        device["nvmlDeviceGetComputeRunningProcesses_v3"] = [record(**p) for p in recording["with_process"]["procs"]]
        device["nvmlDeviceGetGraphicsRunningProcesses_v3"] = device["nvmlDeviceGetGraphicsRunningProcesses"]
        devices.append(device)
    return FakeNvml(devices, {name: recording[name] for name in recording if name.startswith("nvmlSystem")})


def test_a_recorded_h200() -> None:
    recording = json.loads((FIXTURES / "nvml-h200.json").read_text(encoding="utf-8"))
    facts = gather(ALL, replay(recording), FakeProcesses(cmdline={410: "/usr/bin/python3\0-c\0"}))
    device = facts["devices"][0]
    assert (facts["driver_version"], facts["cuda_version"], facts["count"]) == ("580.159.04", "13.0", 1)
    assert {key: device[key] for key in list(device)[:9]} == {
        "index": 0,
        "uuid": "GPU-00000000-1111-2222-3333-444444444444",
        "name": "NVIDIA H200",
        "pci_bus_id": "00000000:00:06.0",
        "compute_capability": "9.0",
        "architecture": "hopper",
        "memory_total_bytes": 150754820096,
        # the version 1 call would say 644939776: the reserve
        "memory_used_bytes": 0,
        "memory_reserved_bytes": 644939776,
    }
    assert (device["power_draw_watts"], device["power_limit_watts"]) == (127.484, 700.0)
    assert (device["pcie_generation"], device["pcie_width"], device["temperature_celsius"]) == (5, 16, 37)
    assert device["processes"] == [
        {"pid": 410, "name": "python3", "used_memory_bytes": 1713373184, "user": None, "unit": None}
    ]
    assert device["errors"] == []
