"""Why a serving candidate is first, why another one loses, and why nothing fits, in words."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from tpuprof.errors import UsageError
from tpuprof.hardware.topology import Slice
from tpuprof.plan.model import ModelConfig
from tpuprof.plan.serve.fit import capacity_of
from tpuprof.plan.serve.setup import NO_LIMITS, Sla, Types
from tpuprof.plan.serving_model import weight_bytes
from tpuprof.text import plural
from tpuprof.units import PS_PER_S, format_bytes, format_ps

if TYPE_CHECKING:
    from tpuprof.plan.serve.candidates import Rejected, ServeCandidate

_WORDS = {
    "weights": "waiting for weights", "arithmetic": "arithmetic", "cache": "reading the cache",
    "scores": "attention of prompts", "collectives": "collectives", "overhead": "overhead of steps",
    "loops": "element-wise work and moving tokens to experts",
}  # fmt: skip


def why_first(meets: bool, sla: Sla, missed: str) -> str:
    """Why the first one is first."""
    if sla == NO_LIMITS:
        return "The most tokens per second and chip."
    if meets:
        return "The most tokens per second and chip of those that meet the limits."
    return (
        f"The most tokens per second and chip, but nothing meets the limits: {missed or 'it misses them under load'}."
    )


def why_loses(one: ServeCandidate, first: ServeCandidate) -> str:
    """What a candidate lacks beside the first one: a limit that it misses, or where its chips spend more time."""
    if first.meets and not one.meets:
        reason = one.missed or "the limits are missed under load"
        return f"{reason[0].upper()}{reason[1:]}."
    ratio = first.tokens_per_s_per_chip / one.tokens_per_s_per_chip
    own = one.steady.parts_per_token().times(one.layout.chips).to_json()
    best = first.steady.parts_per_token().times(first.layout.chips).to_json()
    part = max(own, key=lambda name: own[name] - best[name])
    more = own[part] - best[part]
    if more <= 0 or ratio < 1.0005:
        if one.latency_s <= first.latency_s * 1.0005:
            return "As many tokens per second and chip, in the same time per token."
        return "As many tokens per second and chip, at a longer time per token."
    return (
        f"{ratio:.4g} times the chip time per token, most of it {_WORDS[part]}: {format_ps(own[part] * PS_PER_S)} of a "
        f"chip per token, {format_ps(best[part] * PS_PER_S)} in the first."
    )


def does_not_fit(model: ModelConfig, types: Types, slices: Sequence[Slice], rejected: Sequence[Rejected]) -> UsageError:
    """The error for a model that cannot be served on any of the slices: of all reasons the lack of memory first."""
    nearest = min(reversed(rejected), key=lambda one: one.kind != "memory", default=None)
    each = capacity_of(slices[0].chip).value * slices[0].chip.devices_per_chip
    size = weight_bytes(model, types.weights)
    least = plural(ceil(size / each), "chip")
    return UsageError(
        f"{model.name} cannot be served on {', '.join(where.name for where in slices[:12])}.",
        why="" if nearest is None else nearest.why,
        hint=f"The weights alone are {format_bytes(size)}, {least} of {slices[0].chip.name}. "
        "Give more --chips, narrower --weights and --cache, shorter sequences or a smaller batch.",
    )
