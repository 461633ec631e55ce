# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tables in Markdown, for the terminal and for the page that records them."""

from __future__ import annotations

import pathlib
import re
import typing as t

from benchkit import machine
from benchkit.model import Aim, Outcome


def table(rows: t.Sequence[t.Sequence[str]]) -> str:
    """Rows as a table; the first is the head, the first column is text, the others are figures."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]

    def line(row: t.Sequence[str]) -> str:
        first, *others = zip(row, widths)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        return f"| {' | '.join(cells)} |"

    rule = [("-" * width) if at == 0 else f"{'-' * (width - 1)}:" for at, width in enumerate(widths)]
    return "\n".join([line(rows[0]), f"|{'|'.join(f' {cell} ' for cell in rule)}|", *map(line, rows[1:])])


def judged(outcome: Outcome) -> list[tuple[Aim, float, bool]]:
    values = [(aim, aim.value(outcome.results)) for aim in outcome.bench.aims]
    return [(aim, value, aim.met(value)) for aim, value in values]


def section(outcome: Outcome, when: str, command: str) -> str:
    """All that is to be said of one bench."""
    bench = outcome.bench
    head = ["", *(column.title for column in bench.columns)]
    rows = [
        [name, *(column.cell(series, outcome.results) for column in bench.columns)]
        for name, series in outcome.results.items()
    ]
    parts = [f"## {bench.title}", bench.about, table([head, *rows])]
    aims = [
        [aim.text, aim.bound(), aim.form.format(value), "yes" if met else "NO"] for aim, value, met in judged(outcome)
    ]
    if aims:
        parts.append(table([["aim", "bound", "measured", "met"], *aims]))
    rounds = len(next(iter(outcome.results.values())).samples)
    quiet = "quiet" if outcome.noise <= machine.QUIET else f"NOISY, others used up to {outcome.noise:.0%} of it"
    parts.append(
        f"`{command}`, {when}, {rounds} rounds in turns; {machine.describe()}; machine {quiet}, load {machine.load()}."
    )
    return "\n\n".join(parts) + "\n"


def record(page: pathlib.Path, name: str, text: str) -> None:
    """Put ``text`` between the bench's marks in ``page``, or with new marks at its end."""
    begin, end = f"<!-- bench {name} -->", f"<!-- end {name} -->"
    block = f"{begin}\n{text}{end}"
    content = page.read_text(encoding="utf-8")
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.S)
    if pattern.search(content):
        content = pattern.sub(lambda _match: block, content)
    else:
        content = f"{content.rstrip()}\n\n{block}\n"
    page.write_text(content, encoding="utf-8")
