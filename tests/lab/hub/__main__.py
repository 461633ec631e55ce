# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Command line of the lab's Hub: ``python -m hub`` from its parent directory, or ``python tests/lab/hub``."""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import ssl
import sys
import typing as t

if not __package__:  # run by its path: make the package importable, and its files not
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from hub.server import LOOPBACK, Hub


def main(argv: t.Optional[t.Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="hub", description="A local stand-in for the Hugging Face Hub.")
    parser.add_argument("--root", required=True, help="directory that holds OWNER/NAME/files and perhaps hub.json")
    parser.add_argument("--bind", action="append", help=f"address to listen on, repeatable (default {LOOPBACK})")
    parser.add_argument("--port", type=int, default=8900)
    parser.add_argument("--cdn-port", type=int, default=8901, help="port of the origin that LFS files come from")
    parser.add_argument("--cdn-host", help="its name in redirects (default: the address the client used)")
    parser.add_argument("--cdn-tls", nargs=2, metavar=("CERT", "KEY"), help="PEM files: that origin speaks https")
    parser.add_argument("--page-size", type=int, default=1000, help="entries on a page of the tree API")
    parser.add_argument("--rate", type=float, help="bytes a second of every connection")
    parser.add_argument("--pid-file", type=pathlib.Path)
    args = parser.parse_args(argv)
    try:
        hub = Hub(
            args.bind or (LOOPBACK,),
            args.port,
            args.cdn_port,
            args.cdn_host,
            args.page_size,
            args.rate,
            cdn_tls=_tls(*args.cdn_tls) if args.cdn_tls else None,
        )
    except OSError as exc:
        print(f"hub: {exc.strerror}", file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: hub.stopping.set())
    hub.load(args.root)
    with hub:
        if args.pid_file:
            args.pid_file.write_text(f"{os.getpid()}\n")
        print(
            f"ready: endpoint {hub.endpoint}, cdn {hub.cdn_endpoint}, {len(hub.catalog.repos)} repositories", flush=True
        )
        hub.stopping.wait()
    if args.pid_file:
        args.pid_file.unlink()
    return 0


def _tls(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


if __name__ == "__main__":
    sys.exit(main())
