# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""The sources of a task, from its options. Keep in step with the documentation of hf_snapshot."""

from __future__ import annotations

import grp
import pwd
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._adopt import WAYS, Wanted
from ansible_collections.modelfleet.serving.plugins.module_utils._http import origin_of, redact
from ansible_collections.modelfleet.serving.plugins.module_utils._hub import Hub
from ansible_collections.modelfleet.serving.plugins.module_utils._supply import Source
from ansible_collections.modelfleet.serving.plugins.module_utils._supply_folder import FolderSource
from ansible_collections.modelfleet.serving.plugins.module_utils._supply_peer import PeerSource
from ansible_collections.modelfleet.serving.plugins.module_utils._transfer import Policy, Stop

KINDS = ("url", "path", "peer")
SOURCE_SPEC: dict[str, t.Any] = {
    "sources": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "url": {"type": "str"},
            "path": {"type": "path"},
            "peer": {"type": "str"},
            "token": {"type": "str", "no_log": True},
        },
        "mutually_exclusive": [KINDS],
        "required_one_of": [KINDS],
    },
    "hub": {"type": "bool", "default": True},
    "adopt": {"type": "str", "choices": list(WAYS), "default": "auto"},
}


def sources_of(
    params: t.Mapping[str, t.Any], policy: Policy, stop: Stop, report: t.Callable[[str], None]
) -> tuple[Source, ...]:
    """The sources before the Hub, in order. ValueError names an option that makes no sense."""
    wanted = wanted_of(params)
    sources: list[Source] = []
    for number, entry in enumerate(params["sources"]):
        kind = next(kind for kind in KINDS if entry.get(kind) is not None)
        try:
            source = _source(kind, entry, params["adopt"], wanted, policy, stop, report)
        except ValueError as exc:
            raise ValueError(f"sources[{number}].{kind} {exc}.") from None
        if source.name in [other.name for other in sources]:
            raise ValueError(f"sources[{number}].{kind} {source.name} is there twice.")
        sources.append(source)
    return tuple(sources)


def _source(
    kind: str,
    entry: t.Mapping[str, t.Any],
    adopt: str,
    wanted: Wanted,
    policy: Policy,
    stop: Stop,
    report: t.Callable[[str], None],
) -> Source:
    place = str(entry[kind])
    if kind == "path":
        if not place.startswith("/"):
            raise ValueError(f"{place!r} is not an absolute path")
        return FolderSource(place.rstrip("/") or "/", adopt, wanted)
    origin_of(place)
    token = (entry.get("token") or "").strip()
    if kind == "peer":
        return PeerSource(place, token, policy, stop)
    return Hub(place, token, policy, sleep=stop.wait, report=report)


def redact_all(text: str, params: t.Mapping[str, t.Any]) -> str:
    """``text`` without any of the task's tokens, and with addresses cut before their query."""
    tokens = [params.get("token"), *(entry.get("token") for entry in params["sources"])]
    for token in tokens:
        text = redact(text, (token or "").strip())
    return text


def wanted_of(params: t.Mapping[str, t.Any]) -> Wanted:
    """Owner, group and mode that the files will be given."""
    mode = params.get("mode")
    octal: int | None = None
    if isinstance(mode, int):
        octal = mode
    elif mode:
        try:
            octal = int(mode, 8)
        except ValueError:
            return Wanted(symbolic=True)
    uid = _identity(params.get("owner"), lambda name: pwd.getpwnam(name).pw_uid)
    return Wanted(uid, _identity(params.get("group"), lambda name: grp.getgrnam(name).gr_gid), octal)


def _identity(name: str | None, lookup: t.Callable[[str], int]) -> int | None:
    if not name:
        return None
    try:
        return lookup(name)
    except KeyError:
        # not a name; what is neither a number is refused when it is to be set
        return int(name) if name.isdigit() else -1


__all__ = ("KINDS", "SOURCE_SPEC", "redact_all", "sources_of", "wanted_of")
