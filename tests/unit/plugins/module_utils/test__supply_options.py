# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From options to sources, and who is asked for the listing."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._adopt import Wanted
from ansible_collections.modelfleet.serving.plugins.module_utils._hub import HubError
from ansible_collections.modelfleet.serving.plugins.module_utils._listing import find_listing
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import Listing
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import ListingError
from ansible_collections.modelfleet.serving.plugins.module_utils._supply_options import redact_all, wanted_of


@pytest.mark.parametrize(
    ("params", "wanted"),
    [
        ({}, Wanted()),
        ({"owner": "root", "group": "root", "mode": "0644"}, Wanted(0, 0, 0o644)),
        ({"mode": 0o640}, Wanted(mode=0o640)),
        ({"mode": "u=rw,go=r"}, Wanted(symbolic=True)),
        ({"owner": "4711", "group": "4712"}, Wanted(4711, 4712)),
        ({"owner": "no such user"}, Wanted(-1)),
    ],
)
def test_what_the_files_will_be_given(params: dict[str, t.Any], wanted: Wanted) -> None:
    assert wanted_of(params) == wanted


def test_no_token_is_shown() -> None:
    params = {"token": "hf_a ", "sources": [{"token": "b-secret"}, {"token": None}, {}]}
    text = redact_all("hf_a and b-secret at http://u:p@h/x?sig=1 failed", params)
    assert text == "******** and ******** at http://h/x failed"


class Says:
    """A source that says one thing about listings."""

    def __init__(self, name: str, said: t.Union[Listing, Exception]) -> None:
        self.name, self._said = name, said
        self.asked: list[t.Any] = []

    def listing(self, repo_id: str, revision: str, pinned: bool, patient: bool = True) -> Listing:
        self.asked.append((revision, pinned, patient))
        if isinstance(self._said, Exception):
            raise self._said
        return self._said


LISTING = Listing("c" * 40, ())
NO = ListingError("it does not know.")


def ask(hub: t.Optional[Says], *sources: Says, pinned: bool = True) -> Listing:
    return find_listing(
        t.cast("t.Any", hub), t.cast("t.Any", sources), "acme/tiny", "c" * 40 if pinned else "main", pinned
    )


def test_the_hub_comes_first_and_is_asked_patiently_when_it_is_alone() -> None:
    hub, other = Says("hub", LISTING), Says("other", LISTING)
    assert ask(hub) == ask(hub, other) == LISTING
    assert [patient for _revision, _pinned, patient in hub.asked] == [True, False]
    assert other.asked == []


def test_others_are_asked_when_it_cannot_be_but_not_when_it_says_no() -> None:
    assert ask(Says("hub", HubError("gone", passing=True)), Says("a", NO), Says("b", LISTING)) == LISTING
    with pytest.raises(HubError, match="no such repository"):
        ask(Says("hub", HubError("no such repository")), Says("b", LISTING))
    with pytest.raises(HubError, match="gone"):
        ask(Says("hub", HubError("gone", passing=True)))


def test_a_mirror_that_says_no_is_one_of_many() -> None:
    assert ask(None, Says("mirror", HubError("no such repository")), Says("b", LISTING)) == LISTING


def test_all_that_was_said_is_told() -> None:
    with pytest.raises(ListingError) as caught:
        ask(Says("hub", HubError("It is gone.", passing=True)), Says("/mnt", NO))
    assert str(caught.value) == (
        f"Nobody says what commit {'c' * 40} of acme/tiny consists of. It is gone. /mnt: it does not know. Carry in "
        "the whole folder of the snapshot from a host that has it, with .modelfleet/manifest.json, or name a source "
        "that lists it."
    )
    with pytest.raises(
        ListingError, match=r"^Nobody says what revision main of acme/tiny consists of\. hub is false, so"
    ):
        ask(None, pinned=False)
