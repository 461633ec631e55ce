# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The Hub as a command: serves a directory, remembers digests, stops when told."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import typing as t
import urllib.request

import hub as hub_package
import pytest
from hub import Hub, HubControl

COMMAND = [sys.executable, str(pathlib.Path(hub_package.__file__).parent)]

CONTENT = {"config.json": b"{}", "sub/model.safetensors": bytes(5000), ".gitattributes": b"*.safetensors filter=lfs\n"}


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    for name, data in CONTENT.items():
        path = tmp_path / "root/acme/tiny" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "root/acme/tiny/.cache").mkdir()
    (tmp_path / "root/acme/tiny/.cache/junk").write_text("x")
    settings = {"users": {"hf_x": "x"}, "repos": {"acme/tiny": {"gated": "auto", "readers": ["x"]}}}
    (tmp_path / "root/hub.json").write_text(json.dumps(settings))
    return tmp_path / "root"


@contextlib.contextmanager
def running(*args: str) -> t.Iterator[tuple[subprocess.Popen[str], str]]:
    command = [*COMMAND, "--port", "0", "--cdn-port", "0", *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        ready = re.match(r"ready: endpoint (\S+), cdn (\S+), 1 repositories\n", process.stdout.readline())
        yield process, ready[1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_serves_a_directory_and_stops_on_sigterm(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    pid_file = tmp_path / "hub.pid"
    with running("--root", str(root), "--pid-file", str(pid_file)) as (process, endpoint):
        assert int(pid_file.read_text()) == process.pid
        with urllib.request.urlopen(f"{endpoint}/api/models/acme/tiny?blobs=true", timeout=5) as answer:
            info = json.load(answer)
        assert {item["rfilename"]: item["size"] for item in info["siblings"]} == {k: len(v) for k, v in CONTENT.items()}
        assert info["gated"] == "auto"
        HubControl(endpoint).fault(on="info", action="stall")
        with urllib.request.urlopen(f"{endpoint}/_lab/state", timeout=5):
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=5) == 0
    assert not pid_file.exists()


def test_the_cdn_speaks_https_with_a_certificate(root: pathlib.Path, tmp_path: pathlib.Path) -> None:
    certificate, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        + ["-addext", "subjectAltName=DNS:localhost", "-out", certificate, "-keyout", key],
        check=True,
        capture_output=True,
    )
    (root / "hub.json").unlink()
    trusting = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=certificate))
    )
    with running("--root", str(root), "--cdn-tls", certificate, key) as (_process, endpoint):
        url = f"{endpoint}/acme/tiny/resolve/main/sub/model.safetensors"
        request = urllib.request.Request(url, headers={"Range": "bytes=4000-"})
        with trusting.open(request, timeout=5) as answer:
            assert answer.url.startswith("https://localhost:")
            assert (answer.status, answer.read()) == (206, bytes(1000))
        assert [entry["sent"] for entry in HubControl(endpoint).log("cdn")] == [1000]


def test_port_in_use_is_said(root: pathlib.Path) -> None:
    with Hub() as hub:
        port = hub.endpoint.rsplit(":", 1)[1]
        command = [*COMMAND, "--root", str(root), "--port", port, "--cdn-port", "0"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    assert ended.returncode == 1
    assert ended.stderr == (
        f"hub: cannot listen on 127.0.0.1:{port}: Address already in use (is another lab Hub running there?)\n"
    )


def test_same_commit_after_a_restart_without_reading_again(root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Hub(), Hub()
    first.load(root)
    assert ".digests.json" in os.listdir(root)
    monkeypatch.setattr("hub.catalog.digest", lambda source: pytest.fail(f"{source.path} was read again"))
    second.load(root)
    assert first.repo("acme/tiny").branches == second.repo("acme/tiny").branches
    for hub in (first, second):
        hub.start().stop()


def test_rescan_makes_a_commit_and_stale_bytes_are_not_served(hub: Hub, root: pathlib.Path) -> None:
    hub.load(root)
    repo = hub.repo("acme/tiny")
    repo.gated = False
    before = repo.branches["main"]
    (root / "acme/tiny/config.json").write_bytes(b'{"new": 1}')
    with pytest.raises(http.client.IncompleteRead):
        urllib.request.urlopen(f"{hub.endpoint}/acme/tiny/resolve/main/config.json", timeout=5).read()
    hub.rescan()
    assert repo.branches["main"] != before
    repo.gated = False
    with urllib.request.urlopen(f"{hub.endpoint}/acme/tiny/resolve/main/config.json", timeout=5) as answer:
        assert answer.read() == b'{"new": 1}'


def test_listens_on_several_addresses_and_redirects_to_the_one_that_was_used(root: pathlib.Path) -> None:
    with Hub(bind=("127.0.0.1", "127.0.0.2")) as hub:
        hub.repo("acme/tiny").commit({"model.safetensors": b"12345"})
        port = hub.endpoint.rsplit(":", 1)[1]
        for address in ("127.0.0.1", "127.0.0.2"):
            url = f"http://{address}:{port}/acme/tiny/resolve/main/model.safetensors"
            with urllib.request.urlopen(url, timeout=5) as answer:
                assert answer.read() == b"12345"
                assert answer.url.startswith(f"http://{address}:")


def test_stop_ends_open_connections() -> None:
    hub = Hub().start()
    hub.repo("acme/tiny").commit({"a.bin": bytes(1 << 20)})
    hub.fault(on="cdn", action="stall", at=10)
    answer = urllib.request.urlopen(f"{hub.endpoint}/acme/tiny/resolve/main/a.bin", timeout=5)
    assert answer.read(10) == bytes(10)
    hub.stop()
    assert len(answer.read(1)) == 0 or pytest.fail("still served")
