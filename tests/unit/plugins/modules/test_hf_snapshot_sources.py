# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hf_snapshot with sources before the Hub: mirrors, folders and peers, good ones and bad ones."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import time
import typing as t

import huggingface_hub
import pytest
from hub import Hub
from peer_host import Peer
from snapshot_host import FILES, SHARD_1, SHARD_2, TOKEN, TOTAL, Host, outcome, wait_for

from ansible_collections.modelfleet.serving.plugins.module_utils import _hub

NOWHERE = "http://127.0.0.1:1"
#: one wait for a source that is silent
SHORT = {"stall_timeout": 1, "retries": 2}


def size(name: str) -> int:
    content = FILES[name]
    return len(content.encode() if isinstance(content, str) else content)


def origins(result: dict[str, t.Any]) -> dict[str, t.Any]:
    return {file["path"]: file["source"] for file in result["files"]}


def methods(result: dict[str, t.Any]) -> set[t.Optional[str]]:
    return {file["method"] for file in result["files"]}


def shares(result: dict[str, t.Any]) -> dict[str, tuple[int, int, int]]:
    """Files, files it lacks, and failures of each source."""
    return {entry["source"]: (entry["files"], entry["lacking"], entry["failures"]) for entry in result["sources"]}


def whole(host: Host) -> None:
    """Every byte is right, by a look of its own."""
    for name in FILES:
        content = FILES[name]
        assert (host.snapshot() / name).read_bytes() == (content.encode() if isinstance(content, str) else content)
        assert not (host.snapshot() / name).is_symlink()
    assert not (host.snapshot() / ".modelfleet/partial").exists()


@pytest.fixture
def host(hub: Hub, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> Host:
    hub.repo("acme/tiny").commit(FILES)
    return Host(hub, tmp_path / "models", capfd)


@pytest.fixture
def seed(hub: Hub, host: Host, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> Host:
    """Another root with the snapshot in it."""
    seed = Host(hub, tmp_path / "seed", capfd)
    assert seed.run()["changed"] is True
    hub.log.clear()
    return seed


@pytest.fixture
def peer(seed: Host) -> t.Iterator[Peer]:
    with Peer(seed.snapshot(), "peer-token") as peer:
        yield peer


@pytest.fixture
def mirror() -> t.Iterator[Hub]:
    with Hub() as mirror:
        mirror.repo("acme/tiny").commit(FILES)
        yield mirror


def commit_of(host: Host) -> str:
    return str(host.hub.repo("acme/tiny").branches["main"])


# -- mirrors ----------------------------------------------------------------------------------------------------------


def test_a_mirror_gives_the_files_and_each_token_goes_to_its_own_origin(host: Host, mirror: Hub) -> None:
    # a token that is not known is refused
    host.hub.catalog.users[TOKEN] = "me"
    mirror.catalog.users["hf_mirror"] = "me"
    source = {"url": mirror.endpoint + "/", "token": "hf_mirror"}
    planned = host.run(check_mode=True, token=TOKEN, sources=[source])
    result = host.run(token=TOKEN, sources=[source])
    assert set(origins(result).values()) == {mirror.endpoint}
    assert planned["files"] == result["files"]
    assert planned["sources"] == result["sources"]
    assert shares(result) == {mirror.endpoint: (len(FILES), 0, 0)}
    assert (result["bytes_downloaded"], result["sources"][0]["bytes"]) == (TOTAL, TOTAL)
    assert host.sent() == 0
    assert [entry.on for entry in host.hub.log.find()] == ["info", "info"]
    assert all(entry.authorization for entry in mirror.log.find("resolve"))
    assert host.hub.leaks() == mirror.leaks() == []
    assert (
        {entry.user for entry in mirror.log.find("resolve")} == {"me"}
        if hasattr(mirror.log.find()[0], "user")
        else True
    )
    whole(host)


def test_the_hubs_token_goes_to_no_source(host: Host, mirror: Hub, seed: Host) -> None:
    host.hub.catalog.users[TOKEN] = "me"
    mirror.fault(on="resolve", match=SHARD_1, action="status", status=404)
    with Peer(seed.snapshot()) as peer:
        peer.lacks = {SHARD_1, SHARD_2}
        result = host.run(token=TOKEN, sources=[{"peer": peer.url}, {"url": mirror.endpoint}])
        assert {authorization for _path, _range, authorization in peer.log} == {None}
    assert shares(result) == {
        peer.url: (len(FILES) - 2, 2, 0),
        mirror.endpoint: (1, 1, 0),
        host.hub.endpoint: (1, 0, 0),
    }
    assert [entry.authorization for entry in mirror.log.find() if entry.authorization] == []
    assert all(entry.authorization for entry in host.hub.log.find("resolve"))


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"action": "drop"}, "given up at 0 of "),
        ({"action": "status", "status": 503}, "status 503 from "),
        ({"action": "status", "status": 429, "headers": {"Retry-After": "900"}}, "status 429 from "),
        ({"action": "stall", "at": 1000, "seconds": 30}, "no byte in time from "),
        ({"action": "html"}, "It sent an HTML page"),
        ({"action": "truncate", "at": 1000}, "found 1000 bytes at "),
        ({"action": "flip", "at": 1000}, "the content is wrong: expected sha256 "),
        ({"action": "trickle", "rate": 20_000}, "bytes/s from "),
    ],
)
def test_a_bad_mirror_is_left_for_the_hub(host: Host, mirror: Hub, fault: dict[str, t.Any], reason: str) -> None:
    mirror.fault(on="cdn", **fault)
    began = time.monotonic()
    result = host.run(sources=[{"url": mirror.endpoint}], min_rate=200_000, **SHORT)
    assert time.monotonic() - began < 15
    assert {path: source for path, source in origins(result).items() if path.endswith(".safetensors")} == {
        SHARD_1: host.hub.endpoint,
        SHARD_2: host.hub.endpoint,
    }
    (bad, good) = result["sources"]
    assert (bad["source"], bad["failures"], good["failures"]) == (mirror.endpoint, 2, 0)
    assert all(reason in text for text in bad["reasons"]), bad["reasons"]
    whole(host)


def test_what_a_mirror_sent_before_it_broke_is_kept(host: Host, mirror: Hub) -> None:
    mirror.fault(on="cdn", action="drop", at=300_000)
    mirror.fault(on="cdn", action="status", status=500)
    result = host.run(sources=[{"url": mirror.endpoint}], retries=0)
    assert {entry.range for entry in host.hub.log.find("cdn")} == {"bytes=300000-"}
    assert result["bytes_downloaded"] == TOTAL
    by_name = {entry["source"]: entry["bytes"] for entry in result["sources"]}
    assert by_name[host.hub.endpoint] == size(SHARD_1) + size(SHARD_2) - 600_000
    whole(host)


def test_nothing_of_what_a_lying_mirror_sent_is_kept(host: Host, mirror: Hub) -> None:
    mirror.fault(on="cdn", action="flip", at=1000)
    result = host.run(sources=[{"url": mirror.endpoint}])
    assert {entry.range for entry in host.hub.log.find("cdn")} == {None}
    (bad, _good) = result["sources"]
    assert bad["given_up"] == "sent wrong content for 2 files"
    whole(host)


def test_a_lie_that_another_source_completed_is_found_and_not_built_on(host: Host, peer: Peer) -> None:
    peer.flip, peer.cut = {SHARD_2: 1000}, {SHARD_2: 300_000}
    result = host.run(sources=from_peer(peer))
    assert [entry.range for entry in host.hub.log.find("cdn")] == ["bytes=300000-", None]
    assert origins(result)[SHARD_2] == host.hub.endpoint
    (bad, good) = result["sources"]
    assert bad["reasons"][0].startswith(
        f"{SHARD_2}: given up at 300000 of {size(SHARD_2)} bytes after 3 failures, the "
    )
    assert bad["reasons"][1] == f"{SHARD_2}: gave a part of a file that became wrong."
    assert good["failures"] == 0
    whole(host)


def test_a_mirror_that_is_gone_is_not_asked_for_every_file(host: Host) -> None:
    result = host.run(sources=[{"url": NOWHERE}], workers=1)
    (bad, good) = result["sources"]
    assert bad["failures"] == 3
    assert bad["given_up"].startswith("failed for 3 files in a row, the last: given up at 0 of ")
    assert "Connection refused while asking http://127.0.0.1:1/acme/tiny/resolve/" in bad["reasons"][0]
    # the empty one needs nobody
    assert (good["source"], good["files"]) == (host.hub.endpoint, len(FILES))


def test_when_all_fail_every_source_is_named_with_its_reason(host: Host, mirror: Hub) -> None:
    mirror.fault(on="cdn", match=SHARD_1, action="status", status=404)
    host.hub.fault(on="cdn", match=SHARD_1, action="flip", at=0)
    result = host.run(sources=[{"url": NOWHERE}, {"url": mirror.endpoint}])
    assert result["msg"].startswith(f"{SHARD_1}: the content is wrong, twice: expected sha256 ")
    assert ". Before that: http://127.0.0.1:1: " in result["msg"]
    assert f" {mirror.endpoint}: http://localhost:" in result["msg"]
    assert result["msg"].endswith(" refused with status 404: it is not there.")
    assert "?" not in result["msg"]


def test_a_mirror_lists_when_the_hub_is_gone_or_may_not_be_asked(host: Host, mirror: Hub) -> None:
    result = host.run(endpoint=NOWHERE, sources=[{"url": mirror.endpoint}])
    assert (result["changed"], result["commit"]) == (True, commit_of(host))
    result = host.run(hub=False, sources=[{"url": mirror.endpoint}])
    assert result["changed"] is False
    assert host.hub.count() == 0


def test_a_plain_no_of_the_hub_is_final(host: Host, mirror: Hub) -> None:
    mirror.repo("acme/gone").commit(FILES)
    result = host.run(repo_id="acme/gone", sources=[{"url": mirror.endpoint}])
    assert result["msg"].startswith(f"There is no repository acme/gone at {host.hub.endpoint}")
    assert mirror.count() == 0


# -- peers ------------------------------------------------------------------------------------------------------------


def from_peer(peer: Peer) -> list[dict[str, str]]:
    return [{"peer": peer.url, "token": peer.token}]


def test_a_peer_gives_everything_and_the_hub_only_the_listing(host: Host, peer: Peer) -> None:
    result = host.run(sources=from_peer(peer))
    assert shares(result) == {peer.url: (len(FILES), 0, 0)}
    assert {authorization for _path, _range, authorization in peer.log} == {"Bearer peer-token"}
    assert [entry.on for entry in host.hub.log.find()] == ["info"]
    whole(host)


def test_the_proxy_of_the_environment_is_not_for_peers(host: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", NOWHERE)
    result = host.run(sources=from_peer(peer), hub=False, revision=commit_of(host))
    assert shares(result) == {peer.url: (len(FILES), 0, 0)}


def test_a_peer_with_a_part_of_the_files(host: Host, peer: Peer) -> None:
    peer.lacks = {SHARD_2, "config.json"}
    result = host.run(sources=from_peer(peer))
    assert {path for path, source in origins(result).items() if source != peer.url} == peer.lacks
    assert shares(result) == {peer.url: (len(FILES) - 2, 2, 0), host.hub.endpoint: (2, 0, 0)}
    assert result["retries"] == 0
    whole(host)


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda peer: setattr(peer, "token", "another"), "refused with status 401: the token is missing, wrong or exp"),
        (lambda peer: peer.flip.update({SHARD_1: 5, SHARD_2: 5}), "the content is wrong: expected sha256 "),
        (lambda peer: setattr(peer, "rate", 20_000), "bytes/s from "),
        (lambda peer: peer.cut.update({SHARD_1: 1000, SHARD_2: 1000}), "connection lost at byte 1000 from "),
        (lambda peer: peer.stop(), "Connection refused while asking "),
    ],
)
def test_a_bad_peer_is_left_for_the_hub(host: Host, peer: Peer, harm: t.Callable[[Peer], None], reason: str) -> None:
    sources = from_peer(peer)
    harm(peer)
    result = host.run(sources=sources, min_rate=200_000, **SHORT)
    assert origins(result)[SHARD_1] == origins(result)[SHARD_2] == host.hub.endpoint
    (bad, _good) = result["sources"]
    assert any(reason in text for text in bad["reasons"]), bad["reasons"]
    assert "peer-token" not in json.dumps(result)
    whole(host)


def test_a_peer_that_dies_midway_leaves_its_part(host: Host, peer: Peer) -> None:
    peer.rate = 400_000
    process = host.start(sources=from_peer(peer), workers=2)
    partial = host.root / "snapshots/acme--tiny" / commit_of(host) / ".modelfleet/partial"
    wait_for(lambda: partial.exists() and sum(path.stat().st_size for path in partial.iterdir()) > 200_000)
    peer.cut = {SHARD_1: 0, SHARD_2: 0}
    peer.status = 500
    peer.stop()
    peer.rate = 1e9
    result = outcome(process)
    assert result["bytes_downloaded"] == TOTAL
    assert host.sent() < TOTAL - 200_000
    whole(host)


def test_not_yet_means_another_file_first(host: Host, peer: Peer) -> None:
    peer.not_yet = {SHARD_2: 2}
    result = host.run(sources=from_peer(peer), workers=1)
    assert shares(result) == {peer.url: (len(FILES), 0, 0)}
    asked = [path for path in peer.asked() if path.endswith(".safetensors")]
    # the largest is asked for first, and again between the others
    assert asked == [SHARD_2, SHARD_1, SHARD_2, SHARD_2]
    between = [path for path in peer.asked() if path != SHARD_2]
    assert peer.asked().index(SHARD_2, 1) < len(between)
    assert host.sent() == 0
    whole(host)


def test_a_peer_that_gets_no_further_is_given_up(host: Host, peer: Peer) -> None:
    peer.not_yet = {SHARD_2: -1}
    began = time.monotonic()
    result = host.run(sources=from_peer(peer), **SHORT)
    assert 1 < time.monotonic() - began < 10
    assert origins(result)[SHARD_2] == host.hub.endpoint
    (bad, _good) = result["sources"]
    assert bad["given_up"] == "was waited for, but got no further for 1 s"
    whole(host)


def test_a_peer_that_gets_on_is_waited_for(host: Host, peer: Peer) -> None:
    peer.not_yet, peer.moves_on = {SHARD_2: 10}, True
    began = time.monotonic()
    result = host.run(sources=from_peer(peer), **SHORT)
    assert time.monotonic() - began > 1.5
    assert shares(result) == {peer.url: (len(FILES), 0, 0)}


def test_another_peer_is_asked_before_one_is_waited_for(host: Host, seed: Host, peer: Peer) -> None:
    peer.not_yet = {SHARD_2: -1}
    with Peer(seed.snapshot()) as second:
        result = host.run(sources=[*from_peer(peer), {"peer": second.url}])
    assert origins(result)[SHARD_2] == second.url
    assert host.sent() == 0
    assert shares(result)[peer.url] == (len(FILES) - 1, 0, 0)


def test_a_peer_that_did_not_have_it_is_asked_again_while_another_is_waited_for(
    host: Host, seed: Host, peer: Peer
) -> None:
    peer.not_yet, peer.moves_on = {SHARD_2: -1}, True
    with Peer(seed.snapshot()) as second:
        second.lacks = {SHARD_2}
        process = host.start(sources=[*from_peer(peer), {"peer": second.url}])
        wait_for(lambda: second.asked().count(SHARD_2) > 1)
        # the file got there from the first, as in a chain of hosts
        second.lacks = set()
        result = outcome(process)
    assert origins(result)[SHARD_2] == second.url
    assert shares(result)[second.url] == (1, 0, 0)
    assert host.sent() == 0


def test_many_files_that_nobody_has_yet_make_no_storm(host: Host, peer: Peer) -> None:
    peer.not_yet, peer.moves_on = {path: -1 for path in FILES}, True
    process = host.start(sources=from_peer(peer), workers=2)
    wait_for(lambda: len(peer.asked()) > 2 * len(FILES))
    before = len(peer.asked())
    time.sleep(2)
    # each of two workers rests for a poll after each "not yet"
    assert 2 <= len(peer.asked()) - before <= 2 * 2 / 0.2 + 2
    peer.not_yet = {}
    assert shares(outcome(process)) == {peer.url: (len(FILES), 0, 0)}


def test_the_lock_shows_progress_to_those_that_wait(host: Host, peer: Peer) -> None:
    lock = host.root / "snapshots/acme--tiny" / commit_of(host) / ".modelfleet/lock"
    peer.not_yet = {SHARD_2: -1}
    process = host.start(sources=from_peer(peer))
    wait_for(lambda: peer.asked().count(SHARD_2) > 3)
    quiet = lock.stat().st_mtime_ns
    time.sleep(1.5)
    assert lock.stat().st_mtime_ns == quiet
    # who is waited for gets on, and so does who waits
    peer.moves_on = True
    wait_for(lambda: lock.stat().st_mtime_ns > quiet)
    peer.not_yet = {}
    outcome(process)


def test_a_peer_alone_is_enough_also_without_the_library(
    host: Host, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_hub, "HAS_HUGGINGFACE_HUB", False)
    peer.not_yet = {".modelfleet/manifest.json": 1}
    commit = commit_of(host)
    result = host.run(sources=from_peer(peer), hub=False, revision=commit)
    assert (result["changed"], result["commit"]) == (True, commit)
    assert shares(result) == {peer.url: (len(FILES), 0, 0)}
    assert host.hub.count() == 0
    whole(host)
    (host.snapshot() / SHARD_1).unlink()
    # nor is it needed while it is not asked
    assert shares(host.run(sources=from_peer(peer), revision=commit)) == {peer.url: (1, 0, 0)}
    peer.lacks = {SHARD_1}
    (host.snapshot() / SHARD_1).unlink()
    assert "Failed to import the required Python library" in host.run(revision=commit)["msg"]
    text = host.run(sources=from_peer(peer), revision=commit)["msg"]
    assert text.startswith(f"{SHARD_1}: huggingface_hub, required to download, is not installed for ")
    assert f". Before that: {peer.url}: " in text


def test_a_peer_does_not_know_branches(host: Host, peer: Peer) -> None:
    result = host.run(sources=from_peer(peer), hub=False)
    assert result["msg"] == (
        "Nobody says what revision main of acme/tiny consists of. hub is false, so the Hub was not asked. "
        f"{peer.url}: a peer knows commits only, not what main is. "
        "Set revision to a commit: what a branch is today, only the Hub, a mirror or a cache can tell."
    )


# -- folders ----------------------------------------------------------------------------------------------------------


def client_cache(host: Host, folder: pathlib.Path) -> None:
    """A cache that the real client made."""
    huggingface_hub.snapshot_download(
        "acme/tiny", cache_dir=str(folder / "hub"), endpoint=host.hub.endpoint, token=False, max_workers=1
    )


def client_folder(host: Host, folder: pathlib.Path) -> None:
    """A folder that the real client downloaded into."""
    huggingface_hub.snapshot_download("acme/tiny", local_dir=str(folder), endpoint=host.hub.endpoint, token=False)


def shared_store(host: Host, folder: pathlib.Path) -> None:
    """As the client does it with Xet: blobs are links into a store of all repositories."""
    client_cache(host, folder)
    store = folder / "hub/blobs"
    store.mkdir()
    for blob in (folder / "hub/models--acme--tiny/blobs").iterdir():
        blob.rename(store / f"xet-{blob.name}")
        blob.symlink_to(f"../../blobs/xet-{blob.name}")


def own_root(host: Host, folder: pathlib.Path) -> None:
    other = Host(host.hub, folder, host._capfd)
    assert other.run()["changed"] is True


def plain(host: Host, folder: pathlib.Path) -> None:
    for name in FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FILES[name].encode() if isinstance(FILES[name], str) else FILES[name])


LAYOUTS = {
    "a root of ours": (own_root, ""),
    "its snapshots": (own_root, "snapshots"),
    "HF_HOME": (client_cache, ""),
    "its hub": (client_cache, "hub"),
    "one repository of a cache": (client_cache, "hub/models--acme--tiny"),
    "a cache with a shared store": (shared_store, "hub"),
    "a local folder of the client": (client_folder, ""),
    "just the files": (plain, ""),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_of_a_folder_are_taken_without_a_copy(host: Host, tmp_path: pathlib.Path, layout: str) -> None:
    make, below = LAYOUTS[layout]
    make(host, tmp_path / "origin")
    host.hub.log.clear()
    path = str(tmp_path / "origin" / below)
    # more than the disk has left for a copy
    reserve = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize - TOTAL // 2
    planned = host.run(check_mode=True, sources=[{"path": path}], reserve_bytes=reserve - (64 << 20))
    assert not host.root.exists()
    result = host.run(sources=[{"path": path}])
    assert set(origins(result).values()) == {path}
    assert methods(result) <= {"link", "reflink"}
    assert planned["files"] == result["files"]
    assert (
        planned["sources"]
        == result["sources"]
        == [
            {
                "source": path,
                "files": len(FILES),
                "bytes": TOTAL,
                "lacking": 0,
                "failures": 0,
                "reasons": [],
                "given_up": None,
            }
        ]
    )
    (method,) = methods(result)
    assert f"{SHARD_1}: absent, to adopt from {path} by {method}" in planned["diff"]["before"]
    assert (result["bytes_downloaded"], result["bytes_reused"]) == (0, TOTAL)
    assert [entry.on for entry in host.hub.log.find()] == ["info", "info"]
    whole(host)
    assert host.run(sources=[{"path": path}])["changed"] is False


def test_a_copy_is_one_and_proved_in_the_same_pass(host: Host, seed: Host) -> None:
    planned = host.run(check_mode=True, sources=[{"path": str(seed.root)}], adopt="copy")
    result = host.run(sources=[{"path": str(seed.root)}], adopt="copy")
    assert methods(result) == methods(planned) == {"copy"}
    assert planned["bytes_downloaded"] == result["bytes_downloaded"] == TOTAL
    assert (seed.snapshot() / SHARD_1).stat().st_ino != (host.snapshot() / SHARD_1).stat().st_ino
    assert (seed.snapshot() / SHARD_1).stat().st_nlink == 1
    whole(host)


def test_a_copy_that_was_interrupted_goes_on_where_it_was(host: Host, seed: Host) -> None:
    sources = [{"path": str(seed.root)}]
    process = host.start(sources=sources, adopt="copy", max_rate=300_000, workers=2)
    partial = host.root / "snapshots/acme--tiny" / commit_of(host) / ".modelfleet/partial"
    wait_for(lambda: partial.exists() and sum(path.stat().st_size for path in partial.iterdir()) > 200_000)
    process.send_signal(signal.SIGTERM)
    assert "What was downloaded is kept; run again to continue." in outcome(process)["msg"]
    result = host.run(sources=sources, adopt="copy")
    assert result["bytes_downloaded"] < TOTAL - 200_000
    whole(host)


@pytest.mark.parametrize(
    ("mode", "options", "why"),
    [
        (0o664, {}, "its mode 0664 lets others write it"),
        (0o600, {"mode": "0644"}, "its mode is 0600, not 0644"),
        (0o600, {"mode": "u=rw,go=r"}, "a mode that is not octal is wanted"),
        (0o644, {"owner": "12345"}, "it belongs to user id 0, not 12345"),
        (0o644, {"group": "12345"}, "it belongs to group id 0, not 12345"),
    ],
)
def test_a_file_that_should_not_share_its_origin_is_copied(
    host: Host, seed: Host, mode: int, options: dict[str, str], why: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    for name in FILES:
        (seed.snapshot() / name).chmod(mode)
    sources = [{"path": str(seed.root)}]
    planned = host.run(check_mode=True, sources=sources, adopt="link", **options)
    result = host.run(sources=sources, adopt="link", **options)
    assert methods(result) == methods(planned) == {"copy"}
    assert f"{SHARD_1}: absent, to adopt from {seed.root} by copy (no link: {why})" in planned["diff"]["before"]
    assert {(seed.snapshot() / name).stat().st_mode & 0o7777 for name in FILES} == {mode}
    assert {(seed.snapshot() / name).stat().st_uid for name in FILES} == {0}
    whole(host)


def test_wrong_content_in_a_folder_is_left_there(host: Host, seed: Host) -> None:
    path = seed.snapshot() / SHARD_1
    data = bytearray(path.read_bytes())
    data[300_000] ^= 1
    path.write_bytes(data)
    result = host.run(sources=[{"path": str(seed.root)}])
    assert origins(result)[SHARD_1] == host.hub.endpoint
    assert result["sources"][0]["reasons"][0].startswith(f"{SHARD_1}: the content is wrong: expected sha256 ")
    assert path.read_bytes() == data
    whole(host)


def test_what_a_killed_adoption_left_is_never_written_to(host: Host, seed: Host) -> None:
    host.run(check_mode=True)
    origin = seed.snapshot() / SHARD_1
    before = origin.read_bytes()
    partial = host.root / "snapshots/acme--tiny" / commit_of(host) / ".modelfleet/partial"
    partial.mkdir(parents=True)
    process = host.start(max_rate=200_000, workers=1, allow_patterns=[SHARD_1])
    wait_for(lambda: any(path.stat().st_size for path in partial.iterdir()))
    process.kill()
    process.communicate()
    (name,) = [path.name for path in partial.iterdir()]
    os.link(origin, partial / f"{name}.link")
    assert host.run()["changed"] is True
    assert origin.read_bytes() == before
    assert origin.stat().st_nlink == 1
    whole(host)


def test_a_new_commit_takes_what_did_not_change_from_the_old_one(host: Host) -> None:
    host.run()
    old = host.snapshot()
    host.hub.repo("acme/tiny").commit({"config.json": '{"model_type": "new"}'})
    host.hub.log.clear()
    result = host.run(sources=[{"path": str(host.root)}])
    assert {path for path, source in origins(result).items() if source != str(host.root)} == {"config.json"}
    assert host.sent() == len('{"model_type": "new"}')
    assert old.name not in result["path"]
    assert (old / "config.json").read_text() == FILES["config.json"]


def test_a_damaged_file_is_not_repaired_from_itself(host: Host) -> None:
    host.run()
    data = bytearray((host.snapshot() / SHARD_1).read_bytes())
    data[300_000] ^= 1
    (host.snapshot() / SHARD_1).write_bytes(data)
    result = host.run(sources=[{"path": str(host.root)}])
    assert shares(result) == {str(host.root): (0, 1, 0), host.hub.endpoint: (1, 0, 0)}
    whole(host)


# -- no Hub in reach --------------------------------------------------------------------------------------------------


def carry(seed: Host, host: Host, leave_out: t.Sequence[str] = ()) -> pathlib.Path:
    """As rsync does without -t: other times, other inodes."""
    target = host.root / "snapshots/acme--tiny" / seed.snapshot().name
    shutil.copytree(
        seed.snapshot(), target, ignore=lambda folder, names: set(names) & set(leave_out), copy_function=shutil.copy
    )
    return target


def test_a_snapshot_that_was_carried_in_with_its_manifest_is_adopted(host: Host, seed: Host) -> None:
    carry(seed, host)
    options = {"hub": False, "revision": commit_of(host), "verify": "full"}
    planned = host.run(check_mode=True, **options)
    result = host.run(**options)
    assert planned["files"] == result["files"]
    assert {file["action"] for file in result["files"]} == {"adopt"}
    assert host.run(**options)["changed"] is False
    assert host.run(state="verified", **options)["changed"] is False
    assert host.hub.count() == 0


def test_one_without_manifest_is_adopted_by_the_clients_listing(host: Host, tmp_path: pathlib.Path) -> None:
    commit = commit_of(host)
    client_folder(host, host.root / "snapshots/acme--tiny" / commit)
    host.hub.log.clear()
    result = host.run(hub=False, revision=commit)
    assert {file["action"] for file in result["files"]} == {"adopt"}
    assert host.hub.count() == 0
    whole(host)


def test_one_that_nothing_describes_is_refused(host: Host, seed: Host) -> None:
    target = carry(seed, host, (".modelfleet", ".cache"))
    result = host.run(hub=False, revision=target.name)
    assert result["msg"] == (
        f"Nobody says what commit {target.name} of acme/tiny consists of. hub is false, so the Hub was not asked. "
        f"{host.root}: nothing in it says what the commit consists of: no manifest of modelfleet.serving and no "
        f"trees/{target.name}.json of huggingface_hub 1.22 or newer. Carry in the whole folder of the snapshot from a "
        "host that has it, with .modelfleet/manifest.json, or name a source that lists it."
    )
    assert host.hub.count() == 0


def test_a_damaged_one_is_repaired_from_a_folder_or_says_what_it_lacks(host: Host, seed: Host) -> None:
    target = carry(seed, host, (SHARD_1,))
    options = {"hub": False, "revision": target.name}
    for check_mode in (True, False):
        result = host.run(check_mode=check_mode, **options)
        assert result["msg"] == (
            f"No source has 1 file (first: {SHARD_1}) of acme/tiny at commit {target.name}, and the Hub may not be "
            f"asked (hub is false). Nothing was changed. {target} lacks 1 of {len(FILES)} files in all."
        )
    result = host.run(sources=[{"path": str(seed.root)}], **options)
    assert shares(result) == {str(seed.root): (1, 0, 0)}
    assert host.hub.count() == 0
    whole(host)


def test_a_cache_says_what_a_branch_is(host: Host, tmp_path: pathlib.Path) -> None:
    client_cache(host, tmp_path / "home")
    host.hub.log.clear()
    result = host.run(hub=False, sources=[{"path": str(tmp_path / "home")}])
    assert result["commit"] == commit_of(host)
    assert host.hub.count() == 0
    whole(host)


# -- the end of patience ----------------------------------------------------------------------------------------------


def test_the_timeout_ends_the_task_and_keeps_what_arrived(host: Host) -> None:
    host.hub.fault(on="cdn", action="stall", at=200_000, seconds=60)
    began = time.monotonic()
    result = host.run(timeout=2)
    assert 2 <= time.monotonic() - began < 5
    assert "the timeout of 2 s was over at 200000 of " in result["msg"]
    assert result["msg"].endswith("What was downloaded is kept; run again to continue.")
    host.hub.faults.clear()
    assert host.run()["bytes_reused"] >= 400_000


def test_a_stop_does_not_wait_for_a_silent_server(host: Host) -> None:
    host.hub.fault(on="cdn", action="stall", at=200_000, seconds=60)
    process = host.start()
    wait_for(lambda: len(host.hub.log.find("cdn")) == 2)
    time.sleep(0.5)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert "stopped at 200000 of " in outcome(process)["msg"]
    assert time.monotonic() - began < 4


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([{"url": "hub.example"}], "sources[0].url hub.example is not an http or https URL."),
        ([{"path": "/a"}, {"peer": "ftp://u:p@h/?q"}], "sources[1].peer ftp://h/ is not an http or https URL."),
        ([{"path": "models"}], "sources[0].path "),
        ([{"path": "/a"}, {"path": "/a/"}], "sources[1].path /a is there twice."),
        ([{"path": "/a", "url": "http://h"}], "parameters are mutually exclusive: url|path|peer found in sources"),
        ([{"token": "x"}], "one of the following is required: url, path, peer found in sources"),
    ],
)
def test_sources_that_make_no_sense(host: Host, sources: list[dict[str, str]], message: str) -> None:
    result = host.run(sources=sources)
    assert result["msg"].startswith(message), result["msg"]
    assert host.hub.count() == 0
