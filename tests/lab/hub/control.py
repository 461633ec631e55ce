# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drives a Hub that runs in another process, over its control API. Standard library only."""

from __future__ import annotations

import json
import typing as t
import urllib.error
import urllib.parse
import urllib.request

Json = t.Any


class HubControl:
    def __init__(self, endpoint: str, timeout: float = 10) -> None:
        self.endpoint, self._timeout = endpoint.rstrip("/"), timeout

    def fault(self, **spec: Json) -> int:
        """Add a fault (fields as in README.md) and return its id."""
        return self._call("POST", "faults", body=spec)["id"]

    def faults(self) -> list[Json]:
        """The faults in force, with how often each saw a request and fired."""
        return self._call("GET", "faults")

    def clear(self, fault_id: t.Optional[int] = None) -> None:
        """Forget one fault, or all of them and the log."""
        self._call("DELETE", "faults", {"id": fault_id})
        if fault_id is None:
            self._call("DELETE", "log")

    def log(self, on: t.Optional[str] = None, method: t.Optional[str] = None, match: str = "") -> list[Json]:
        return self._call("GET", "log", {"on": on, "method": method, "match": match})

    def count(self, on: t.Optional[str] = None, method: t.Optional[str] = None, match: str = "") -> int:
        return len(self.log(on, method, match))

    def leaks(self) -> list[Json]:
        """Requests that carried a token to the cdn."""
        return self._call("GET", "leaks")

    def state(self) -> Json:
        return self._call("GET", "state")

    def commit(self, repo: str, files: t.Mapping[str, Json], branch: str = "main") -> str:
        """Move a branch; a file is text, {"base64": ...} or None to remove it. Returns the new commit."""
        return self._call("POST", "commit", body={"repo": repo, "files": files, "branch": branch})["commit"]

    def rescan(self) -> None:
        """Read the root directory again."""
        self._call("POST", "rescan")

    def _call(
        self, method: str, name: str, query: t.Optional[t.Mapping[str, Json]] = None, body: t.Optional[Json] = None
    ) -> Json:
        given = {key: value for key, value in (query or {}).items() if value not in (None, "")}
        url = f"{self.endpoint}/_lab/{name}" + (f"?{urllib.parse.urlencode(given)}" if given else "")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never through the machine's proxy
        try:
            with direct.open(request, timeout=self._timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as exc:
            raise ValueError(json.load(exc)["error"]) from exc
