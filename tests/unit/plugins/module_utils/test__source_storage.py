# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils._observe import ProcSample, Storage
from ansible_collections.modelfleet.serving.plugins.module_utils._source_storage import (
    EVERY,
    StorageSource,
    is_weights,
    model_argument,
    storage_of,
)

MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /srv/models rw,relatime - nfs4 nas:/models rw,vers=4.2
31 22 0:41 / /srv/my\040models rw - fuse.juicefs JuiceFS:m rw
32 22 8:2 / /srv/models/fast rw - ext4 /dev/sdb1 rw
33 32 8:3 / /srv/models/fast rw - xfs /dev/sdc1 rw
odd line
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/models/kimi/a.safetensors", Storage("nfs4", "/srv/models")),
        ("/srv/models", Storage("nfs4", "/srv/models")),
        ("/srv/models2/a.safetensors", Storage("ext4", "/")),
        ("/srv/my models/a.gguf", Storage("fuse.juicefs", "/srv/my models")),
        ("/srv/models/fast/a", Storage("xfs", "/srv/models/fast")),
        ("org/name", None),
    ],
)
def test_storage_of(path: str, expected: Storage | None) -> None:
    assert storage_of(path, MOUNTS) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["python", "/opt/vllm/bin/vllm", "serve", "/srv/models/kimi", "--port", "8000"], "/srv/models/kimi"),
        (["python", "-m", "vllm.entrypoints.openai.api_server", "--model", "/srv/m"], "/srv/m"),
        (["x", "--model=/srv/m", ""], "/srv/m"),
        (["vllm", "serve", "org/name"], ""),
        (["vllm", "serve"], ""),
        (["VLLM::EngineCore"], ""),
    ],
)
def test_model_argument(arguments: list[str], expected: str) -> None:
    assert model_argument(arguments) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/srv/m/model-00001-of-00119.safetensors", True),
        ("/srv/m/q4.gguf", True),
        ("/usr/share/x.bin", False),
        ("/opt/vllm/lib/python3.12/site-packages/torch/x.pt", False),
        ("/srv/m/config.json", False),
        ("socket:[123]", False),
    ],
)
def test_is_weights(path: str, expected: bool) -> None:
    assert is_weights(path) is expected


def proc(pid: int, read_bytes: int = 0, start: int = 1) -> ProcSample:
    return ProcSample(pid, 1, start, "vllm", "S", 0.0, read_bytes)


def process(root: pathlib.Path, pid: int, cmdline: str = "", maps: str = "", files: tuple[str, ...] = ()) -> None:
    folder = root / str(pid)
    (folder / "fd").mkdir(parents=True)
    for number, target in enumerate(files):
        os.symlink(target, folder / "fd" / str(number))
    for name, text in (("cmdline", cmdline), ("maps", maps), ("mountinfo", MOUNTS)):
        (folder / name).write_text(text, encoding="ascii")


MAPS = "7f0-7f1 r--p 00000000 08:01 5 /usr/lib/libc.so.6\n7f2-7f3 r--p 0 00:28 9      /srv/models/a b.safetensors\n"


def test_open_files_of_who_reads_most(tmp_path: pathlib.Path) -> None:
    process(tmp_path, 1, cmdline="vllm\0serve\0/srv/my models/x\0")
    process(tmp_path, 2, files=("/dev/null", "pipe:[1]", "/srv/models/fast/m.safetensors"))
    assert StorageSource(str(tmp_path)).read((proc(1), proc(2, 500))) == Storage("xfs", "/srv/models/fast")


def test_mapped_files(tmp_path: pathlib.Path) -> None:
    process(tmp_path, 2, maps=MAPS)
    assert StorageSource(str(tmp_path)).read((proc(2),)) == Storage("nfs4", "/srv/models")


def test_the_command_line_where_no_file_is_open(tmp_path: pathlib.Path) -> None:
    process(tmp_path, 1, cmdline="vllm\0serve\0/srv/my models/x\0")
    assert StorageSource(str(tmp_path)).read((proc(1),)) == Storage("fuse.juicefs", "/srv/my models")


def test_searched_now_and_then_until_found_and_anew_for_another_start(tmp_path: pathlib.Path) -> None:
    source = StorageSource(str(tmp_path))
    assert source.read(()) is None
    process(tmp_path, 1)
    assert source.read((proc(1),)) is None
    os.symlink("/srv/models/m.safetensors", tmp_path / "1" / "fd" / "7")
    looks = [source.read((proc(1),)) for _look in range(EVERY)]
    assert looks == [None] * (EVERY - 1) + [Storage("nfs4", "/srv/models")]
    os.unlink(tmp_path / "1" / "fd" / "7")
    assert source.read((proc(1),)) == Storage("nfs4", "/srv/models")
    assert source.read((proc(1, start=2),)) is None


def test_a_process_that_is_gone(tmp_path: pathlib.Path) -> None:
    assert StorageSource(str(tmp_path)).read((proc(1),)) is None


def test_this_process(tmp_path: pathlib.Path) -> None:
    """A real file of a real process, whatever the file system of the machine is."""
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"x")
    with weights.open("rb"):
        found = StorageSource().read((proc(os.getpid()),))
    assert found is not None
    assert str(tmp_path).startswith(found.mount)
