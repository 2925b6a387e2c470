"""The documents of ``tpuprof plan train``: ranked layouts, their derivations, and the strong-scaling curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuprof.hardware.slices import job_limit
from tpuprof.plan.flops import model_flops
from tpuprof.plan.params import param_counts
from tpuprof.plan.profiles import Profile
from tpuprof.plan.train_cells import Cell, mesh_cells
from tpuprof.plan.train_explain import critical_batch, explain, outcome, why
from tpuprof.plan.train_layout import Job
from tpuprof.plan.train_profile import assumptions
from tpuprof.plan.train_scaling import ScalingPoint
from tpuprof.plan.train_search import Candidate, Plan
from tpuprof.plan.train_step import StepEstimate
from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.calibration import profile_sentence
from tpuprof.report.derivations import derivation_document, derivation_markdown, derivation_text
from tpuprof.report.listing import Result
from tpuprof.report.plain import to_json

_COLUMNS = (
    "rank", "layout", "remat", "step_time_s", "low_s", "high_s", "mfu", "tokens_per_s_per_chip", "memory_bytes.total",
    "fits", "bound_by", "cost_usd", "days", "why",
)  # fmt: skip
_SCALING_COLUMNS = (
    "chips",
    "slice",
    "layout",
    "step_time_s",
    "tokens_per_s",
    "scaling_efficiency",
    "mfu",
    "bound_by",
    "reason",
)
_CONTRACT_PARTS = ("weights", "optimizer", "gradients", "activations")


def candidate_row(
    plan: Plan, one: Candidate, rank: int, budget: float | None = None, price: float | None = None
) -> dict[str, Any]:
    """One candidate as a row: the keys of the contract, and more."""
    step = one.step
    paid = outcome(one.job, step, plan.where, budget, price)
    critical = critical_batch(one.job, step)
    return {
        "rank": rank,
        "mesh": step.layout.mesh(),
        "layout": step.layout.text(),
        "remat": one.job.policy.name,
        "placement": {
            axis: [piece.text() for piece in pieces] for axis, pieces in step.placed.items() if pieces
        },
        "step_time_s": step.seconds,
        "low_s": step.low,
        "high_s": step.high,
        "mfu": step.mfu,
        "mfu_full_attention": step.mfu_full,
        "hfu": step.hfu,
        "tokens_per_s_per_chip": step.tokens_per_s_per_chip,
        "memory_bytes": {name: step.memory[name] for name in _CONTRACT_PARTS}
        | {name: value for name, value in step.memory.items() if name not in _CONTRACT_PARTS},
        "usable_bytes": step.usable,
        "headroom_bytes": None if step.usable is None else step.usable - step.memory["total"],
        "fits": step.fits,
        "bound_by": step.bound_by,
        "exposed_fraction": _exposed(step),
        "parts_s": dict(step.parts),
        "exposed": step.exposed,
        "hidden": step.hidden,
        "critical_batch_tokens": critical,
        "batch_over_critical": None if not critical else one.job.tokens / critical,
        "days": paid.days,
        "cost_usd": paid.cost_usd,
        "cost_of": paid.cost_of,
        "why": why(one, plan) if plan.candidates else "",
    }  # fmt: skip


def plan_result(
    plan: Plan, budget: float | None = None, price: float | None = None, top: int = 10, stored: Profile | None = None
) -> Result:
    """The ranked plan.

    The document holds ``model``, ``hardware``, ``job``, ``profile``, ``assumptions``, ``candidates``, ``rejected``,
    ``mesh_map`` and ``tried``; ``plan_train_page`` makes pages of it.

    Args:
        stored: the named profile that the plan was made with; null for the built-in one.
    """
    rows = [candidate_row(plan, one, rank, budget, price) for rank, one in enumerate(plan.candidates[:top], 1)]
    rejected = [
        {
            "mesh": one.layout.mesh(),
            "layout": one.layout.text(),
            "remat": one.policy,
            "why": one.why,
            "kinds": list(one.kinds),
            "more": one.more,
        }
        for one in plan.rejected
    ]
    document = {
        **_head(plan, budget, stored), "candidates": rows, "rejected": rejected,
        "mesh_map": [_cell(cell) for cell in mesh_cells(plan)], "tried": plan.tried, "fitting": len(plan.candidates),
    }  # fmt: skip
    return Result(document, "candidates", _COLUMNS, ())


def scaling_result(job: Job, points: Sequence[ScalingPoint]) -> Result:
    """The strong-scaling curve: one row per number of chips."""
    rows = [_point(point) for point in points]
    document = {
        "schema_version": SCHEMA_VERSION, "command": "plan train --scaling", "model": _model(job),
        "job": _job(job, None), "points": rows,
    }  # fmt: skip
    return Result(document, "points", _SCALING_COLUMNS, ())


def explanation(
    plan: Plan, rank: int, budget: float | None, price: float | None, form: str, stored: Profile | None = None
) -> str:
    """Every number of one candidate with its derivation, as text, Markdown or JSON.

    Args:
        stored: as in :func:`plan_result`.
    """
    one = plan.candidates[rank - 1]
    found = explain(plan, one, budget, price)
    name = f"{rank}. {one.step.layout.text()}, remat {one.job.policy.name}"
    if form == "json":
        parts = {key: derivation_document(answer, "plan train --explain", key) for key, answer in found.items()}
        row = candidate_row(plan, one, rank, budget, price)
        return to_json({**_head(plan, budget, stored), "rank": rank, "candidate": row, "derivations": parts})
    if stored is not None:
        name += f"\n{profile_sentence(stored.to_json())}"
    if form == "md":
        return f"## {name}\n\n" + "\n".join(derivation_markdown(answer, key) for key, answer in found.items())
    return f"{name}\n\n" + "\n".join(derivation_text(answer, key) for key, answer in found.items())


def _head(plan: Plan, budget: float | None, stored: Profile | None = None) -> dict[str, Any]:
    where, job, profile = plan.where, plan.job, plan.profile
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "plan train",
        "model": _model(job),
        "hardware": {
            "chip": where.chip.name, "edition": where.chip.edition, "slice": where.name, "chips": where.n_chips,
            "devices": where.n_devices, "slices": where.slices, "note": job_limit(where) or None,
        },
        "job": _job(job, budget),
        "profile": {
            "name": profile.name, "matmul": profile.matmul, "attention": profile.attention, "memory": profile.memory,
            "overlap": {"weights": profile.overlap_weights, "activations": profile.overlap_activations,
                        "network": profile.overlap_network},
            "per_doubling_of_slices": profile.per_doubling_of_slices, "spread": profile.spread,
            "idle_s": profile.idle_s, "collectives": dict(profile.collectives), "source": profile.source,
            "sources": dict(profile.sources), "stored": None if stored is None else stored.to_json(),
        },
        "assumptions": list(assumptions(profile)),
    }  # fmt: skip


def _job(job: Job, budget: float | None) -> dict[str, Any]:
    return {
        "sequences": job.sequences, "sequence": job.sequence, "tokens": job.tokens, "dtype": job.dtype,
        "state": job.types.text(), "token_budget": budget, "optimizer_on_host": job.offload_optimizer,
    }  # fmt: skip


def _model(job: Job) -> dict[str, Any]:
    counts = param_counts(job.model)
    flops = model_flops(job.model, job.sequences, job.sequence)
    return {
        "name": job.model.name, "layers": len(job.model.layers), "width": job.model.width, "params": counts.all,
        "active_params": counts.active_all, "flops_per_step": flops.training, "source": job.model.source,
    }  # fmt: skip


def _cell(cell: Cell) -> dict[str, Any]:
    best, nearest = cell.best, cell.nearest
    return {
        "tensor": cell.tensor, "batch_devices": cell.batch_devices, "layouts": cell.layouts,
        "layout": None if best is None else best.step.layout.text(),
        "remat": None if best is None else best.job.policy.name,
        "step_time_s": None if best is None else best.seconds,
        "exposed_fraction": None if best is None else _exposed(best.step),
        "kinds": [] if nearest is None else list(nearest.kinds), "why": None if nearest is None else nearest.why,
    }  # fmt: skip


def _exposed(step: StepEstimate) -> float:
    """The share of a step that waits for communication."""
    return (step.parts["communication"] + step.parts["network"]) / step.seconds


def _point(point: ScalingPoint) -> dict[str, Any]:
    best = point.best
    named: dict[str, Any] = {"chips": point.chips, "slice": point.slice}
    if best is None:
        return named | {
            "layout": None, "step_time_s": None, "tokens_per_s": None, "scaling_efficiency": None, "mfu": None,
            "exposed_fraction": None, "bound_by": None, "reason": point.reason,
        }  # fmt: skip
    step = best.step
    return named | {
        "layout": f"{step.layout.text()}, {best.job.policy.name}", "step_time_s": step.seconds,
        "tokens_per_s": step.tokens_per_s_per_chip * point.chips, "scaling_efficiency": point.efficiency,
        "mfu": step.mfu, "exposed_fraction": _exposed(step),
        "bound_by": step.bound_by, "reason": None,
    }  # fmt: skip
