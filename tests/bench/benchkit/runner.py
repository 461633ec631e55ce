# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a bench: its contestants in turns, so that whatever slows the machine down meets all of them."""

from __future__ import annotations

import time
import typing as t

from benchkit import machine
from benchkit.model import Bench, Contestant, Outcome, Sample, Series
from benchkit.workshop import Workshop

#: seconds that a bench may spend in all on waiting for a quiet machine
PATIENCE = 30.0


class Runner:
    """One run of one bench."""

    def __init__(self, workshop: Workshop, rounds: int, say: t.Callable[[str], None]) -> None:
        self._workshop, self._rounds, self._say = workshop, rounds, say
        self._noise = 0.0
        self._patience = PATIENCE
        #: samples that may be taken again because others used the machine: chosen by that alone, not by the result
        self._repeats = rounds

    def run(self, bench: Bench) -> Outcome:
        began = time.monotonic()
        with bench.scene(self._workshop) as contestants:
            samples: dict[str, list[Sample]] = {contestant.name: [] for contestant in contestants}
            for number in range(self._rounds):
                start = number % len(contestants)
                for contestant in (*contestants[start:], *contestants[:start]):
                    sample = self._sample(contestant)
                    samples[contestant.name].append(sample)
                    self._say(f"{bench.name} {number + 1}/{self._rounds}  {contestant.name}: {sample.seconds:.2f} s")
        results = {name: Series(tuple(series)) for name, series in samples.items()}
        return Outcome(bench, results, self._noise, time.monotonic() - began)

    def _sample(self, contestant: Contestant) -> Sample:
        tries: list[tuple[float, Sample]] = []
        while True:
            self._wait_until_quiet()
            others = machine.Others(self._workshop.servers)
            sample = contestant.run()
            tries.append((others.share(), sample))
            noise, sample = min(tries, key=lambda entry: entry[0])
            if noise <= machine.QUIET or not self._repeats:
                self._noise = max(self._noise, noise)
                return sample
            self._repeats -= 1
            self._say(f"others used {tries[-1][0]:.0%} of the machine: once more")

    def _wait_until_quiet(self) -> None:
        while self._patience > 0 and machine.share_now(0.2) > machine.QUIET:
            time.sleep(0.8)
            self._patience -= 1
