# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shows where a starting server is while the module of the same name waits on the host."""

from __future__ import annotations

import typing as t

from ansible_collections.modelfleet.serving.plugins.plugin_utils._detached import DetachedAction


class ActionModule(DetachedAction):
    _MODULE = "modelfleet.serving.vllm_health_wait"

    def progress_line(self, state: dict[str, t.Any]) -> str:
        return str(state.get("line", ""))

    def poll_seconds(self, args: t.Mapping[str, t.Any]) -> float:
        try:
            return min(5.0, max(1.0, float(args.get("poll_interval", 2.0))))
        except (TypeError, ValueError):
            # the module says what is wrong with it
            return 2.0
