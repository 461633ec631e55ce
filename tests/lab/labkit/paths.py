# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the lab keeps its things, and the error that ends a command with one line."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("MODELFLEET_CACHE") or "/var/cache/modelfleet-lab")
STATE = Path(os.environ.get("MODELFLEET_LAB_STATE") or "/var/lib/modelfleet-lab")
SSH_KEY = CACHE / "ssh" / "id_ed25519"


class LabError(Exception):
    """What was tried, on what, what was found, and what to do about it."""


__all__ = ("CACHE", "HERE", "SSH_KEY", "STATE", "LabError")
