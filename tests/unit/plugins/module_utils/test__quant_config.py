# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
import os
import pathlib
import shutil
import typing as t

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.modelfleet.serving.plugins.module_utils import _jmespath
from ansible_collections.modelfleet.serving.plugins.module_utils._checkpoint import entries, read
from ansible_collections.modelfleet.serving.plugins.module_utils._files import LocalFiles
from ansible_collections.modelfleet.serving.plugins.module_utils._kv_decision import Request
from ansible_collections.modelfleet.serving.plugins.module_utils._quant_config import (
    VERSION,
    Params,
    PatchError,
    Result,
    Rule,
    key_path,
    patch,
    run,
)

UNIT = pathlib.Path(__file__).parents[2]
CHECKPOINTS = UNIT / "fixtures" / "checkpoints"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SM120 = Request("auto", "12.0", "0.32.0")
BF16 = Request("bfloat16", None, None)


class ReadOnly(LocalFiles):
    """Fails the test when something is written."""

    def _refuse(self, *args: t.Any, **kwargs: t.Any) -> None:
        raise AssertionError("written in check mode")

    put_tree = remove_tree = replace = restore = _refuse  # type: ignore[assignment]


@pytest.fixture
def snapshot(tmp_path: pathlib.Path) -> pathlib.Path:
    """A snapshot of nvidia/Kimi-K2.5-NVFP4 in little, with folders, remote code and our manifest."""
    folder = tmp_path / "snapshots" / "nvidia--Kimi-K2.5-NVFP4" / COMMIT
    shutil.copytree(CHECKPOINTS / "kimi_k2_5_nvfp4", folder)
    for name in ("model-00001-of-00119.safetensors", "modeling_kimi_k25.py", "docs/deploy_guidance.md"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    (folder / ".cache" / "huggingface").mkdir(parents=True)
    (folder / ".cache" / "huggingface" / "CACHEDIR.TAG").touch()
    write_manifest(folder)
    return folder


def write_manifest(folder: pathlib.Path, complete: bool = True) -> None:
    (folder / ".modelfleet").mkdir(exist_ok=True)
    manifest = {
        "schema": 1,
        "repo_id": "nvidia/Kimi-K2.5-NVFP4",
        "commit": COMMIT,
        "endpoint": "https://huggingface.co",
        "gated": False,
        "complete": complete,
        "files": [],
    }
    (folder / ".modelfleet" / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def view(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "views" / "kimi" / "0.32.0"


def do(
    snapshot: pathlib.Path | None,
    view: pathlib.Path | None = None,
    request: Request = SM120,
    check: bool = False,
    state: str = "present",
    rules: tuple[Rule, ...] = (),
) -> Result:
    mode = "view" if view else "in_place"
    params = Params(str(snapshot) if snapshot else None, str(view) if view else None, mode, state, request, rules)
    return run(params, check, ReadOnly() if check else LocalFiles(), _jmespath.search)


def content(folder: pathlib.Path) -> dict[str, t.Any]:
    """Everything in a folder: bytes of files and targets of links, with times, so that a rewrite is seen too."""
    return {
        str(path.relative_to(folder)): os.readlink(path)
        if path.is_symlink()
        else (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino)
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def test_check_run_check_run(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    published = content(snapshot)
    predicted = do(snapshot, view, check=True)
    assert not view.parent.exists()
    real = do(snapshot, view)
    assert predicted == real
    assert real.changed
    made = content(view)
    again = [do(snapshot, view, check=True), do(snapshot, view)]
    for result in again:
        assert result == real._replace(changed=False, diff=())
    assert content(view) == made
    assert content(snapshot) == published


def test_what_a_view_is_made_of(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    result = do(snapshot, view)
    up = f"../../../snapshots/nvidia--Kimi-K2.5-NVFP4/{COMMIT}"
    found = LocalFiles().found(str(view))
    assert found.links == {
        "config.json": f"{up}/config.json",
        "docs/deploy_guidance.md": f"../{up}/docs/deploy_guidance.md",
        "model-00001-of-00119.safetensors": f"{up}/model-00001-of-00119.safetensors",
        "modeling_kimi_k25.py": f"{up}/modeling_kimi_k25.py",
    }
    assert found.files == {"hf_quant_config.json", ".modelfleet/view.json"}
    for name in found.links:
        assert (view / name).read_bytes() == (snapshot / name).read_bytes()
    assert (view / "hf_quant_config.json").read_text() == (snapshot / "hf_quant_config.json").read_text().replace(
        '"kv_cache_quant_algo": "FP8"', '"kv_cache_quant_algo": null'
    )
    assert result.path == str(view)
    assert [(change.file, change.key, change.before, change.after, change.rule) for change in result.changes] == [
        (
            "hf_quant_config.json",
            "quantization.kv_cache_quant_algo",
            "FP8",
            None,
            "mla_dense_sm120_fp8_shared_memory",
        )
    ]


def test_the_record_of_a_view(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    result = do(snapshot, view)
    record = json.loads((view / ".modelfleet" / "view.json").read_text())
    assert {key: record[key] for key in ("schema", "written_by", "snapshot", "repo_id", "commit", "attention")} == {
        "schema": 1,
        "written_by": f"modelfleet.serving {VERSION}",
        "snapshot": str(snapshot),
        "repo_id": "nvidia/Kimi-K2.5-NVFP4",
        "commit": COMMIT,
        "attention": "mla_dense",
    }
    assert record["changes"] == [change._asdict() for change in result.changes]
    assert list(record["files"]) == ["hf_quant_config.json"]
    assert set(record["files"]["hf_quant_config.json"]) == {"sha256_before", "sha256_after"}


def test_the_version_in_records_is_that_of_the_collection() -> None:
    galaxy = yaml.safe_load((UNIT.parents[1] / "galaxy.yml").read_text(encoding="utf-8"))
    assert galaxy["version"] == VERSION


def test_another_release_of_the_collection_does_not_remake_views(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    do(snapshot, view)
    record = view / ".modelfleet" / "view.json"
    record.write_text(record.read_text().replace(f"modelfleet.serving {VERSION}", "modelfleet.serving 99.0.0"))
    assert not do(snapshot, view).changed


def unlink_link(view: pathlib.Path) -> None:
    (view / "modeling_kimi_k25.py").unlink()


def add_stale_link(view: pathlib.Path) -> None:
    (view / "model-00002-of-00119.safetensors").symlink_to("nowhere")


def edit_patched_file(view: pathlib.Path) -> None:
    (view / "hf_quant_config.json").write_text("{}")


def edit_record(view: pathlib.Path) -> None:
    (view / ".modelfleet" / "view.json").write_text("no JSON")


def copy_over_link(view: pathlib.Path) -> None:
    (view / "config.json").unlink()
    (view / "config.json").write_text("{}")


@pytest.mark.parametrize("damage", [unlink_link, add_stale_link, edit_patched_file, edit_record, copy_over_link])
def test_a_damaged_view_is_made_again(
    snapshot: pathlib.Path, view: pathlib.Path, damage: t.Callable[[pathlib.Path], None]
) -> None:
    do(snapshot, view)
    before = {name: value if isinstance(value, str) else value[0] for name, value in content(view).items()}
    damage(view)
    assert do(snapshot, view, check=True).changed
    assert do(snapshot, view).changed
    assert {name: value if isinstance(value, str) else value[0] for name, value in content(view).items()} == before
    assert sorted(path.name for path in view.parent.iterdir()) == ["0.32.0"]


def test_another_snapshot_under_the_same_view(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    do(snapshot, view)
    other = snapshot.parent / ("f" * 40)
    shutil.copytree(snapshot, other)
    (other / "model-00001-of-00119.safetensors").unlink()
    assert do(other, view).changed
    assert not (view / "model-00001-of-00119.safetensors").is_symlink()
    assert os.readlink(view / "config.json").endswith(f"/{other.name}/config.json")


def test_links_hold_where_folders_on_the_way_are_links(tmp_path: pathlib.Path, snapshot: pathlib.Path) -> None:
    disk = tmp_path / "mnt" / "nvme0" / "deep" / "views"
    disk.mkdir(parents=True)
    (tmp_path / "views").symlink_to(disk)
    (tmp_path / "current").symlink_to(snapshot)
    result = do(tmp_path / "current", tmp_path / "views" / "kimi")
    assert result.path == str(tmp_path / "views" / "kimi")
    assert (tmp_path / "views" / "kimi" / "config.json").read_bytes() == (snapshot / "config.json").read_bytes()
    assert not do(tmp_path / "current", tmp_path / "views" / "kimi").changed


def test_the_diff_shows_json_before_and_after_and_the_names(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    first = do(snapshot, view, check=True)
    assert [(entry["before_header"], entry["after_header"]) for entry in first.diff] == [
        (f"{snapshot}/hf_quant_config.json", f"{view}/hf_quant_config.json"),
        (str(view), str(view)),
    ]
    assert first.diff[0]["before"] == (snapshot / "hf_quant_config.json").read_text()
    do(snapshot, view)
    assert first.diff[0]["after"] == (view / "hf_quant_config.json").read_text()
    assert first.diff[1]["before"] == ""
    assert "\nhf_quant_config.json\n" in first.diff[1]["after"]
    # a view that is there is what vLLM has read so far
    back = do(snapshot, view, Request("fp8", "12.0", "0.32.0"))
    assert [entry["before_header"] for entry in back.diff] == [f"{view}/hf_quant_config.json", str(view)]
    assert (back.diff[0]["before"], back.diff[0]["after"]) == (first.diff[0]["after"], first.diff[0]["before"])
    assert os.path.islink(view / "hf_quant_config.json")


@pytest.mark.parametrize(
    ("name", "request_", "patched"),
    [
        ("kimi_k2_5_nvfp4", SM120, ["hf_quant_config.json"]),
        ("kimi_k2_5_int4", SM120, []),
        ("minimax_m2_5", SM120, []),
        ("glm_5", SM120, []),
        ("llama_ct_fp8_kv", SM120, []),
        ("llama_ct_fp8_kv", BF16, ["config.json"]),
        ("deepseek_r1_nvfp4", SM120, ["config.json", "hf_quant_config.json"]),
    ],
)
def test_golden_checkpoints(tmp_path: pathlib.Path, name: str, request_: Request, patched: list[str]) -> None:
    snapshot, view = tmp_path / "snapshot", tmp_path / "view"
    shutil.copytree(CHECKPOINTS / name, snapshot)
    do(snapshot, view, request_)
    assert sorted(LocalFiles().found(str(view)).files) == [".modelfleet/view.json", *patched]
    for file in patched:
        before, after = ((folder / file).read_text() for folder in (snapshot, view))
        assert drop_kv(json.loads(before)) == drop_kv(json.loads(after))
        assert keys(json.loads(before)) == keys(json.loads(after))
        for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
            assert set(values(json.loads(after), key)) <= {None}
        # text beside the values is kept: indentation, order, 1e-05, and the end of the file
        kept = [line for line in before.splitlines() if "kv_cache" not in line]
        assert [line for line in after.splitlines() if line in kept] == [
            line for line in after.splitlines() if "kv_cache" not in line
        ]
        assert before[-2:] == after[-2:]


def drop_kv(document: t.Any) -> t.Any:
    if isinstance(document, dict):
        return {key: drop_kv(value) for key, value in document.items() if not key.startswith("kv_cache_")}
    return document


def keys(document: t.Any) -> t.Any:
    """Keys in their order, without what is below the ones that may change."""
    if isinstance(document, dict):
        return [(key, None if key.startswith("kv_cache_") else keys(value)) for key, value in document.items()]
    return None


def values(document: t.Any, key: str) -> t.Iterator[t.Any]:
    if isinstance(document, dict):
        for name, value in document.items():
            if name == key:
                yield value
            yield from values(value, key)


SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
KV = st.sampled_from(["FP8", "NVFP4", "", None, {}, {"num_bits": 8, "type": "float", "dynamic": False}, 8, ["FP8"]])
BLOCK: st.SearchStrategy[t.Any] = st.fixed_dictionaries(
    {},
    optional={
        "kv_cache_scheme": KV,
        "kv_cache_quant_algo": KV,
        "quant_method": st.sampled_from(["modelopt", "compressed-tensors", "fp8"]),
        "x": SCALAR,
        "quantization": st.fixed_dictionaries(
            {}, optional={"kv_cache_scheme": KV, "kv_cache_quant_algo": KV, "y": SCALAR}
        ),
    },
)
CONFIG = st.fixed_dictionaries(
    {},
    optional={
        "quantization_config": BLOCK | SCALAR,
        "compression_config": BLOCK,
        "text_config": st.fixed_dictionaries({}, optional={"quantization_config": BLOCK, "kv_lora_rank": SCALAR}),
        "kv_cache_scheme": KV,
        "other": st.dictionaries(st.text(max_size=3), SCALAR, max_size=3),
    },
)


@given(config=CONFIG, quant=BLOCK, indent=st.sampled_from([None, 2, 4]), request_=st.sampled_from([SM120, BF16]))
def test_patching_twice_is_patching_once_and_only_the_entries_differ(
    config: dict[str, t.Any], quant: dict[str, t.Any], indent: int | None, request_: Request
) -> None:
    texts = {
        "config.json": json.dumps(config, indent=indent),
        "hf_quant_config.json": json.dumps(quant, indent=indent),
    }
    params = Params("/s", "/v", "view", "present", request_)
    once = patch(texts, "/s", params, _jmespath.search)
    twice = patch(once.texts, "/s", params, _jmespath.search)
    assert twice.texts == once.texts
    assert twice.changes == ()
    documents = {name: json.loads(text) for name, text in texts.items()}
    undone = {name: copy.deepcopy(json.loads(text)) for name, text in once.texts.items()}
    for change in once.changes:
        holder = undone[change.file]
        *way, last = change.key.split(".")
        for key in way:
            holder = holder[key]
        assert holder[last] is None
        holder[last] = change.before
    assert json.dumps(undone) == json.dumps(documents)
    if request_ is BF16:
        assert entries(read(once.texts, "/s")) == ()


def rule(**fields: t.Any) -> Rule:
    base = {
        "id": "mine",
        "file": "config.json",
        "path": ("model_type",),
        "value": "x",
        "reason": "Because.",
        "when": "",
    }
    return Rule(**{**base, **fields})


def test_a_rule_of_the_user_is_applied_and_recorded(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    mine = rule(path=("text_config", "rope_scaling"), value={"factor": 2})
    result = do(snapshot, view, rules=(mine,))
    assert result.changes[-1] == (
        "config.json",
        "text_config.rope_scaling",
        None,
        {"factor": 2},
        "mine",
        "Because.",
    )
    assert json.loads((view / "config.json").read_text())["text_config"]["rope_scaling"] == {"factor": 2}
    assert json.loads((view / ".modelfleet" / "view.json").read_text())["changes"][-1]["rule"] == "mine"
    assert not do(snapshot, view, rules=(mine,)).changed


@pytest.mark.parametrize(
    ("when", "applies"),
    [
        ("checkpoint.attention == 'mla_dense' && gpu.compute_capability == '12.0'", True),
        ("starts_with(vllm.version, '0.31.')", False),
        ('checkpoint.files."config.json".text_config.kv_lora_rank == `512`', True),
        ("nothing.like.it", False),
    ],
)
def test_conditions_of_rules(snapshot: pathlib.Path, view: pathlib.Path, when: str, applies: bool) -> None:
    result = do(snapshot, view, rules=(rule(when=when),))
    assert ("mine" in [change.rule for change in result.changes]) is applies


@pytest.mark.parametrize(
    ("before", "value", "changes"), [("1", True, True), ("1", 1, False), ("null", None, False), ("1.0", 1, True)]
)
def test_a_value_that_is_there_already_is_no_change(
    snapshot: pathlib.Path, view: pathlib.Path, before: str, value: t.Any, changes: bool
) -> None:
    (snapshot / "generation_config.json").write_text(f'{{"k": {before}}}')
    result = do(snapshot, view, rules=(rule(file="generation_config.json", path=("k",), value=value),))
    assert ("mine" in [change.rule for change in result.changes]) is changes


@pytest.mark.parametrize(
    ("mine", "message"),
    [
        (rule(file="missing.json"), "Rule 'mine' is for missing.json, which the snapshot does not have."),
        (rule(path=("a", "b")), "Rule 'mine' can't set a.b in config.json: there is no a."),
        (
            rule(path=("model_type", "b")),
            "Rule 'mine' can't set model_type.b in config.json: model_type is not an object.",
        ),
        (
            rule(file="../config.json"),
            "Rule 'mine' is for ../config.json. It must name a file of the snapshot, relative to it.",
        ),
        (
            rule(file="/etc/config.json"),
            "Rule 'mine' is for /etc/config.json. It must name a file of the snapshot, relative to it.",
        ),
    ],
)
def test_rules_that_fit_nothing(snapshot: pathlib.Path, view: pathlib.Path, mine: Rule, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        do(snapshot, view, rules=(mine,))
    assert str(caught.value) == message
    assert not view.exists()


@pytest.mark.parametrize(
    ("text", "path"),
    [("a", ("a",)), ("a.b.c", ("a", "b", "c")), ("/a.b/c~1d/~01", ("a.b", "c/d", "~1"))],
)
def test_key_path(text: str, path: tuple[str, ...]) -> None:
    assert key_path(text) == path


def test_a_snapshot_without_manifest_will_do(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    shutil.rmtree(snapshot / ".modelfleet")
    do(snapshot, view)
    record = json.loads((view / ".modelfleet" / "view.json").read_text())
    assert (record["repo_id"], record["commit"]) == (None, None)


def test_removing_a_view(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    published = content(snapshot)
    do(snapshot, view)
    predicted = do(None, view, check=True, state="absent")
    assert view.exists()
    real = do(None, view, state="absent")
    assert (predicted, real.changed, real.path) == (real, True, str(view))
    assert "config.json -> " in real.diff[0]["before"] and real.diff[0]["after"] == ""
    assert not view.exists()
    assert not do(None, view, state="absent").changed
    assert content(snapshot) == published


def in_place_files(snapshot: pathlib.Path) -> dict[str, t.Any]:
    return {name: value for name, value in content(snapshot).items() if not name.startswith(".modelfleet/")}


def test_in_place_check_run_check_run_and_back(snapshot: pathlib.Path) -> None:
    published = in_place_files(snapshot)
    predicted = do(snapshot, check=True)
    real = do(snapshot)
    assert predicted == real
    assert (real.changed, real.path) == (True, str(snapshot))
    assert [entry["after_header"] for entry in real.diff] == [f"{snapshot}/hf_quant_config.json"]
    assert json.loads((snapshot / "hf_quant_config.json").read_text())["quantization"]["kv_cache_quant_algo"] is None
    patched = in_place_files(snapshot)
    assert set(patched) - set(published) == {"hf_quant_config.json.modelfleet-orig"}
    for again in (do(snapshot, check=True), do(snapshot)):
        assert again == real._replace(changed=False, diff=())
    assert in_place_files(snapshot) == patched

    predicted = do(snapshot, check=True, state="absent")
    restored = do(snapshot, state="absent")
    assert (predicted, restored.changed) == (restored, True)
    assert (restored.diff[0]["before"], restored.diff[0]["after"]) == (real.diff[0]["after"], real.diff[0]["before"])
    # contents, times and inodes: the manifest's marks hold again
    assert in_place_files(snapshot) == published
    assert not do(snapshot, state="absent").changed


def test_a_view_of_a_snapshot_patched_in_place_has_no_backups(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    do(snapshot)
    do(snapshot, view)
    assert not [path for path in view.iterdir() if path.name.endswith("-orig")]


def test_in_place_refuses_a_file_that_is_neither_published_nor_patched(snapshot: pathlib.Path) -> None:
    do(snapshot)
    (snapshot / "hf_quant_config.json").write_text("{}")
    with pytest.raises(PatchError) as caught:
        do(snapshot)
    assert str(caught.value) == (
        f"{snapshot}/hf_quant_config.json is neither as published nor as these options would make it: it "
        "was patched with "
        "other options, or changed since hf_quant_config.json.modelfleet-orig was kept of it. Give the "
        "backup back with "
        "state=absent, or remove the backup if the file is right, and run again."
    )


def no_snapshot(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    shutil.rmtree(snapshot)


def no_config(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    (snapshot / "config.json").unlink()


def broken_json(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    (snapshot / "hf_quant_config.json").write_text('{\n  "quantization": {"kv_cache_quant_algo" "FP8"}\n}\n')


def not_utf8(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    (snapshot / "config.json").write_bytes(b'{"a": "\xe9"}')


def dangling_link(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    (snapshot / "model-00002-of-00119.safetensors").symlink_to("../blobs/abc")


def incomplete(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    write_manifest(snapshot, complete=False)


def foreign_folder(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    view.mkdir(parents=True)
    (view / "precious").touch()


def foreign_link(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    view.parent.mkdir(parents=True)
    view.symlink_to(snapshot)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (
            no_snapshot,
            "The snapshot {snapshot} does not exist on this host. Download it first with "
            "modelfleet.serving.hf_snapshot; in check mode, skip this task until it is there.",
        ),
        (
            no_config,
            "{snapshot} has no config.json: it is not a checkpoint that vLLM can load, or its download "
            "is not complete.",
        ),
        (
            broken_json,
            "{snapshot}/hf_quant_config.json is not valid JSON: Expecting ':' delimiter at line 2, column "
            "42. Verify the "
            "snapshot with modelfleet.serving.hf_snapshot, or report it to the publisher of the checkpoint.",
        ),
        (
            not_utf8,
            "{snapshot}/config.json is not UTF-8 text: 'utf-8' codec can't decode byte 0xe9 in position 7: invalid "
            "continuation byte.",
        ),
        (
            dangling_link,
            "model-00002-of-00119.safetensors in the snapshot {snapshot} is a link to ../blobs/abc, which "
            "does not exist: "
            "the snapshot is not complete. Download it again.",
        ),
        (
            incomplete,
            "The snapshot {snapshot} is not complete: its download was interrupted. Run modelfleet.serving.hf_snapshot "
            "again before making a view of it.",
        ),
        (
            foreign_folder,
            "{view} exists and is not a view of this collection (it has no .modelfleet/view.json). Move it "
            "away or choose "
            "another path for the view.",
        ),
        (
            foreign_link,
            "{view} exists and is not a view of this collection (it has no .modelfleet/view.json). Move it "
            "away or choose "
            "another path for the view.",
        ),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_errors_are_the_same_in_check_mode(
    snapshot: pathlib.Path,
    view: pathlib.Path,
    prepare: t.Callable[[pathlib.Path, pathlib.Path], None],
    message: str,
    check: bool,
) -> None:
    prepare(snapshot, view)
    with pytest.raises(PatchError) as caught:
        do(snapshot, view, check=check)
    assert str(caught.value) == message.format(snapshot=snapshot, view=view)


def test_an_empty_folder_may_become_a_view(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    view.mkdir(parents=True)
    assert do(snapshot, view).changed
    assert not do(snapshot, view).changed


def test_view_and_snapshot_must_lie_apart(snapshot: pathlib.Path) -> None:
    with pytest.raises(PatchError) as caught:
        do(snapshot, snapshot / "view")
    assert str(caught.value) == (
        f"The view lies inside the snapshot: snapshot {snapshot}, view {snapshot}/view. Give the view a "
        "place of its own."
    )
    for view in (snapshot.parent, snapshot):
        with pytest.raises(PatchError):
            do(snapshot, view)


def test_a_snapshot_inside_a_view_is_refused(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    do(snapshot, view)
    inner = view / "inner"
    shutil.copytree(snapshot, inner)
    with pytest.raises(PatchError, match=r"^The snapshot lies inside the view: "):
        do(inner, view)


def test_only_views_are_removed(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    foreign_folder(snapshot, view)
    with pytest.raises(PatchError) as caught:
        do(None, view, state="absent")
    assert str(caught.value) == (
        f"{view} is not removed: it is not a view of this collection (it has no .modelfleet/view.json)."
    )


def test_what_cannot_run_is_refused(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    with pytest.raises(PatchError, match=r"^kv_cache_dtype=fp8 cannot run: for dense MLA"):
        do(snapshot, view, Request("fp8", "12.0", "0.17.1"))
    assert not view.exists()


def test_warnings_are_handed_on(snapshot: pathlib.Path, view: pathlib.Path) -> None:
    result = do(snapshot, view, Request("fp8", "12.0", "0.32.0"))
    assert [warning[:32] for warning in result.warnings] == ["kv_cache_dtype=fp8 was asked for"]
    assert result.changes == ()
