# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Who says what a commit consists of: the Hub, or where it may not or cannot be asked, the next source that knows."""

from __future__ import annotations

import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._hub import Hub, HubError
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import MANIFEST, Listing
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import ListingError, Source


def find_listing(hub: Hub | None, sources: t.Sequence[Source], repo_id: str, revision: str, pinned: bool) -> Listing:
    """The listing by the first that has one. A plain no of the Hub is final: it knows what it says."""
    said = []
    if hub is not None:
        try:
            return hub.listing(repo_id, revision, pinned, patient=not sources)
        except HubError as exc:
            if not sources or not exc.passing:
                raise
            said.append(str(exc))
    for source in sources:
        try:
            return source.listing(repo_id, revision, pinned)
        except (ListingError, HubError) as exc:
            said.append(f"{source.name}: {str(exc).rstrip('.')}.")
    why = "" if hub is not None else "hub is false, so the Hub was not asked. "
    what = f"commit {revision}" if pinned else f"revision {revision}"
    help_ = (
        f"Carry in the whole folder of the snapshot from a host that has it, with {MANIFEST}, or name a source that "
        "lists it."
    )
    if not pinned:
        help_ = "Set revision to a commit: what a branch is today, only the Hub, a mirror or a cache can tell."
    raise ListingError(f"Nobody says what {what} of {repo_id} consists of. {why}{' '.join(said)} {help_}")


__all__ = ("find_listing",)
