# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Hub: its content, its faults, its log, and the sockets it listens on."""

from __future__ import annotations

import os
import ssl
import threading
import typing as t

from hub.catalog import Catalog
from hub.content import Repo
from hub.dialect import Request
from hub.faults import Fault, FaultList
from hub.lab_api import LabApi
from hub.origins import CdnOrigin, HubOrigin, Signer
from hub.requestlog import Entry, RequestLog
from hub.wire import Server

LOOPBACK = "127.0.0.1"


class Hub:
    """Use as a context manager, or call start() and stop(). Port 0 means any free port."""

    def __init__(
        self,
        bind: t.Sequence[str] = (LOOPBACK,),
        port: int = 0,
        cdn_port: int = 0,
        cdn_host: t.Optional[str] = None,
        page_size: int = 1000,
        rate: t.Optional[float] = None,
        url_seconds: float = 3600,
        cdn_tls: t.Optional[ssl.SSLContext] = None,
    ) -> None:
        self.catalog, self.faults, self.log = Catalog(), FaultList(), RequestLog()
        #: bytes a second of every connection; None is as fast as it goes
        self.rate = rate
        self.signer = Signer(url_seconds)
        self.lab_api = LabApi(self)
        self.stopping = threading.Event()
        # Some client versions compare host names only and would send the token on to another port of the same host,
        # so on the loopback the cdn goes by another name for the same address.
        self._cdn_host = cdn_host or ("localhost" if tuple(bind) == (LOOPBACK,) else None)
        self._cdn_scheme = "http" if cdn_tls is None else "https"
        self._servers: list[Server] = []
        try:
            self._hub_port = self._listen(bind, port, HubOrigin(self.catalog, self.signer, self._cdn_of, page_size))
            self._cdn_port = self._listen(bind, cdn_port, CdnOrigin(self.catalog, self.signer), cdn_tls)
        except BaseException:
            self._close()
            raise
        self.endpoint = f"http://{bind[0]}:{self._hub_port}"
        self.cdn_endpoint = f"{self._cdn_scheme}://{self._cdn_host or bind[0]}:{self._cdn_port}"

    # -- life ------------------------------------------------------------------------------------------------------

    def start(self) -> Hub:
        for server in self._servers:
            server.start()
        return self

    def stop(self) -> None:
        self.stopping.set()
        for server in self._servers:
            server.stop()

    def __enter__(self) -> Hub:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # -- content ---------------------------------------------------------------------------------------------------

    def repo(self, repo_id: str) -> Repo:
        return self.catalog.repo(repo_id)

    def load(self, root: t.Union[str, os.PathLike[str]]) -> None:
        self.catalog.load(root)

    def rescan(self) -> None:
        if self.catalog.root is not None:
            self.catalog.load(self.catalog.root)

    # -- faults and log --------------------------------------------------------------------------------------------

    def fault(self, **spec: t.Any) -> Fault:
        """Add a fault; the fields are in faults.py and README.md."""
        return self.faults.add(spec)

    def clear(self) -> None:
        """Forget all faults and the log."""
        self.faults.clear()
        self.log.clear()

    def count(self, on: t.Optional[str] = None, method: t.Optional[str] = None, match: str = "") -> int:
        return len(self.log.find(on, method, match))

    def leaks(self) -> list[Entry]:
        return self.log.leaks()

    # -- used by the servers ---------------------------------------------------------------------------------------

    def is_hub(self, server: Server) -> bool:
        return isinstance(server.origin, HubOrigin)

    def _cdn_of(self, request: Request) -> str:
        """The cdn as this client can reach it: by the configured name, else by the address it used for the hub."""
        host = self._cdn_host or request.origin[len("http://") :].rsplit(":", 1)[0]
        return f"{self._cdn_scheme}://{host}:{self._cdn_port}"

    def _listen(
        self,
        addresses: t.Sequence[str],
        port: int,
        origin: t.Union[HubOrigin, CdnOrigin],
        tls: t.Optional[ssl.SSLContext] = None,
    ) -> int:
        for address in addresses:
            try:
                server = Server((address, port), self, origin, tls)
            except OSError as exc:
                message = f"cannot listen on {address}:{port}: {exc.strerror} (is another lab Hub running there?)"
                raise OSError(exc.errno, message) from exc
            self._servers.append(server)
            port = server.server_address[1]
        return port

    def _close(self) -> None:
        for server in self._servers:
            server.server_close()
