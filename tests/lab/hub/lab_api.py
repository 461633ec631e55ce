# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The control API below /_lab on the hub's port: faults, log, commits. The other end is control.HubControl."""

from __future__ import annotations

import base64
import dataclasses
import json
import typing as t

from hub.content import Content
from hub.dialect import Answer, Refusal, Request
from hub.faults import FaultError

if t.TYPE_CHECKING:
    from hub.server import Hub

PREFIX = "/_lab/"


def decode_files(files: t.Mapping[str, t.Any]) -> dict[str, Content]:
    """Files of a commit as JSON can say them: text, {"base64": ...} or null to remove one."""
    return {
        name: base64.b64decode(value["base64"]) if isinstance(value, dict) else value for name, value in files.items()
    }


class LabApi:
    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._routes: t.Mapping[tuple[str, str], t.Callable[[Request], t.Any]] = {
            ("GET", "state"): self._state,
            ("GET", "log"): self._log,
            ("GET", "leaks"): lambda _: [dataclasses.asdict(entry) for entry in hub.leaks()],
            ("DELETE", "log"): lambda _: hub.log.clear(),
            ("GET", "faults"): lambda _: hub.faults.describe(),
            ("POST", "faults"): self._add_fault,
            ("DELETE", "faults"): lambda request: hub.faults.clear(_number(request.query.get("id"))),
            ("POST", "commit"): self._commit,
            ("POST", "rescan"): lambda _: hub.rescan(),
        }

    def answer(self, request: Request) -> Answer:
        route = self._routes.get((request.method, request.path[len(PREFIX) :]))
        if route is None:
            known = ", ".join(f"{method} {PREFIX}{name}" for method, name in self._routes)
            raise Refusal(404, None, f"The lab's control API has: {known}")
        try:
            return Answer.json(route(request))
        except (AttributeError, KeyError, TypeError, ValueError) as exc:
            detail = str(exc) if isinstance(exc, FaultError) else f"{type(exc).__name__}: {exc}"
            raise Refusal(400, None, f"{request.method} {request.path}: {detail}") from exc

    def _state(self, request: Request) -> t.Any:
        hub = self._hub
        return {
            "endpoint": hub.endpoint,
            "cdn": hub.cdn_endpoint,
            "repos": {
                name: {"branches": repo.branches, "tags": repo.tags, "private": repo.private, "gated": repo.gated}
                for name, repo in hub.catalog.repos.items()
            },
        }

    def _log(self, request: Request) -> t.Any:
        query = request.query
        found = self._hub.log.find(query.get("on"), query.get("method"), query.get("match", ""))
        return [dataclasses.asdict(entry) for entry in found]

    def _add_fault(self, request: Request) -> t.Any:
        return {"id": self._hub.faults.add(json.loads(request.body)).id}

    def _commit(self, request: Request) -> t.Any:
        asked = json.loads(request.body)
        repo = self._hub.catalog.repos[asked["repo"]]
        return {"commit": repo.commit(decode_files(asked["files"]), asked.get("branch", "main"))}


def _number(text: t.Optional[str]) -> t.Optional[int]:
    return None if text is None else int(text)
