"""The document of ``tpuprof plan serve``; ``plan_serve_page`` makes pages of it."""

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
from tpuprof.plan.serve.setup import BOUND
from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.listing import Result

_COLUMNS = (
    "rank", "slice", "chips", "split", "batch", "max_batch", "ttft_s", "tpot_s", "decode_step_s", "tokens_per_s",
    "tokens_per_s_per_chip", "requests_per_s", "cost_usd_per_mtoken", "memory_bytes.total", "bound_by", "meets_sla",
    "why",
)  # fmt: skip


def serve_result(plan: ServePlan, *, explained: int | None = None, curve: Sequence[Loaded] = ()) -> Result:
    """The plan as a document.

    The document holds ``model``, ``hardware``, ``workload``, ``assumptions``, ``candidates``, ``pareto``,
    ``load_curve``, ``smallest_slice``, ``rejected``, and ``explain`` with the derivations of one candidate.

    Args:
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
         "kind": one.kind, "why": one.why}
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
    return Result(document, "candidates", _COLUMNS, ())


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
