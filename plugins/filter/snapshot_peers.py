# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: snapshot_peers
short_description: Choose the hosts that a host takes a snapshot's files from
description:
  - Turns the shares of a fleet (M(modelfleet.serving.snapshot_share)) into sources of M(modelfleet.serving.hf_snapshot)
    for one of its hosts, in the order in which they are to be asked.
  - Hosts that have the whole snapshot come last, and in another order for every host, so that they send it as seldom as
    possible. Before them come hosts that are still getting it, nearest first, so that files pass from host to host.
  - Of a large fleet each host is given a few neighbours at growing distances, so that the rest of the fleet stays
    in reach when some of them are gone.
author: modelfleet contributors (@modelfleet)
positional: _input
options:
  _input:
    description:
      - The shares, each with C(url), C(token), C(place) and C(snapshots) as M(modelfleet.serving.snapshot_share) takes
        and returns them. Those without C(url) do not run, and are left out.
      - C(place) is null for a host that only gives.
    type: list
    elements: dict
    required: true
  commit:
    description: Commit of the snapshot.
    type: str
    required: true
  place:
    description: Place of the host that asks. A share at the same place is its own, and left out.
    type: int
    required: true
"""

EXAMPLES = r"""
---
- name: Download from whoever has it
  modelfleet.serving.hf_snapshot:
    repo_id: acme/tiny
    revision: "{{ commit }}"
    root: /srv/models
    sources: "{{ shares | modelfleet.serving.snapshot_peers(commit=commit, place=place) }}"
  vars:
    place: "{{ ansible_play_batch.index(inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description: What O(modelfleet.serving.hf_snapshot#module:sources) takes, each with C(peer) and C(token).
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

#: whole copies that a host knows of: one to take from, and others for when that one is gone
MAX_WHOLE = 3


def snapshot_peers(shares: t.Sequence[t.Mapping[str, t.Any]], commit: str, place: int) -> list[dict[str, str]]:
    """Return the sources of the host at ``place``."""
    place = int(place)
    running = [share for share in shares if share.get("url")]
    for share in running:
        if not share.get("token"):
            raise AnsibleFilterError(f"snapshot_peers: the share {share['url']} has no token")
    others = [share for share in running if share.get("place") is None or int(share["place"]) != place]
    whole = [share for share in others if _is_whole(share, commit)]
    partly = {int(share["place"]): share for share in others if share.get("place") is not None and share not in whole}
    ahead = _nearest(sorted((other for other in partly if other < place), reverse=True))
    if partly and min(partly) < place and min(partly) not in ahead:
        # the one that asks the Hub when nobody has it
        ahead.append(min(partly))
    behind = _nearest(sorted(other for other in partly if other > place))
    turn = place % len(whole) if whole else 0
    chosen = [partly[other] for other in (*ahead, *behind)] + [*whole[turn:], *whole[:turn]][:MAX_WHOLE]
    return [{"peer": f"{share['url']}/~{place}", "token": str(share["token"])} for share in chosen]


def _is_whole(share: t.Mapping[str, t.Any], commit: str) -> bool:
    return any(item["commit"] == commit and item["complete"] for item in share.get("snapshots") or ())


def _nearest(places: t.Sequence[int]) -> list[int]:
    """The first, second, fourth ... of some places."""
    return [other for distance, other in enumerate(places, 1) if distance & (distance - 1) == 0]


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"snapshot_peers": snapshot_peers}
