# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What hf_snapshot returns: the same for a plan and for the run that carried it out."""

from __future__ import annotations

import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._client_notes import (
    CLIENT_DIR,
    note_paths,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._leftovers import Leftover
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    GIT_SHA1,
    MANIFEST,
    SHA256,
    RemoteFile,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_plan import (
    ACTIONS,
    Moved,
    Origin,
    Plan,
    Step,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import Standing
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import (
    DOWNLOAD,
)


def planned(plan: Plan) -> Moved:
    """What the transfer will do when all goes as foreseen."""
    origins = {step.file.path: Origin(step.offer.source, step.offer.method) for step in plan.transfers if step.offer}
    sources: dict[str, dict[str, t.Any]] = {}
    for step in plan.transfers:
        name = origins[step.file.path].source
        entry = sources.setdefault(name, Standing(name).result())
        entry["files"] += 1
        entry["bytes"] += step.file.size if step.shared else step.cost
    return Moved(plan.bytes_missing, 0, origins, tuple(sources.values()))


def present_result(plan: Plan, moved: Moved) -> dict[str, t.Any]:
    """The same for the plan and for the run that carried it out."""
    total = sum(step.file.size for step in plan.steps)
    nowhere = Origin("", "")
    return {
        "changed": plan.changed,
        "path": plan.snapshot,
        "commit": plan.listing.commit,
        "manifest": f"{plan.snapshot}/{MANIFEST}",
        "files": [
            {
                "path": step.file.path,
                "size": step.file.size,
                "sha256": step.file.digest if step.file.algorithm == SHA256 else None,
                "git_sha1": step.file.digest if step.file.algorithm == GIT_SHA1 else None,
                "action": step.action,
                "reason": step.reason,
                "source": moved.origins.get(step.file.path, nowhere).source or None,
                "method": moved.origins.get(step.file.path, nowhere).method or None,
            }
            for step in plan.steps
        ],
        "bytes_total": total,
        "bytes_downloaded": moved.downloaded,
        "bytes_reused": total - plan.bytes_missing,
        "retries": moved.retries,
        "sources": list(moved.sources),
        "cleaned": cleaned(plan.leftovers),
        "diff": diff(
            plan.snapshot,
            [f"{step.file.path}: {_before(step)}" for step in plan.steps]
            + ([f"{CLIENT_DIR}: {len(plan.notes)} notes missing or outdated"] if plan.notes else [])
            + leftover_lines(plan.leftovers),
            [f"{step.file.path}: {content(step.file)}" for step in plan.steps],
        ),
    }


def cleaned(leftovers: t.Sequence[Leftover]) -> dict[str, int]:
    return {"files": sum(item.files for item in leftovers), "bytes": sum(item.size for item in leftovers)}


def leftover_lines(leftovers: t.Iterable[Leftover]) -> list[str]:
    return [f"{item.path}: {item.size} bytes, left over" for item in leftovers]


def owned_paths(root: str, result: t.Mapping[str, t.Any]) -> tuple[list[str], list[str]]:
    """The folders and the files that a present snapshot consists of, folders above those below them."""
    snapshot = result["path"]
    notes = note_paths(result["commit"], (file["path"] for file in result["files"]))
    names = [*(file["path"] for file in result["files"]), *notes]
    files = [f"{snapshot}/{name}" for name in names] + [result["manifest"]]
    top = root.rstrip("/")
    folders = set()
    for path in files:
        folder = path.rpartition("/")[0]
        while len(folder) > len(top):
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return sorted(folders), files


def content(file: RemoteFile) -> str:
    return ACTIONS["keep"].format(**file._asdict())


def _before(step: Step) -> str:
    text = ACTIONS[step.action].format(**step.file._asdict(), reason=step.reason)
    if step.offer is None or step.offer.method == DOWNLOAD:
        return text
    note = f" ({step.offer.note})" if step.offer.note else ""
    return f"{text}, to adopt from {step.offer.source} by {step.offer.method}{note}"


def diff(snapshot: str, before: t.Sequence[str], after: t.Sequence[str]) -> dict[str, str]:
    return {
        "before_header": snapshot,
        "after_header": snapshot,
        "before": "".join(f"{line}\n" for line in before),
        "after": "".join(f"{line}\n" for line in after),
    }


__all__ = (
    "cleaned",
    "content",
    "diff",
    "leftover_lines",
    "owned_paths",
    "planned",
    "present_result",
)
