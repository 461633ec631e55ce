# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.modelfleet.serving.plugins.module_utils import _nvml
from ansible_collections.modelfleet.serving.plugins.modules import gpu_facts


def run(capfd: pytest.CaptureFixture[str], **params: t.Any) -> dict[str, t.Any]:
    with patch_module_args(params), pytest.raises(SystemExit):
        gpu_facts.main()
    return json.loads(capfd.readouterr().out)


def test_a_host_without_nvml_gets_a_reason_even_without_the_binding(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_nvml, "HAS_PYNVML", False)
    result = run(capfd, library_path="/nonexistent/libnvidia-ml.so.1")
    assert "failed" not in result
    assert set(result) <= {"ansible_facts", "changed", "invocation"}
    assert list(result["ansible_facts"]) == ["gpu"]
    assert result["ansible_facts"]["gpu"]["devices"] == []
    assert "/nonexistent/libnvidia-ml.so.1" in result["ansible_facts"]["gpu"]["reason"]


def test_a_host_with_nvml_needs_the_binding(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_nvml, "HAS_PYNVML", False)
    result = run(capfd, library_path="libc.so.6")
    assert result["failed"] is True
    assert "Failed to import the required Python library (nvidia-ml-py)" in result["msg"]
    assert "which this host has" in result["msg"]


def test_processes_of_this_host_can_be_read() -> None:
    proc = gpu_facts.ProcFs()
    status = proc.status(os.getpid())
    assert status is not None and f"Pid:\t{os.getpid()}\n" in status
    assert proc.cmdline(os.getpid())
    assert proc.cgroup(os.getpid())


def test_a_process_that_is_gone_and_a_user_without_account() -> None:
    proc = gpu_facts.ProcFs()
    assert proc.status(2**22 + 1) is None
    assert proc.user_name(0) == "root"
    assert proc.user_name(4242424) == "4242424"
