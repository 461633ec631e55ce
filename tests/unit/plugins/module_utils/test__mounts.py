# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import typing as t

import pytest

from ansible_collections.modelfleet.serving.plugins.module_utils import _mounts
from ansible_collections.modelfleet.serving.plugins.module_utils._mounts import Expected, unit_name, unmounted

FSTAB = r"""
# /dev/sdz /commented ext4 defaults 0 0
UUID=1 / ext4 defaults 0 1
UUID=2 none swap sw 0 0
LABEL=models /srv/models/ xfs noatime,nofail 0 2
LABEL=space /mnt/with\040space xfs nofail 0 2
broken
"""
MOUNTINFO = r"""
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 8:17 / /srv/models rw - xfs /dev/sdb1 rw
31 22 8:1 /data /opt/bound rw - ext4 /dev/sda1 rw
""".strip()


@pytest.fixture
def host(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[str], pathlib.Path]:
    def make(mountinfo: str) -> pathlib.Path:
        (tmp_path / "fstab").write_text(FSTAB)
        (tmp_path / "mountinfo").write_text(mountinfo)
        monkeypatch.setattr(_mounts, "FSTAB", str(tmp_path / "fstab"))
        monkeypatch.setattr(_mounts, "MOUNTINFO", str(tmp_path / "mountinfo"))
        monkeypatch.setattr(_mounts, "UNITS", (str(tmp_path / "none"), str(tmp_path)))
        return tmp_path

    return make


def test_mounts_of_fstab(host: t.Callable[[str], pathlib.Path]) -> None:
    folder = host(MOUNTINFO.splitlines()[0])
    for path in ("/srv/models", "/srv/models/snapshots/acme--tiny/x"):
        assert unmounted(path) == Expected("/srv/models", str(folder / "fstab"))
    assert unmounted("/mnt/with space/x") == Expected("/mnt/with space", str(folder / "fstab"))
    assert unmounted("/srv/other") is None
    assert unmounted("/commented/x") is None
    host(MOUNTINFO)
    assert unmounted("/srv/models/snapshots") is None


def test_mounts_of_systemd(host: t.Callable[[str], pathlib.Path]) -> None:
    folder = host(MOUNTINFO)
    for name in ("data-models.mount", "opt-bound.mount"):
        (folder / name).write_text("[Mount]\n")
    assert unmounted("/data/models/snapshots") == Expected("/data/models", str(folder / "data-models.mount"))
    # a bind mount of the same file system is one too
    assert unmounted("/opt/bound/x") is None


def test_a_host_that_tells_nothing_expects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mounts, "FSTAB", "/nonexistent/fstab")
    monkeypatch.setattr(_mounts, "UNITS", ())
    assert unmounted("/srv/models") is None


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/srv/models", "srv-models.mount"),
        ("/srv/my-models", r"srv-my\x2dmodels.mount"),
        ("/mnt/with space", r"mnt-with\x20space.mount"),
        ("/.hidden/a_b:c.d", r"\x2ehidden-a_b:c.d.mount"),
        ("/ü", r"\xc3\xbc.mount"),
    ],
)
def test_unit_names_are_systemds(folder: str, name: str) -> None:
    assert unit_name(folder) == name
