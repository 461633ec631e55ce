# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Names: what a repository, a commit and a published file may be called, and where a snapshot lies."""

from __future__ import annotations

import re

from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import OWN_DIR

COMMIT = re.compile(r"[0-9a-f]{40}")
_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
REPO_ID = re.compile(rf"(?:{_NAME}/)?{_NAME}")


def snapshot_path(root: str, repo_id: str, commit: str) -> str:
    return f"{root.rstrip('/')}/snapshots/{repo_id.replace('/', '--')}/{commit}"


def unsafe_name(path: str) -> str:
    """Why a published file name must not be used on a host, or empty."""
    parts = path.split("/")
    if not path or path.startswith("/") or any(part in ("", ".", "..") for part in parts):
        return "leads out of the snapshot"
    if any(ord(char) < 32 or ord(char) == 127 for char in path):
        return "has control characters"
    if parts[0] == OWN_DIR:
        return f"lies in {OWN_DIR}, which is not the repository's"
    if max(len(part.encode("utf-8", "surrogatepass")) for part in parts) > 255:
        return "is longer than a file name may be"
    return ""


__all__ = (
    "COMMIT",
    "REPO_ID",
    "snapshot_path",
    "unsafe_name",
)
