# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Causes that no log line names: what can only be seen from outside the server."""

from __future__ import annotations

import typing


class Finding(typing.NamedTuple):
    """Like a row of the signature table, without a line to match."""

    id: str
    cause: str
    remedy: str


FINDINGS = (
    Finding(
        "process_stopped",
        "a process of the service is stopped (state T): SIGSTOP, a debugger, or a job control shell holds it",
        "kill -CONT its pid, after finding out who stopped it; /health keeps answering 200 meanwhile",
    ),
    Finding(
        "process_blocked",
        "a process of the service waits in the kernel for a device (state D): a disk, a network file system or a GPU "
        "that does not answer",
        "dmesg, the state of the mount (NFS server, RAID), nvidia-smi; such a process cannot be killed until the "
        "device answers",
    ),
    Finding(
        "gpu_spin",
        "every GPU runs at 100 % with its memory flat and nothing is logged: the ranks wait for each other in a "
        "collective that never completes, as in a P2P deadlock over IOMMU or ACS",
        "NCCL_P2P_DISABLE=1 to confirm; iommu=off or amd_iommu=off, ACS off, uvm_disable_hmm=1, "
        "NCCL_P2P_LEVEL=PHB or SYS",
    ),
    Finding(
        "peers_missing",
        "the workers wait for ranks that did not join",
        "the same vLLM, flags and checkpoint on every node; master address and port reachable; NCCL_SOCKET_IFNAME, "
        "GLOO_SOCKET_IFNAME and VLLM_HOST_IP set to the right network",
    ),
    Finding(
        "no_progress",
        "nothing moved for the whole budget of this stage: no log line, no reads, no memory, no compiler",
        "py-spy dump of the VLLM:: processes shows where they wait; stall_timeouts raises the budget where this is "
        "normal",
    ),
    Finding(
        "http_silent",
        "the log says that the server listens, but nothing answers at the address asked",
        "compare host and port of the unit with the URL asked; look for a firewall or a proxy",
    ),
    Finding(
        "http_refused",
        "the server wants an API key and did not take the one it was given, or got none",
        "give the key of the server (--api-key or VLLM_API_KEY of the unit) as api_key",
    ),
    Finding(
        "model_not_listed",
        "the server does not serve a model of the expected name",
        "compare --served-model-name (or the model path) with the name asked for",
    ),
    Finding(
        "no_first_token",
        "the server answers, but a request for tokens does not come back",
        "look at the engine: /health answers 200 while it hangs; stacks by py-spy, states of its processes",
    ),
    Finding(
        "wrong_answer",
        "the model generates tokens, but not the known answer",
        "look at the text it gave: repeated tokens or '!!!!' mean broken kernels or KV-cache scales, a plain other "
        "answer a wrong checkpoint, template or known_answer",
    ),
    Finding(
        "unit_not_found",
        "systemd knows no such unit",
        "check the name of the unit; systemctl daemon-reload after writing it",
    ),
    Finding(
        "unit_masked",
        "the unit is masked: systemd starts it neither by hand nor at boot",
        "systemctl unmask it, after finding out why it was masked, and start it",
    ),
    Finding(
        "unit_bad",
        "systemd cannot load the unit: its file or a drop-in has an error",
        "systemd-analyze verify it; systemctl daemon-reload after mending it",
    ),
    Finding(
        "unit_not_started",
        "the unit was never started since the host booted, and nothing starts it",
        "systemctl start it; systemctl enable it where a boot is to start it",
    ),
    Finding(
        "unit_queued",
        "the start of the unit waits for other units",
        "systemctl list-jobs shows what is waited for; look at the journal of those units",
    ),
    Finding(
        "server_gone",
        "the server answered before and does not any more",
        "look at the end of its log and at the kernel log",
    ),
)

BY_ID = {finding.id: finding for finding in FINDINGS}


__all__ = ("BY_ID", "FINDINGS", "Finding")
