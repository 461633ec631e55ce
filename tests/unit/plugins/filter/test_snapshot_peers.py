# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.modelfleet.serving.plugins.filter.snapshot_peers import snapshot_peers

C = "f" * 40


def fleet(size: int, whole: t.Collection[int] = (), down: t.Collection[int] = (), helpers: int = 0) -> list[t.Any]:
    """Shares of the hosts 0 to size-1; ``whole`` have it all. Helpers have it too, and no place."""
    has_it = [{"repo_id": "a/b", "commit": C, "complete": True, "files": 1, "bytes": 1}]
    part = [{"repo_id": "a/b", "commit": C, "complete": False, "files": 1, "bytes": 1}]
    shares = [
        {
            "url": None if place in down else f"http://h{place}:1",
            "token": f"t{place}",
            "place": place,
            "snapshots": has_it if place in whole else part if place % 2 else [],
        }
        for place in range(size)
    ]
    return shares + [
        {"url": f"http://x{number}:1", "token": "tx", "place": None, "snapshots": has_it} for number in range(helpers)
    ]


@pytest.mark.parametrize(
    ("shares", "place", "hosts"),
    [
        (fleet(1), 0, ""),
        (fleet(3), 0, "h1 h2"),
        (fleet(3), 1, "h0 h2"),
        (fleet(3), 2, "h1 h0"),
        (fleet(3, down=[1]), 2, "h0"),
        # those that have it are asked last, each host beginning with another one
        (fleet(5, whole=[0, 2]), 1, "h3 h4 h2 h0"),
        (fleet(5, whole=[0, 2]), 4, "h3 h1 h0 h2"),
        (fleet(3, whole=[0, 1, 2]), 1, "h2 h0"),
        (fleet(2, helpers=2), 0, "h1 x0 x1"),
        (fleet(2, helpers=2), 1, "h0 x1 x0"),
        (fleet(1, helpers=5), 0, "x0 x1 x2"),
        # a few neighbours of many, and the first, which asks the Hub
        (fleet(40), 20, "h19 h18 h16 h12 h4 h0 h21 h22 h24 h28 h36"),
        (fleet(40), 0, "h1 h2 h4 h8 h16 h32"),
        (fleet(40, whole=range(39)), 39, "h0 h1 h2"),
    ],
)
def test_order(shares: list[t.Any], place: int, hosts: str) -> None:
    peers = snapshot_peers(shares, C, place)
    assert [peer["peer"] for peer in peers] == [f"http://{host}:1/~{place}" for host in hosts.split()]
    assert [peer["token"] for peer in peers] == [f"t{host[1:]}" if host[0] == "h" else "tx" for host in hosts.split()]


def test_another_commit_is_not_it() -> None:
    assert [peer["peer"] for peer in snapshot_peers(fleet(3, whole=[0]), "e" * 40, 2)] == [
        "http://h1:1/~2",
        "http://h0:1/~2",
    ]


def test_everybody_reaches_the_first() -> None:
    """Whoever waits, waits for somebody nearer to the first place, so that all is well when that one gets on."""
    for place in range(1, 70):
        hosts = [peer["peer"] for peer in snapshot_peers(fleet(70), C, place)]
        assert f"http://h0:1/~{place}" in hosts and f"http://h{place - 1}:1/~{place}" in hosts
        assert len(hosts) <= 14


def test_a_share_without_a_token_is_a_mistake() -> None:
    with pytest.raises(AnsibleFilterError, match="^snapshot_peers: the share http://h has no token$"):
        snapshot_peers([{"url": "http://h", "place": 1}], C, 0)
