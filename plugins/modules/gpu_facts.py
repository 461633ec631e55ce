# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_facts
short_description: Gather facts about NVIDIA GPUs and the processes that use them
version_added: 0.1.0
description:
  - Asks NVML, the library that C(nvidia-smi) is made of, what GPUs the host has, in what state they are, and which
    processes hold their memory.
  - What a card, a driver or a virtual machine does not tell is V(null), never zero.
  - A host without NVIDIA GPU or without a working driver is not a failure. It has an empty list and a reason.
author:
  - modelfleet contributors (@modelfleet)
extends_documentation_fragment:
  - modelfleet.serving._attributes
  - modelfleet.serving._attributes.facts
attributes:
  check_mode:
    support: full
    details:
      - This action does not modify state.
  diff_mode:
    support: N/A
    details:
      - This action does not modify state.
  facts:
    support: full
  idempotent:
    support: full
  platform:
    platforms: linux
    support: full
options:
  gather:
    description:
      - Which facts to gather. The identity of each GPU (index, UUID, name, PCI address) is always there.
      - V(devices) gathers what the GPUs are and do.
      - V(processes) gathers who holds memory on them.
      - Facts that are not gathered are V(null).
    type: list
    elements: str
    choices:
      - all
      - devices
      - processes
    default:
      - all
  library_path:
    description:
      - Path of C(libnvidia-ml.so.1) where it is not in a place that the dynamic loader of the host searches.
    type: path
requirements:
  - nvidia-ml-py >= 12.535 (only on hosts that have the NVML library)
notes:
  - Do not install the package C(pynvml) beside C(nvidia-ml-py). Its old releases put another module in the same place.
    The module notices that and fails.
  - Memory and processes of other users may need C(become).
  - A GPU that does nothing lowers its PCIe generation to save power. Compare
    RV(ansible_facts.gpu.devices[].pcie_generation) with its maximum only under load.
seealso:
  - module: modelfleet.serving.quant_config_patch
  - name: NVML API reference
    description: What each value means.
    link: https://docs.nvidia.com/deploy/nvml-api/
"""

EXAMPLES = r"""
---
- name: Gather GPU facts
  modelfleet.serving.gpu_facts:

- name: Stop when the host has fewer than eight GPUs
  ansible.builtin.assert:
    that: ansible_facts.gpu.count == 8
    fail_msg: "{{ ansible_facts.gpu.reason or ansible_facts.gpu.count ~ ' GPUs found' }}"

- name: Find out who holds GPU memory
  modelfleet.serving.gpu_facts:
    gather:
      - processes

- name: Show the units that hold GPU memory
  ansible.builtin.debug:
    msg: "{{ holders | map(attribute='unit') | unique }}"
  vars:
    holders: "{{ ansible_facts.gpu.devices | map(attribute='processes') | select | flatten }}"
"""

RETURN = r"""
ansible_facts:
  description: Facts to add to the host's.
  returned: success
  type: dict
  contains:
    gpu:
      description: The GPUs of the host.
      returned: success
      type: dict
      contains:
        available:
          description: Whether there is at least one GPU and NVML can be asked about it.
          returned: success
          type: bool
          sample: true
        reason:
          description: Why there is no GPU to be had and what to do about it. V(null) when there is.
          returned: success
          type: str
          sample: null
        driver_version:
          description: Version of the NVIDIA driver.
          returned: success
          type: str
          sample: "595.58.03"
        cuda_version:
          description: The newest CUDA version that the driver supports.
          returned: success
          type: str
          sample: "13.2"
        nvml_version:
          description: Version of the NVML library.
          returned: success
          type: str
          sample: "13.595.58.03"
        count:
          description: Number of GPUs.
          returned: success
          type: int
          sample: 8
        devices:
          description: The GPUs, in the order of NVML, which is that of C(nvidia-smi).
          returned: success
          type: list
          elements: dict
          contains:
            index:
              description: Index of the GPU in NVML.
              returned: success
              type: int
              sample: 0
            uuid:
              description: Unique identifier of the GPU.
              returned: success
              type: str
              sample: GPU-00000000-0000-4000-8000-000000000000
            name:
              description: Product name.
              returned: success
              type: str
              sample: NVIDIA RTX PRO 6000 Blackwell Server Edition
            pci_bus_id:
              description: PCI address, with a domain of eight digits as in C(nvidia-smi).
              returned: success
              type: str
              sample: "00000000:01:00.0"
            compute_capability:
              description: CUDA compute capability.
              returned: success
              type: str
              sample: "12.0"
            architecture:
              description: Name of the architecture in lower case.
              returned: success
              type: str
              sample: blackwell
            memory_total_bytes:
              description: Size of the GPU's memory.
              returned: success
              type: int
              sample: 102642352128
            memory_used_bytes:
              description:
                - Memory in use, without the driver's reserve.
                - Where RV(ansible_facts.gpu.devices[].memory_reserved_bytes) is V(null), the driver is too old to tell
                  them apart and the reserve is part of this number.
              returned: success
              type: int
              sample: 0
            memory_reserved_bytes:
              description: Memory that the driver keeps for itself.
              returned: success
              type: int
              sample: 666894336
            memory_free_bytes:
              description: Memory that is neither used nor reserved.
              returned: success
              type: int
              sample: 101975457792
            ecc_enabled:
              description: Whether ECC is in force.
              returned: success
              type: bool
              sample: true
            mig_enabled:
              description: Whether the GPU is in MIG mode. V(null) where the card has no such mode.
              returned: success
              type: bool
              sample: false
            persistence_enabled:
              description: Whether the driver stays loaded while nothing uses the GPU.
              returned: success
              type: bool
              sample: true
            power_draw_watts:
              description: Power drawn now.
              returned: success
              type: float
              sample: 39.12
            power_limit_watts:
              description: Power limit in force.
              returned: success
              type: float
              sample: 600.0
            pcie_generation:
              description: PCIe generation of the link now.
              returned: success
              type: int
              sample: 1
            pcie_generation_max:
              description: PCIe generation that GPU and slot are capable of.
              returned: success
              type: int
              sample: 5
            pcie_width:
              description: Number of PCIe lanes in use now.
              returned: success
              type: int
              sample: 16
            pcie_width_max:
              description: Number of PCIe lanes that GPU and slot are capable of.
              returned: success
              type: int
              sample: 16
            temperature_celsius:
              description: Temperature of the GPU.
              returned: success
              type: int
              sample: 31
            utilization_percent:
              description: Share of the last sample period in which a kernel ran.
              returned: success
              type: int
              sample: 0
            processes:
              description:
                - Processes that hold a context on the GPU, by PID.
                - V(null) where the driver lists processes of no kind.
              returned: success
              type: list
              elements: dict
              contains:
                pid:
                  description: Process ID as the driver sees it.
                  returned: success
                  type: int
                  sample: 4711
                name:
                  description:
                    - Title or program of the process, without its arguments.
                    - V(null) where C(/proc) does not show the process.
                  returned: success
                  type: str
                  sample: "VLLM::Worker_TP0"
                used_memory_bytes:
                  description: GPU memory that the process holds.
                  returned: success
                  type: int
                  sample: 80530636800
                user:
                  description: User that the process runs as.
                  returned: success
                  type: str
                  sample: vllm
                unit:
                  description: Systemd unit that the process belongs to. V(null) where it belongs to none.
                  returned: success
                  type: str
                  sample: vllm@kimi.service
            errors:
              description:
                - What NVML answered where it should have had a value, for example that the GPU has fallen off the bus.
                - Values that a card or driver does not have are no errors.
              returned: success
              type: list
              elements: dict
              contains:
                query:
                  description: NVML function that was called.
                  returned: success
                  type: str
                  sample: nvmlDeviceGetHandleByIndex
                error:
                  description: Name of the error.
                  returned: success
                  type: str
                  sample: GpuIsLost
                message:
                  description: The error in NVML's words.
                  returned: success
                  type: str
                  sample: GPU is lost
"""

import pathlib
import pwd

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

from ansible_collections.modelfleet.serving.plugins.module_utils._gpu import gather
from ansible_collections.modelfleet.serving.plugins.module_utils._nvml import (
    PYNVML_IMPORT_ERROR,
    BindingForeign,
    BindingMissing,
    NvmlReader,
)

SUBSETS = ("devices", "processes")


class ProcFs:
    """The processes of this host."""

    def status(self, pid: int) -> str | None:
        return self._read(pid, "status")

    def cmdline(self, pid: int) -> str | None:
        return self._read(pid, "cmdline")

    def cgroup(self, pid: int) -> str | None:
        return self._read(pid, "cgroup")

    def user_name(self, uid: int) -> str:
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return str(uid)

    def _read(self, pid: int, name: str) -> str | None:
        try:
            return pathlib.Path("/proc", str(pid), name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gather": {"type": "list", "elements": "str", "choices": ["all", *SUBSETS], "default": ["all"]},
            "library_path": {"type": "path"},
        },
        supports_check_mode=True,
    )
    wanted = module.params["gather"]
    try:
        gpu = gather(SUBSETS if "all" in wanted else wanted, NvmlReader(module.params["library_path"]), ProcFs())
    except BindingMissing:
        module.fail_json(
            msg=missing_required_lib(
                "nvidia-ml-py",
                reason="to speak to the NVML library, which this host has",
                url="https://pypi.org/project/nvidia-ml-py/",
            ),
            exception=PYNVML_IMPORT_ERROR,
        )
    except BindingForeign as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(changed=False, ansible_facts={"gpu": gpu})


if __name__ == "__main__":
    main()
