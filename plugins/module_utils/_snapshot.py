# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What hf_snapshot does: the plan carried out, verified or removed.

Pure but for :class:`SnapshotIO`: no third-party library, no AnsibleModule, no clock.
"""

from __future__ import annotations

import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._client_notes import (
    note_paths,
    stale_notes,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    MANIFEST,
    Listing,
    Manifest,
    Record,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._names import COMMIT, snapshot_path
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_plan import (
    TRANSFERS,
    Moved,
    Plan,
    Request,
    SnapshotError,
    SnapshotIO,
    check_request,
    check_room,
    index_problem,
    make_plan,
    some,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_result import (
    cleaned,
    content,
    diff,
    leftover_lines,
    planned,
    present_result,
)


def run(params: t.Mapping[str, t.Any], check_mode: bool, io: SnapshotIO) -> dict[str, t.Any]:
    """Do what the options ask; the module's result without times."""
    request = Request(
        repo_id=params["repo_id"],
        revision=params["revision"],
        root=params["root"],
        endpoint=params["endpoint"].rstrip("/"),
        allow=tuple(params["allow_patterns"] or ()),
        ignore=tuple(params["ignore_patterns"] or ()),
        state=params["state"],
        verify=params["verify"],
        reserve_bytes=params["reserve_bytes"],
    )
    check_request(request)
    return {"present": _present, "verified": _verified, "absent": _absent}[request.state](request, check_mode, io)


def _known(request: Request, io: SnapshotIO) -> tuple[Listing, Manifest | None]:
    """The listing, from the manifest where that is as good as the Hub: a commit never changes."""
    pinned = COMMIT.fullmatch(request.revision) is not None
    if pinned:
        manifest = io.manifest(snapshot_path(request.root, request.repo_id, request.revision))
        if manifest is not None and (manifest.repo_id, manifest.listing.commit) == (request.repo_id, request.revision):
            return manifest.listing, manifest
    listing = io.listing(request.repo_id, request.revision, request.root)
    if not COMMIT.fullmatch(listing.commit) or (pinned and listing.commit != request.revision):
        raise SnapshotError(
            f"{request.endpoint} resolves {request.revision} of {request.repo_id} to {listing.commit!r}, "
            "which is not the commit it should be. Is the endpoint a faithful mirror?"
        )
    return listing, io.manifest(snapshot_path(request.root, request.repo_id, listing.commit))


def _present(request: Request, check_mode: bool, io: SnapshotIO) -> dict[str, t.Any]:
    listing, manifest = _known(request, io)
    plan = _complete_plan(request, listing, manifest, io)
    _check_feasible(request, plan, io)
    if check_mode or not plan.changed:
        return present_result(plan, planned(plan))
    with io.lock(plan.snapshot):
        now = io.manifest(plan.snapshot)
        if now != manifest:
            # another run was here while this one planned or waited
            plan = _complete_plan(request, listing, now, io)
            _check_feasible(request, plan, io)
        moved = _carry_out(request, plan, io)
    return present_result(plan, moved)


def _complete_plan(request: Request, listing: Listing, manifest: Manifest | None, io: SnapshotIO) -> Plan:
    return _with_upkeep(_with_offers(request, make_plan(request, listing, manifest, io), io), io)


def _with_offers(request: Request, plan: Plan, io: SnapshotIO) -> Plan:
    """The plan with where each file is expected to come from."""
    if not plan.transfers:
        return plan
    offer = io.offers(request.repo_id, plan.listing.commit, plan.snapshot)
    steps = tuple(step._replace(offer=offer(step.file)) if step.action in TRANSFERS else step for step in plan.steps)
    missing = {step.file.path for step in steps if step.action in TRANSFERS and step.offer is None}
    if missing:
        raise SnapshotError(
            f"No source has {some(missing)} of {request.repo_id} at commit {plan.listing.commit}, and the Hub may not "
            f"be asked (hub is false). Nothing was changed. {plan.snapshot} lacks {len(plan.transfers)} of "
            f"{len(plan.steps)} files in all."
        )
    return plan._replace(steps=steps)


def _with_upkeep(plan: Plan, io: SnapshotIO) -> Plan:
    """The plan with what is to be done beside the files."""
    notes, leftovers = _notes(plan, plan.records, io), io.leftovers(plan)
    if (notes or leftovers) and not plan.transfers and io.room(plan.snapshot).problem:
        # all files are right, where nothing can be written: that is as good as it can be
        return plan
    return plan._replace(notes=notes, leftovers=leftovers)


def _notes(plan: Plan, records: t.Mapping[str, Record], io: SnapshotIO) -> dict[str, str]:
    """Notes to write about the files of the plan that are proved."""
    selected = [step.file for step in plan.steps]
    there = io.read_notes(plan.snapshot, note_paths(plan.listing.commit, (file.path for file in selected)))
    return stale_notes(plan.listing, selected, records, there) if records else {}


def _check_feasible(request: Request, plan: Plan, io: SnapshotIO) -> None:
    if plan.transfers:
        check_room(request, plan, io.room(plan.snapshot))
        if plan.listing.gated:
            # anybody may list a gated repository; reading it is another matter
            io.check_access(request.repo_id, plan.listing.commit, plan.transfers[0].file.path)
    blocked = [step for step in plan.steps if step.reason == "is a directory, not a file"]
    if blocked:
        raise SnapshotError(
            f"{plan.snapshot}/{blocked[0].file.path} is a directory where the commit has a file. Remove it, or "
            "remove the snapshot with state absent."
        )


def _carry_out(request: Request, plan: Plan, io: SnapshotIO) -> Moved:
    records = dict(plan.records)

    def record(new: t.Mapping[str, Record], complete: bool = False) -> None:
        records.update(new)
        io.save(plan.snapshot, Manifest(request.repo_id, request.endpoint, plan.listing, records, complete))

    io.discard(plan.leftovers)
    record({})
    moved = io.transfer(plan, request, record) if plan.transfers else Moved()
    for step in plan.transfers:
        if step.file.path.endswith(".safetensors"):
            problem = io.header_problem(f"{plan.snapshot}/{step.file.path}")
            if problem:
                raise SnapshotError(
                    f"{step.file.path} has the content the Hub lists, but is no intact safetensors file: {problem}. "
                    f"{request.repo_id} at commit {plan.listing.commit} was published broken: use another revision."
                )
    problem = index_problem(plan.snapshot, plan, io)
    if problem:
        raise SnapshotError(
            f"The checkpoint {request.repo_id} at commit {plan.listing.commit} is incomplete: {problem}."
        )
    io.write_notes(plan.snapshot, _notes(plan, records, io))
    record({}, complete=True)
    io.clean(plan.snapshot)
    return moved


def _verified(request: Request, check_mode: bool, io: SnapshotIO) -> dict[str, t.Any]:
    listing, manifest = _known(request, io)
    plan = make_plan(request, listing, manifest, io)
    result = {**present_result(plan, Moved()), "changed": False}
    result["diff"]["after"] = result["diff"]["before"]
    bad = [f"{step.file.path}: {step.reason}" for step in plan.transfers]
    if bad:
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        raise SnapshotError(
            f"{len(bad)} of {len(plan.steps)} files of {plan.snapshot} are not as published: {'; '.join(bad[:5])}{more}"
            ". Repair them with state present.",
            result,
        )
    problem = index_problem(plan.snapshot, plan, io)
    if problem:
        raise SnapshotError(f"{plan.snapshot} is incomplete: {problem}.", result)
    return result


def _absent(request: Request, check_mode: bool, io: SnapshotIO) -> dict[str, t.Any]:
    commit = request.revision
    if not COMMIT.fullmatch(commit):
        commit = io.listing(request.repo_id, request.revision, request.root).commit
    snapshot = snapshot_path(request.root, request.repo_id, commit)
    there = io.look(snapshot) is not None
    manifest = io.manifest(snapshot) if there else None
    leftovers = io.half_removed(snapshot)
    if not check_mode:
        io.discard(leftovers)
        if there:
            with io.lock(snapshot):
                io.remove(snapshot)
    before = [f"{file.path}: {content(file)}" for file in manifest.listing.files] if manifest else []
    return {
        "changed": there or bool(leftovers),
        "path": snapshot,
        "commit": commit,
        "manifest": f"{snapshot}/{MANIFEST}",
        "files": [],
        "bytes_total": 0,
        "bytes_downloaded": 0,
        "bytes_reused": 0,
        "retries": 0,
        "sources": [],
        "cleaned": cleaned(leftovers),
        "diff": diff(snapshot, (before or ["present"] if there else []) + leftover_lines(leftovers), []),
    }


__all__ = ("run",)
