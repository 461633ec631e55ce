# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The fold: a sequence of observations into stage, progress, ETA and verdict. Pure; no clock, no io."""

from __future__ import annotations

import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._status import Cause, JudgeConfig, Status

if typing.TYPE_CHECKING:
    from ansible_collections.modelfleet.serving.plugins.module_utils._observe import Observation


class Judge:
    """Feed it every observation in order; each answer is the whole truth so far."""

    def __init__(self, config: JudgeConfig) -> None:
        self._config = config

    def feed(self, observation: Observation) -> Status:
        return Status(verdict="progressing", stage="unit", stages=(("unit", observation.t),))


__all__ = ("Cause", "Judge", "JudgeConfig", "Status")
