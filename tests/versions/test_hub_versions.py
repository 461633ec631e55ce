# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""hf_snapshot beside each huggingface_hub that it supports, and what that release says of the result.

``scripts/bootstrap.sh versions`` makes the environments.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import typing as t

import ansible
import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests/lab"))

from hub import Hub  # noqa: E402

VERSIONS = [
    line.split()[0]
    for line in (REPOSITORY / "tests/versions/versions.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
REPO = "acme/tiny"
TOKEN = "hf_secretsecretsecret"


def shard(size: int) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(size)


FILES: dict[str, t.Any] = {
    "model.safetensors": shard(300_000),
    "config.json": '{"model_type": "tiny"}',
    "docs/with space & ü #1?.md": "text",
    "empty": "",
}


class Version:
    """A release of huggingface_hub in an environment of its own."""

    def __init__(self, name: str, hub: Hub, home: pathlib.Path) -> None:
        self.name, self.hub, self._home = name, hub, home
        self.bin = REPOSITORY / "build/hub-versions" / name / "bin"
        self.number = tuple(int(part) for part in name.split("."))

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "HF_HOME": str(self._home / "hf"),
            "HF_ENDPOINT": self.hub.endpoint,
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_UPDATE_CHECK": "1",
            "NO_COLOR": "1",
        }
        return subprocess.run(command, env=environment, text=True, capture_output=True, check=False, timeout=60)

    def hf(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(str(self.bin / "hf"), *arguments)

    def files_asked_for(self) -> list[str]:
        return [entry.subject for entry in self.hub.log.find() if entry.on in ("resolve", "cdn")]


PROGRAM = """
import json, sys
from ansible.module_utils.testing import patch_module_args
from ansible_collections.modelfleet.serving.plugins.modules import hf_snapshot
with patch_module_args(json.load(sys.stdin)):
    hf_snapshot.main()
"""


@functools.cache
def sent() -> str:
    """A folder that makes ansible importable, and no other library of the controller."""
    folder = tempfile.mkdtemp(prefix="modelfleet-versions.")
    atexit.register(shutil.rmtree, folder)
    os.symlink(os.path.dirname(ansible.__file__), f"{folder}/ansible")
    return folder


def hf_snapshot(python: pathlib.Path, **params: t.Any) -> dict[str, t.Any]:
    """The result of the module as ``python`` runs it: with what Ansible sends along, nothing else of the controller."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{sent()}:{REPOSITORY / 'build/collections'}"}
    command, text = [str(python), "-B", "-c", PROGRAM], json.dumps(params)
    done = subprocess.run(command, env=environment, input=text, text=True, capture_output=True, check=False, timeout=60)
    assert done.stderr == ""
    result: dict[str, t.Any] = json.loads(done.stdout)
    return result


@pytest.fixture(scope="module")
def hub() -> t.Iterator[Hub]:
    with Hub(page_size=3) as server:
        server.catalog.users[TOKEN] = "me"
        yield server


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest, hub: Hub, tmp_path: pathlib.Path) -> Version:
    hub.clear()
    repo = hub.repo(REPO)
    repo.commit(FILES)
    repo.gated, repo.readers = "manual", {"me"}
    return Version(request.param, hub, tmp_path)


def test_a_download_beside_each_release_which_then_agrees(version: Version, tmp_path: pathlib.Path) -> None:
    hub, python = version.hub, version.bin / "python"
    options = {"repo_id": REPO, "root": str(tmp_path / "models"), "endpoint": hub.endpoint, "reserve_bytes": 0}
    refused = hf_snapshot(python, **options)
    assert "refused with status 401: the repository is gated" in refused["msg"]
    # a connection that is lost half way: the next run goes on there, which the library does not from 1.18 on
    hub.fault(on="cdn", action="drop", at=150_000, times=1)
    assert "given up at 150000 of " in hf_snapshot(python, **options, token=TOKEN, retries=0)["msg"]
    result = hf_snapshot(python, **options, token=TOKEN)
    assert result["changed"] is True, result.get("msg")
    assert [entry.range for entry in hub.log.find("cdn", "GET")] == [None, "bytes=150000-"]
    snapshot = pathlib.Path(result["path"])
    for name, content in FILES.items():
        assert (snapshot / name).read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert hub.leaks() == []
    assert agrees(version, snapshot) == []
    # what the client wrote meanwhile changes nothing for us
    again = hf_snapshot(python, **options, revision=snapshot.name, verify="full")
    assert (again["changed"], again["cleaned"]["files"]) == (False, 0)


def agrees(version: Version, snapshot: pathlib.Path) -> list[str]:
    """What the release's own commands have to say against a snapshot of ours."""
    hub = version.hub
    # the token is not what this is about
    hub.repo(REPO).gated = False
    complaints = []
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in map(snapshot.joinpath, FILES)}
    for revision in (snapshot.name, "main"):
        hub.clear()
        done = version.hf("download", REPO, "--revision", revision, "--local-dir", str(snapshot))
        if done.returncode or version.files_asked_for():
            complaints.append(f"download {revision}: {done.stdout}{done.stderr}{version.files_asked_for()}")
    hub.clear()
    program = (
        "import sys, huggingface_hub\n"
        "print(huggingface_hub.snapshot_download(*sys.argv[1:2], revision=sys.argv[2], local_dir=sys.argv[3],"
        " local_files_only=True))"
    )
    done = version.run(str(version.bin / "python"), "-c", program, REPO, snapshot.name, str(snapshot))
    if done.returncode or done.stdout.strip() != str(snapshot) or hub.count():
        complaints.append(f"local files only: {done.stdout}{done.stderr}")
    if before != {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in before}:
        complaints.append("files were touched")
    # the command came with 1.1
    if version.number >= (1, 1):
        complaints += verify(version, snapshot)
    return complaints


def verify(version: Version, snapshot: pathlib.Path) -> list[str]:
    command = ("cache", "verify", REPO, "--revision", snapshot.name, "--local-dir", str(snapshot))
    done = version.hf(*command, "--fail-on-missing-files")
    said = done.stdout + done.stderr
    complaints = [said] if done.returncode or f"Verified {len(FILES)} file(s)" not in said else []
    # files beside the published ones are a warning; asked to fail for them, it names ours, and up to 1.33 its own too
    done = version.hf(*command, "--fail-on-extra-files")
    extra = {line.strip(" -") for line in (done.stdout + done.stderr).splitlines() if line.startswith("  - ")}
    extra = {path for path in extra if not path.startswith(".cache/huggingface/")}
    if extra != {".modelfleet/lock", ".modelfleet/manifest.json"}:
        complaints.append(f"extra files: {extra}")
    return complaints


def test_a_release_that_tells_complete_from_partial_tells_ours_too(hub: Hub, tmp_path: pathlib.Path) -> None:
    """From 1.22 on, by the listing that is kept in the folder."""
    hub.clear()
    hub.repo(REPO).gated = False
    hub.repo(REPO).commit(FILES)
    version = Version(VERSIONS[-1], hub, tmp_path)
    options = {"repo_id": REPO, "root": str(tmp_path / "models"), "endpoint": hub.endpoint, "reserve_bytes": 0}
    result = hf_snapshot(version.bin / "python", **options, ignore_patterns=["*.safetensors"])
    program = (
        "import sys, huggingface_hub\n"
        "huggingface_hub.snapshot_download(*sys.argv[1:2], revision=sys.argv[2], local_dir=sys.argv[3],"
        " local_files_only=True)"
    )
    done = version.run(str(version.bin / "python"), "-c", program, REPO, result["commit"], result["path"])
    assert "1 file(s) are missing (model.safetensors)" in done.stderr


def test_without_the_library_the_message_says_for_which_interpreter_and_how(hub: Hub, tmp_path: pathlib.Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    result = hf_snapshot(bare / "bin/python", repo_id=REPO, root=str(tmp_path / "models"), endpoint=hub.endpoint)
    assert result["failed"] is True
    assert "Failed to import the required Python library (huggingface_hub >= 0.34) on " in result["msg"]
    assert f"{bare}/bin/python" in result["msg"]
    assert f"{bare}/bin/python -m pip install 'huggingface_hub>=0.34'" in result["msg"]
    assert "role modelfleet.serving.host_tools" in result["msg"]
