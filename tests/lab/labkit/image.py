# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a test host is made of: read-only folders in the cache, each named by a hash of everything that goes into it.

``base``   Debian packages only
``vllm``   /opt/vllm, a virtual environment of the base's own Python
``tools``  our additions: libraries for the modules, NVML, the agent, settings of sshd
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import tempfile
import time
import typing as t
import zipfile
from pathlib import Path

from . import wheels
from .paths import CACHE, HERE, SSH_KEY, LabError
from .shell import Step, run, say

SUITE = "bookworm"
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "libpam-systemd", "openssh-server", "sudo", "procps", "psmisc", "less"),
    *("python3", "python3-venv", "python3-apt", "iproute2", "iputils-ping", "curl", "ca-certificates", "rsync"),
    *("util-linux", "udev", "kmod", "fdisk", "parted", "e2fsprogs", "xfsprogs", "libgomp1", "numactl"),
)
_IMAGE, _NVML = HERE / "image", HERE / "nvml"
_IN_LAYER = _IMAGE / "in-layer.sh"


class Images(t.NamedTuple):
    """The folders that every host is an overlay of, uppermost first, and the wheels it is shown."""

    layers: tuple[Path, ...]
    wheelhouse: Path


def ensure() -> Images:
    """Build what is missing, and give all of it."""
    if platform.machine() != "x86_64":
        raise LabError(f"the test hosts are x86_64 only; this machine is {platform.machine()}")
    CACHE.mkdir(parents=True, exist_ok=True)
    with _one_builder():
        _ensure_ssh_key()
        base, wheelhouse = _base(), _wheelhouse()
        with concurrent.futures.ThreadPoolExecutor() as pool:  # one waits for the network, the other for the disk
            for done in [pool.submit(_build, artifact) for artifact in (base, wheelhouse)]:
                done.result()
        vllm, tools = _vllm(base, wheelhouse), _tools(base, wheelhouse)
        for artifact in (vllm, tools):
            _build(artifact)
    return Images((tools.path, vllm.path, base.path), wheelhouse.path)


def prune(in_use: t.Collection[Path]) -> None:
    """Delete what neither the present recipes nor a running host use."""
    with _one_builder():
        base, wheelhouse = _base(), _wheelhouse()
        keep = {a.path for a in (base, wheelhouse, _vllm(base, wheelhouse), _tools(base, wheelhouse))} | set(in_use)
        for path in sorted(CACHE.glob("*-*")):
            if path.name.startswith(("base-", "vllm-", "tools-", "wheelhouse-", "new-")) and path not in keep:
                say(f"deleting {path}")
                shutil.rmtree(path)


class _Artifact(t.NamedTuple):
    path: Path
    title: str
    make: t.Callable[[Path, Step], None]


def _artifact(kind: str, title: str, make: t.Callable[[Path, Step], None], *ingredients: str | Path) -> _Artifact:
    digest = hashlib.sha256()
    for ingredient in ingredients:
        digest.update((ingredient.read_bytes() if isinstance(ingredient, Path) else ingredient.encode()) + b"\0")
    return _Artifact(CACHE / f"{kind}-{digest.hexdigest()[:12]}", title, make)


def _build(artifact: _Artifact) -> None:
    if artifact.path.is_dir():
        return
    new = Path(tempfile.mkdtemp(prefix="new-", dir=CACHE))
    new.chmod(0o755)
    try:
        with Step(artifact.title) as step:
            artifact.make(new, step)
        new.rename(artifact.path)
    finally:
        if new.exists():
            shutil.rmtree(new)


def _base() -> _Artifact:
    mirror = os.environ.get("MODELFLEET_LAB_MIRROR") or _own_sources()
    customize = _IMAGE / "customize-base.sh"

    def make(target: Path, step: Step) -> None:
        step.detail = f"{len(PACKAGES)} packages and what they need"
        command: list[str | Path] = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase"]
        # The image is thrown away if the build does not end well: no need to wait for the disk after each package.
        command += ["--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/man/*"]
        command += [f"--aptopt={setting}" for setting in _proxy_settings()]
        command += [f"--include={','.join(PACKAGES)}", f'--customize-hook={customize} "$1"', SUITE, target]
        run([*command, *([mirror] if mirror else [])])

    return _artifact(
        "base", f"base image of the test hosts (Debian {SUITE})", make, SUITE, " ".join(PACKAGES), customize
    )


def _own_sources() -> str | None:
    """The machine's own apt sources, if it runs the image's release: its mirror is then the image's."""
    if f"VERSION_CODENAME={SUITE}\n" not in Path("/etc/os-release").read_text():
        return None
    deb822 = Path("/etc/apt/sources.list.d/debian.sources")
    if deb822.exists():
        return str(deb822)
    listed = Path("/etc/apt/sources.list")
    lines = listed.read_text().splitlines() if listed.exists() else []
    return "\n".join(line for line in lines if re.match(rf"deb\s.*\b{SUITE}", line)) or None


def _proxy_settings() -> list[str]:
    dump = run(["apt-config", "dump", "--format", "%f=%v%n", "Acquire"])
    settings = dict(line.split("=", 1) for line in dump.splitlines() if "=" in line)
    return [f'{k} "{v}"' for k, v in settings.items() if k.lower().endswith("::proxy") and v]


def _wheelhouse() -> _Artifact:
    ingredients = (wheels.TOOLS_LOCK, wheels.VLLM_LOCK, repr(wheels.STUBS), wheels.NVML_HEADER)
    return _artifact("wheelhouse", "wheels for vLLM (CPU) and tools, 0.6 GB", wheels.fill, *ingredients)


def _vllm(base: _Artifact, wheelhouse: _Artifact) -> _Artifact:
    script = _IMAGE / "install-vllm.sh"

    def make(target: Path, step: Step) -> None:
        step.detail = "2.5 GB"
        requirements = [*wheels.locked(wheels.VLLM_LOCK), *(f"{s.name}=={s.version}" for s in wheels.STUBS)]
        with _layer_files(wheelhouse.path, script, requirements) as files:
            _in_layer(base.path, target, files, script.name)

    ingredients = (base.path.name, wheels.VLLM_LOCK, repr(wheels.STUBS), script, _IN_LAYER)
    return _artifact("vllm", "vLLM layer (/opt/vllm)", make, *ingredients)


def _tools(base: _Artifact, wheelhouse: _Artifact) -> _Artifact:
    script = _IMAGE / "install-tools.sh"
    own = sorted(
        p for folder in (_IMAGE / "files", _NVML) for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"
    )

    def make(target: Path, _step: Step) -> None:
        with _layer_files(wheelhouse.path, script, wheels.locked(wheels.TOOLS_LOCK)) as files:
            shutil.copytree(_IMAGE / "files", files / "files", ignore=shutil.ignore_patterns("__pycache__"))
            _compile_nvml(wheelhouse.path, files / "libnvidia-ml.so.1")
            _in_layer(base.path, target, files, script.name)

    names = (str(p.relative_to(HERE)) for p in own)
    ingredients = (base.path.name, wheels.TOOLS_LOCK, wheels.NVML_HEADER, script, _IN_LAYER)
    return _artifact("tools", "tools layer", make, *ingredients, *names, *own)


def _compile_nvml(wheelhouse: Path, library: Path) -> None:
    (wheel,) = wheelhouse.glob("nvidia_nvml_dev-*.whl")
    with tempfile.TemporaryDirectory() as include, zipfile.ZipFile(wheel) as archive:
        (header,) = (name for name in archive.namelist() if name.endswith("/nvml.h"))
        Path(include, "nvml.h").write_bytes(archive.read(header))
        run([_NVML / "build.sh", include, library])


@contextlib.contextmanager
def _layer_files(wheelhouse: Path, script: Path, requirements: list[str]) -> t.Iterator[Path]:
    """A folder with what is needed to make a layer. In the cache, for hard links to the wheels instead of copies."""
    with tempfile.TemporaryDirectory(prefix="new-", dir=CACHE) as folder:
        files = Path(folder)
        for wheel in wheelhouse.iterdir():
            os.link(wheel, files / wheel.name)
        shutil.copy2(wheels.build_tools() / "uv", files / "uv")
        shutil.copy2(script, files / script.name)
        (files / "requirements.txt").write_text("".join(f"{r}\n" for r in requirements))
        yield files


def _in_layer(lower: Path, upper: Path, files: Path, script: str) -> None:
    """Run ``script`` of ``files`` in a chroot of ``lower``; what it changes becomes ``upper``."""
    with tempfile.TemporaryDirectory(prefix="new-", dir=CACHE) as work:
        command: list[str | Path] = ["unshare", "--mount", "--propagation=private", _IN_LAYER]
        command += [lower, upper, work, files, "/bin/sh", f"/run/lab/{script}"]
        run(command, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"})


def _ensure_ssh_key() -> None:
    if not SSH_KEY.exists():
        SSH_KEY.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "modelfleet-lab", "-f", SSH_KEY])


@contextlib.contextmanager
def _one_builder() -> t.Iterator[None]:
    with open(CACHE / ".lock", "w", encoding="ascii") as handle:
        for attempt in range(7200):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            if attempt % 10 == 0:
                say(f"another command is building in {CACHE}; waiting for it ({attempt} s)")
            time.sleep(1)
        else:
            raise LabError(
                f"{CACHE}/.lock is still held after two hours; see who holds it with `fuser -v {CACHE}/.lock`"
            )
        yield


__all__ = ("PACKAGES", "SUITE", "Images", "ensure", "prune")
