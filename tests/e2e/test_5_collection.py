# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tarball: built, installed without a network, its playbooks run by their full names."""

from __future__ import annotations

import shutil

import pytest

from .harness import BIN, TOP, call

#: a piece of the state of the emulated GPUs
FOREIGN = "/etc/modelfleet-lab/nvml.d/e2e-foreign.state"


def own(folder):
    """An environment in which the clone is out of reach: neither its ansible.cfg nor pytest's path to it."""
    return {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_CONFIG": str(folder / "ansible.cfg"), "PYTHONPATH": ""}


def by_name(lab, folder, book, *options):
    command = f"cd {folder} && exec {BIN}/ansible-playbook -i inventory {book} {' '.join(options)}"
    return lab.control("bash", "-c", command, timeout=900, env=own(folder))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with nothing but the installed collection and an inventory beside it."""
    folder = tmp_path_factory.mktemp("estate")
    built = call([str(BIN / "ansible-galaxy"), "collection", "build", str(TOP), "--output-path", str(folder)])
    assert built.rc == 0, built.out
    (tarball,) = folder.glob("modelfleet-serving-*.tar.gz")
    (folder / "ansible.cfg").write_text(
        f"[defaults]\ncollections_path = {folder}/collections\nhost_key_checking = False\n"
    )
    done = call(
        [
            str(BIN / "ansible-galaxy"),
            "collection",
            "install",
            str(tarball),
            "--offline",
            "-p",
            f"{folder}/collections",
        ],
        env=own(folder),
    )
    assert done.rc == 0, done.out
    shutil.copytree(TOP / "inventories/demo", folder / "inventory")
    return folder


def test_only_what_users_need_is_in_the_tarball(installed):
    top = installed / "collections/ansible_collections/modelfleet/serving"
    assert (top / "playbooks/deploy_kimi.yml").is_file()
    assert (top / "playbooks/profiles/kimi_k2_5_nvfp4.yml").is_file()
    assert not (top / "build").exists() and not (top / ".ci").exists()


def test_deploy_by_full_name_finds_all_in_place(lab, installed):
    done = by_name(lab, installed, "modelfleet.serving.deploy_kimi")
    assert done.rc == 0, done.out
    assert done.changed()["demo1"] == 0, done.out


def test_status_by_full_name(lab, installed):
    done = by_name(lab, installed, "modelfleet.serving.status")
    assert done.rc == 0 and set(done.changed().values()) == {0}, done.out


def test_remove_by_full_name_leaves_nothing(lab, installed):
    done = by_name(lab, installed, "modelfleet.serving.remove", "--limit", "demo2")
    assert done.rc == 0, done.out
    left = lab.host(
        "demo2",
        "systemctl list-units --all --no-legend 'vllm@*' | grep -v not-found; "
        "ls -d /etc/systemd/system/vllm@*kimi* /etc/modelfleet/kimi* /srv/models/views/* 2>/dev/null; "
        "pgrep -f '[v]llm serve'; true",
    )
    assert left.strip() == "", left
    again = by_name(lab, installed, "modelfleet.serving.remove", "--limit", "demo2")
    assert again.rc == 0 and again.changed()["demo2"] == 0, again.out


@pytest.fixture
def foreign(lab):
    """A process that is none of ours holds memory of a GPU of demo2."""
    lab.host("demo2", "systemd-run --unit=e2e-foreign --collect sleep infinity")
    lab.host("demo2", f"echo gpu 3 process $(systemctl show -p MainPID --value e2e-foreign) 75G >{FOREIGN}")
    yield
    lab.host("demo2", f"rm {FOREIGN}; systemctl stop e2e-foreign")


def test_what_a_refused_deployment_left_is_found_and_removed(lab, foreign):
    refused = lab.playbook("playbooks/deploy_kimi.yml", "--limit", "demo2")
    assert refused.rc != 0
    (row,) = (
        line
        for line in refused.out.splitlines()
        if "demo2" in line and "failed in gpu_reclaim" in line and "kimi-demo" in line
    )
    assert "held by processes that are not ours to end" in row
    left = "ls -d /srv/models/*/*/* /var/lib/modelfleet 2>/dev/null; true"
    folders = lab.host("demo2", left).split()
    assert len(folders) == 3, folders
    book = (
        "playbooks/remove.yml",
        "--limit",
        "demo2",
        "-e",
        "modelfleet_instance=kimi",
        "-e",
        "modelfleet_remove_snapshots=true",
    )
    foretold = lab.playbook(*book, "--check")
    assert foretold.rc == 0 and all(folder in foretold.out for folder in folders[:2]), foretold.out
    assert lab.host("demo2", left).split() == folders
    removed = lab.playbook(*book)
    assert removed.rc == 0 and all(folder in removed.out for folder in folders[:2]), removed.out
    assert lab.host("demo2", left).strip() == ""
