# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this doc fragment is PRIVATE to the collection. It can have breaking changes at any time.

from __future__ import annotations


class ModuleDocFragment:
    # Keep in step with module_utils/_hub.py.
    DOCUMENTATION = r"""
options:
  endpoint:
    description:
      - Address of the Hub.
      - Environment variables such as E(HF_ENDPOINT) and settings of the user on the host are not used,
        so that a task does the same on every host.
    type: str
    default: https://huggingface.co
  token:
    description:
      - Token that the Hub is asked with. Gated and private repositories need it, for the others it raises the limits.
      - It is kept in memory and sent to the origin of O(endpoint) only, never to another one that the Hub redirects to.
      - A token stored on the host, or in its environment, is not used.
    type: str
requirements:
  - huggingface_hub >= 0.34, on the host and for the Python interpreter that Ansible uses there.
    It is not needed when there is nothing to ask the Hub or a mirror for.
"""
