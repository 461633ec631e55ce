# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._prune import (
    Policy,
    PruneError,
    Release,
    Snapshot,
    View,
    decide,
    run,
)

ROOT = "/srv/models"


def snapshot(letter: str, **changes: t.Any) -> Snapshot:
    commit = letter * 40
    return Snapshot(f"{ROOT}/snapshots/acme--tiny/{commit}", "acme/tiny", commit, 10, True, False, 30.5)._replace(
        **changes
    )


A, B, C, D = map(snapshot, "abcd")


def view(name: str, *snapshots: Snapshot) -> View:
    return View(f"{ROOT}/views/tiny/{name}", frozenset(f"{item.path}/config.json" for item in snapshots))


def release(
    number: int, of: Snapshot, via: t.Optional[View] = None, current: bool = False, to: str = "kimi"
) -> Release:
    return Release(to, number, current, of.path, of.commit, via.path if via else "")


VIEW_A, VIEW_B, VIEW_C = view("a", A), view("b", B), view("c", C)
THREE = [release(1, A, VIEW_A), release(2, B, VIEW_B), release(3, C, VIEW_C, current=True)]


def kept(fates: t.Iterable[t.Any]) -> dict[str, str]:
    """Reasons of those that stay, by the last letter of their path."""
    return {fate.path[-1]: fate.reason for fate in fates if fate.action == "keep"}


@pytest.mark.parametrize(
    ("keep", "stay"),
    [
        (3, "abc"),
        (2, "bc"),
        (1, "c"),
        # the current one always
        (0, "c"),
    ],
)
def test_the_last_releases_of_an_instance_stay_with_their_views(keep: int, stay: str) -> None:
    snapshots, views = decide([A, B, C, D], [VIEW_A, VIEW_B, VIEW_C], THREE, {}, Policy(releases=keep))
    assert "".join(sorted(kept(snapshots))) == "".join(sorted(kept(views))) == stay
    assert kept(snapshots)["c"] == "release 3 of kimi, which is current, serves from it"
    gone = {fate.path[-1]: fate.reason for fate in snapshots if fate.action == "remove"}
    assert gone["d"] == "no release, view or process uses it"
    if keep == 1:
        assert gone["a"] == "used by release 1 of kimi, and no newer"
        assert {fate.path[-1]: fate.reason for fate in views}["b"] == "release 2 of kimi, and no newer"


def test_after_a_rollback_the_current_release_is_not_the_newest() -> None:
    releases = [release(1, A, VIEW_A, current=True), release(2, B, VIEW_B), release(3, C, VIEW_C)]
    snapshots, views = decide([A, B, C], [VIEW_A, VIEW_B, VIEW_C], releases, {}, Policy(releases=1))
    assert set(kept(snapshots)) == set(kept(views)) == {"a", "c"}


def test_a_record_without_the_folder_keeps_the_commit() -> None:
    releases = [release(1, A, current=True)._replace(snapshot=""), release(1, B, to="own")._replace(commit="")]
    assert set(kept(decide([A, B, C], [], releases, {}, Policy(releases=1))[0])) == {"a", "b"}
    # one that serves another folder than ours
    assert kept(decide([A], [], [release(1, A)._replace(snapshot="", commit="")], {}, Policy(releases=1))[0]) == {}


def test_instances_count_apart() -> None:
    releases = [*THREE, release(1, A, to="other"), release(9, D, to="third", current=True)]
    assert set(kept(decide([A, B, C, D], [], releases, {}, Policy(releases=1))[0])) == {"a", "c", "d"}


@pytest.mark.parametrize(
    ("name", "stay"),
    [("acme/tiny", "ab"), (f"acme/tiny@{A.commit}", "a"), (A.commit, "a"), ("acme/other", ""), ("c" * 40, "")],
)
def test_snapshots_that_are_named_stay(name: str, stay: str) -> None:
    fates = decide([A, B], [], [], {}, Policy((name,)))[0]
    assert "".join(kept(fates)) == stay
    assert set(kept(fates).values()) <= {f"keep names {name}"}


def test_the_view_of_an_old_release_stays_as_long_as_its_snapshot() -> None:
    snapshots, views = decide([A, B, C], [VIEW_A, VIEW_B, VIEW_C], THREE, {}, Policy((A.commit,), 1))
    assert set(kept(snapshots)) == {"a", "c"}
    assert kept(views) == {"a": "its snapshot is kept", "c": "release 3 of kimi, which is current, serves it"}


@pytest.mark.parametrize("used", [A.path, VIEW_A.path])
def test_what_a_process_uses_stays(used: str) -> None:
    users = {used: "process 7 (vllm)"}
    snapshots, views = decide([A, C], [VIEW_A, VIEW_C], [THREE[0], THREE[2]], users, Policy(releases=1))
    assert set(kept(snapshots)) == set(kept(views)) == {"a", "c"}
    assert "process 7 (vllm) uses it" in kept(snapshots)["a"]


def test_a_view_that_no_release_made_keeps_what_it_links_to() -> None:
    hand_made = view("x", A, B)
    snapshots, views = decide([A, B, C], [hand_made], [], {}, Policy(releases=2))
    reason = "no release made it, so that it is not ours to judge"
    assert kept(views) == {"x": reason}
    assert kept(snapshots) == dict.fromkeys("ab", f"view {hand_made.path} links to it, and is kept: {reason}")


def test_a_download_under_way_stays_and_an_abandoned_one_goes() -> None:
    snapshots = decide(
        [snapshot("a", complete=False, busy=True), snapshot("b", complete=False)], [], [], {}, Policy(releases=2)
    )[0]
    assert [(fate.action, fate.reason) for fate in snapshots] == [
        ("keep", "another run is at work on it"),
        ("remove", "unfinished; no release, view or process uses it"),
    ]


@pytest.mark.parametrize(("hours", "stay"), [(0, ""), (30, ""), (31, "a")])
def test_what_is_young_stays(hours: int, stay: str) -> None:
    fates = decide([A], [], [], {}, Policy(hours=hours))[0]
    assert kept(fates) == ({"a": "written to less than 31 hours ago"} if stay else {})


class Fake:
    def __init__(self) -> None:
        self.removed: list[str] = []
        self.asked: t.Mapping[str, t.Collection[str]] = {}

    def real(self, path: str) -> str:
        return path.replace("/models/", ROOT) if path.startswith("/models") else path

    def snapshots(self, root: str) -> list[Snapshot]:
        assert root == ROOT
        return [item for item in (A, B, C) if item.path not in self.removed]

    def views(self, root: str) -> list[View]:
        return [item for item in (VIEW_A, VIEW_B, VIEW_C) if item.path not in self.removed]

    def releases(self, folder: str) -> list[Release]:
        assert folder == "/releases"
        return THREE

    def users(self, names: t.Mapping[str, t.Collection[str]]) -> dict[str, str]:
        self.asked = names
        return {}

    def remove_view(self, path: str) -> None:
        self.removed.append(path)

    def remove_snapshot(self, path: str) -> None:
        self.removed.append(path)


def params(**changes: t.Any) -> dict[str, t.Any]:
    return {"root": ROOT, "keep": [], "keep_releases": 2, "keep_hours": 24, "releases": "/releases", **changes}


def test_check_mode_foretells_and_the_second_run_has_nothing_to_do() -> None:
    host = Fake()
    planned = run(params(), True, host)
    assert host.removed == []
    done = run(params(), False, host)
    assert done == planned
    # views first: one without its snapshot would be broken
    assert host.removed == [VIEW_A.path, A.path]
    assert (done["changed"], done["bytes_freed"]) == (True, 10)
    assert done["snapshots"][0] == {
        "path": A.path,
        "size": 10,
        "action": "remove",
        "reason": "used by release 1 of kimi, and no newer",
    }
    assert "size" not in done["views"][0]
    assert f"{A.path}: used by release 1 of kimi, and no newer\n" in done["diff"]["before"]
    assert A.path not in done["diff"]["after"]
    again = run(params(), False, host)
    assert (again["changed"], again["diff"]["before"]) == (False, again["diff"]["after"])


def test_users_are_looked_for_by_both_names_of_a_linked_root() -> None:
    host = Fake()
    run(params(root="/models/"), True, host)
    assert host.asked[A.path] == {A.path, A.path.replace(ROOT, "/models")}


@pytest.mark.parametrize("name", ["", "a/b/c", "acme/tiny@main", "acme/tiny@", "a b"])
def test_names_that_make_no_sense(name: str) -> None:
    with pytest.raises(PruneError) as caught:
        run(params(keep=[name]), False, Fake())
    assert str(caught.value) == (
        f"keep has {name!r}, which is not of the form OWNER/NAME, OWNER/NAME@COMMIT or COMMIT."
    )
