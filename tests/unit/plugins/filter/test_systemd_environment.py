# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.modelfleet.serving.plugins.filter.systemd_environment import systemd_environment

CASES = [
    ({}, ""),
    ({"NCCL_P2P_LEVEL": "SYS", "OMP_NUM_THREADS": 8}, 'NCCL_P2P_LEVEL="SYS"\nOMP_NUM_THREADS="8"\n'),
    ({"A": None, "B": 0.5}, 'B="0.5"\n'),
    ({"A": ""}, 'A=""\n'),
    ({"A": 'say "$HOME" `x` \\'}, 'A="say \\"\\$HOME\\" \\`x\\` \\\\"\n'),
    ({"A": "# no comment; it's 100%"}, 'A="# no comment; it\'s 100%"\n'),
    ({"A": "one\ntwo"}, 'A="one\ntwo"\n'),
]

REFUSED: list[tuple[t.Any, str]] = [
    ([], "systemd_environment: expected a mapping, found list"),
    ({"A-B": "x"}, "systemd_environment: 'A-B' is not the name of an environment variable"),
    ({"A\nB": "x"}, "systemd_environment: 'A\\nB' is not the name of an environment variable"),
    ({1: "x"}, "systemd_environment: 1 is not the name of an environment variable"),
    (
        {"A": True},
        "systemd_environment: A must be a string or a number, found bool;"
        " quote it in YAML to say what the program shall see",
    ),
    (
        {"A": ["s3cret"]},
        "systemd_environment: A must be a string or a number, found list;"
        " quote it in YAML to say what the program shall see",
    ),
    ({"A": "s3cret\0"}, "systemd_environment: A holds a NUL character"),
]


@pytest.mark.parametrize(("variables", "text"), CASES)
def test_text(variables: dict[str, t.Any], text: str) -> None:
    assert systemd_environment(variables) == text


@pytest.mark.parametrize(("variables", "message"), REFUSED)
def test_what_is_refused_and_how(variables: t.Any, message: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        systemd_environment(variables)
    assert str(caught.value) == message
