# Copyright (c) 2026, modelfleet contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is PRIVATE to the collection. It can have breaking changes at any time.

"""Which KV-cache dtype a checkpoint gets on a GPU with a vLLM release, and what has to be done for it."""

from __future__ import annotations

import typing as t

from ansible_collections.modelfleet.serving.plugins.module_utils import _kv_rules as rules
from ansible_collections.modelfleet.serving.plugins.module_utils._checkpoint import (
    Checkpoint,
    Entry,
    asked_dtype,
    attention,
    effective_entry,
    entries,
)

LABELS = {
    rules.GQA: "grouped-query attention",
    rules.MLA_DENSE: "dense MLA",
    rules.MLA_SPARSE: "sparse MLA",
}


class DecisionError(Exception):
    """What was asked for can't run, or too little is known to decide; the message is fit for the user."""


class Request(t.NamedTuple):
    """What the user wants and on what. Texts as given; None where not given."""

    kv_cache_dtype: str
    compute_capability: str | None
    vllm_version: str | None
    context_parallel: bool = False


class Decision(t.NamedTuple):
    #: what the KV cache will be: ``fp8``, ``nvfp4``, ``bfloat16``, or ``auto`` where the checkpoint asks for nothing
    kv_cache_dtype: str
    #: the KV-cache entries of the checkpoint have to be nulled
    clear: bool
    rule: str
    evidence: str
    source: str
    reason: str
    vllm_args: t.Mapping[str, str] = {}
    warning: str = ""


class _Blocker(t.NamedTuple):
    """Why a dtype should not be used."""

    rule: str
    evidence: str
    source: str
    why: str


class _Case(t.NamedTuple):
    """A checkpoint on a GPU with a release, and what the tables say of it."""

    checkpoint: Checkpoint
    kind: str
    release: rules.Numbers
    offer: rules.Offer
    where: str


def _numbers(option: str, text: str | None) -> rules.Numbers:
    if not text:
        raise DecisionError(f"{option} is needed to decide on the KV cache, but was not given.")
    try:
        found = rules.numbers(text)
    except ValueError as exc:
        raise DecisionError(f"{option} is not understood: {exc}.") from exc
    # 12 means 12.0
    return found if len(found) > 1 else (*found, 0)


def _case(checkpoint: Checkpoint, request: Request) -> _Case:
    gpu = _numbers("compute_capability", request.compute_capability)
    release = _numbers("vllm_version", request.vllm_version)
    kind = attention(checkpoint)
    where = f"{LABELS[kind]} on compute capability {request.compute_capability} with vLLM {request.vllm_version}"
    return _Case(checkpoint, kind, release, rules.offer(kind, gpu, release, request.context_parallel), where)


def followed(entry: Entry, kind: str, release: rules.Numbers) -> bool:
    """Whether this release would set up the KV cache by this entry. In doubt it would."""
    row = rules.resolve(entry.quant_method, kind, release)
    return row is None or row.followed


def _asks(case: _Case) -> list[str]:
    """The dtypes that vLLM might take from the checkpoint, in the order of the places."""
    asks = []
    for entry in entries(case.checkpoint):
        dtype = asked_dtype(entry)
        if dtype == "nvfp4" and not rules.NVFP4_RELEASES.holds(case.release):
            continue
        if dtype != "auto" and dtype not in asks and followed(entry, case.kind, case.release):
            asks.append(dtype)
    return asks


def _blocker(case: _Case, kv: str) -> _Blocker | None:
    report = case.offer.report(kv)
    if report:
        return _Blocker(report.id, report.evidence, report.source, report.error)
    if case.offer.declaring(kv):
        return None
    if not case.offer.rows:
        return _Blocker("no_row", "none", "none", f"no rule is known for {case.where}")
    row = case.offer.rows[0]
    backends = ", ".join(sorted({known.backend for known in case.offer.rows}))
    why = f"no attention backend runs it (known: {backends})"
    return _Blocker(row.id, row.evidence, row.source, f"{why}: {row.error}" if row.error else why)


def _auto(checkpoint: Checkpoint, request: Request) -> Decision:
    case = _case(checkpoint, request)
    asks = _asks(case)
    if not asks:
        return _nothing_asked(case)
    blocked = [(kv, blocker) for kv in asks for blocker in [_blocker(case, kv)] if blocker]
    if not blocked:
        rows = case.offer.declaring(asks[0])
        row, backends = rows[0], ", ".join(dict.fromkeys(known.backend for known in rows))
        return Decision(
            asks[0],
            False,
            row.id,
            row.evidence,
            row.source,
            f"The {asks[0].upper()} KV cache that the checkpoint asks for is run by {backends} for {case.where}.",
        )
    kv, blocker = blocked[0]
    reason = f"The checkpoint asks for a KV cache in {kv.upper()}; for {case.where}, {blocker.why}."
    if not case.offer.model_dtype:
        left = f"{reason} The checkpoint is left as it is: a KV cache of the model's own dtype would not run either."
        return Decision(kv, False, blocker.rule, blocker.evidence, blocker.source, left, warning=left)
    return Decision(
        "bfloat16",
        True,
        blocker.rule,
        blocker.evidence,
        blocker.source,
        f"{reason} Without the entries, --kv-cache-dtype auto gives the model's own dtype; no flag is needed.",
    )


def _nothing_asked(case: _Case) -> Decision:
    found = entries(case.checkpoint)
    ignored = [entry for entry in found if not followed(entry, case.kind, case.release)]
    row = rules.resolve(ignored[0].quant_method, case.kind, case.release) if ignored else None
    verb = "follow" if row else "know"
    reason = (
        f"The checkpoint names a KV-cache dtype, which vLLM does not {verb} for {case.where}."
        if found
        else "The checkpoint asks for no particular KV cache."
    )
    hopeless = bool(case.offer.rows) and not any(known.kv_ok for known in case.offer.rows)
    return Decision(
        "auto",
        False,
        row.id if row else "nothing_asked",
        row.evidence if row else "none",
        row.source if row else "none",
        f"{reason} --kv-cache-dtype auto is right.",
        warning=f"There is no attention backend for {case.where}: {case.offer.rows[0].fix}." if hopeless else "",
    )


def _fp8(checkpoint: Checkpoint, request: Request) -> Decision:
    case = _case(checkpoint, request)
    blocker = _blocker(case, "fp8")
    if blocker and blocker.evidence not in ("reported", "none"):
        raise DecisionError(
            f"kv_cache_dtype=fp8 cannot run: for {case.where}, {blocker.why} ({blocker.evidence}: {blocker.source}). "
            "Use kv_cache_dtype=auto."
        )
    entry = effective_entry(checkpoint)
    given = bool(entry and asked_dtype(entry) == "fp8" and followed(entry, case.kind, case.release))
    given = given or any(row.auto_becomes for row in case.offer.rows)
    return Decision(
        "fp8",
        False,
        blocker.rule if blocker else case.offer.declaring("fp8")[0].id,
        blocker.evidence if blocker else case.offer.declaring("fp8")[0].evidence,
        blocker.source if blocker else case.offer.declaring("fp8")[0].source,
        "kv_cache_dtype=fp8 was asked for. "
        + ("vLLM takes it from the checkpoint." if given else "The checkpoint alone does not give it: a flag does."),
        {} if given else {"kv-cache-dtype": "fp8"},
        f"kv_cache_dtype=fp8 was asked for, but for {case.where}, {blocker.why} ({blocker.source})." if blocker else "",
    )


def _bfloat16(checkpoint: Checkpoint, request: Request) -> Decision:
    if request.compute_capability and request.vllm_version:
        case = _case(checkpoint, request)
        if case.offer.rows and not case.offer.model_dtype:
            row = case.offer.rows[0]
            raise DecisionError(
                f"kv_cache_dtype=bfloat16 cannot run: for {case.where}, {row.error} ({row.evidence}: {row.source}). "
                f"What helps: {row.fix}."
            )
    return Decision(
        "bfloat16",
        True,
        "requested",
        "none",
        "none",
        "kv_cache_dtype=bfloat16 was asked for. Without KV-cache entries in the checkpoint, --kv-cache-dtype auto "
        "gives the model's own dtype; no flag is needed.",
    )


_BY_REQUEST: dict[str, t.Callable[[Checkpoint, Request], Decision]] = {
    "auto": _auto,
    "bfloat16": _bfloat16,
    "fp8": _fp8,
}


def decide(checkpoint: Checkpoint, request: Request) -> Decision:
    """Raises DecisionError when the request can't run or can't be judged."""
    return _BY_REQUEST[request.kv_cache_dtype](checkpoint, request)


__all__ = ("LABELS", "Decision", "DecisionError", "Request", "decide", "followed")
