# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import pathlib
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.modelfleet.serving.plugins.module_utils import _snapshot, _snapshot_plan, _snapshot_result
from ansible_collections.modelfleet.serving.plugins.module_utils._leftovers import Leftover
from ansible_collections.modelfleet.serving.plugins.module_utils._manifest import (
    GIT_SHA1,
    SHA256,
    Listing,
    Manifest,
    Record,
    RemoteFile,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._names import unsafe_name
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot import run
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_plan import (
    Finding,
    Look,
    Moved,
    Plan,
    Request,
    Room,
    SnapshotError,
    by_content,
    first_look,
    select,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._snapshot_result import owned_paths, planned
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import Offer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SNAPSHOT = f"/srv/models/snapshots/acme--tiny/{COMMIT}"
GIB = 1 << 30


# -- a world to work on -----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Thing:
    """Something on the fake disk."""

    content: str
    kind: str = "file"
    mtime_ns: int = 1
    inode: int = 0


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def published(**files: str) -> Listing:
    """Keyword arguments can't have dots: ``__`` stands for one."""
    return Listing(
        COMMIT,
        tuple(
            RemoteFile(name.replace("__", "."), len(content), SHA256, digest(content))
            for name, content in files.items()
        ),
    )


class World:
    """A Hub with one commit, a disk, and a protocol of what was asked of both."""

    def __init__(self, listing: Listing, contents: t.Mapping[str, str]) -> None:
        self.hub = listing
        self.contents = {name.replace("__", "."): content for name, content in contents.items()}
        self.disk: dict[str, Thing] = {}
        self.manifests: dict[str, Manifest] = {}
        self.calls: list[str] = []
        self.free = Room("/srv", 100 * GIB, 1000)
        self.inode = 100
        self.partials: dict[str, int] = {}
        self.access_error: t.Optional[Exception] = None
        self.on_lock: t.Callable[[], None] = lambda: None
        self.offer: dict[str, t.Optional[Offer]] = {}
        self.bad_headers: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.left: list[Leftover] = []

    def put(self, path: str, content: str, kind: str = "file") -> Thing:
        self.inode += 1
        thing = self.disk[f"{SNAPSHOT}/{path}"] = Thing(content, kind, self.inode, self.inode)
        return thing

    # the protocol

    def listing(self, repo_id: str, revision: str, root: str) -> Listing:
        self.calls.append("listing")
        return self.hub

    def check_access(self, repo_id: str, commit: str, path: str) -> None:
        self.calls.append("check_access")
        if self.access_error:
            raise self.access_error

    def manifest(self, snapshot: str) -> t.Optional[Manifest]:
        return self.manifests.get(snapshot)

    def save(self, snapshot: str, manifest: Manifest) -> None:
        self.calls.append("save")
        self.manifests[snapshot] = manifest._replace(records=dict(manifest.records))

    def look(self, path: str) -> t.Optional[Look]:
        if path == SNAPSHOT and (self.disk or self.manifests):
            return Look("directory", 0, 0, 0)
        thing = self.disk.get(path)
        return Look(thing.kind, len(thing.content), thing.mtime_ns, thing.inode) if thing else None

    def digests(self, snapshot: str, files: t.Sequence[RemoteFile]) -> dict[str, str]:
        self.calls.extend(f"hash {file.path}" for file in files)
        return {file.path: digest(self.disk[f"{snapshot}/{file.path}"].content) for file in files}

    def header_problem(self, path: str) -> str:
        self.calls.append(f"header {path.rpartition('/')[2]}")
        return self.bad_headers.get(self.disk[path].content, "")

    def read_text(self, path: str) -> str:
        return self.disk[path].content

    def partial_size(self, snapshot: str, file: RemoteFile) -> int:
        return self.partials.get(file.path, 0)

    def room(self, snapshot: str) -> Room:
        return self.free

    @contextlib.contextmanager
    def lock(self, snapshot: str) -> t.Iterator[None]:
        self.calls.append("lock")
        self.on_lock()
        yield

    def transfer(self, plan: Plan, request: Request, on_records: t.Callable[[t.Mapping[str, Record]], None]) -> Moved:
        for step in plan.transfers:
            self.calls.append(f"fetch {step.file.path}")
            thing = self.put(step.file.path, self.contents[step.file.path])
            on_records({step.file.path: Record(thing.mtime_ns, thing.inode, self.now())})
        return planned(plan)

    def offers(self, repo_id: str, commit: str, snapshot: str) -> t.Callable[[RemoteFile], t.Optional[Offer]]:
        return lambda file: self.offer.get(file.path, Offer("https://hub.example", "download"))

    def now(self) -> int:
        return 1_800_000_000

    def remove(self, snapshot: str) -> None:
        self.calls.append("remove")
        self.disk.clear()
        self.manifests.clear()

    def clean(self, snapshot: str) -> None:
        self.calls.append("clean")

    def read_notes(self, snapshot: str, paths: t.Iterable[str]) -> dict[str, str]:
        return {path: self.notes[path] for path in paths if path in self.notes}

    def write_notes(self, snapshot: str, notes: t.Mapping[str, str]) -> None:
        self.calls.append(f"note {len(notes)}")
        self.notes.update(notes)

    def leftovers(self, plan: Plan) -> tuple[Leftover, ...]:
        return tuple(self.left)

    def half_removed(self, snapshot: str) -> tuple[Leftover, ...]:
        return tuple(self.left)

    def discard(self, leftovers: t.Iterable[Leftover]) -> None:
        for item in leftovers:
            self.calls.append(f"discard {item.path}")
            self.left.remove(item)


def world(**files: str) -> World:
    return World(published(**files), files)


def params(**changes: t.Any) -> dict[str, t.Any]:
    return {
        "repo_id": "acme/tiny",
        "revision": "main",
        "root": "/srv/models",
        "endpoint": "https://hub.example/",
        "allow_patterns": [],
        "ignore_patterns": [],
        "state": "present",
        "verify": "stat",
        "reserve_bytes": GIB,
        **changes,
    }


def actions(result: t.Mapping[str, t.Any]) -> dict[str, str]:
    return {file["path"]: file["action"] for file in result["files"]}


# -- one file ---------------------------------------------------------------------------------------------------------

FILE = RemoteFile("m.safetensors", 10, SHA256, "ab" * 32)
RECORD = Record(5, 6, 7)
INTACT = Look("file", 10, 5, 6)


@pytest.mark.parametrize(
    ("look", "record", "verify", "finding"),
    [
        (None, None, "stat", Finding(False, "not there", missing=True)),
        (None, RECORD, "full", Finding(False, "not there", missing=True)),
        (INTACT._replace(kind="link"), RECORD, "stat", Finding(False, "is a link, not a file")),
        (INTACT._replace(kind="directory"), RECORD, "stat", Finding(False, "is a directory, not a file")),
        (INTACT._replace(size=9), RECORD, "stat", Finding(False, "has 9 bytes, expected 10")),
        (INTACT, RECORD, "stat", Finding(True, "as recorded")),
        (INTACT, RECORD, "headers", Finding(True, "as recorded")),
        (INTACT, RECORD, "full", Finding(None, "")),
        (INTACT, None, "stat", Finding(None, "not recorded")),
        (INTACT._replace(mtime_ns=4), RECORD, "stat", Finding(None, "touched since it was recorded")),
        (INTACT._replace(inode=7), RECORD, "headers", Finding(None, "touched since it was recorded")),
    ],
)
def test_first_look(look: t.Optional[Look], record: t.Optional[Record], verify: str, finding: Finding) -> None:
    assert first_look(FILE, look, record, verify) == finding


@pytest.mark.parametrize(
    ("before", "found", "finding"),
    [
        ("", "ab" * 32, Finding(True, "content is right")),
        ("not recorded", "ab" * 32, Finding(True, "not recorded, content is right")),
        ("", "cd" * 32, Finding(False, f"expected sha256 {'ab' * 32}, found {'cd' * 32}")),
        (
            "not recorded",
            "nothing: Input/output error",
            Finding(False, f"expected sha256 {'ab' * 32}, found nothing: Input/output error"),
        ),
    ],
)
def test_by_content(before: str, found: str, finding: Finding) -> None:
    assert by_content(FILE, Finding(None, before), found) == finding


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("model-00001-of-000064.safetensors", ""),
        ("docs/deploy_guidance.md", ""),
        ("figures/b a%20#?&ü.png", ""),
        ("..config", ""),
        (".gitattributes", ""),
        ("../x", "leads out of the snapshot"),
        ("a/../../x", "leads out of the snapshot"),
        ("/etc/passwd", "leads out of the snapshot"),
        ("a//b", "leads out of the snapshot"),
        ("a/", "leads out of the snapshot"),
        ("./a", "leads out of the snapshot"),
        ("", "leads out of the snapshot"),
        ("a\nb", "has control characters"),
        ("a\0b", "has control characters"),
        (".modelfleet/manifest.json", "lies in .modelfleet, which is not the repository's"),
        ("x/" + "ü" * 128, "is longer than a file name may be"),
    ],
)
def test_unsafe_name(path: str, problem: str) -> None:
    assert unsafe_name(path) == problem


@given(st.lists(st.sampled_from(["a", "..", ".", "", "/", "b c", "\0", ".modelfleet", "é"]), max_size=6))
def test_no_accepted_name_leaves_the_snapshot(parts: list[str]) -> None:
    path = "/".join(parts)
    if not unsafe_name(path):
        inside = pathlib.PurePosixPath(SNAPSHOT, path)
        assert inside.is_relative_to(SNAPSHOT)
        assert ".." not in inside.parts
        assert str(inside) == f"{SNAPSHOT}/{path}"


@pytest.mark.parametrize(
    ("allow", "ignore", "chosen"),
    [
        ([], [], ["a.json", "a.py", "docs/x.md", "m.safetensors"]),
        (["*.json", "*.safetensors"], [], ["a.json", "m.safetensors"]),
        ([], ["docs/"], ["a.json", "a.py", "m.safetensors"]),
        ([], ["*.md"], ["a.json", "a.py", "m.safetensors"]),
        (["a.*"], ["*.py"], ["a.json"]),
        (["A.JSON"], [], []),
    ],
)
def test_select(allow: list[str], ignore: list[str], chosen: list[str]) -> None:
    files = [RemoteFile(path, 1, SHA256, "") for path in ("m.safetensors", "a.json", "a.py", "docs/x.md")]
    assert [file.path for file in select(files, allow, ignore)] == chosen


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repo_id": "a/b/c"}, "repo_id 'a/b/c' is not of the form OWNER/NAME, such as moonshotai/Kimi-K2.5."),
        ({"repo_id": "../b"}, "repo_id '../b' is not of the form"),
        ({"repo_id": "a/.."}, "repo_id 'a/..' is not of the form"),
        ({"repo_id": "a--b/c"}, "repo_id 'a--b/c' is not of the form"),
        ({"repo_id": "-a/b"}, "repo_id '-a/b' is not of the form"),
        ({"repo_id": ""}, "repo_id '' is not of the form"),
        ({"root": "models"}, "root 'models' is not an absolute path."),
        ({"revision": ""}, "revision is empty: give a branch, tag or commit."),
    ],
)
def test_requests_that_make_no_sense_ask_nobody(change: dict[str, str], message: str) -> None:
    fake = world(a="x")
    with pytest.raises(SnapshotError) as caught:
        run(params(**change), False, fake)
    assert str(caught.value).startswith(message)
    assert fake.calls == []


def test_a_name_from_the_hub_that_leads_out_is_refused_unless_left_out() -> None:
    fake = world(good="x", evil="y")
    fake.hub = fake.hub._replace(files=(fake.hub.files[0], fake.hub.files[1]._replace(path="../../evil")))
    with pytest.raises(SnapshotError, match=r"has a file named '../../evil', which leads out of the snapshot"):
        run(params(), False, fake)
    assert "fetch good" not in fake.calls
    assert actions(run(params(ignore_patterns=["*evil"]), False, fake)) == {"good": "download"}


# -- whole runs -------------------------------------------------------------------------------------------------------


def test_first_check_and_run_agree_and_the_second_run_has_nothing_to_do() -> None:
    fake = world(config__json="{}", m__safetensors="weights")
    planned = run(params(), True, fake)
    assert fake.calls == ["listing"]
    assert fake.disk == {}
    done = run(params(), False, fake)
    assert done == planned
    assert done["changed"] is True
    assert (done["bytes_total"], done["bytes_downloaded"], done["bytes_reused"]) == (9, 9, 0)
    assert done["path"] == SNAPSHOT
    assert done["manifest"] == f"{SNAPSHOT}/.modelfleet/manifest.json"
    assert done["diff"]["before"] == "config.json: absent\nm.safetensors: absent\n"
    assert done["diff"]["after"].startswith("config.json: 2 bytes, sha256 ")
    fake.calls.clear()
    again = run(params(), False, fake)
    assert fake.calls == ["listing"]
    assert again["changed"] is False
    assert actions(again) == {"config.json": "keep", "m.safetensors": "keep"}
    assert again["bytes_reused"] == 9
    assert again["diff"]["before"] == again["diff"]["after"] == done["diff"]["after"]


def test_a_pinned_commit_with_a_manifest_asks_nobody() -> None:
    fake = world(a="x")
    run(params(), False, fake)
    fake.calls.clear()
    assert run(params(revision=COMMIT), False, fake)["changed"] is False
    assert fake.calls == []


def test_a_pinned_commit_needs_no_listing_to_repair() -> None:
    fake = world(a="x", b="y")
    run(params(), False, fake)
    del fake.disk[f"{SNAPSHOT}/b"]
    fake.calls.clear()
    assert run(params(revision=COMMIT), False, fake)["changed"] is True
    assert "listing" not in fake.calls
    assert "fetch b" in fake.calls
    assert "fetch a" not in fake.calls


@pytest.mark.parametrize(
    ("revision", "resolved"), [("main", "main"), ("main", ""), ("main", COMMIT[:7]), (COMMIT, "f" * 40)]
)
def test_an_endpoint_that_resolves_to_no_commit_or_another_is_refused(revision: str, resolved: str) -> None:
    fake = world(a="x")
    fake.hub = fake.hub._replace(commit=resolved)
    with pytest.raises(SnapshotError, match="which is not the commit it should be. Is the endpoint a faithful mirror"):
        run(params(revision=revision), False, fake)


def test_what_was_carried_in_is_adopted_without_download() -> None:
    fake = world(a="x", b="y")
    fake.put("a", "x")
    fake.put("b", "wrong"[:1])
    result = run(params(), False, fake)
    assert actions(result) == {"a": "adopt", "b": "repair"}
    assert result["diff"]["before"].startswith("a: 1 bytes, not recorded\nb: wrong: expected sha256 ")
    assert [call for call in fake.calls if call.startswith("fetch")] == ["fetch b"]
    assert run(params(), False, fake)["changed"] is False


def test_a_kept_file_survives_the_record_of_a_repaired_one() -> None:
    fake = world(a="x", b="y")
    run(params(), False, fake)
    fake.put("b", "z")
    run(params(), False, fake)
    assert set(fake.manifests[SNAPSHOT].records) == {"a", "b"}


def test_a_flipped_byte_under_an_old_date_is_found_by_full_only() -> None:
    fake = world(a="x")
    run(params(), False, fake)
    fake.disk[f"{SNAPSHOT}/a"].content = "y"
    assert run(params(), True, fake)["changed"] is False
    assert actions(run(params(verify="full"), False, fake)) == {"a": "repair"}
    assert fake.disk[f"{SNAPSHOT}/a"].content == "x"


def test_headers_are_read_when_asked_and_after_each_download() -> None:
    fake = world(a__safetensors="x", b__json="y")
    run(params(), False, fake)
    assert fake.calls.count("header a.safetensors") == 1
    fake.calls.clear()
    run(params(), False, fake)
    assert "header a.safetensors" not in fake.calls
    assert run(params(verify="headers"), False, fake)["changed"] is False
    assert fake.calls.count("header a.safetensors") == 1


def test_a_checkpoint_published_broken_is_said_to_be() -> None:
    fake = world(a__safetensors="x")
    fake.bad_headers["x"] = "header accounts for 9 bytes, file has 8"
    with pytest.raises(SnapshotError, match="a.safetensors has the content the Hub lists, but .* published broken"):
        run(params(), False, fake)
    assert fake.manifests[SNAPSHOT].complete is False


def test_an_interrupted_run_is_completed_even_when_all_files_are_there() -> None:
    fake = world(a="x")
    run(params(), False, fake)
    fake.manifests[SNAPSHOT] = fake.manifests[SNAPSHOT]._replace(complete=False)
    assert run(params(), False, fake)["changed"] is True
    assert fake.manifests[SNAPSHOT].complete is True
    assert run(params(), False, fake)["changed"] is False


def test_other_patterns_add_files_and_lose_none() -> None:
    fake = world(a__json="x", b__bin="y")
    run(params(allow_patterns=["*.json"]), False, fake)
    assert run(params(revision=COMMIT), False, fake)["bytes_downloaded"] == 1
    assert run(params(allow_patterns=["*.json"]), False, fake)["changed"] is False
    assert set(fake.manifests[SNAPSHOT].records) == {"a.json", "b.bin"}


def test_work_that_another_run_did_meanwhile_is_not_done_again() -> None:
    fake = world(a="x")

    def other_run() -> None:
        fake.on_lock = lambda: None
        run(params(), False, fake)
        fake.calls.append("mine")

    fake.on_lock = other_run
    run(params(), False, fake)
    assert "fetch a" not in fake.calls[fake.calls.index("mine") :]


@pytest.mark.parametrize("files", [{}, {"a": "x"}])
def test_nothing_to_download_is_an_error(files: dict[str, str]) -> None:
    with pytest.raises(SnapshotError) as caught:
        run(params(allow_patterns=["*.gguf"]), False, world(**files))
    what = "none of its 1 files matches the patterns" if files else "no file"
    assert str(caught.value) == f"acme/tiny at commit {COMMIT} gives nothing to download: {what}."


def test_a_directory_in_the_place_of_a_file_is_not_removed() -> None:
    fake = world(a="x")
    fake.put("a", "", kind="directory")
    with pytest.raises(SnapshotError, match=f"{SNAPSHOT}/a is a directory where the commit has a file"):
        run(params(), False, fake)


# -- room -------------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused_with_numbers_before_the_first_byte() -> None:
    fake = world(a="x" * 1000)
    fake.free = Room("/srv", GIB + 999, 1000)
    for check_mode in (True, False):
        with pytest.raises(SnapshotError) as caught:
            run(params(), check_mode, fake)
        assert str(caught.value) == (
            f"Not enough room to put acme/tiny at commit {COMMIT} into {SNAPSHOT}: 1000 bytes to download "
            "and 1.00 GiB (1073741824 bytes) to keep free (reserve_bytes) make 1.00 GiB (1073742824 bytes), but the "
            "file system of /srv has 1.00 GiB (1073742823 bytes) free: 1 bytes short. Nothing was "
            "downloaded. Free space there, or choose another root."
        )
    assert fake.disk == {}
    assert "lock" not in fake.calls


def test_partial_files_count_as_room_already_taken() -> None:
    fake = world(a="x" * 1000)
    fake.free = Room("/srv", GIB + 400, 1000)
    fake.partials["a"] = 600
    result = run(params(), True, fake)
    assert (result["bytes_downloaded"], result["bytes_reused"]) == (400, 600)


def test_a_full_disk_is_no_reason_to_fail_when_nothing_is_missing() -> None:
    fake = world(a="x")
    run(params(), False, fake)
    fake.free = Room("/srv", 0, 0, "read-only")
    assert run(params(), False, fake)["changed"] is False


def test_inodes_can_run_out_too() -> None:
    fake = world(**{f"f{number}": "x" for number in range(10)})
    fake.free = Room("/srv", 100 * GIB, 10)
    with pytest.raises(SnapshotError, match="16 are needed, but the file system of /srv has 10 free"):
        run(params(), False, fake)
    fake.free = Room("/srv", 100 * GIB, None)
    assert run(params(), False, fake)["changed"] is True


def test_a_read_only_target_is_refused() -> None:
    fake = world(a="x")
    fake.free = Room("/srv", 100 * GIB, 10, "the file system of /srv is mounted read-only")
    with pytest.raises(SnapshotError) as caught:
        run(params(), True, fake)
    assert str(caught.value) == (
        f"Cannot put acme/tiny at commit {COMMIT} into {SNAPSHOT}: the file system of /srv is mounted read-only. "
        "Nothing was downloaded."
    )


def test_a_gated_repository_is_tried_before_it_is_promised() -> None:
    fake = world(a="x")
    fake.hub = fake.hub._replace(gated=True)
    fake.access_error = RuntimeError("not on the list")
    with pytest.raises(RuntimeError, match="not on the list"):
        run(params(), True, fake)
    fake.access_error = None
    run(params(), False, fake)
    fake.calls.clear()
    run(params(), False, fake)
    assert fake.calls == ["listing"]


# -- upkeep -----------------------------------------------------------------------------------------------------------

PARTIAL = Leftover(f"{SNAPSHOT}/.modelfleet/partial/x", 700)


def test_leftovers_are_foretold_removed_counted_and_make_room() -> None:
    fake = world(a="x" * 1000)
    fake.free = Room("/srv", GIB + 400, 1000)
    fake.left = [PARTIAL]
    planned = run(params(), True, fake)
    assert fake.left == [PARTIAL]
    done = run(params(), False, fake)
    assert done == planned
    assert done["cleaned"] == {"files": 1, "bytes": 700}
    assert f"{PARTIAL.path}: 700 bytes, left over\n" in done["diff"]["before"]
    assert PARTIAL.path not in done["diff"]["after"]
    assert fake.calls.index(f"discard {PARTIAL.path}") < fake.calls.index("fetch a")
    assert run(params(), False, fake)["cleaned"] == {"files": 0, "bytes": 0}


def test_leftovers_alone_are_a_change() -> None:
    fake = world(a="x")
    run(params(), False, fake)
    fake.left = [PARTIAL]
    fake.calls.clear()
    assert run(params(), True, fake)["changed"] is True
    assert run(params(), False, fake)["changed"] is True
    assert run(params(), False, fake)["changed"] is False
    assert not [call for call in fake.calls if call.startswith("fetch")]


def test_notes_for_the_client_are_part_of_what_is_present() -> None:
    fake = world(a="x", b="y")
    run(params(), False, fake)
    lost = fake.notes.pop(".cache/huggingface/download/a.metadata")
    planned = run(params(), True, fake)
    done = run(params(), False, fake)
    assert done == planned
    assert done["changed"] is True
    assert ".cache/huggingface: 1 notes missing or outdated\n" in done["diff"]["before"]
    assert fake.notes[".cache/huggingface/download/a.metadata"] == lost
    assert run(params(), False, fake)["changed"] is False


def test_what_is_complete_on_a_read_only_mount_stays_as_it_is() -> None:
    fake = world(a="x")
    run(params(), False, fake)
    fake.notes.clear()
    fake.left = [PARTIAL]
    fake.free = Room("/srv", 0, 0, "the file system of /srv is mounted read-only")
    fake.calls.clear()
    assert run(params(), False, fake)["changed"] is False
    assert fake.calls == ["listing"]


def test_a_file_behind_a_link_is_not_the_snapshots() -> None:
    fake = world(**{"docs/de/a": "x", "docs/b": "y"})
    run(params(), False, fake)
    fake.put("docs/de", "", "link")
    result = run(params(), True, fake)
    assert {file["path"]: file["reason"] for file in result["files"]} == {
        "docs/de/a": "lies behind docs/de, which is a link",
        "docs/b": "as recorded",
    }
    assert actions(result) == {"docs/de/a": "repair", "docs/b": "keep"}


# -- the index --------------------------------------------------------------------------------------------------------

INDEX = json.dumps({"weight_map": {"x": "m-1.safetensors", "y": "m-2.safetensors"}})


@pytest.mark.parametrize(
    ("files", "ignore", "message"),
    [
        ({"m-1.safetensors": "1", "m-2.safetensors": "2"}, [], ""),
        ({"m-1.safetensors": "1", "m-2.safetensors": "2"}, ["*.safetensors"], ""),
        (
            {"m-1.safetensors": "1"},
            [],
            "i.safetensors.index.json names 1 file (first: m-2.safetensors) that the commit does not have: "
            "published incomplete",
        ),
        (
            {"m-1.safetensors": "1", "m-2.safetensors": "2"},
            ["m-1*"],
            "i.safetensors.index.json names 1 file (first: m-1.safetensors) that the patterns leave out",
        ),
    ],
)
def test_index(files: dict[str, str], ignore: list[str], message: str) -> None:
    fake = world(**files, **{"i.safetensors.index.json": INDEX})
    if not message:
        assert run(params(ignore_patterns=ignore), False, fake)["changed"] is True
        return
    with pytest.raises(SnapshotError) as caught:
        run(params(ignore_patterns=ignore), False, fake)
    assert str(caught.value) == f"The checkpoint acme/tiny at commit {COMMIT} is incomplete: {message}."
    with pytest.raises(SnapshotError) as caught:
        run(params(ignore_patterns=ignore, state="verified"), False, fake)
    assert str(caught.value) == f"{SNAPSHOT} is incomplete: {message}."


def test_index_in_a_folder_names_files_beside_it() -> None:
    fake = world(**{"sub/i.safetensors.index.json": INDEX, "sub/m-1.safetensors": "1", "sub/m-2.safetensors": "2"})
    assert run(params(), False, fake)["changed"] is True


# -- the other states -------------------------------------------------------------------------------------------------


def test_verified_changes_nothing_and_names_what_is_wrong() -> None:
    fake = world(a="x", b="y", c="z")
    run(params(), False, fake)
    assert run(params(state="verified"), False, fake)["changed"] is False
    del fake.disk[f"{SNAPSHOT}/a"]
    fake.put("b", "yy")
    before = dict(fake.disk)
    fake.calls.clear()
    with pytest.raises(SnapshotError) as caught:
        run(params(state="verified", revision=COMMIT), False, fake)
    assert str(caught.value) == (
        f"2 of 3 files of {SNAPSHOT} are not as published: a: not there; b: has 2 bytes, expected 1. "
        "Repair them with state present."
    )
    assert actions(caught.value.result) == {"a": "download", "b": "repair", "c": "keep"}
    assert caught.value.result["changed"] is False
    assert fake.disk == before
    assert fake.calls == []


def test_verified_names_no_more_than_five() -> None:
    fake = world(**{f"f{number}": "x" for number in range(9)})
    with pytest.raises(SnapshotError) as caught:
        run(params(state="verified"), False, fake)
    assert "; f4: not there and 4 more. Repair" in str(caught.value)


def test_absent_removes_once_and_asks_nobody_for_a_commit() -> None:
    fake = world(a="x")
    run(params(), False, fake)
    fake.calls.clear()
    planned = run(params(state="absent", revision=COMMIT), True, fake)
    assert fake.calls == []
    done = run(params(state="absent", revision=COMMIT), False, fake)
    assert done == planned
    assert done["changed"] is True
    assert done["diff"]["before"].startswith("a: 1 bytes, sha256 ")
    assert done["diff"]["after"] == ""
    assert fake.calls == ["lock", "remove"]
    again = run(params(state="absent", revision=COMMIT), False, fake)
    assert again["changed"] is False
    assert again["diff"]["before"] == ""


def test_absent_ends_a_removal_that_was_killed() -> None:
    fake = world(a="x")
    fake.left = [PARTIAL]
    planned = run(params(state="absent", revision=COMMIT), True, fake)
    done = run(params(state="absent", revision=COMMIT), False, fake)
    assert done == planned
    assert (done["changed"], done["cleaned"]) == (True, {"files": 1, "bytes": 700})
    assert run(params(state="absent", revision=COMMIT), False, fake)["changed"] is False


# -- any state of the disk --------------------------------------------------------------------------------------------

DAMAGE: dict[str, t.Callable[[World, str], t.Any]] = {
    "none": lambda fake, name: None,
    "removed": lambda fake, name: fake.disk.pop(f"{SNAPSHOT}/{name}"),
    "truncated": lambda fake, name: fake.put(name, fake.contents[name][:-1]),
    "replaced": lambda fake, name: fake.put(name, fake.contents[name][::-1]),
    "touched": lambda fake, name: fake.put(name, fake.contents[name]),
    "linked": lambda fake, name: fake.put(name, fake.contents[name], "link"),
    "flipped": lambda fake, name: setattr(fake.disk[f"{SNAPSHOT}/{name}"], "content", fake.contents[name][::-1]),
    "forgotten": lambda fake, name: fake.manifests.pop(SNAPSHOT, None),
}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(sorted(DAMAGE)), min_size=4, max_size=4), st.sampled_from(["stat", "headers", "full"]))
def test_from_any_state_one_run_repairs_what_check_mode_said_and_the_next_has_nothing_to_do(
    damages: list[str], verify: str
) -> None:
    if verify != "full":
        damages = ["none" if damage == "flipped" else damage for damage in damages]
    files = {f"f{number}": f"content {number}" for number in range(len(damages))}
    fake = world(**files)
    run(params(), False, fake)
    for name, damage in zip(files, damages):
        DAMAGE[damage](fake, name)
    planned = run(params(verify=verify), True, fake)
    done = run(params(verify=verify), False, fake)
    assert done == planned
    assert done["changed"] is (set(damages) != {"none"})
    assert {name: thing.content for name, thing in fake.disk.items()} == {
        f"{SNAPSHOT}/{name}": content for name, content in files.items()
    }
    assert {thing.kind for thing in fake.disk.values()} == {"file"}
    kept = [name for name, damage in zip(files, damages) if damage in ("none", "touched", "forgotten")]
    assert not {f"fetch {name}" for name in kept} & set(fake.calls[fake.calls.index("clean") + 1 :])
    again = run(params(verify="full"), False, fake)
    assert again["changed"] is False
    run(params(state="verified", verify="full"), False, fake)


def test_owned_paths_are_all_that_was_made_below_root() -> None:
    result = run(params(), True, world(a="x", **{"docs/de/b": "y"}))
    folders, files = owned_paths("/srv/models/", result)
    assert folders == [
        "/srv/models/snapshots",
        "/srv/models/snapshots/acme--tiny",
        SNAPSHOT,
        f"{SNAPSHOT}/.cache",
        f"{SNAPSHOT}/.cache/huggingface",
        f"{SNAPSHOT}/.cache/huggingface/download",
        f"{SNAPSHOT}/.cache/huggingface/download/docs",
        f"{SNAPSHOT}/.cache/huggingface/download/docs/de",
        f"{SNAPSHOT}/.cache/huggingface/trees",
        f"{SNAPSHOT}/.modelfleet",
        f"{SNAPSHOT}/docs",
        f"{SNAPSHOT}/docs/de",
    ]
    assert files == [
        f"{SNAPSHOT}/a",
        f"{SNAPSHOT}/docs/de/b",
        f"{SNAPSHOT}/.cache/huggingface/download/a.metadata",
        f"{SNAPSHOT}/.cache/huggingface/download/docs/de/b.metadata",
        f"{SNAPSHOT}/.cache/huggingface/CACHEDIR.TAG",
        f"{SNAPSHOT}/.cache/huggingface/.gitignore",
        f"{SNAPSHOT}/.cache/huggingface/trees/{COMMIT}.json",
        f"{SNAPSHOT}/.modelfleet/manifest.json",
    ]


def test_the_logic_imports_no_library() -> None:
    for module in (_snapshot, _snapshot_plan, _snapshot_result):
        source = pathlib.Path(module.__file__).read_text(encoding="utf-8")
        assert "AnsibleModule(" not in source
        assert "import huggingface_hub" not in source


def test_git_digests_are_returned_under_their_own_name() -> None:
    fake = world(a="x")
    fake.hub = fake.hub._replace(files=(RemoteFile("a", 1, GIT_SHA1, "c" * 40),))
    (file,) = run(params(), True, fake)["files"]
    assert (file["sha256"], file["git_sha1"]) == (None, "c" * 40)
