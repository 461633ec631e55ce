# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Which snapshots and views of a host may go: all that nothing keeps. The reasons to keep are looked for, one by one.

Pure but for :class:`PruneIO`.
"""

from __future__ import annotations

import re
import typing as t

#: owner/name, owner/name@commit, or a commit alone
_NAMED = re.compile(r"(?:([\w.-]+(?:/[\w.-]+)?)(?:@([0-9a-f]{40}))?)|([0-9a-f]{40})")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class PruneError(Exception):
    """It can't be told what is in use, so nothing is removed; the text says why."""


class Snapshot(t.NamedTuple):
    path: str
    repo_id: str
    commit: str
    #: of its files, and of what is under way
    size: int
    #: every wanted file is in place
    complete: bool
    #: another run is at work on it
    busy: bool
    #: hours since something of it was written
    age: float


class View(t.NamedTuple):
    path: str
    #: where its links lead
    targets: frozenset[str]


class Release(t.NamedTuple):
    instance: str
    number: int
    current: bool
    snapshot: str
    commit: str
    view: str

    def uses(self, snapshot: Snapshot) -> bool:
        return snapshot.path == self.snapshot or (bool(self.commit) and snapshot.commit == self.commit)

    def __str__(self) -> str:
        return f"release {self.number} of {self.instance}" + (", which is current" if self.current else "")


class Fate(t.NamedTuple):
    """What becomes of a folder."""

    path: str
    size: int
    #: keep or remove
    action: str
    reason: str


class Policy(t.NamedTuple):
    """What is kept although nothing uses it."""

    named: tuple[str, ...] = ()
    releases: int = 2
    hours: int = 0


class PruneIO(t.Protocol):
    """The host. Methods raise :class:`PruneError`."""

    def real(self, path: str) -> str:
        """The path without links. All others that this gives are such."""

    def snapshots(self, root: str) -> t.Sequence[Snapshot]:
        """All snapshots, finished or not, and what killed removals have left of some."""

    def views(self, root: str) -> t.Sequence[View]:
        """All views."""

    def releases(self, folder: str) -> t.Sequence[Release]:
        """All releases that were recorded."""

    def users(self, names: t.Mapping[str, t.Collection[str]]) -> t.Mapping[str, str]:
        """For paths that a process or a unit uses, which; each path with all the names it goes by."""

    def remove_view(self, path: str) -> None:
        """Remove a view, and the folder of its profile if that is empty then."""

    def remove_snapshot(self, path: str) -> None:
        """Remove a snapshot, unless another run just took it."""


def run(params: t.Mapping[str, t.Any], check_mode: bool, io: PruneIO) -> dict[str, t.Any]:
    """Do what the options ask; the module's result."""
    root = io.real(params["root"])
    named = _check_named(params["keep"])
    snapshots, views = io.snapshots(root), io.views(root)
    releases = io.releases(params["releases"])
    paths = [item.path for item in snapshots] + [item.path for item in views]
    users = io.users({path: {path, params["root"].rstrip("/") + path[len(root) :]} for path in paths})
    policy = Policy(named, params["keep_releases"], params["keep_hours"])
    snapshot_fates, view_fates = decide(snapshots, views, releases, users, policy)
    gone = [fate for fate in (*view_fates, *snapshot_fates) if fate.action == "remove"]
    if not check_mode:
        for fate in view_fates:
            if fate.action == "remove":
                io.remove_view(fate.path)
        for fate in snapshot_fates:
            if fate.action == "remove":
                io.remove_snapshot(fate.path)
    return {
        "changed": bool(gone),
        "snapshots": [fate._asdict() for fate in snapshot_fates],
        "views": [{key: value for key, value in fate._asdict().items() if key != "size"} for fate in view_fates],
        "bytes_freed": sum(fate.size for fate in gone),
        "diff": {
            "before_header": root,
            "after_header": root,
            "before": "".join(_line(fate) for fate in (*snapshot_fates, *view_fates)),
            "after": "".join(_line(fate) for fate in (*snapshot_fates, *view_fates) if fate.action == "keep"),
        },
    }


def _check_named(keep: t.Iterable[str]) -> tuple[str, ...]:
    named = tuple(keep)
    for name in named:
        if not _NAMED.fullmatch(name):
            raise PruneError(f"keep has {name!r}, which is not of the form OWNER/NAME, OWNER/NAME@COMMIT or COMMIT.")
    return named


def _line(fate: Fate) -> str:
    return f"{fate.path}: {fate.reason}\n"


def decide(
    snapshots: t.Sequence[Snapshot],
    views: t.Sequence[View],
    releases: t.Sequence[Release],
    users: t.Mapping[str, str],
    policy: Policy,
) -> tuple[list[Fate], list[Fate]]:
    """What becomes of each snapshot, and of each view."""
    kept, old = split(releases, policy.releases)
    reasons: dict[str, str] = {}
    for snapshot in snapshots:
        reason = _reason(snapshot, kept, users, policy)
        if reason:
            reasons[snapshot.path] = reason
    view_reasons: dict[str, str] = {}
    for view in views:
        reason = _view_reason(view, kept, old, users)
        if reason:
            view_reasons[view.path] = reason
            for path in _targets(view, snapshots):
                reasons.setdefault(path, f"view {view.path} links to it, and is kept: {reason}")
    for view in views:
        # the view of an old release goes with its snapshot, not before
        if view.path not in view_reasons and all(path in reasons for path in _targets(view, snapshots)):
            view_reasons[view.path] = "its snapshot is kept"
    return (
        [_fate(item.path, item.size, reasons, _unkept(item, old)) for item in snapshots],
        [_fate(item.path, 0, view_reasons, _names(old, item.path) + ", and no newer") for item in views],
    )


def split(releases: t.Sequence[Release], keep: int) -> tuple[list[Release], list[Release]]:
    """The releases that are kept, and the others: of each instance the newest ``keep`` and the current one."""
    kept = []
    for instance in {release.instance for release in releases}:
        own = sorted((item for item in releases if item.instance == instance), key=lambda item: -item.number)
        kept += [item for at, item in enumerate(own) if at < keep or item.current]
    # the current one is the better reason
    return sorted(kept, key=lambda item: not item.current), [item for item in releases if item not in kept]


def _reason(snapshot: Snapshot, kept: t.Sequence[Release], users: t.Mapping[str, str], policy: Policy) -> str:
    """Why a snapshot is kept, its views aside."""
    for release in kept:
        if release.uses(snapshot):
            return f"{release}, serves from it"
    if snapshot.path in users:
        return f"{users[snapshot.path]} uses it"
    for name in (snapshot.repo_id, f"{snapshot.repo_id}@{snapshot.commit}", snapshot.commit):
        if name in policy.named:
            return f"keep names {name}"
    if snapshot.busy:
        return "another run is at work on it"
    # perhaps the next release is to be made of it
    return f"written to less than {policy.hours} hours ago" if snapshot.age < policy.hours else ""


def _view_reason(view: View, kept: t.Sequence[Release], old: t.Sequence[Release], users: t.Mapping[str, str]) -> str:
    for release in kept:
        if release.view == view.path:
            return f"{release}, serves it"
    if view.path in users:
        return f"{users[view.path]} uses it"
    if not any(release.view == view.path for release in old):
        return "no release made it, so that it is not ours to judge"
    return ""


def _targets(view: View, snapshots: t.Sequence[Snapshot]) -> list[str]:
    return [
        snapshot.path
        for snapshot in snapshots
        if any(target == snapshot.path or target.startswith(f"{snapshot.path}/") for target in view.targets)
    ]


def _unkept(snapshot: Snapshot, old: t.Sequence[Release]) -> str:
    names = _names([release for release in old if release.uses(snapshot)])
    state = "" if snapshot.complete else "unfinished; "
    return f"{state}used by {names}, and no newer" if names else f"{state}no release, view or process uses it"


def _names(releases: t.Sequence[Release], view: str = "") -> str:
    return ", ".join(sorted(str(release) for release in releases if view in ("", release.view)))


def _fate(path: str, size: int, reasons: t.Mapping[str, str], otherwise: str) -> Fate:
    return Fate(path, size, "keep", reasons[path]) if path in reasons else Fate(path, size, "remove", otherwise)


__all__ = ("Fate", "Policy", "PruneError", "PruneIO", "Release", "Snapshot", "View", "decide", "run", "split")
