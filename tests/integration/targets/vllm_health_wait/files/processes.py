# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start what the tests watch, and write down the process ids and the port: processes.py FILE

It stays the parent of what it starts and never waits for it, so that an exit status can still be read from a zombie,
and ends all of it when it is terminated.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import types
import typing as t


def main() -> None:
    children = {
        "quiet": subprocess.Popen(["sleep", "600"]),
        "failing": subprocess.Popen(["sh", "-c", "sleep 4; exit 3"]),
        "killed": subprocess.Popen(["sleep", "600"]),
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        state: dict[str, t.Any] = {name: child.pid for name, child in children.items()}
        state.update(holder=os.getpid(), port=listener.getsockname()[1])
        with open(sys.argv[1] + ".new", "w", encoding="utf-8") as handle:
            json.dump(state, handle)
        os.replace(sys.argv[1] + ".new", sys.argv[1])

        def end(_number: int, _frame: types.FrameType | None) -> None:
            for child in children.values():
                child.kill()
            raise SystemExit

        signal.signal(signal.SIGTERM, end)
        while True:
            signal.pause()


if __name__ == "__main__":
    main()
