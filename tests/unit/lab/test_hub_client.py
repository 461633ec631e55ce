# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real huggingface_hub client against the lab's Hub."""

from __future__ import annotations

import pathlib
import typing as t

import huggingface_hub
import pytest
from hub import Hub
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

REPO = "acme/tiny"
FILES = {
    "README.md": b"# tiny\n",
    "config.json": b'{"model_type": "llama"}',
    "docs/deploy guide.md": b"how\n",
    "model-00001-of-00002.safetensors": bytes(range(256)) * 4000,
    "model-00002-of-00002.safetensors": b"\x01" * 70_001,
}


class Client:
    """The calls a test makes, none of which may touch this machine's own cache, token or endpoint."""

    def __init__(self, hub: Hub, home: pathlib.Path, token: t.Union[str, bool] = False) -> None:
        self._where: t.Any = {"endpoint": hub.endpoint, "token": token}
        self.api = huggingface_hub.HfApi(**self._where)
        self._cache, self.folder = home / "cache", home / "model"

    def download(self, revision: t.Optional[str] = None) -> dict[str, bytes]:
        huggingface_hub.snapshot_download(
            REPO, revision=revision, cache_dir=self._cache, local_dir=self.folder, **self._where
        )
        paths = [path for path in self.folder.rglob("*") if path.is_file() and ".cache" not in path.parts]
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def client(hub: Hub, tmp_path: pathlib.Path) -> Client:
    return Client(hub, tmp_path)


def test_cold_download_by_branch_brings_every_byte(hub: Hub, client: Client) -> None:
    hub.repo(REPO).commit(FILES)
    assert client.download() == FILES
    assert hub.count("tree", "GET") >= 2, "the listing was meant to need several pages"
    assert hub.count("cdn", "GET") == 2
    assert not hub.leaks()


def test_second_pinned_download_asks_nothing(hub: Hub, client: Client) -> None:
    commit = hub.repo(REPO).commit(FILES)
    client.download(commit)
    hub.clear()
    assert client.download(commit) == FILES
    assert hub.count() == 0


def test_a_pinned_commit_stays_when_the_branch_moves(hub: Hub, client: Client) -> None:
    repo = hub.repo(REPO)
    old = repo.commit(FILES)
    new = repo.commit({"config.json": b"{}"})
    repo.tag("v1", old)
    assert client.api.model_info(REPO).sha == new
    assert client.api.model_info(REPO, revision="v1").sha == old
    assert client.download(old)["config.json"] == FILES["config.json"]


def test_branch_that_moves_while_it_is_downloaded(hub: Hub, client: Client) -> None:
    old = hub.repo(REPO).commit(FILES)
    moved = {"config.json": '{"moved": true}', "README.md": None}
    hub.fault(on="resolve", skip=1, times=1, action="move", repo=REPO, files=moved)
    assert client.download("main") == FILES, "the client keeps to the commit it resolved"
    assert client.api.model_info(REPO).sha != old
    assert client.download("main")["config.json"] == b'{"moved": true}'


def test_info_and_tree_and_paths_tell_the_same(hub: Hub, client: Client) -> None:
    commit = hub.repo(REPO).commit(FILES)
    info = client.api.model_info(REPO, files_metadata=True)
    tree = {item.path: item for item in client.api.list_repo_tree(REPO, recursive=True) if hasattr(item, "size")}
    paths = {item.path: item for item in client.api.get_paths_info(REPO, [*FILES, "absent"])}
    assert info.sha == commit
    assert {item.rfilename for item in info.siblings} == set(FILES) == set(tree) == set(paths)
    for item in info.siblings:
        assert item.size == len(FILES[item.rfilename]) == tree[item.rfilename].size == paths[item.rfilename].size
        assert item.blob_id == tree[item.rfilename].blob_id
        if item.rfilename.endswith(".safetensors"):
            assert item.lfs.sha256 == tree[item.rfilename].lfs.sha256
        else:
            assert item.lfs is None


def test_checksums_agree_with_the_clients_own(hub: Hub, client: Client) -> None:
    hub.repo(REPO).commit(FILES)
    client.download()
    result = client.api.verify_repo_checksums(REPO, local_dir=client.folder)
    assert (result.checked_count, result.mismatches, result.missing_paths) == (len(FILES), [], [])


def test_refs(hub: Hub, client: Client) -> None:
    repo = hub.repo(REPO)
    commit = repo.commit(FILES)
    repo.commit({"config.json": b"[]"}, branch="next")
    repo.tag("v1", commit)
    refs = client.api.list_repo_refs(REPO)
    assert {ref.name for ref in refs.branches} == {"main", "next"}
    assert [(ref.name, ref.target_commit) for ref in refs.tags] == [("v1", commit)]


def test_gated_repository(hub: Hub, tmp_path: pathlib.Path) -> None:
    hub.repo(REPO).commit(FILES)
    hub.repo(REPO).gated, hub.repo(REPO).readers = "manual", {"reader"}
    hub.catalog.users.update({"hf_reader": "reader", "hf_other": "other"})

    with pytest.raises(GatedRepoError) as refused:
        Client(hub, tmp_path / "anonymous").download()
    assert refused.value.response.status_code == 401
    with pytest.raises(GatedRepoError) as refused:
        Client(hub, tmp_path / "other", "hf_other").download()
    assert refused.value.response.status_code == 403
    assert hub.count("cdn") == 0

    reader = Client(hub, tmp_path / "reader", "hf_reader")
    assert reader.api.whoami()["name"] == "reader"
    assert reader.download() == FILES
    assert hub.count("cdn") == 2
    assert not hub.leaks()


def test_private_repository_does_not_exist_for_others(hub: Hub, tmp_path: pathlib.Path) -> None:
    hub.repo(REPO).commit(FILES)
    hub.repo(REPO).private, hub.repo(REPO).readers = True, {"reader"}
    hub.catalog.users["hf_reader"] = "reader"
    with pytest.raises(RepositoryNotFoundError):
        Client(hub, tmp_path).api.model_info(REPO)
    assert Client(hub, tmp_path, "hf_reader").api.model_info(REPO).private


def test_what_does_not_exist(hub: Hub, client: Client, tmp_path: pathlib.Path) -> None:
    hub.repo(REPO).commit(FILES)
    with pytest.raises(RepositoryNotFoundError):
        client.api.model_info("acme/none")
    with pytest.raises(RevisionNotFoundError):
        client.api.model_info(REPO, revision="none")
    assert not client.api.file_exists(REPO, "none.json")
    with pytest.raises(HfHubHTTPError, match="Invalid credentials in Authorization header"):
        Client(hub, tmp_path, "hf_wrong").api.model_info(REPO)


def test_client_resumes_after_a_drop(hub: Hub, client: Client) -> None:
    written = 10 * 1024 * 1024  # the client writes, and so resumes, in pieces of that size
    big = {"model.safetensors": bytes(written + 3_000_000)}
    hub.repo(REPO).commit(big)
    hub.fault(on="cdn", action="drop", at=written + 1_000_000, times=1)
    assert client.download() == big
    assert [entry.range for entry in hub.log.find("cdn", "GET")] == [None, f"bytes={written}-"]


def test_client_accepts_a_flipped_byte(hub: Hub, client: Client) -> None:
    """Why the collection hashes what it downloads: the client does not."""
    hub.repo(REPO).commit(FILES)
    hub.fault(on="cdn", match="00001", action="flip", at=1000)
    got = client.download()["model-00001-of-00002.safetensors"]
    wrong = [at for at, byte in enumerate(FILES["model-00001-of-00002.safetensors"]) if got[at] != byte]
    assert wrong == [1000]
