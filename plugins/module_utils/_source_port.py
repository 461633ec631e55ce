# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Whose port it is: a 200 from ``/health`` proves nothing while somebody else's server holds the address.

Up to vLLM 0.24 two servers could even share a port (SO_REUSEPORT) and each get some of the connections.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils._source_proc import ProcReader

LISTEN = "0A"
Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]


class Listener(t.NamedTuple):
    """A listening TCP socket of ``/proc/net/tcp`` or ``tcp6``."""

    address: Address
    port: int
    inode: int


class Holder(t.NamedTuple):
    """A process that has a socket open."""

    pid: int
    name: str


def parse_table(text: str) -> list[Listener]:
    """The listening sockets of ``/proc/net/tcp`` or ``/proc/net/tcp6``; lines that are not understood are left out."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != LISTEN:
            continue
        with contextlib.suppress(ValueError):
            address, _separator, port = fields[1].partition(":")
            found.append(Listener(parse_address(address), int(port, 16), int(fields[9])))
    return found


def parse_address(text: str) -> Address:
    """The kernel prints addresses as 32-bit words in the machine's byte order, little on all GPU hosts."""
    raw = bytes.fromhex(text)
    words = [raw[i : i + 4][::-1] for i in range(0, len(raw), 4)]
    return ipaddress.ip_address(b"".join(words))


def takers(listeners: t.Iterable[Listener], address: Address, port: int) -> list[Listener]:
    """The sockets a connection to ``address`` may reach: the kernel prefers one bound to it over a wildcard."""
    here = [listener for listener in listeners if listener.port == port]
    exact = [listener for listener in here if _plain(listener.address) == _plain(address)]
    if exact:
        return exact
    wildcards = [listener for listener in here if int(listener.address) == 0]
    same = [listener for listener in wildcards if listener.address.version == _plain(address).version]
    # a wildcard of IPv6 takes IPv4 connections as well where none of IPv4 does
    return same or [listener for listener in wildcards if listener.address.version == 6]


def _plain(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def local_address(host: str) -> t.Optional[Address]:
    """The address ``host`` stands for, if it is one of this machine; None otherwise."""
    try:
        family, kind, _protocol, _name, where = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)[0]
        # only an address of this machine can be bound to
        with socket.socket(family, kind) as probe:
            probe.bind(where)
    except OSError:
        return None
    return ipaddress.ip_address(str(where[0]).partition("%")[0])


class PortSource:
    """Says who, other than the service, takes connections to an address."""

    def __init__(self, address: Address, port: int, reader: ProcReader, root: str = "/proc") -> None:
        self._address = address
        self._port = port
        self._reader = reader
        self._root = root
        #: sockets known to be the service's, so that a poll need not search its file descriptors again
        self._ours: set[int] = set()
        self._theirs: dict[int, Holder] = {}

    def foreign(self, pids: t.Collection[int]) -> str:
        """In words, who holds the port; empty when it is free, the service's alone, or not to be found out."""
        listeners = [entry for name in ("tcp", "tcp6") for entry in parse_table(self._table(name))]
        inodes = {listener.inode for listener in takers(listeners, self._address, self._port)}
        self._ours &= inodes
        if inodes - self._ours:
            self._ours |= set(self._holders(pids)) & inodes
        unknown = inodes - self._ours
        if not unknown:
            return ""
        self._theirs = {inode: holder for inode, holder in self._theirs.items() if inode in unknown}
        if set(self._theirs) != unknown:
            everybody = self._holders(self._everyone())
            self._theirs = {inode: everybody[inode] for inode in unknown.intersection(everybody)}
        others = [f"pid {holder.pid} ({holder.name})" for _inode, holder in sorted(self._theirs.items())]
        if not others:
            return ""
        shared = "is shared with" if self._ours else "is held by"
        return f"port {self._port} {shared} {' and '.join(others)}"

    def _everyone(self) -> list[int]:
        return [int(name) for name in os.listdir(self._root) if name.isdigit()]

    def _holders(self, pids: t.Iterable[int]) -> dict[int, Holder]:
        """Socket inode to the process that has it open, as far as this user may see."""
        found: dict[int, Holder] = {}
        for pid in pids:
            folder = f"{self._root}/{pid}/fd"
            with contextlib.suppress(OSError):
                for descriptor in os.listdir(folder):
                    with contextlib.suppress(OSError, ValueError):
                        target = os.readlink(f"{folder}/{descriptor}")
                        if target.startswith("socket:["):
                            found.setdefault(int(target[8:-1]), Holder(pid, self._label(pid)))
        return found

    def _label(self, pid: int) -> str:
        stat = self._reader.stat(pid)
        return self._reader.name(pid, stat.comm if stat else "?")

    def _table(self, name: str) -> str:
        try:
            with open(f"{self._root}/net/{name}", encoding="ascii") as handle:
                return handle.read()
        except OSError:
            return ""


__all__ = ("Listener", "PortSource", "local_address", "parse_address", "parse_table", "takers")
