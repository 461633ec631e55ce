# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Command line of the benches."""

from __future__ import annotations

import argparse
import datetime
import importlib
import pathlib
import sys
import typing as t

from benchkit import machine, report
from benchkit.model import Bench
from benchkit.process import CommandFailed
from benchkit.runner import Runner
from benchkit.workshop import TOP, Workshop

HERE = pathlib.Path(__file__).resolve().parents[1]
PAGE = TOP / "docs/performance.md"


def all_benches() -> dict[str, Bench]:
    """Every ``bench_*.py`` beside this package gives its ``BENCHES``."""
    modules = [importlib.import_module(path.stem) for path in sorted(HERE.glob("bench_*.py"))]
    return {bench.name: bench for module in modules for bench in module.BENCHES}


def main(argv: t.Sequence[str]) -> int:
    benches = all_benches()
    parser = argparse.ArgumentParser(prog="tests/bench", description="Benches: contestants side by side, as ratios.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run (default all): {', '.join(benches)}")
    parser.add_argument("--rounds", type=int, help="runs of each contestant (default: as each bench says)")
    parser.add_argument("--record", action="store_true", help=f"write the tables into {PAGE.relative_to(TOP)}")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/dev/shm"), help="where files are made")
    args = parser.parse_args(argv)
    unknown = [name for name in args.names if name not in benches]
    if unknown:
        parser.error(f"no bench {', '.join(unknown)}; there are {', '.join(benches)}")
    say(machine.describe())
    bad = 0
    with Workshop(args.folder) as workshop:
        for name in args.names or benches:
            bad += not _run(benches[name], workshop, args)
    return 1 if bad else 0


def _run(bench: Bench, workshop: Workshop, args: argparse.Namespace) -> bool:
    """Run and report one bench; whether all its aims were met."""
    try:
        outcome = Runner(workshop, args.rounds or bench.rounds, say).run(bench)
    except CommandFailed as exc:
        say(f"{bench.name}: {exc}")
        return False
    command = " ".join(["make bench", *([f"BENCH={bench.name}"] if args.names else []), "RECORD=1"])
    when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    text = report.section(outcome, when, command if args.record else command.replace(" RECORD=1", ""))
    print(f"\n{text}", flush=True)
    say(f"{bench.name}: {outcome.seconds:.0f} s")
    if args.record:
        report.record(PAGE, bench.name, text)
    return all(met for _aim, _value, met in report.judged(outcome))


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
