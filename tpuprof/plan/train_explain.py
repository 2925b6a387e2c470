"""Where the numbers of a training plan come from: each as a derivation with formula, inputs and assumptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tpuprof.hardware.topology import Slice
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.plan.flops import model_flops
from tpuprof.plan.parallel import bubble
from tpuprof.plan.params import param_counts
from tpuprof.plan.state import TRAINING
from tpuprof.plan.train_comm import Traffic
from tpuprof.plan.train_compute import ATTENTION_BACKWARD, device_of
from tpuprof.plan.train_layout import Job
from tpuprof.plan.train_profile import Efficiency, assumptions
from tpuprof.plan.train_ranking import axes, crowding
from tpuprof.plan.train_search import Candidate, Plan
from tpuprof.plan.train_step import StepEstimate
from tpuprof.units import format_percent

DAY_S = 86_400
_HOUR_S = 3_600
_NOTHING = 5e-4
"""A share of the step that is shown as zero."""
_SHOWN = 5e-5
"""The smallest difference that two decimals of a percentage show."""
_FORMULAS = {
    "matmul": "sum of layers and microbatches of 3 * max(padded FLOPs / (e_mm * C), bytes / (e_mem * W)) + launches",
    "attention": f"(1 + {ATTENTION_BACKWARD}) * FLOPs of blocks that the mask leaves, heads padded / (e_attn * C_bf16)",
    "elementwise": "elements per token * bytes / (e_mem * W), forward and backward",
    "dispatch": "rows of tokens gathered at e_gather * W, or products with masks where tokens are dropped",
    "recompute": "forward work whose outputs the policy does not keep",
    "head": "3 * output matmul, and logits of 32 bits written and read twice",
    "optimizer": "state read and written / (e_mem * W)",
    "communication": "exposed share of the collectives inside a slice",
    "network": "exposed share of the sum of gradients between slices",
    "bubble": "(Z-1) / m * (computation + communication)",
    "offload": "exposed share of the transfers to the host's memory",
    "overhead": "share per doubling of the slices * log2(slices) * the rest + idle time of a step",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a token budget costs.

    Args:
        days: of the run; null without a budget.
        cost_usd: of the budget, or of one step without one; null if the chip has no price.
        cost_of: ``budget`` or ``step``.
    """

    days: float | None
    cost_usd: float | None
    cost_of: str


def outcome(job: Job, step: StepEstimate, where: Slice, budget: float | None, price: float | None) -> Outcome:
    """Days and dollars.

    Args:
        budget: tokens of the whole training; null for one step.
        price: of a chip-hour, USD; that of the chip's list if null.
    """
    listed = where.chip.price_usd_per_hour
    rate = price if price is not None else None if listed is None else listed.value
    seconds = step.seconds * (1 if budget is None else budget / job.tokens)
    cost = None if rate is None else seconds / _HOUR_S * where.n_chips * rate
    return Outcome(None if budget is None else seconds / DAY_S, cost, "step" if budget is None else "budget")


def critical_batch(job: Job, step: StepEstimate) -> float | None:
    """The tokens per step above which the collectives of weights could hide behind computation; null without any.

    They do not grow with the batch, and computation does. Bubbles and collectives of activations are left out.
    """
    weights = sum(
        found.seconds for found in step.collectives
        if found.name.endswith(("fsdp_gather", "fsdp_scatter", "gradients", "weights")) or found.name.startswith("head")
    )  # fmt: skip
    return job.tokens * weights / step.compute if weights and step.compute else None


def why(one: Candidate, plan: Plan) -> str:
    """Why a layout is first, or what it loses to the first, in words."""
    first = plan.candidates[0]
    if one is first:
        return _why_first(first, min(plan.candidates, key=lambda other: other.seconds))
    step = one.step
    slower = one.seconds / first.seconds - 1
    if abs(slower) < _NOTHING:
        return f"as fast as the first, with {_memory_beside(one, first)}"
    if slower < 0:
        return f"{format_percent(-slower, 1)} faster, less than estimates tell, {_beside(one, first)}"
    more = {name: value - first.step.parts[name] for name, value in step.parts.items()}
    gained = [
        name for name in sorted(more, key=lambda name: -more[name])
        if more[name] > max(0.1 * (one.seconds - first.seconds), _NOTHING * first.seconds)
    ]  # fmt: skip
    named = ", ".join(f"{name} +{format_percent(more[name] / first.seconds, 1)}" for name in gained[:3])
    collective = _slowest_collective(one, first)
    return f"{format_percent(slower, 1)} slower: {named or 'small differences'}{collective}"


def _why_first(first: Candidate, fastest: Candidate) -> str:
    step = first.step
    hidden = sum(found.seconds - found.exposed for found in step.collectives)
    shown = sum(found.exposed for found in step.collectives)
    bound = (
        f"; bound by {step.bound_by}, {format_percent(shown / step.seconds, 1)} of the step is exposed communication "
        f"({format_percent(hidden / step.seconds, 1)} hidden)"
    )
    behind = first.seconds / fastest.seconds - 1
    if first is fastest or not behind:
        return f"fastest that fits{bound}"
    said = f"{format_percent(behind, 2)} behind the fastest" if behind >= _SHOWN else "as fast as the fastest"
    return f"{said}, {fastest.step.layout.text()}, {_beside(first, fastest)}{bound}"


def _beside(one: Candidate, other: Candidate) -> str:
    """What tells two layouts apart that are as fast."""
    if crowding(one.step) != crowding(other.step) or axes(one.step) == axes(other.step):
        return f"with {_memory_beside(one, other)}"
    return "which mixes more axes" if axes(one.step) > axes(other.step) else "which mixes fewer axes"


def _memory_beside(one: Candidate, other: Candidate) -> str:
    extra = (one.step.memory["total"] - other.step.memory["total"]) / 1e9
    return f"{abs(extra):.1f} GB {'more' if extra >= 0 else 'less'} memory"


def explain(
    plan: Plan, one: Candidate, budget: float | None = None, price: float | None = None
) -> dict[str, Derivation]:
    """``step``, each collective, ``memory``, ``mfu``, ``tokens-per-s-per-chip``, ``cost`` and more, by name."""
    job, step, where = one.job, one.step, plan.where
    inputs = _inputs(plan, job)
    steps = tuple(Step(name, _FORMULAS[name], value, "s") for name, value in step.parts.items() if value)
    found = {
        "step": Derivation(
            step.seconds, "s", "sum of the parts", inputs, step.bound_by,
            (plan.profile.source, *assumptions(plan.profile)), steps, TRAINING,
        ),
        "interval": Derivation(
            [step.low, step.high], "s", "computation * (1 +- spread), half of the exposed hidden or a quarter more",
            {"spread": Quantity(plan.profile.spread, "fraction", plan.profile.source)}, None, (), (), TRAINING,
        ),
    }  # fmt: skip
    for name, moved in _named(step.collectives):
        axes = {"V": Quantity(moved.size, "B"), "count": Quantity(moved.count), "mesh": Quantity(_placed(step))}
        reached = _reached(plan.profile, moved)
        axes |= reached
        timing = "t0 + bound / c by perfmodel.collective_time"
        moving = (
            Step("one of them", f"({timing}) / reached" if reached else timing, moved.seconds / moved.count, "s"),
            Step("exposed", "count * time * (1 - hidden share)", moved.exposed, "s"),
        )
        found[name] = Derivation(
            moved.seconds, "s", "count * time", axes, moved.regime, (), moving, "scaling book, sharded matrices"
        )
    if step.layout.pipeline > 1:
        found["bubble"] = bubble(step.layout.pipeline, step.layout.accumulation)
    held = tuple(
        Step(name, "see tpuprof calc memory", value, "B") for name, value in step.memory.items() if name != "total"
    )
    limits = {
        "HBM": Quantity(step.usable, "B", "what the runtime leaves to programs"),
        "types": Quantity(job.types.text()),
    }  # fmt: skip
    found["memory"] = Derivation(
        step.memory["total"], "B", "sum of the parts but host", limits, None,
        ("fragmentation and the program itself are left out",), held, TRAINING,
    )  # fmt: skip
    found["mfu"] = _mfu(job, step, inputs)
    found["tokens-per-s-per-chip"] = Derivation(
        step.tokens_per_s_per_chip, "token/s", "B / (step * N)",
        {"B": inputs["B"], "N": inputs["N"], "step": Quantity(step.seconds, "s")}, source=TRAINING,
    )  # fmt: skip
    paid = outcome(job, step, where, budget, price)
    named = {
        "tokens": Quantity(budget if budget is not None else job.tokens, "token"), "step": Quantity(step.seconds, "s"),
        "N": inputs["N"], "price": _price(where, price),
    }  # fmt: skip
    found["cost"] = Derivation(
        paid.cost_usd, "USD", "tokens / B * step / 3600 * N * price", named, paid.cost_of,
        ("list price, without discounts and idle time",), (), "scaling book, training LLaMA",
    )  # fmt: skip
    batch = critical_batch(job, step)
    if batch is not None:
        found["critical-batch"] = Derivation(
            batch, "token", "B * time of the collectives of weights / computation", {"B": inputs["B"]}, None,
            ("collectives of weights do not grow with the batch",), (), TRAINING,
        )  # fmt: skip
    return found


def _mfu(job: Job, step: StepEstimate, inputs: dict[str, Quantity]) -> Derivation:
    flops = model_flops(job.model, job.sequences, job.sequence, masking="causal", remat=job.policy)
    steps = (
        Step("model FLOPs, causal attention", "3 * forward", flops.training, "FLOP"),
        Step("MFU with all pairs of attention", "as older publications count", step.mfu_full, "fraction"),
        Step("HFU", "with what is computed again", step.hfu, "fraction"),
    )
    assumed = ("the peak of bf16 counts, whatever the type",)
    return Derivation(step.mfu, "fraction", "model FLOPs / (N * C_bf16 * step)", inputs, None, assumed, steps, TRAINING)


def _inputs(plan: Plan, job: Job) -> dict[str, Quantity]:
    where, profile = plan.where, plan.profile
    device = device_of(where.chip, job.dtype)
    peak = where.chip.device_peak("bf16")
    return {
        "model": Quantity(job.model.name, "", job.model.source),
        "P": Quantity(param_counts(job.model).all, "param"),
        "B": Quantity(job.tokens, "token"), "T": Quantity(job.sequence, "token"),
        "slice": Quantity(where.name), "N": Quantity(where.n_chips, "chip"),
        "C": Quantity(device.peak, "FLOP/s", f"one device, {job.dtype}"),
        "C_bf16": Quantity(device.attention_peak, "FLOP/s", "" if peak is None else peak.source),
        "W": Quantity(device.bandwidth, "B/s", _bandwidth_source(where)),
        "remat": Quantity(job.policy.name), **_shares(profile),
    }  # fmt: skip


def _shares(profile: Efficiency) -> dict[str, Quantity]:
    return {
        "e_mm": Quantity(profile.matmul, "fraction", profile.source_of("matmul")),
        "e_attn": Quantity(profile.attention, "fraction", profile.source_of("attention")),
        "e_mem": Quantity(profile.memory, "fraction", profile.source_of("memory")),
        "e_gather": Quantity(profile.gather, "fraction", profile.source_of("gather")),
        "tile": Quantity(profile.group_tile, "row", profile.source_of("experts.tile_rows")),
    }


def _reached(profile: Efficiency, moved: Traffic) -> dict[str, Quantity]:
    """By how much a calibration found such a collective slower than expected; nothing without one."""
    known = dict(profile.collectives)
    if moved.kind not in known or moved.name == "network_gradients":
        return {}
    return {"reached": Quantity(known[moved.kind], "fraction", profile.source_of(f"collectives.{moved.kind}"))}


def _bandwidth_source(where: Slice) -> str:
    figure = where.chip.device_hbm_bandwidth
    return "" if figure is None else figure.source


def _price(where: Slice, price: float | None) -> Quantity:
    listed = where.chip.price_usd_per_hour
    if price is not None:
        return Quantity(price, "USD/chip-hour")
    return Quantity(None if listed is None else listed.value, "USD/chip-hour", "" if listed is None else listed.source)


def _placed(step: StepEstimate) -> str:
    return " ".join(
        f"{axis}:{'*'.join(piece.text() for piece in pieces)}" for axis, pieces in step.placed.items() if pieces
    )


def _slowest_collective(one: Candidate, first: Candidate) -> str:
    before = first.step.exposed
    more = {name: value - before.get(name, 0.0) for name, value in one.step.exposed.items()}
    if not more:
        return ""
    name = max(more, key=lambda name: more[name])
    return f" (most of it {name})" if more[name] > 0.3 * (one.seconds - first.seconds) else ""


def _named(collectives: Sequence[Traffic]) -> Iterator[tuple[str, Traffic]]:
    """Each with a name of its own: layers of several kinds have collectives for the same, of other sizes."""
    seen: Counter[str] = Counter()
    for moved in collectives:
        seen[moved.name] += 1
        yield moved.name if seen[moved.name] == 1 else f"{moved.name}-{seen[moved.name]}", moved
