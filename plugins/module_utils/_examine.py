# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""What is looked at once, when a start has been judged stalled: too dear for every look, and of no use before."""

from __future__ import annotations

import dataclasses
import os
import sys
import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils import _stacks
from ansible_collections.modelfleet.serving.plugins.module_utils._kernel_waits import KernelWaits
from ansible_collections.modelfleet.serving.plugins.module_utils._peer_path import PeerPath
from ansible_collections.modelfleet.serving.plugins.module_utils._source_proc import ProcReader
from ansible_collections.modelfleet.serving.plugins.module_utils._unit_block import RunCommand
from ansible_collections.modelfleet.serving.plugins.module_utils._wait import View

#: causes for which it matters how the GPUs reach each other
PEER_CAUSES = frozenset(("nccl_hang", "load_hang", "fi_autotune_hang", "gpu_spin"))
#: stages in which the server's code has nothing to tell: it does not run, or it has answered
_NO_CODE = frozenset(("unit", "model_listed", "known_answer"))


class Examiner:
    """Adds to a view what a person would look at next."""

    def __init__(
        self,
        run: RunCommand,
        reader: ProcReader,
        waits: t.Optional[KernelWaits] = None,
        peers: t.Optional[PeerPath] = None,
    ) -> None:
        self._run = run
        self._reader = reader
        self._waits = waits or KernelWaits(reader)
        self._peers = peers or PeerPath()

    def examine(self, view: View) -> View:
        """The view itself where the start is not stalled."""
        if view.status.verdict != "stalled":
            return view
        found = [*self._waits.blocked(view.procs, view.storage)]
        if view.status.cause is not None and view.status.cause.id in PEER_CAUSES:
            found += self._peers.words()
        stacks, notes = self._stacks(view) if view.status.stage not in _NO_CODE else ((), ())
        return dataclasses.replace(view, examined=tuple(found), stacks=stacks, notes=(*view.notes, *notes))

    def _stacks(self, view: View) -> tuple[tuple[_stacks.Stack, ...], tuple[str, ...]]:
        procs = _stacks.worth_asking(view.procs)
        if not procs:
            return (), ()
        own = [os.path.dirname(sys.executable)] if sys.executable else []
        program = _stacks.find_program(own, _stacks.environments(self._reader, procs))
        if not program:
            return (), ("no stacks: py-spy is neither on PATH nor in the environments of the tools and of vLLM",)
        stacks: list[_stacks.Stack] = []
        notes = []
        for proc in procs:
            found, why = _stacks.dump(self._run, program, proc)
            stacks += found
            if why:
                notes.append(f"no stacks of {proc.name} (pid {proc.pid}): {why}")
        return tuple(stacks), tuple(notes)


__all__ = ("PEER_CAUSES", "Examiner")
