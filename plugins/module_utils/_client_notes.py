# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What huggingface_hub notes in a folder it has downloaded into, so that its own commands find a snapshot complete.

``hf download --local-dir`` takes a file for downloaded when ``.cache/huggingface/download/<path>.metadata`` has the
commit, the digest and a time not before the file's own. Releases from 1.22 on also keep the listing of the commit, by
which they tell a complete folder from a partial one without the Hub.
"""

from __future__ import annotations

import hashlib
import json
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    SHA256,
    Listing,
    Record,
    RemoteFile,
)

#: the client's folder in a snapshot
CLIENT_DIR = ".cache/huggingface"
DOWNLOADS = f"{CLIENT_DIR}/download"
SUFFIX = ".metadata"
#: files that say to backup tools and to git that the folder can be left out; their content is fixed by their standards
MARKERS = {
    f"{CLIENT_DIR}/CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n",
    f"{CLIENT_DIR}/.gitignore": "*",
}
#: of the listing, as the client reads it
TREE_FORMAT = 1
#: seconds that the client allows a file to be younger than its note
TOLERANCE = 1.0
MAX_NAME = 255


def tree_path(commit: str) -> str:
    return f"{CLIENT_DIR}/trees/{commit}.json"


def note_paths(commit: str, paths: t.Iterable[str]) -> dict[str, str]:
    """Every path of a note in a snapshot with the published path it is about, which is empty for notes about all.

    Left out are notes that can't be written: in the place of a published file, of a folder, or under too long a name.
    """
    published = set(paths)
    notes = {f"{DOWNLOADS}/{path}{SUFFIX}": path for path in sorted(published)}
    notes.update(dict.fromkeys((*MARKERS, tree_path(commit)), ""))
    folders = {note.rpartition("/")[0] for note in notes}
    return {
        note: path
        for note, path in notes.items()
        if note not in published
        and note not in folders
        and len(note.rpartition("/")[2].encode("utf-8", "surrogatepass")) <= MAX_NAME
    }


def stale_notes(
    listing: Listing, selected: t.Iterable[RemoteFile], records: t.Mapping[str, Record], there: t.Mapping[str, str]
) -> dict[str, str]:
    """The notes that are to be written, by path: those about files proved to be right that the client would not accept.

    ``there`` has the text of the notes that are on the disk.
    """
    files = {file.path: file for file in selected}
    stale = {}
    for note, path in note_paths(listing.commit, files).items():
        text = there.get(note)
        if path:
            record = records.get(path)
            if record is not None and not _accepted(text, listing.commit, files[path], record):
                stale[note] = _note(listing.commit, files[path], record)
        elif note in MARKERS:
            if text is None:
                stale[note] = MARKERS[note]
        elif not _same_tree(text, listing):
            stale[note] = tree_text(listing)
    return stale


def _note(commit: str, file: RemoteFile, record: Record) -> str:
    when = max(float(record.verified_at), record.mtime_ns / 1e9)
    return f"{commit}\n{file.digest}\n{when}\n"


def _accepted(text: str | None, commit: str, file: RemoteFile, record: Record) -> bool:
    lines = (text or "").splitlines()
    try:
        return lines[:2] == [commit, file.digest] and float(lines[2]) >= record.mtime_ns / 1e9 - TOLERANCE
    except (IndexError, ValueError):
        return False


def tree_text(listing: Listing) -> str:
    """The listing in the client's form."""
    files = {}
    for file in sorted(listing.files):
        if file.algorithm == SHA256:
            entry = {"size": file.size, "blob_id": _pointer_id(file), "lfs_sha256": file.digest, "lfs_size": file.size}
        else:
            entry = {"size": file.size, "blob_id": file.digest}
        files[file.path] = entry
    return json.dumps({"format_version": TREE_FORMAT, "files": files}, indent=1)


def _pointer_id(file: RemoteFile) -> str:
    """What git calls an LFS file: the digest of the pointer it stores in its place."""
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{file.digest}\nsize {file.size}\n".encode()
    return hashlib.sha1(b"blob %d\0" % len(pointer) + pointer, usedforsecurity=False).hexdigest()


def _same_tree(text: str | None, listing: Listing) -> bool:
    """Whether the client has this listing; its own may know more of a file than ours."""
    try:
        tree = json.loads(text or "")
        sizes = {path: info["size"] for path, info in tree["files"].items()}
        return bool(tree["format_version"] == TREE_FORMAT and sizes == {file.path: file.size for file in listing.files})
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


__all__ = ("CLIENT_DIR", "DOWNLOADS", "MARKERS", "note_paths", "stale_notes", "tree_path", "tree_text")
