# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benches say is what was measured: turns, repeats, ratios, tables, and the page they are recorded in."""

from __future__ import annotations

import os
import pathlib
import re
import sys
import typing as t

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "bench"), str(TESTS / "lab")]

from benchkit import machine, report, runner  # noqa: E402
from benchkit.model import (  # noqa: E402
    Aim,
    Bench,
    Contestant,
    Outcome,
    Sample,
    Series,
    bench,
    cpu_column,
    extra_column,
    peak_column,
    rate_column,
    ratio_column,
    time_column,
)
from benchkit.process import CommandFailed, measure  # noqa: E402
from benchkit.workshop import Workshop  # noqa: E402

RESULTS = {
    "ours": Series((Sample(2.0, 3.0, 50 << 20, {"requests": 1}), Sample(1.0, 4.0, 60 << 20, {"requests": 3}))),
    "theirs": Series((Sample(4.0, 5.0, 70 << 20), Sample(5.0, 6.0, 80 << 20))),
}


@pytest.mark.parametrize(
    ("column", "ours", "theirs"),
    [
        (time_column(), "1.00 (1.50)", "4.00 (4.50)"),
        (rate_column(10**9), "1000", "250"),
        (ratio_column("theirs"), "4.00", "1.00"),
        (cpu_column(2 * 10**9), "1.50", "2.50"),
        (peak_column(), "60", "80"),
        (extra_column("requests", "requests", "{:.0f}", max), "3", "-"),
    ],
)
def test_columns(column: t.Any, ours: str, theirs: str) -> None:
    assert column.cell(RESULTS["ours"], RESULTS) == ours
    assert column.cell(RESULTS["theirs"], RESULTS) == theirs


@pytest.mark.parametrize(
    ("bounds", "value", "met", "bound"),
    [
        ({"at_least": 3.5}, 3.5, True, ">= 3.50"),
        ({"at_least": 3.5}, 3.49, False, ">= 3.50"),
        ({"at_most": 0}, 0, True, "<= 0.00"),
        ({"at_most": 0}, 1, False, "<= 0.00"),
    ],
)
def test_aims(bounds: dict[str, float], value: float, met: bool, bound: str) -> None:
    aim = Aim("", lambda _results: value, **bounds)
    assert (aim.met(value), aim.bound()) == (met, bound)


def test_a_section_says_what_was_measured_and_what_was_missed() -> None:
    aims = (
        Aim("times theirs", lambda r: r["theirs"].best / r["ours"].best, at_least=3),
        Aim("MiB", lambda r: r["ours"].peak / (1 << 20), at_most=50, form="{:.0f}"),
    )
    scene = bench("x", "A race", "Who is first.", (time_column(), ratio_column("theirs")), aims)(lambda _shop: iter(()))
    text = report.section(Outcome(scene, RESULTS, 0.3, 1.0), "2026-01-01", "make bench BENCH=x")
    assert text.startswith(
        """## A race

Who is first.

|        | seconds, best (median) | times theirs |
| ------ | ---------------------: | -----------: |
| ours   |            1.00 (1.50) |         4.00 |
| theirs |            4.00 (4.50) |         1.00 |

| aim          |   bound | measured | met |
| ------------ | ------: | -------: | --: |
| times theirs | >= 3.00 |     4.00 | yes |
| MiB          |   <= 50 |       60 |  NO |

`make bench BENCH=x`, 2026-01-01, 2 rounds in turns; """
    )
    assert "; machine NOISY, others used up to 30% of it, load " in text


def test_a_page_keeps_all_but_the_section_that_was_made_again(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nText.\n")
    report.record(page, "a", "first\n")
    report.record(page, "b", "second \\1\n")
    report.record(page, "a", "third\n")
    assert page.read_text() == (
        "# Title\n\nText.\n\n<!-- bench a -->\nthird\n<!-- end a -->\n\n<!-- bench b -->\nsecond \\1\n<!-- end b -->\n"
    )


def race(monkeypatch: pytest.MonkeyPatch, shares: t.Sequence[float], rounds: int) -> tuple[list[str], Outcome]:
    """Run two contestants while others use ``shares`` of the machine, one a sample."""
    order: list[str] = []
    noise = iter(shares)

    class Others:
        def __init__(self, _servers: t.Sequence[int]) -> None:
            """Begin to look."""

        def share(self) -> float:
            return next(noise)

    monkeypatch.setattr(machine, "Others", Others)
    monkeypatch.setattr(machine, "share_now", lambda _seconds: 0.0)

    def contestant(name: str) -> Contestant:
        def run() -> Sample:
            order.append(name)
            return Sample(float(len(order)))

        return Contestant(name, run)

    @bench("race", "", "", ())
    def scene(_workshop: Workshop) -> t.Iterator[t.Sequence[Contestant]]:
        yield contestant("a"), contestant("b")

    workshop = Workshop(pathlib.Path())
    found: Bench = scene
    return order, runner.Runner(workshop, rounds, lambda _text: None).run(found)


def test_contestants_run_in_turns_and_each_begins_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    order, outcome = race(monkeypatch, [0.0, 0.01, 0.02, 0.0], 2)
    assert order == ["a", "b", "b", "a"]
    assert [sample.seconds for sample in outcome.results["a"].samples] == [1.0, 4.0]
    assert outcome.noise == 0.02


def test_a_disturbed_sample_is_taken_again_as_often_as_there_are_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    order, outcome = race(monkeypatch, [0.5, 0.0, 0.4, 0.3, 0.0, 0.2], 2)
    assert order == ["a", "a", "b", "b", "b", "a"]
    # b: disturbed twice, the less disturbed one counts; nothing is left for the next round
    assert [sample.seconds for sample in outcome.results["b"].samples] == [4.0, 5.0]
    assert outcome.noise == 0.3


def test_a_command_is_measured_with_its_children() -> None:
    inner = "x = bytearray(120 << 20); t = sum(range(3_000_000)); print(len(x))"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    done = measure([sys.executable, "-c", outer], os.environ)
    assert done.out == f"{120 << 20}\n"
    assert done.sample.seconds > 0
    assert done.sample.cpu > 0
    assert done.sample.peak > 100 << 20


def test_a_command_that_fails_does_not_count() -> None:
    with pytest.raises(CommandFailed, match=r" ended with status 3: it broke\n"):
        measure([sys.executable, "-c", "import sys; print('it broke', file=sys.stderr); sys.exit(3)"], os.environ)


def test_a_machine_is_described() -> None:
    assert re.match(
        rf"{machine.cores()} x .+, with(out)? SHA instructions, \d+ GiB, Linux \S+, Python 3\.", machine.describe()
    )
