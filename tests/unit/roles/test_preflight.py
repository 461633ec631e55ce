# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What preflight says against a host: what was wanted, what was found, and of which GPU."""

from __future__ import annotations

import typing as t

import pytest
from playing import judged

CARD = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
GIB = 2**30


def gpu(index: int, **changes: t.Any) -> dict[str, t.Any]:
    known = {
        "name": CARD,
        "uuid": f"GPU-{index}",
        "pci_bus_id": f"00000000:0{index}:00.0",
        "compute_capability": "12.0",
    }
    return {"index": index, **known, "memory_total_bytes": 96 * GIB, "errors": [], **changes}


def lost(index: int) -> dict[str, t.Any]:
    error = {"query": "nvmlDeviceGetHandleByIndex", "error": "GpuIsLost", "message": "GPU is lost"}
    nothing = dict.fromkeys(("name", "uuid", "pci_bus_id", "compute_capability", "memory_total_bytes"))
    return gpu(index, **nothing, errors=[error])


def facts(*gpus: dict[str, t.Any], reason: str | None = None, **others: t.Any) -> dict[str, t.Any]:
    machine = {"service_mgr": "systemd", "architecture": "x86_64", **others}
    return {**machine, "gpu": {"devices": list(gpus), "count": len(gpus), "reason": reason}}


#: a host on which the model can run, as the role found it
GOOD = {
    "facts": facts(gpu(0), gpu(1)),
    "host_tools_ready": True,
    "host_tools_python": "/nonexistent",
    "preflight_instance": "kimi",
    "preflight_gpu_count": 2,
    "preflight_gpu_memory_bytes": 90 * GIB,
    "preflight_compute_capability": "12.0",
    "preflight_model_bytes": 500 * GIB,
    "__preflight_vllm": {"stat": {"exists": True}},
    "__preflight_df": {"stdout_lines": ["Avail Mounted on", f"{GIB} /", f"{900 * GIB} /srv"]},
    "__preflight_du": {"stdout": ""},
    "__preflight_ss": {"stdout_lines": []},
    "__preflight_cgroups": {"results": []},
}
OLD = {"name": "NVIDIA A100 80GB PCIe", "compute_capability": "8.0"}
RESET = (
    "The kernel's log may say why: journalctl --dmesg --grep 'NVRM|Xid'. Often a reset (nvidia-smi --gpu-reset) or a "
    "reboot brings a GPU back."
)

#: what differs from the good host, and the reasons that are given
CASES: dict[str, tuple[dict[str, t.Any], list[str]]] = {
    "good": ({}, []),
    "good_as_text": ({"preflight_gpu_count": "2", "preflight_gpu_memory_bytes": str(90 * GIB)}, []),
    "cpu": ({"facts": facts(), "preflight_gpu_count": 0}, []),
    "too_few": (
        {"preflight_gpu_count": 4},
        [f"The model needs 4 GPUs, found 2 (GPU 0 {CARD}, GPU 1 {CARD})."],
    ),
    "none": (
        {"facts": facts(reason="The NVIDIA driver is not loaded.")},
        ["The model needs 2 GPUs, found 0. The NVIDIA driver is not loaded."],
    ),
    "small": (
        {"facts": facts(gpu(0), gpu(1, memory_total_bytes=48 * GIB), gpu(2, memory_total_bytes=80 * GIB))},
        [f"Each GPU must have 90.0 GiB of memory, but GPU 1 {CARD} has 48.0 GiB, GPU 2 {CARD} has 80.0 GiB."],
    ),
    "old": (
        {"facts": facts(gpu(0, **OLD), gpu(1, **OLD))},
        [
            "Each GPU must have compute capability 12.0 or higher, but GPU 0 NVIDIA A100 80GB PCIe has 8.0, "
            "GPU 1 NVIDIA A100 80GB PCIe has 8.0."
        ],
    ),
    "mixed": (
        {"facts": facts(gpu(0), gpu(1, **OLD)), "preflight_compute_capability": ""},
        [
            "One server can't be spread over GPUs of different compute capabilities: "
            f"GPU 0 {CARD} has 12.0, GPU 1 NVIDIA A100 80GB PCIe has 8.0."
        ],
    ),
    "lost": (
        {"facts": facts(gpu(0), lost(1))},
        [
            "GPU 1 (no name) (UUID unknown, PCI address unknown) must answer the driver without an error, but "
            f"nvmlDeviceGetHandleByIndex says GPU is lost. {RESET}"
        ],
    ),
    "faulty": (
        {
            "facts": facts(
                gpu(0, errors=[{"query": "nvmlDeviceGetEccMode", "error": "Unknown", "message": "Unknown Error"}]),
                gpu(1),
            )
        },
        [
            f"GPU 0 {CARD} (UUID GPU-0, PCI address 00000000:00:00.0) must answer the driver without an error, but "
            f"nvmlDeviceGetEccMode says Unknown Error. {RESET}"
        ],
    ),
    "no_systemd": (
        {"facts": facts(gpu(0), gpu(1), service_mgr="openrc")},
        ["The service manager must be systemd, since the model is served by a systemd unit, but it is openrc."],
    ),
    "architecture": (
        {"facts": facts(gpu(0), gpu(1), architecture="riscv64")},
        ["The machine must be x86_64 or aarch64 for this profile, but it is riscv64."],
    ),
    "no_vllm": (
        {"__preflight_vllm": {"stat": {"exists": False}}},
        [
            "There is no /opt/vllm/bin/vllm. Install vLLM there, or let this collection do it: runtime.method pip or "
            "uv, and runtime.version, in the profile."
        ],
    ),
    "no_room": (
        {"preflight_model_bytes": 1000 * GIB, "__preflight_du": {"stdout": f"{50 * GIB}\t/srv/models"}},
        [
            "The checkpoint still needs 950.0 GiB below /srv/models and 10.0 GiB must stay free, but the file system "
            "at /srv has only 900.0 GiB free. Free some space (disk_prep_remove_snapshots), or put models_root on a "
            "larger file system."
        ],
    ),
    "port": (
        {"__preflight_ss": {"stdout_lines": ['LISTEN 0 5 *:8000 *:* users:(("nc",pid=7,fd=3))']}},
        [
            'Port 8000 is held by another process than vllm@kimi.service: (("nc",pid=7,fd=3)). Stop it, or choose '
            "another service.port."
        ],
    ),
    "several": (
        {"facts": facts(gpu(0, **OLD), gpu(1, **OLD), service_mgr="openrc")},
        ["The service manager must be systemd", "Each GPU must have compute capability 12.0 or higher, but GPU 0"],
    ),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, t.Any]:
    cases = {name: {**GOOD, **changes} for name, (changes, _reasons) in CASES.items()}
    role = {"name": "modelfleet.serving.preflight", "tasks_from": "judge"}
    return judged(tmp_path_factory.mktemp("preflight"), role, cases, "'passed'")


@pytest.mark.parametrize("name", CASES)
def test_every_reason_says_what_was_wanted_and_what_was_found(said: dict[str, t.Any], name: str) -> None:
    reasons = CASES[name][1]
    if not reasons:
        assert said[name] == "passed"
        return
    head, *given = said[name].split("\n- ")
    assert head == f"{name} can't run this model:"
    if name == "several":
        assert [text.startswith(start) for text, start in zip(given, reasons, strict=True)] == [True, True]
    else:
        assert given == reasons
