# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""From a snapshot to what vLLM is given: which JSON values change, and the view that carries the changes."""

from __future__ import annotations

import hashlib
import json
import os
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._checkpoint import (
    CONFIG,
    HF_QUANT_CONFIG,
    Checkpoint,
    CheckpointError,
    attention,
    entries,
    find,
    parse_object,
    read,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._files import BACKUP_SUFFIX, Found, Tree
from ansible_collections.modelfleet.serving.plugins.module_utils._json_text import JsonTextError, replace
from ansible_collections.modelfleet.serving.plugins.module_utils._kv_decision import (
    Decision,
    DecisionError,
    Request,
    decide,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import MANIFEST, OWN_DIR, from_json

#: kept equal to galaxy.yml by a test; modules can't read that on the hosts
VERSION = "0.1.0"
RECORD = f"{OWN_DIR}/view.json"
SCHEMA = 1

#: folders of a snapshot that hold no part of the checkpoint: our records, and the Hub client's
_LEFT_OUT = (f"{OWN_DIR}/", ".cache/huggingface/")


class PatchError(Exception):
    """The view can't be made; the message is fit for the user."""


class Files(t.Protocol):
    """The file system. Methods raise OSError; see ``_files.LocalFiles``."""

    def real(self, path: str) -> str: ...

    def is_dir(self, path: str) -> bool: ...

    def exists(self, path: str) -> bool: ...

    def resolves(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes | None: ...

    def found(self, root: str) -> Found: ...

    def put_tree(self, path: str, tree: Tree, model: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def replace(self, path: str, content: bytes) -> None: ...

    def restore(self, path: str) -> None: ...


class Rule(t.NamedTuple):
    """A change that the user adds to the built-in ones."""

    id: str
    file: str
    path: tuple[str, ...]
    value: t.Any
    reason: str
    #: JMESPath over checkpoint, gpu and vllm; empty: always
    when: str = ""


class Change(t.NamedTuple):
    file: str
    key: str
    before: t.Any
    after: t.Any
    rule: str
    reason: str


class Params(t.NamedTuple):
    """The module's options."""

    snapshot: str | None
    view: str | None
    mode: str
    state: str
    request: Request
    rules: tuple[Rule, ...] = ()


class Result(t.NamedTuple):
    changed: bool
    path: str
    changes: tuple[Change, ...] = ()
    vllm_args: t.Mapping[str, str] = {}
    attention: str | None = None
    decision: Decision | None = None
    #: file as it was (or as published, where there was none) and as it is now
    diff: tuple[dict[str, str], ...] = ()
    warnings: tuple[str, ...] = ()


Search = t.Callable[[str, t.Any], t.Any]


def key_path(text: str) -> tuple[str, ...]:
    """Keys from the top: ``a.b``, or the JSON pointer ``/a/b`` for keys with dots in them."""
    if text.startswith("/"):
        return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))
    return tuple(text.split("."))


def clear_entries(checkpoint: Checkpoint, decision: Decision) -> tuple[dict[str, str], list[Change]]:
    """Null every KV-cache entry in every place.

    Null and not gone: vLLM refuses an NVFP4 checkpoint whose hf_quant_config.json lacks kv_cache_quant_algo. And all
    of them: it tries them in turn, and releases differ in the places.
    """
    texts = dict(checkpoint.texts)
    changes = []
    for entry in entries(checkpoint):
        texts[entry.file] = replace(texts[entry.file], entry.path, None)
        changes.append(Change(entry.file, entry.key, entry.value, None, decision.rule, decision.reason))
    return texts, changes


def apply_rules(
    texts: dict[str, str], rules: t.Iterable[Rule], context: t.Mapping[str, t.Any], search: Search
) -> list[Change]:
    """Apply the user's rules to ``texts``, in place."""
    changes = []
    for rule in rules:
        if rule.when and not search(rule.when, context):
            continue
        if rule.file not in texts:
            raise PatchError(f"Rule {rule.id!r} is for {rule.file}, which the snapshot does not have.")
        before = find(parse_object(texts[rule.file], rule.file), rule.path)
        # 1 and true are equal in Python and not in JSON
        if json.dumps(before) == json.dumps(rule.value):
            continue
        try:
            texts[rule.file] = replace(texts[rule.file], rule.path, rule.value)
        except JsonTextError as exc:
            raise PatchError(f"Rule {rule.id!r} can't set {'.'.join(rule.path)} in {rule.file}: {exc}.") from exc
        changes.append(Change(rule.file, ".".join(rule.path), before, rule.value, rule.id, rule.reason))
    return changes


class _Patched(t.NamedTuple):
    checkpoint: Checkpoint
    decision: Decision
    texts: dict[str, str]
    changes: tuple[Change, ...]

    @property
    def changed_texts(self) -> dict[str, str]:
        return {name: text for name, text in self.texts.items() if text != self.checkpoint.texts[name]}


def patch(texts: t.Mapping[str, str], where: str, params: Params, search: Search) -> _Patched:
    """Decide and patch. ``texts`` are the JSON files by name; ``where`` names the checkpoint in errors."""
    checkpoint = read(texts, where)
    decision = decide(checkpoint, params.request)
    patched, changes = clear_entries(checkpoint, decision) if decision.clear else (dict(checkpoint.texts), [])
    context = {
        "checkpoint": {"attention": attention(checkpoint), "files": checkpoint.documents},
        "gpu": {"compute_capability": params.request.compute_capability},
        "vllm": {"version": params.request.vllm_version},
    }
    changes += apply_rules(patched, params.rules, context, search)
    return _Patched(checkpoint, decision, patched, tuple(changes))


def _texts(files: Files, folder: str, params: Params, suffix: str = "") -> dict[str, str]:
    """The JSON files that matter, read from ``folder``; with ``suffix``, from their backups where there are any."""
    for rule in params.rules:
        if os.path.isabs(rule.file) or ".." in rule.file.split("/"):
            raise PatchError(
                f"Rule {rule.id!r} is for {rule.file}. It must name a file of the snapshot, relative to it."
            )
    names = dict.fromkeys((CONFIG, HF_QUANT_CONFIG, *(rule.file for rule in params.rules)))
    texts = {}
    for name in names:
        path = os.path.join(folder, name)
        content = (files.read(path + suffix) if suffix else None) or files.read(path)
        if content is not None:
            try:
                texts[name] = content.decode("utf-8")
            except UnicodeDecodeError as exc:
                raise PatchError(f"{path} is not UTF-8 text: {exc}.") from exc
    return texts


def _identity(files: Files, snapshot: str) -> dict[str, str]:
    """Repository and commit, where the snapshot has a manifest of ours."""
    content = files.read(os.path.join(snapshot, MANIFEST))
    manifest = from_json(content.decode("utf-8", "replace")) if content is not None else None
    if manifest is None:
        return {}
    if not manifest.complete:
        raise PatchError(
            f"The snapshot {snapshot} is not complete: its download was interrupted. Run "
            "modelfleet.serving.hf_snapshot again before making a view of it."
        )
    return {"repo_id": manifest.repo_id, "commit": manifest.listing.commit}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def record_text(snapshot: str, identity: t.Mapping[str, str], params: Params, patched: _Patched) -> str:
    """The record of a view: what it was made of, what was changed and why. No dates, so that it can be compared."""
    decision = patched.decision
    return (
        json.dumps(
            {
                "schema": SCHEMA,
                "written_by": f"modelfleet.serving {VERSION}",
                "snapshot": snapshot,
                "repo_id": identity.get("repo_id"),
                "commit": identity.get("commit"),
                "compute_capability": params.request.compute_capability,
                "vllm_version": params.request.vllm_version,
                "attention": attention(patched.checkpoint),
                "kv_cache_dtype": decision.kv_cache_dtype,
                "rule": decision.rule,
                "evidence": decision.evidence,
                "source": decision.source,
                "reason": decision.reason,
                "vllm_args": dict(decision.vllm_args),
                "changes": [change._asdict() for change in patched.changes],
                "files": {
                    name: {"sha256_before": _digest(patched.checkpoint.texts[name]), "sha256_after": _digest(text)}
                    for name, text in sorted(patched.changed_texts.items())
                },
            },
            indent=2,
            ensure_ascii=False,
        )
        + "\n"
    )


def _same_record(old: bytes | None, new: str) -> bool:
    """Whether two records differ at most in the release of this collection that wrote them."""
    try:
        before, after = json.loads(old or b""), json.loads(new)
        return bool({**before, "written_by": ""} == {**after, "written_by": ""})
    except (ValueError, TypeError):
        return False


def view_tree(found: Found, snapshot: str, view: str, data: t.Mapping[str, str]) -> Tree:
    """The content of a view: ``data`` as files, everything else of the snapshot as links relative to the view."""
    links = {}
    for name in sorted({*found.files, *found.links}):
        if name not in data and not name.startswith(_LEFT_OUT) and not name.endswith(BACKUP_SUFFIX):
            links[name] = os.path.relpath(os.path.join(snapshot, name), os.path.dirname(os.path.join(view, name)))
    return Tree(links, {name: text.encode("utf-8") for name, text in data.items()})


def _check_places(files: Files, snapshot: str, view: str) -> None:
    if files.exists(view) and not _is_view(files, view) and (not files.is_dir(view) or any(files.found(view))):
        raise PatchError(
            f"{view} exists and is not a view of this collection (it has no {RECORD}). Move it away or choose another "
            "path for the view."
        )
    for outer, inner, words in (
        (snapshot, view, "view lies inside the snapshot"),
        (view, snapshot, "snapshot lies inside the view"),
    ):
        if os.path.commonpath([outer, inner]) == outer:
            raise PatchError(f"The {words}: snapshot {snapshot}, view {view}. Give the view a place of its own.")


def _is_view(files: Files, path: str) -> bool:
    return files.is_dir(path) and files.read(os.path.join(path, RECORD)) is not None


def _check_snapshot(files: Files, snapshot: str) -> None:
    if not files.is_dir(snapshot):
        raise PatchError(
            f"The snapshot {snapshot} does not exist on this host. Download it first with "
            "modelfleet.serving.hf_snapshot; in check mode, skip this task until it is there."
        )


def _check_links(files: Files, snapshot: str, found: Found) -> None:
    for name, target in sorted(found.links.items()):
        if not files.resolves(os.path.join(snapshot, name)):
            raise PatchError(
                f"{name} in the snapshot {snapshot} is a link to {target}, which does not exist: the snapshot is not "
                "complete. Download it again."
            )


def _text_diffs(
    names: t.Iterable[str], before: t.Mapping[str, str], after: t.Mapping[str, str], old: str, new: str
) -> list[dict[str, str]]:
    return [
        {
            "before_header": os.path.join(old, name),
            "after_header": os.path.join(new, name),
            "before": before[name],
            "after": after[name],
        }
        for name in sorted(names)
        if before[name] != after[name]
    ]


def _listing(links: t.Mapping[str, str], names: t.Iterable[str]) -> str:
    lines = {**{name: f"{name} -> {target}" for name, target in links.items()}, **{name: name for name in names}}
    return "".join(f"{lines[name]}\n" for name in sorted(lines))


def make_view(params: Params, check_mode: bool, files: Files, search: Search) -> Result:
    """Bring the view into being, or find that it is right already."""
    snapshot, view = files.real(params.snapshot or ""), _view_path(files, params)
    _check_snapshot(files, snapshot)
    _check_places(files, snapshot, view)
    found = files.found(snapshot)
    _check_links(files, snapshot, found)
    identity = _identity(files, snapshot)
    patched = patch(_texts(files, snapshot, params), snapshot, params, search)
    record = record_text(snapshot, identity, params, patched)
    tree = view_tree(found, snapshot, view, {**patched.changed_texts, RECORD: record})
    there = files.found(view) if files.exists(view) else Found({}, frozenset())
    same = (
        there.links == tree.links
        and there.files == set(tree.data)
        and all(files.read(os.path.join(view, name)) == tree.data[name] for name in patched.changed_texts)
        and _same_record(files.read(os.path.join(view, RECORD)), record)
    )
    # before the view is replaced: the diff reads what is in it now
    diff = () if same else _view_diff(files, snapshot, view, patched, there, tree)
    if not same and not check_mode:
        files.put_tree(view, tree, snapshot)
    return Result(
        not same,
        os.path.abspath(params.view or ""),
        patched.changes,
        patched.decision.vllm_args,
        attention(patched.checkpoint),
        patched.decision,
        diff,
        (patched.decision.warning,) if patched.decision.warning else (),
    )


def _view_path(files: Files, params: Params) -> str:
    view = os.path.abspath(params.view or "")
    # the folder's own name stays: a link in its place is found out, not followed
    return os.path.join(files.real(os.path.dirname(view)), os.path.basename(view))


def _view_diff(
    files: Files, snapshot: str, view: str, patched: _Patched, there: Found, tree: Tree
) -> tuple[dict[str, str], ...]:
    """JSON as vLLM would have read it under the view so far, or in the snapshot, and as it will; then the names."""
    old = view if there != Found({}, frozenset()) else snapshot
    before = {name: (files.read(os.path.join(old, name)) or b"").decode("utf-8", "replace") for name in patched.texts}
    names = {
        "before_header": view,
        "after_header": view,
        "before": _listing(there.links, there.files),
        "after": _listing(tree.links, tree.data),
    }
    texts = _text_diffs(patched.texts, before, patched.texts, old, view)
    return tuple(texts) if names["before"] == names["after"] else (*texts, names)


def remove_view(params: Params, check_mode: bool, files: Files) -> Result:
    view = _view_path(files, params)
    if not files.exists(view):
        return Result(False, os.path.abspath(params.view or ""))
    if not _is_view(files, view):
        raise PatchError(f"{view} is not removed: it is not a view of this collection (it has no {RECORD}).")
    there = files.found(view)
    if not check_mode:
        files.remove_tree(view)
    listing = _listing(there.links, there.files)
    diff = {"before_header": view, "after_header": view, "before": listing, "after": ""}
    return Result(True, os.path.abspath(params.view or ""), diff=(diff,))


def patch_in_place(params: Params, check_mode: bool, files: Files, search: Search) -> Result:
    """Change the snapshot itself. What counts as published is the backup, where there is one."""
    snapshot = files.real(params.snapshot or "")
    _check_snapshot(files, snapshot)
    now = _texts(files, snapshot, params)
    published = _texts(files, snapshot, params, BACKUP_SUFFIX)
    patched = patch(published, snapshot, params, search)
    for name, text in now.items():
        if text not in (published[name], patched.texts[name]):
            raise PatchError(
                f"{os.path.join(snapshot, name)} is neither as published nor as these options would make it: it was "
                f"patched with other options, or changed since {name}{BACKUP_SUFFIX} was kept of it. Give the backup "
                "back with state=absent, or remove the backup if the file is right, and run again."
            )
    changed = [name for name in now if now[name] != patched.texts[name]]
    if not check_mode:
        for name in changed:
            files.replace(os.path.join(snapshot, name), patched.texts[name].encode("utf-8"))
    return Result(
        bool(changed),
        snapshot,
        patched.changes,
        patched.decision.vllm_args,
        attention(patched.checkpoint),
        patched.decision,
        tuple(_text_diffs(changed, now, patched.texts, snapshot, snapshot)),
        (patched.decision.warning,) if patched.decision.warning else (),
    )


def restore_in_place(params: Params, check_mode: bool, files: Files) -> Result:
    """Give every file that has a backup its published content back."""
    snapshot = files.real(params.snapshot or "")
    _check_snapshot(files, snapshot)
    found = files.found(snapshot)
    diffs = []
    for backup in sorted({*found.files, *found.links}):
        if not backup.endswith(BACKUP_SUFFIX):
            continue
        path = os.path.join(snapshot, backup[: -len(BACKUP_SUFFIX)])
        before, after = files.read(path) or b"", files.read(path + BACKUP_SUFFIX) or b""
        texts = [content.decode("utf-8", "replace") for content in (before, after)]
        diffs.append({"before_header": path, "after_header": path, "before": texts[0], "after": texts[1]})
        if not check_mode:
            files.restore(path)
    return Result(bool(diffs), snapshot, diff=tuple(diffs))


def run(params: Params, check_mode: bool, files: Files, search: Search) -> Result:
    """Raises PatchError. OSError and errors of ``search`` are left to the caller."""
    try:
        if params.state == "absent":
            remove = remove_view if params.mode == "view" else restore_in_place
            return remove(params, check_mode, files)
        make = make_view if params.mode == "view" else patch_in_place
        return make(params, check_mode, files, search)
    except (CheckpointError, DecisionError) as exc:
        raise PatchError(str(exc)) from exc


__all__ = (
    "RECORD",
    "VERSION",
    "Change",
    "Files",
    "Params",
    "PatchError",
    "Result",
    "Rule",
    "apply_rules",
    "clear_entries",
    "key_path",
    "patch",
    "record_text",
    "run",
    "view_tree",
)
