# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a bench: its contestants in turns, so that whatever slows the machine down meets all of them."""

from __future__ import annotations

import time
import typing as t

from benchkit.machine import wait_until_quiet
from benchkit.model import Bench, Outcome, Sample, Series
from benchkit.workshop import Workshop


def run(bench: Bench, workshop: Workshop, rounds: int, say: t.Callable[[str], None]) -> Outcome:
    began = time.monotonic()
    noise = 0.0
    with bench.scene(workshop) as contestants:
        samples: dict[str, list[Sample]] = {contestant.name: [] for contestant in contestants}
        for number in range(rounds):
            start = number % len(contestants)
            for contestant in (*contestants[start:], *contestants[:start]):
                noise = max(noise, wait_until_quiet())
                sample = contestant.run()
                samples[contestant.name].append(sample)
                say(f"{bench.name} {number + 1}/{rounds}  {contestant.name}: {sample.seconds:.2f} s")
    results = {name: Series(tuple(series)) for name, series in samples.items()}
    return Outcome(bench, results, noise, time.monotonic() - began)
