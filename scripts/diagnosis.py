# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes docs/diagnosis.md from the tables that vllm_health_wait works with (``make docs``)."""

from __future__ import annotations

import pathlib
import sys
import typing

from ansible_collections.modelfleet.serving.plugins.module_utils._findings import FINDINGS, Finding
from ansible_collections.modelfleet.serving.plugins.module_utils._signatures import SIGNATURES, Signature
from ansible_collections.modelfleet.serving.plugins.module_utils._stage_lines import STAGE_LINES, StageLine
from ansible_collections.modelfleet.serving.plugins.module_utils._stages import (
    BAR,
    CACHE,
    COMPILERS,
    CPU,
    FAULTS,
    LOG,
    QUEUE,
    READ,
    STAGES,
    VRAM,
    WEAK_FACTOR,
    Stage,
)
from ansible_collections.modelfleet.serving.plugins.module_utils._vllm_log import ECHOED_REQUESTS, ECHOES

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "diagnosis.md"

HEAD = """\
<!--
Copyright (c) 2026, modelfleet contributors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
Written by `make docs` from the tables in plugins/module_utils: change those.
-->

# What vllm_health_wait knows

Every stage of a start, every line of vLLM 0.10 to 0.33 that moves a start on, and every known failure: how it looks,
what causes it and what to do. `cause.id` in a result is one of the identifiers here.

How the cause is found:

* The earliest line that names a cause wins, whichever process wrote it. A line that only says that something failed
  ("EngineCore failed to start") counts where nothing better was said. A complaint that the server went on after, by two
  stages or more, is not what it died of.
* Only errors and bare exceptions end a start: no line of level INFO or DEBUG does, and one of level WARNING only where
  nothing comes up after it.
* Nothing is taken from what a log repeats:
  {echoes}.
* The access log and the periodic statistics are no sign of progress, and neither are heartbeats.
* Prefixes such as `(Worker_TP3 pid=9)` are used where they are there, doubled or alone, and never needed. Colours,
  carriage returns, records over several lines, JSON (`--logging-config.formatter json`), and what Ray, torch or a
  collector of logs puts before a line are all read.
"""

INTRODUCTION = (
    "A start enters a stage with the first line, or the first answer, that belongs to it, and never goes back, except",
    "from `repack` to `weights` for the weights of a drafter. It is stalled when the stage's budget has passed without",
    f"a sign that counts in it; a weak sign stretches the budget to {WEAK_FACTOR:.0f} times its length and no further.",
    "`stall_timeouts` changes budgets.",
)

#: what the stages are, for people
ABOUT = {
    "unit": "systemd has not started the process yet",
    "process": "the process runs and has said nothing: Python imports",
    "config": "the API server reads the arguments and the model's configuration",
    "engine": "the engine process has begun",
    "workers": "one process a GPU; they find each other",
    "nccl": "NCCL sets up its communicators",
    "weights": "parameters are allocated, then the shards are read",
    "repack": "all shards are read; weights are rearranged for their kernels, silently",
    "compile": "torch.compile, and the memory that a run takes is measured",
    "kv_cache": "the rest of the memory becomes the KV cache",
    "warmup": "kernels are compiled and tuned",
    "cuda_graphs": "CUDA graphs are captured",
    "http": "the engine is ready; the HTTP side starts",
    "model_listed": "`/health` answers 200; the model must be listed under its name",
    "first_token": "a token has been asked for",
    "known_answer": "a question with a known answer has been asked",
    "ready": "everything that was asked for has been seen",
}
SIGNS = {
    LOG: "a new line in the log (heartbeats, access log and statistics aside)",
    BAR: "a bar moved",
    READ: "bytes read from disks",
    FAULTS: "major page faults",
    CPU: "CPU time used",
    VRAM: "GPU memory changed",
    COMPILERS: "compilers at work (nvcc, cicc, ptxas, ninja, cc1plus ...)",
    CACHE: "the compile caches grew",
    QUEUE: "systemd has the start in its queue",
}
SIDES = {"service": "vLLM", "systemd": "systemd", "kernel": "the kernel"}


class Section(typing.NamedTuple):
    """A part of the page, and which rows belong there."""

    title: str
    about: str
    takes: typing.Callable[[Signature], bool]


def _is(kind: str, side: str, *severities: str) -> typing.Callable[[Signature], bool]:
    return lambda row: (row.kind, row.side) == (kind, side) and row.severity in severities


SECTIONS = (
    Section("Failures that vLLM names", "Most specific first where several would match a line.",
            lambda row: _is("failure", "service", "fatal")(row) and row.rank == "specific"),
    Section("Lines that only say that something failed", "Used when nothing else was said.",
            lambda row: _is("failure", "service", "fatal")(row) and row.rank == "generic"),
    Section("What systemd says", "", lambda row: row.side == "systemd" and row.kind == "failure"),
    Section("What the kernel says", "Only where it is about the service's processes, or about a card they use.",
            lambda row: row.side == "kernel"),
    Section("Normal lines after which starts hang", "Nothing is wrong with them; they name the cause of a stall right "
            "behind them, when the stage's budget has run out.", _is("failure", "service", "watch")),
    Section("Warnings", "Starts come up with these. They are shown as evidence, never taken for a cause.",
            _is("failure", "service", "warn", "info")),
    Section("Heartbeats", "They show that a process waits, not that anything moves.",
            lambda row: row.kind == "heartbeat"),
    Section("An orderly stop", "Before any failure: somebody stopped the server. What follows is no failure.",
            lambda row: row.kind == "shutdown"),
)  # fmt: skip


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def code(text: str) -> str:
    """Text as code in a line of Markdown, whatever is in it."""
    text = " ".join(text.split())
    fence = "``" if "`" in text else "`"
    pad = " " if fence == "``" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def block(text: str) -> list[str]:
    return ["```text", *text.replace("\r", "\\r").split("\n"), "```"]


def entry(row: Signature) -> list[str]:
    marks = []
    if row.ends:
        marks.append("nothing comes up after it, even while processes are left")
    if row.stage:
        marks.append(f"stage `{row.stage}`")
    lines = [f"### {row.id}", "", *block(row.example), "", f"* Cause: {row.cause}.", f"* Remedy: {row.remedy}."]
    lines.append(f"* Releases: {row.versions}. Source: {row.source}.")
    lines += [f"* {mark[0].upper()}{mark[1:]}." for mark in marks]
    return [*lines, ""]


def finding(row: Finding) -> list[str]:
    return [f"### {row.id}", "", f"* Cause: {row.cause}.", f"* Remedy: {row.remedy}.", ""]


def _signs(signs: typing.Iterable[str]) -> str:
    return ", ".join(sorted(signs)) or "-"


def stage(row: Stage) -> str:
    budget = f"{row.budget_s:.0f} s" if row.budget_s else "-"
    hang = f"[{row.hang}](#{row.hang})" if row.hang else "-"
    return f"| `{row.name}` | {ABOUT[row.name]} | {budget} | {_signs(row.full)} | {_signs(row.weak)} | {hang} |"


def stage_line(row: StageLine) -> str:
    example = row.example if len(row.example) <= 150 else f"{row.example[:146]} ..."
    return (
        f"| `{row.stage}` | {row.id} | {cell(code(example))} | {cell(row.versions)} | {cell(row.source)} |"
        f" {cell(row.note) or '-'} |"
    )


def page() -> str:
    """The whole page."""
    # one a line, so that no line end falls into code
    echoes = ",\n  ".join(code(echo.strip()) for echo in (*ECHOES, *ECHOED_REQUESTS))
    lines = [
        HEAD.format(echoes=echoes),
        "## Stages",
        "",
        *INTRODUCTION,
        "",
        "| stage | what goes on | budget | signs that count | weak signs | known hang |",
        "|---|---|---|---|---|---|",
        *map(stage, STAGES),
        "",
        "| sign | |",
        "|---|---|",
        *(f"| {sign} | {words} |" for sign, words in SIGNS.items()),
        "",
        "## Lines that move a start on",
        "",
        "Any record of an engine or worker process also shows that this process is there.",
        "",
        "| stage | id | for example | releases | source | note |",
        "|---|---|---|---|---|---|",
        *map(stage_line, sorted(STAGE_LINES, key=lambda row: [item.name for item in STAGES].index(row.stage))),
        "",
    ]
    for section in SECTIONS:
        lines += [f"## {section.title}", "", *([section.about, ""] if section.about else [])]
        for row in SIGNATURES:
            if section.takes(row):
                lines += entry(row)
    lines += ["## What is seen from outside", "", "No line names these.", ""]
    for found in FINDINGS:
        lines += finding(found)
    return "\n".join(lines).rstrip().replace("..\n", ".\n") + "\n"


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
