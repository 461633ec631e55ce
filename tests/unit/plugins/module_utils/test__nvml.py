# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils import _nvml
from ansible_collections.modelfleet.serving.plugins.module_utils._gpu import NvmlFault

#: any shared library stands in for NVML's until the binding is asked
SOME_LIBRARY = "libc.so.6"


def test_the_real_binding_is_accepted() -> None:
    pynvml = pytest.importorskip("pynvml")
    assert _nvml.binding_problem(pynvml) is None


def test_an_impostor_is_named_with_its_place() -> None:
    impostor = types.ModuleType("pynvml")
    impostor.__file__ = "/usr/lib/python3/pynvml/__init__.py"
    assert _nvml.binding_problem(impostor) == (
        "The Python module pynvml in /usr/lib/python3/pynvml/__init__.py does not belong to nvidia-ml-py. "
        "Uninstall the package pynvml and reinstall nvidia-ml-py for the same interpreter."
    )


def test_no_library_comes_before_no_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_nvml, "HAS_PYNVML", False)
    with pytest.raises(NvmlFault) as caught:
        _nvml.NvmlReader("/nonexistent/libnvidia-ml.so.1").open()
    assert caught.value.name == "LibraryNotFound"
    assert "/nonexistent/libnvidia-ml.so.1" in caught.value.text


def test_a_library_without_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_nvml, "HAS_PYNVML", False)
    with pytest.raises(_nvml.BindingMissing):
        _nvml.NvmlReader(SOME_LIBRARY).open()


def test_a_library_with_an_impostor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_nvml, "HAS_PYNVML", True)
    monkeypatch.setattr(_nvml, "pynvml", types.ModuleType("pynvml"), raising=False)
    with pytest.raises(_nvml.BindingForeign, match=r"does not belong to nvidia-ml-py"):
        _nvml.NvmlReader(SOME_LIBRARY).open()


def test_a_function_newer_than_the_binding_is_not_found() -> None:
    pytest.importorskip("pynvml")
    with pytest.raises(NvmlFault) as caught:
        _nvml.NvmlReader().call("nvmlDeviceGetThingOfTheFuture")
    assert caught.value.name == "FunctionNotFound"


def test_errors_carry_the_short_name_and_the_librarys_words() -> None:
    pytest.importorskip("pynvml")
    with pytest.raises(NvmlFault) as caught:
        _nvml.NvmlReader().call("nvmlDeviceGetCount")
    assert (caught.value.name, caught.value.text) == ("Uninitialized", "Uninitialized")
