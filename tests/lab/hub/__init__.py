# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A local stand-in for the Hugging Face Hub: what the real client needs, and faults on demand. See README.md."""

from __future__ import annotations

from hub.content import Blob, Repo
from hub.control import HubControl
from hub.faults import FaultError
from hub.server import Hub

__all__ = ("Blob", "FaultError", "Hub", "HubControl", "Repo")
