# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the view is for: the same checkpoint as published, in the same unit, asks for another KV cache."""

from __future__ import annotations

import re

import pytest

UNIT, BARE = "vllm@kimi.service", "vllm@unpatched.service"
TOKENS = re.compile(r"KV cache size: ([\d,]+) tokens")


def kv_tokens(lab, unit):
    """Tokens of KV cache in the same 32 MiB: the log's only sign of the KV data type on CPUs."""
    log = lab.host("demo1", f"journalctl -u {unit} -o cat --no-pager | grep 'KV cache size' | tail -n 1; true")
    found = TOKENS.search(log)
    assert found, f"{unit} did not come as far as its KV cache: {log}"
    return int(found.group(1).replace(",", ""))


@pytest.fixture
def unpatched(lab):
    """An instance that differs from the deployed one by the model's folder, and runs alone."""
    lab.host("demo1", f"systemctl kill -s KILL {UNIT}; systemctl stop {UNIT}", check=False, timeout=180)
    folder = f"/etc/systemd/system/{BARE}.d"
    view = lab.host("demo1", "ls -d /srv/models/views/*/*").split()[0]
    snapshot = lab.host("demo1", "ls -d /srv/models/snapshots/demo--Kimi-Demo-NVFP4/*").split()[0]
    lab.host(
        "demo1",
        f"mkdir -p {folder} && sed 's#{view}#{snapshot}#' /etc/systemd/system/{UNIT}.d/50-release.conf "
        f">{folder}/50-release.conf && grep -q {snapshot} {folder}/50-release.conf && systemctl daemon-reload",
    )
    yield
    lab.host("demo1", f"systemctl kill -s KILL {BARE}; systemctl stop {BARE}", check=False, timeout=180)
    lab.host("demo1", f"rm -r {folder}; systemctl daemon-reload; systemctl reset-failed; systemctl start {UNIT}")


def test_as_published_the_cache_is_fp8_or_the_server_dies(lab, unpatched, tmp_path):
    patched = kv_tokens(lab, UNIT)
    lab.host("demo1", f"systemctl start {BARE}")
    result = lab.module(
        "demo1", "vllm_health_wait", {"unit": BARE, "url": "http://10.77.0.11:8000", "model": "kimi-demo"}, tmp_path
    )
    # half the bytes a token: the entry that the view takes out is in force
    assert kv_tokens(lab, BARE) > 1.9 * patched
    flags = lab.host("demo1", "grep -m1 flags /proc/cpuinfo").split()
    if not {"avx512f", "amx_tile"} & set(flags):
        assert result["verdict"] == "dead", result["_output"]
        assert "FP8 KV cache on CPU requires x86 with AVX-512 or AMX" in result["cause"]["line"], result["cause"]
