# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import pathlib
import shutil
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.modelfleet.serving.plugins.module_utils import _jmespath
from ansible_collections.modelfleet.serving.plugins.modules import quant_config_patch

CHECKPOINTS = pathlib.Path(__file__).parents[2] / "fixtures" / "checkpoints"


@pytest.fixture
def paths(tmp_path: pathlib.Path) -> dict[str, str]:
    shutil.copytree(CHECKPOINTS / "kimi_k2_5_nvfp4", tmp_path / "snapshot")
    return {"snapshot": str(tmp_path / "snapshot"), "view": str(tmp_path / "view")}


def main(capfd: pytest.CaptureFixture[str], **params: t.Any) -> dict[str, t.Any]:
    with patch_module_args(params), pytest.raises(SystemExit):
        quant_config_patch.main()
    return json.loads(capfd.readouterr().out)


def test_what_the_user_gets(capfd: pytest.CaptureFixture[str], paths: dict[str, str]) -> None:
    result = main(capfd, **paths, compute_capability="12.0", vllm_version="0.32.0")
    assert result["changed"] is True
    assert result["path"] == paths["view"]
    assert (result["attention"], result["vllm_args"]) == ("mla_dense", {})
    assert [sorted(change) for change in result["changes"]] == [["after", "before", "file", "key", "reason", "rule"]]
    assert sorted(result["decision"]) == ["evidence", "kv_cache_dtype", "reason", "rule", "source"]
    again = main(capfd, **paths, compute_capability="12.0", vllm_version="0.32.0")
    assert again["changed"] is False
    assert again["changes"] == result["changes"]
    gone = main(capfd, view=paths["view"], state="absent")
    assert (gone["changed"], gone["changes"], gone["decision"]) == (True, [], None)


def test_fp8_on_sm120_comes_with_a_warning(capfd: pytest.CaptureFixture[str], paths: dict[str, str]) -> None:
    params = {**paths, "compute_capability": "12.0", "vllm_version": "0.32.0", "kv_cache_dtype": "fp8"}
    with patch_module_args(params), pytest.raises(SystemExit):
        quant_config_patch.main()
    seen = capfd.readouterr()
    # once anything has imported ansible's controller side, warnings are shown instead of returned
    assert "102,400 bytes of shared memory" in " ".join((seen.out + seen.err).split())


def test_rules_of_the_user(capfd: pytest.CaptureFixture[str], paths: dict[str, str]) -> None:
    mine = {"id": "mine", "key": "/text_config/vocab_size", "value": 1, "reason": "Because.", "when": "vllm.version"}
    result = main(capfd, **paths, compute_capability="12.0", vllm_version="0.32.0", rules=[mine])
    assert result["changes"][-1] == {
        "file": "config.json",
        "key": "text_config.vocab_size",
        "before": 163840,
        "after": 1,
        "rule": "mine",
        "reason": "Because.",
    }


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"view": None}, "mode is view but all of the following are missing: view"),
        ({"snapshot": None}, "state is present but all of the following are missing: snapshot"),
        (
            {"mode": "in_place", "state": "absent", "snapshot": None},
            "mode is in_place but all of the following are missing",
        ),
        ({"vllm_version": None}, "vllm_version is needed to decide on the KV cache, but was not given."),
        (
            {"rules": [{"id": "a", "key": "b", "reason": "c", "when": "not("}]},
            "'not(' is not a JMESPath expression",
        ),
    ],
)
def test_failures(
    capfd: pytest.CaptureFixture[str], paths: dict[str, str], params: dict[str, t.Any], message: str
) -> None:
    given = {**paths, "compute_capability": "12.0", "vllm_version": "0.32.0", **params}
    result = main(capfd, **{name: value for name, value in given.items() if value is not None})
    assert result["failed"] is True
    assert message in result["msg"]


def test_the_file_systems_refusal_is_no_traceback(
    capfd: pytest.CaptureFixture[str], paths: dict[str, str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "file").touch()
    result = main(capfd, snapshot=paths["snapshot"], view=str(tmp_path / "file" / "view"), kv_cache_dtype="bfloat16")
    assert "The file system refused what was needed" in result["msg"]
    assert f"File exists: {str(tmp_path / 'file')!r}" in result["msg"]


def test_jmespath_is_needed_only_for_conditions(
    capfd: pytest.CaptureFixture[str], paths: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_jmespath, "HAS_JMESPATH", False)
    rule = {"id": "a", "key": "model_type", "value": "b", "reason": "c"}
    assert main(capfd, **paths, kv_cache_dtype="bfloat16", rules=[rule])["changed"] is True
    result = main(capfd, **paths, kv_cache_dtype="bfloat16", rules=[{**rule, "when": "vllm.version"}])
    assert "Failed to import the required Python library (jmespath)" in result["msg"]
