# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From nothing to two answering hosts with one command; again without a change; through a reboot."""

from __future__ import annotations

import hashlib
import json

import pytest

from .harness import spellings

BOOK = "playbooks/deploy_kimi.yml"
HOSTS = {"demo1": "10.77.0.11", "demo2": "10.77.0.12"}
UNIT = "vllm@kimi.service"
MODEL = "kimi-demo"
ENVIRONMENT = "/etc/modelfleet/kimi.env"
API_KEY = "sesame-open-4f1c"
#: what a deployment makes; nothing of it may be there after a check run
PLACES = "/etc/systemd/system/vllm@* /etc/modelfleet /var/lib/modelfleet /srv/models/*"
TRACES = f"ls -d {PLACES} 2>/dev/null; getent passwd vllm; true"


def manifest(lab, host):
    path = lab.host(host, "ls /srv/models/snapshots/*/*/.modelfleet/manifest.json").split()[0]
    return path, json.loads(lab.host(host, f"cat {path}"))


def test_check_mode_on_fresh_hosts_changes_nothing_and_predicts(lab):
    before = {host: lab.host(host, TRACES) for host in HOSTS}
    done = lab.playbook(BOOK, "--check", "--diff")
    assert done.rc == 0, done.out
    assert {host: lab.host(host, TRACES) for host in HOSTS} == before == dict.fromkeys(HOSTS, "")
    for host, count in done.changed().items():
        assert count > 0, f"{host}: a check run on a fresh host predicted no change\n{done.out}"
    assert set(done.changed()) >= set(HOSTS)
    # the diff names the shards that would come and the unit that would be written
    assert "model-00001-of-" in done.out
    assert "vllm@" in done.out


def test_deploy_serves_on_both_hosts(lab):
    done = lab.playbook(BOOK)
    assert done.rc == 0, done.out
    for host, address in HOSTS.items():
        answer = lab.chat(address, 8000, MODEL, "What is the capital of France?")
        assert "Paris" in answer["choices"][0]["message"]["content"], answer
        assert lab.host(host, f"systemctl is-enabled {UNIT}").strip() == "enabled"
        assert lab.host(host, f"systemctl show -p NRestarts --value {UNIT}").strip() == "0"
    # the report: a row per host, with the verdict
    for host in HOSTS:
        assert any(host in line and "ready" in line and MODEL in line for line in done.out.splitlines()), done.out


def test_snapshot_is_as_published_and_the_view_is_patched(lab, hub_root):
    path, _data = manifest(lab, "demo1")
    snapshot = path.rsplit("/.modelfleet", 1)[0]
    published = hub_root / "demo/Kimi-Demo-NVFP4"
    for file in sorted(p for p in published.rglob("*") if p.is_file()):
        name = file.relative_to(published)
        there = lab.host("demo1", f"sha256sum '{snapshot}/{name}'").split()[0]
        assert there == hashlib.sha256(file.read_bytes()).hexdigest(), name
    view = lab.host("demo1", "dirname $(ls /srv/models/views/*/*/hf_quant_config.json)").strip()
    patched = json.loads(lab.host("demo1", f"cat {view}/hf_quant_config.json"))
    original = json.loads((published / "hf_quant_config.json").read_text())
    assert original["quantization"]["kv_cache_quant_algo"] == "FP8"
    assert patched["quantization"]["kv_cache_quant_algo"] is None, "nulled, not deleted: NVFP4 requires the key"
    original["quantization"]["kv_cache_quant_algo"] = None
    assert patched == original, "nothing else changed"
    links = lab.host("demo1", f"find {view} -name '*.safetensors' -type l | wc -l").strip()
    assert links == str(len(list(published.glob("*.safetensors"))))


def test_files_edited_by_hand_are_repaired_and_the_service_restarted(lab):
    """The process that runs after the edit has read it; repairing the files alone would leave it as it is."""
    view = lab.host("demo1", "dirname $(ls /srv/models/views/*/*/hf_quant_config.json)").strip()
    places = (ENVIRONMENT, f"{view}/hf_quant_config.json")
    before = [lab.host("demo1", f"cat {place}") for place in places]
    lab.host("demo1", f"echo BY_HAND=1 >>{places[0]}; echo >>{places[1]}; systemctl restart {UNIT}", timeout=180)
    foretold = lab.playbook(BOOK, "--check", "--limit", "demo1")
    assert foretold.rc == 0, foretold.out
    for reason in (f"{ENVIRONMENT} is not what it has to be", f"{view} is about to be repaired"):
        assert reason in foretold.out, foretold.out
    # with a key at the same time: one start for both
    done = lab.playbook(BOOK, "-vvv", "--limit", "demo1", vllm_service_api_key=API_KEY)
    assert done.rc == 0, done.out[-3000:]
    assert f"{view}/hf_quant_config.json was touched after its process began" in done.out
    # that there is a key is part of the release, and so of its id in the last line; which key it is is not
    after = [lab.host("demo1", f"cat {place}") for place in places]
    assert (after[0].splitlines()[:-1], after[1]) == (before[0].splitlines()[:-1], before[1])
    environment = lab.host("demo1", f"tr '\\0' '\\n' </proc/$(systemctl show -p MainPID --value {UNIT})/environ")
    assert "BY_HAND" not in environment and f"VLLM_API_KEY={API_KEY}" in environment
    assert [word for word in spellings(API_KEY) if word in done.out] == []
    assert lab.leaks("demo1", API_KEY) == ({"/etc/modelfleet/kimi.key"}, "")


def test_status_without_the_key_says_that_the_key_is_wanted(lab):
    done = lab.playbook("playbooks/status.yml", "--limit", "demo1")
    assert "server: up, but it takes no requests without its API key" in done.out, done.out
    assert "/health answers 200" in done.out and "/v1 answers 401" in done.out, done.out


def test_a_key_that_is_taken_away_is_noticed(lab):
    done = lab.playbook(BOOK, "--limit", "demo1")
    assert done.rc == 0 and "/etc/modelfleet/kimi.key is not what it has to be" in done.out, done.out
    lab.chat(HOSTS["demo1"], 8000, MODEL, "What is the capital of France?")


def test_running_again_changes_nothing(lab):
    done = lab.playbook(BOOK)
    assert done.rc == 0, done.out
    changed = done.changed()
    assert set(changed) >= set(HOSTS) and set(changed.values()) == {0}, done.out
    checked = lab.playbook(BOOK, "--check", "--diff")
    assert checked.rc == 0 and set(checked.changed().values()) == {0}, checked.out


def test_status_reads_and_changes_nothing(lab):
    done = lab.playbook("playbooks/status.yml")
    assert done.rc == 0, done.out
    assert set(done.changed().values()) == {0}, done.out
    for host in HOSTS:
        assert host in done.out and UNIT in done.out


def test_no_secret_is_in_reach_of_the_service(lab):
    token = "hf_demo_reader"
    done = lab.playbook(BOOK, "-vvv", model_download_token=token)
    assert done.rc == 0, done.out[-3000:]
    assert [word for word in spellings(token) if word in done.out] == []
    for host in HOSTS:
        assert lab.leaks(host, token) == (set(), "")
        environment = lab.host(host, f"tr '\\0' '\\n' </proc/$(systemctl show -p MainPID --value {UNIT})/environ")
        assert [word for word in spellings(token) if word in environment] == []


@pytest.mark.parametrize("host", ["demo1"])
def test_survives_a_reboot(lab, host, tmp_path):
    done = lab.lab("reboot", host)
    assert done.rc == 0, done.out
    result = lab.module(
        host, "vllm_health_wait", {"unit": UNIT, "url": f"http://{HOSTS[host]}:8000", "model": MODEL}, tmp_path
    )
    assert result["verdict"] == "ready", result["_output"]
    answer = lab.chat(HOSTS[host], 8000, MODEL, "What is the capital of France?")
    assert "Paris" in answer["choices"][0]["message"]["content"]
