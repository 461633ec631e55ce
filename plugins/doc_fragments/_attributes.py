# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this doc fragment is PRIVATE to the collection. It can have breaking changes at any time.

from __future__ import annotations


class ModuleDocFragment:
    # What each attribute means; a module adds only support and details.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Foretells in C(check_mode) what would change, and changes nothing.
  diff_mode:
    description: Shows the state before and after when asked for a diff, in check mode too.
  idempotent:
    description: A second run with the same options finds nothing to do and says so.
  platform:
    description: Operating systems of the hosts that it works on.
"""

    FACTS = r"""
options: {}
attributes:
  facts:
    description: Returns C(ansible_facts), which become facts of the host.
"""

    ACTION = r"""
options: {}
attributes:
  action:
    description: An action plugin of the same name runs on the controller and shows progress.
  async:
    description: Whether the task keyword C(async) can be used.
"""
