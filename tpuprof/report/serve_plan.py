"""The document and tables of ``tpuprof plan serve``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tpuprof.plan.params import param_counts
from tpuprof.plan.serve.candidates import Loaded, ServeCandidate
from tpuprof.plan.serve.explain import explain
from tpuprof.plan.serve.forward import ForwardModel
from tpuprof.plan.serve.question import ServeQuestion
from tpuprof.plan.serve.search import ServePlan
from tpuprof.plan.serve.setup import BOUND, NO_LIMITS
from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.listing import Field, Listing, Result, show_count
from tpuprof.text import plural
from tpuprof.units import PS_PER_S, UNKNOWN, format_bytes, format_ps

_WHERE = (Field("slice", "slice"), Field("split", "split"))
_WHYS = 5
_COLUMNS = (
    "rank", "slice", "chips", "split", "batch", "max_batch", "ttft_s", "tpot_s", "decode_step_s", "tokens_per_s",
    "tokens_per_s_per_chip", "requests_per_s", "cost_usd_per_mtoken", "memory_bytes.total", "bound_by", "meets_sla",
    "why",
)  # fmt: skip


def serve_result(
    plan: ServePlan, *, top: int | None = None, explained: int | None = None, curve: Sequence[Loaded] = ()
) -> Result:
    """The plan as a document and tables.

    The document holds ``model``, ``hardware``, ``workload``, ``assumptions``, ``candidates``, ``pareto``,
    ``load_curve``, ``smallest_slice``, ``rejected``, and ``explain`` with the derivations of one candidate.

    Args:
        top: candidates that the table shows; the document has all.
        explained: rank of the candidate whose numbers are derived.
        curve: the first candidate under several loads.
    """
    question = plan.question
    rows = [{"rank": rank, **_row(question, one)} for rank, one in enumerate(plan.candidates, 1)]
    ranks = {one.layout: rank for rank, one in enumerate(plan.candidates, 1)}
    front = [
        {"rank_of_split": ranks[one.layout], **_point(question, one)} for one in plan.front
    ]  # fmt: skip
    rejected = [
        {"slice": one.layout.where.name, "split": one.layout.text(), "mesh": one.layout.mesh(), "batch": one.batch,
         "why": one.why}
        for one in plan.rejected
    ]  # fmt: skip
    smallest = plan.smallest
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION, "command": "plan serve", "model": _model(question),
        "hardware": _hardware(question), "workload": _workload(question), "assumptions": _assumptions(question),
        "candidates": rows, "pareto": front, "load_curve": [_load(one) for one in curve],
        "smallest_slice": None if smallest is None else {
            "rank": ranks[smallest.layout], "slice": smallest.layout.where.name, "chips": smallest.layout.chips
        },
        "smallest_slice_reason": "" if smallest is not None else "No simulated candidate meets the limits.",
        "rejected": rejected,
    }  # fmt: skip
    if explained is not None:
        derived = explain(question, plan.candidates[explained - 1])
        document["explain"] = {name: answer.to_json() for name, answer in derived.items()}
    shown = rows if top is None else rows[:top]
    listings = [_ranking(plan, shown, len(rows)), _front(front), _loaded(rows), _apart(rows[:1])]
    if rejected:
        listings.append(_rejected(rejected))
    return Result(document, "candidates", _COLUMNS, tuple(listings))


def _row(question: ServeQuestion, one: ServeCandidate) -> dict[str, Any]:
    loaded, two = one.loaded, one.apart
    steady = one.steady
    return {
        **_point(question, one), "mesh": one.layout.mesh(), "max_batch": one.most,
        "decode_step_s": steady.decode.total, "decode_step_bound_s": _bound(question, one),
        "decode_parts_s": steady.decode.to_json(),
        "average_step_s": steady.step_s, "average_parts_s": steady.parts().to_json(),
        "mixed_step_share": steady.mixed_share, "requests_per_s": steady.requests_per_s,
        "memory_bytes": one.memory.to_json(), "fits": one.memory.fits, "bound_by": steady.parts().bound_by,
        "loaded": None if loaded is None else _load(loaded),
        "disaggregated": {
            "prefill_servers_per_decode_server": two.ratio if math.isfinite(two.ratio) else None, "ttft_s": two.ttft_s,
            "cache_transfer_s": two.transfer_s, "tpot_s": two.tpot_s, "requests_per_s": two.requests_per_s,
            "tokens_per_s_per_chip": two.tokens_per_s_per_chip,
        },
        "meets_sla": one.meets, "why": one.why,
    }  # fmt: skip


def _load(loaded: Loaded) -> dict[str, Any]:
    return {
        "requests_per_s": loaded.rate, "load": loaded.load, "requests": loaded.requests,
        "ttft_p50_s": loaded.ttft_p50_s, "ttft_p90_s": loaded.ttft_p90_s, "ttft_p99_s": loaded.ttft_p99_s,
        "tpot_p50_s": loaded.tpot_p50_s, "meets_sla": loaded.meets, "cost_usd_per_mtoken": loaded.cost,
    }  # fmt: skip


def _bound(question: ServeQuestion, one: ServeCandidate) -> float:
    """The decode step if the hardware's figures were reached and communication hid: nothing can be faster."""
    forward = ForwardModel(question.model, one.layout, question.types, one.forward.rates, BOUND)
    return forward.decode(one.steady.batch, question.workload.mean_context).total


def _point(question: ServeQuestion, one: ServeCandidate) -> dict[str, Any]:
    return {
        "slice": one.layout.where.name, "chips": one.layout.chips, "split": one.layout.text(),
        "batch": one.steady.batch, "ttft_s": one.steady.ttft_s, "tpot_s": one.steady.tpot_s,
        "tokens_per_s": one.steady.tokens_per_s, "tokens_per_s_per_chip": one.tokens_per_s_per_chip,
        "cost_usd_per_mtoken": one.cost,
    }  # fmt: skip


def _model(question: ServeQuestion) -> dict[str, Any]:
    model, counts = question.model, param_counts(question.model)
    return {
        "name": model.name, "params": counts.all, "active_params": counts.active_all, "layers": len(model.layers),
        "source": model.source, "weights": question.types.weights, "cache": question.types.cache,
        "activations": question.types.activations,
    }  # fmt: skip


def _hardware(question: ServeQuestion) -> dict[str, Any]:
    chip = question.chip
    return {
        "chip": chip.name, "edition": chip.edition, "slices": [where.name for where in question.slices],
        "price_usd_per_chip_hour": question.price,
    }  # fmt: skip


def _workload(question: ServeQuestion) -> dict[str, Any]:
    return {
        "prompt_tokens": question.workload.prompt, "generated_tokens": question.workload.generate,
        "token_budget": question.budget, "sla_ttft_s": question.sla.ttft_s, "sla_tpot_s": question.sla.tpot_s,
        "load": question.load, "rate_requests_per_s": question.rate, "seed": question.seed,
    }  # fmt: skip


def _assumptions(question: ServeQuestion) -> dict[str, Any]:
    assumed = question.assumed
    return {
        "memory_efficiency": assumed.memory, "compute_efficiency": assumed.compute,
        "step_overhead_s": assumed.overhead_s, "memory_fraction": assumed.memory_fraction, "overlap": assumed.overlap,
        "collectives": "physical bound" if assumed.bound_links else "expected from measurements",
        "engine": None if assumed.engine is None else asdict(assumed.engine),
    }  # fmt: skip


def _ranking(plan: ServePlan, rows: list[dict[str, Any]], total: int) -> Listing:
    question = plan.question
    work = f"{plural(question.workload.prompt, 'token')} in, {question.workload.generate:,} out"
    title = f"{question.model.name} on {question.chip.name}: {work}; each split at its best batch"
    fields = (
        Field("rank", "#", show_count, right=True), *_WHERE,
        Field("batch", "batch", show_count, right=True),
        Field("max_batch", "fits", show_count, right=True, rank=6), Field("ttft_s", "TTFT", _seconds, right=True),
        Field("tpot_s", "TPOT", _seconds, right=True),
        Field("tokens_per_s_per_chip", "tok/s/chip", _number, right=True),
        Field("cost_usd_per_mtoken", "$/Mtok", _number, right=True, rank=1),
        Field("memory_bytes.total", "memory", format_bytes, right=True, rank=4),
        Field("bound_by", "bound by", rank=2), Field("meets_sla", "SLA", _yes, rank=3),
    )  # fmt: skip
    small = plan.smallest
    note = "No simulated candidate meets the limits."
    if small is not None:
        does = "holds the model" if question.sla == NO_LIMITS else "meets the limits"
        note = f"The smallest slice that {does}: {small.layout.where.name}, {plural(small.layout.chips, 'chip')}."
    notes = (
        "TTFT: of an empty server. TPOT: of a full one. Memory: of the fullest device. --explain derives each number.",
        note,
        *(f"{row['rank']}: {row['why']}" for row in rows[:_WHYS]),
    )
    if question.sla == NO_LIMITS:
        fields = tuple(field for field in fields if field.key != "meets_sla")
    return Listing(title, "candidate", fields, rows, total, notes)


def _front(rows: list[dict[str, Any]]) -> Listing:
    fields = (
        *_WHERE, Field("batch", "batch", show_count, right=True),
        Field("tpot_s", "TPOT", _seconds, right=True), Field("ttft_s", "TTFT", _seconds, right=True),
        Field("tokens_per_s_per_chip", "tok/s/chip", _number, right=True),
        Field("cost_usd_per_mtoken", "$/Mtok", _number, right=True, rank=1),
    )  # fmt: skip
    title = "Latency against throughput: points that no other point beats in both"
    return Listing(title, "point", fields, rows, len(rows))


def _loaded(rows: list[dict[str, Any]]) -> Listing:
    chosen = [row for row in rows if row["loaded"] is not None]
    fields = (
        Field("rank", "#", show_count, right=True), *_WHERE,
        Field("loaded.requests_per_s", "requests/s", _number, right=True),
        Field("loaded.load", "load", _number, right=True, rank=2),
        Field("loaded.ttft_p50_s", "TTFT p50", _seconds, right=True),
        Field("loaded.ttft_p90_s", "p90", _seconds, right=True),
        Field("loaded.ttft_p99_s", "p99", _seconds, right=True),
        Field("loaded.tpot_p50_s", "TPOT p50", _seconds, right=True),
        Field("loaded.cost_usd_per_mtoken", "$/Mtok", _number, right=True, rank=1),
        Field("loaded.meets_sla", "SLA", _yes, rank=3),
    )  # fmt: skip
    notes = ("Simulated arrivals, random and seeded. Load: arrivals as a share of what the server can do.",)
    return Listing("Under load", "candidate", fields, chosen, len(chosen), notes)


def _apart(rows: list[dict[str, Any]]) -> Listing:
    fields = (
        Field("rank", "#", show_count, right=True), *_WHERE,
        Field("disaggregated.prefill_servers_per_decode_server", "prefill servers", _number, right=True),
        Field("disaggregated.ttft_s", "TTFT", _seconds, right=True),
        Field("disaggregated.cache_transfer_s", "of it transfer", _seconds, right=True, rank=1),
        Field("disaggregated.tpot_s", "TPOT", _seconds, right=True),
        Field("disaggregated.tokens_per_s_per_chip", "tok/s/chip", _number, right=True),
    )  # fmt: skip
    return Listing("With servers of their own for prompts, per decoding server", "candidate", fields, rows, len(rows))


def _rejected(rows: list[dict[str, Any]]) -> Listing:
    fields = (*_WHERE, Field("batch", "batch", _batch, right=True), Field("why", "why", role="name"))
    return Listing("Rejected", "split", fields, rows[:20], len(rows))


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else format_ps(value * PS_PER_S)


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.4g}" if value < 10_000 else f"{value:,.0f}"


def _yes(value: bool) -> str:
    return "meets" if value else "misses"


def _batch(value: int | None) -> str:
    return "any" if value is None else f"{value:,}"
