# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bad bytes, on disk and on the wire, and a disk that is too small."""

from __future__ import annotations

import concurrent.futures

import pytest

from .harness import HUB

REPO = "demo/Kimi-Demo-INT4"
ROOT = "/srv/e2e-models"


def args(**more):
    return {"repo_id": REPO, "root": ROOT, "endpoint": HUB, **more}


@pytest.fixture(autouse=True)
def _no_faults(lab):
    lab.hub("DELETE", "/_lab/faults")
    yield
    lab.hub("DELETE", "/_lab/faults")


def shards(result):
    return [f for f in result["files"] if f["path"].endswith(".safetensors")]


def test_a_truncated_shard_fails_with_file_expected_and_found(lab, tmp_path):
    lab.hub("POST", "/_lab/faults", {"on": "cdn", "match": "model-00001", "action": "truncate", "at": 5000})
    result = lab.module("demo1", "hf_snapshot", args(), tmp_path)
    assert result["failed"]
    assert "model-00001-of-" in result["msg"] and "5000" in result["msg"].replace(",", ""), result["msg"]
    expected = next(
        f["size"] for f in lab.hub("GET", f"/api/models/{REPO}/tree/main") if f["path"].startswith("model-00001")
    )
    assert str(expected) in result["msg"].replace(",", ""), result["msg"]
    assert "Signature" not in result["_output"], "the query of a signed URL is a secret"


def test_download_then_nothing_to_do(lab, tmp_path):
    first = lab.module("demo1", "hf_snapshot", args(), tmp_path)
    assert first["changed"] and first["bytes_downloaded"] > 0, first
    lab.hub("DELETE", "/_lab/log")
    second = lab.module("demo1", "hf_snapshot", args(), tmp_path)
    assert not second["changed"] and second["bytes_downloaded"] == 0
    assert lab.hub("GET", "/_lab/log?on=cdn") == []


def test_a_flipped_byte_on_disk_is_found_named_and_repaired(lab, tmp_path):
    good = lab.module("demo1", "hf_snapshot", args(), tmp_path)
    shard = shards(good)[-1]
    path = f"{good['path']}/{shard['path']}"
    # size and mtime stay as they were: only reading the bytes can tell
    lab.host(
        "demo1",
        f"touch -r {path} /tmp/mtime "
        f"&& printf X | dd of={path} bs=1 seek={shard['size'] - 3} conv=notrunc status=none "
        f"&& touch -r /tmp/mtime {path}",
    )
    checked = lab.module("demo1", "hf_snapshot", args(verify="full"), tmp_path)
    assert checked["changed"]
    named = [f for f in checked["files"] if f["action"] not in ("none", "keep", "kept", "ok", "unchanged")]
    assert [f["path"] for f in named] == [shard["path"]], named
    assert "sha256" in named[0]["reason"], named
    assert checked["bytes_downloaded"] == shard["size"]
    assert lab.host("demo1", f"sha256sum {path}").split()[0] == shard["sha256"]


def test_a_byte_flipped_on_the_wire_never_lands(lab, tmp_path):
    lab.host("demo1", f"rm -rf {ROOT}")
    lab.hub("POST", "/_lab/faults", {"on": "cdn", "match": "model-00002", "action": "flip", "at": 4000, "times": 1})
    result = lab.module("demo1", "hf_snapshot", args(), tmp_path)
    assert not result.get("failed"), result
    for shard in shards(result):
        assert lab.host("demo1", f"sha256sum {result['path']}/{shard['path']}").split()[0] == shard["sha256"]


def test_a_download_that_is_killed_is_taken_up_again_and_leaves_nothing(lab, tmp_path):
    lab.host("demo1", f"rm -rf {ROOT}")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = pool.submit(lab.module, "demo1", "hf_snapshot", args(max_rate=10_000_000), tmp_path)
        lab.wait_for("demo1", "grep -qs bytes_done /root/.ansible_async/modelfleet-hf_snapshot-*/progress.json", 60)
        # with its wrapper: nobody is left to write a result, as after a reboot
        lab.host("demo1", "pkill -KILL -f 'async_wrapper.py|AnsiballZ_hf_snapshot'")
        result = running.result()
    assert not result.get("failed"), result
    assert "started again (1/3)" in result["_output"], result["_output"]
    assert lab.host("demo1", "ls /root/.ansible_async").strip() == ""


def test_a_disk_too_small_fails_before_the_first_byte(lab, tmp_path):
    lab.host("demo2", "mkdir -p /mnt/small && mount -t tmpfs -o size=8m tmpfs /mnt/small")
    lab.hub("DELETE", "/_lab/log")
    result = lab.module("demo2", "hf_snapshot", args(root="/mnt/small", reserve_bytes=0), tmp_path)
    assert result["failed"] and "/mnt/small" in result["msg"] and "bytes" in result["msg"], result["msg"]
    assert lab.hub("GET", "/_lab/log?on=cdn") == []
    assert lab.hub("GET", "/_lab/log?on=resolve") == []
    lab.host("demo2", "umount /mnt/small")
