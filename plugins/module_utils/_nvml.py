# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""NVML through nvidia-ml-py: the import guard and the real reader behind ``_gpu.Nvml``.

nvidia-ml-py is imported as ``pynvml``. Other distributions have put a module of that name there as well, see
:func:`binding_problem`.
"""

from __future__ import annotations

import ctypes
import traceback
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._gpu import NvmlFault

PYNVML_IMPORT_ERROR: str | None
try:
    import pynvml
except ImportError:
    HAS_PYNVML = False
    PYNVML_IMPORT_ERROR = traceback.format_exc()
else:
    HAS_PYNVML = True
    PYNVML_IMPORT_ERROR = None

LIBRARY = "libnvidia-ml.so.1"


class BindingMissing(Exception):
    """The NVML library is there and the Python library that speaks to it is not."""


class BindingForeign(Exception):
    """A module called ``pynvml`` is there, but not nvidia-ml-py's."""


def binding_problem(module: t.Any) -> str | None:
    """A sentence on what is wrong with the imported ``pynvml``, or None.

    The old pynvml package of that very name shadows nvidia-ml-py where both are installed, and lacks its newer
    functions; it never exported this private name.
    """
    if hasattr(module, "_nvmlGetFunctionPointer"):
        return None
    return (
        f"The Python module pynvml in {getattr(module, '__file__', None) or 'an unknown place'} does not belong to "
        "nvidia-ml-py. Uninstall the package pynvml and reinstall nvidia-ml-py for the same interpreter."
    )


class NvmlReader:
    """NVML as the binding offers it, errors turned into NvmlFault. ``library_path`` is for unusual places only."""

    def __init__(self, library_path: str | None = None) -> None:
        self._library_path = library_path

    def open(self) -> None:
        """Raises NvmlFault when NVML can't be used, BindingMissing or BindingForeign when Python's side is at fault.

        The library is looked for first, so that a host without GPU needs no binding. Loading it here also makes
        ``library_path`` work: the binding asks the loader for the bare name and gets what is loaded under that name.
        """
        try:
            ctypes.CDLL(self._library_path or LIBRARY)
        except OSError as exc:
            raise NvmlFault("LibraryNotFound", str(exc)) from exc
        if not HAS_PYNVML:
            raise BindingMissing
        problem = binding_problem(pynvml)
        if problem:
            raise BindingForeign(problem)
        self.call("nvmlInit")

    def call(self, function: str, *args: t.Any) -> t.Any:
        bound = _ADAPTERS.get(function) or getattr(pynvml, function, None)
        if bound is None:
            # the installed binding is older than the function
            raise NvmlFault("FunctionNotFound", "Function Not Found")
        try:
            return bound(*args)
        except pynvml.NVMLError as exc:
            raise NvmlFault(type(exc).__name__.replace("NVMLError_", ""), str(exc)) from exc

    def close(self) -> None:
        self.call("nvmlShutdown")


def _memory_info_v2(handle: t.Any) -> t.Any:
    return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)


#: functions of the library that the binding offers in another shape
_ADAPTERS: dict[str, t.Callable[..., t.Any]] = {"nvmlDeviceGetMemoryInfo_v2": _memory_info_v2}


__all__ = (
    "HAS_PYNVML",
    "LIBRARY",
    "PYNVML_IMPORT_ERROR",
    "BindingForeign",
    "BindingMissing",
    "NvmlReader",
    "binding_problem",
)
