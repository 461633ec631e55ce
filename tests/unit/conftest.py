# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ansible finds the plugins of collections by an importer that must be there before anything is imported from one."""

from ansible.plugins.loader import init_plugin_loader

init_plugin_loader()
