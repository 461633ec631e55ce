# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file that Ansible would send to a host for a task: module, its module_utils and arguments in one."""

from __future__ import annotations

import sys
import typing as t

from ansible.executor.module_common import modify_module
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader, module_loader
from ansible.template import Templar

_loaded = False


def build_payload(name: str, arguments: t.Mapping[str, t.Any], folder: str) -> bytes:
    """``folder`` is for the module's temporary files. The collection has to be on ANSIBLE_COLLECTIONS_PATH."""
    global _loaded
    if not _loaded:
        init_plugin_loader()
        _loaded = True
    found = module_loader.find_plugin_with_context(name)
    if not found.resolved:
        raise LookupError(f"Ansible does not find the module {name}; run through `make bench`")
    built = modify_module(
        module_name=found.resolved_fqcn,
        module_path=found.plugin_resolved_path,
        module_args={**arguments, "_ansible_remote_tmp": folder},
        templar=Templar(DataLoader()),
        task_vars={"ansible_python_interpreter": sys.executable, "ansible_playbook_python": sys.executable},
        remote_is_local=True,
    )
    data: bytes = built.b_module_data
    return data
