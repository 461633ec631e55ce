# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A models folder, and hf_snapshot run on it against the lab's Hub: in this process, or in one of its own."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args
from hub import Hub

from ansible_collections.modelfleet.serving.plugins.modules import hf_snapshot

TOKEN = "hf_secretsecretsecret"
SHARD_1 = "model-00001-of-000002.safetensors"
SHARD_2 = "model-00002-of-000002.safetensors"


def shard(size: int, seed: int) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes((seed + i // 7) % 256 for i in range(size))


FILES: dict[str, t.Any] = {
    SHARD_1: shard(400_000, 1),
    SHARD_2: shard(600_000, 2),
    "model.safetensors.index.json": json.dumps({"weight_map": {"a": SHARD_1, "b": SHARD_2}}),
    "config.json": '{"model_type": "tiny"}',
    "modeling_tiny.py": "class Tiny: pass\n",
    "empty": "",
    "docs/with space & ü #1?.md": "text",
}
WEIGHTS = len(FILES[SHARD_1]) + len(FILES[SHARD_2])
TOTAL = sum(len(content.encode() if isinstance(content, str) else content) for content in FILES.values())


class Host:
    """A models folder, and the module run against one Hub."""

    def __init__(self, hub: Hub, root: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.hub, self.root, self._capfd = hub, root, capfd

    def params(self, **params: t.Any) -> dict[str, t.Any]:
        base = {"repo_id": "acme/tiny", "root": str(self.root), "endpoint": self.hub.endpoint, "reserve_bytes": 0}
        return {**base, **params}

    def run(self, check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
        arguments = {**self.params(**params), "_ansible_check_mode": check_mode, "_ansible_diff": True}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            hf_snapshot.main()
        result: dict[str, t.Any] = json.loads(self._capfd.readouterr().out)
        return result

    def start(self, **params: t.Any) -> subprocess.Popen[str]:
        """The module in a process of its own."""
        program = (
            "import json, sys\n"
            "from ansible.module_utils.testing import patch_module_args\n"
            "from ansible_collections.modelfleet.serving.plugins.modules import hf_snapshot\n"
            "with patch_module_args(json.load(sys.stdin)): hf_snapshot.main()\n"
        )
        pipe = subprocess.PIPE
        process = subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert process.stdin is not None
        process.stdin.write(json.dumps(self.params(**params)))
        process.stdin.close()
        process.stdin = None
        return process

    def snapshot(self) -> pathlib.Path:
        (found,) = (self.root / "snapshots/acme--tiny").iterdir()
        return found

    def sent(self) -> int:
        """Bytes of files, not those of a redirect's body."""
        return sum(
            entry.sent
            for entry in self.hub.log.find()
            if entry.on == "cdn" or entry.status == 200 and entry.on == "resolve"
        )


def outcome(process: subprocess.Popen[str]) -> dict[str, t.Any]:
    out, err = process.communicate(timeout=60)
    assert err == ""
    result: dict[str, t.Any] = json.loads(out)
    return result


def wait_for(condition: t.Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
