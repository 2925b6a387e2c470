"""A run against a plan: the layout in use as predicted, and what other layouts should gain on the measured step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tpuprof.calibration.shown import GROUPS, ShownRun
from tpuprof.errors import UsageError
from tpuprof.hardware.topology import Slice
from tpuprof.plan.flops import model_flops
from tpuprof.plan.remat import RematPolicy, remat_policy
from tpuprof.plan.train_layout import Job, Layout, problems
from tpuprof.plan.train_profile import Efficiency
from tpuprof.plan.train_search import POLICIES, Candidate, Plan
from tpuprof.plan.train_step import StepEstimate, estimate
from tpuprof.units import format_percent

_COMMUNICATION_ERROR, _HIDDEN_ERROR, _REST_ERROR = 0.5, 0.25, 0.5
"""How wrong a predicted change of exposed, of hidden communication and of other parts may be, relative to it."""
_SCALE = (0.5, 2.0)
_PLAUSIBLE = (0.8, 1.25)
_NAMED = 0.005
_OTHERS = ("communication", "network", "bubble", "offload", "overhead")
"""Parts of a predicted step that are no computation."""


@dataclass(frozen=True, slots=True)
class InUse:
    """The layout that a run used, as predicted.

    Args:
        candidate: null if it cannot be predicted.
        policy: how its rematerialisation is known, in words.
        parts_s: predicted, by :data:`tpuprof.calibration.shown.GROUPS`.
        error: predicted over measured step, less 1.
        reason: why it is not predicted.
    """

    candidate: Candidate | None
    policy: str = ""
    parts_s: Mapping[str, float] | None = None
    error: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What a layout of the plan should gain over the measured step.

    Args:
        rank: of the candidate in the plan.
        expected_s: the step that is expected of it.
        low_s, high_s: between which it should be, for the errors of predicted changes.
        gain: share of the measured step that goes.
        sure: the whole interval is faster than the measured step.
        parts_s: of the expected step by group; null where the layout in use is not known.
        why: which parts of the measured step shrink and grow.
    """

    rank: int
    candidate: Candidate
    expected_s: float
    low_s: float
    high_s: float
    gain: float
    sure: bool
    parts_s: Mapping[str, float] | None
    why: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run against a plan.

    Args:
        flops_ratio: model FLOPs of the trace over those of the planned job; null where the trace does not tell.
        warnings: what makes the comparison doubtful, as sentences.
        withheld: why no changes are given, as a sentence; empty if they are.
    """

    shown: ShownRun
    in_use: InUse
    changes: tuple[Change, ...]
    flops_ratio: float | None
    warnings: tuple[str, ...]
    withheld: str = ""

    @property
    def verdict(self) -> str:
        """What to change, in a sentence."""
        if self.withheld or not self.changes:
            return self.withheld or "No layout of the plan fits, so there is nothing to change to."
        best = min(self.changes, key=lambda one: one.expected_s)
        if best.gain <= 0:
            return f"None of the first {len(self.changes)} is expected to be faster than the measured step."
        ends = sorted(1 - value / self.shown.step_s for value in (best.low_s, best.high_s))
        named = f"{best.candidate.step.layout.text()}, remat {best.candidate.job.policy.name}"
        sure = "" if best.sure else ", which is within the error of the plan"
        return (
            f"{named} is expected to take {format_percent(best.gain)} off the step ({ends[0]:+.1%} to {ends[1]:+.1%})"
            f"{sure}: {best.why}."
        )


def uncertainty(profile: Efficiency) -> str:
    """What the intervals of changes take as wrong, as a sentence."""
    return (
        f"Intervals take a predicted change of computation as wrong by {profile.spread:.0%} of it (the profile's "
        f"spread), of exposed communication and other parts by {_COMMUNICATION_ERROR:.0%}, and of what is hidden by "
        f"{_HIDDEN_ERROR:.0%}; errors that all layouts share are in the measured step already."
    )


def compared(
    shown: ShownRun, plan: Plan, layout: Layout | None, *, policy: RematPolicy | None = None, top: int = 5
) -> Comparison:
    """The layout in use and the first candidates of a plan against the measured step.

    A change is predicted part by part: what a part was measured at, times or plus what the plan says that it changes.
    So a layout that is the one in use is expected to take what was measured, and an error that all predictions share
    cancels.

    Args:
        layout: in use; null if not known.
        policy: of rematerialisation in use; guessed from the repeated FLOPs of the trace if not given.
        top: candidates to compare.
    """
    in_use = _in_use(shown, plan, layout, policy)
    ratio = _flops_ratio(shown, plan.job, plan.where)
    withheld = _another_job(shown, in_use, ratio)
    changes = (
        []
        if withheld
        else [
            _change(shown, in_use.candidate, one, rank, plan.profile)
            for rank, one in enumerate(plan.candidates[:top], 1)
        ]
    )
    return Comparison(shown, in_use, tuple(changes), ratio, tuple(_warnings(shown, in_use, ratio)), withheld)


def groups_of(step: StepEstimate) -> dict[str, float]:
    """A predicted step by the parts that a trace has, too."""
    parts = step.parts
    return {
        "compute": step.compute, "communication": parts["communication"] + parts["network"],
        "waiting": parts["bubble"], "copies": parts["offload"], "idle": parts["overhead"],
    }  # fmt: skip


def _in_use(shown: ShownRun, plan: Plan, layout: Layout | None, policy: RematPolicy | None) -> InUse:
    if layout is None:
        return InUse(None, reason=shown.layout.reason or "it is not known")
    chosen, how = (policy, "as given") if policy is not None else _policy(shown, plan.job)
    job = replace(plan.job, policy=chosen)
    wrong = problems(job, layout, plan.where)
    if wrong:
        return InUse(None, how, reason="; ".join(wrong))
    try:
        step = estimate(job, layout, plan.where, plan.profile)
    except UsageError as error:
        return InUse(None, how, reason=f"{error.what} {error.why}".strip())
    return InUse(Candidate(job, step), how, groups_of(step), step.seconds / shown.step_s - 1)


def _policy(shown: ShownRun, job: Job) -> tuple[RematPolicy, str]:
    known = [remat_policy(name) for name in POLICIES]
    if shown.remat_share is None:
        return job.policy, f"{job.policy.name} is assumed; the trace does not tell (--remat)"

    def share(policy: RematPolicy) -> float:
        found = model_flops(job.model, job.sequences, job.sequence, masking="causal", remat=policy)
        return 1 - found.training / found.hardware

    target = shown.remat_share
    nearest = min(known, key=lambda policy: abs(share(policy) - target))
    return nearest, f"{nearest.name}, whose share of repeated FLOPs is nearest to {format_percent(target)} in the trace"


def _flops_ratio(shown: ShownRun, job: Job, where: Slice) -> float | None:
    if shown.flops_per_device is None:
        return None
    return shown.flops_per_device * where.n_devices / model_flops(job.model, job.sequences, job.sequence).training


def _change(shown: ShownRun, used: Candidate | None, one: Candidate, rank: int, profile: Efficiency) -> Change:
    measured = shown.step_s
    if used is None:
        step = one.step
        gain = 1 - step.seconds / measured
        return Change(
            rank, one, step.seconds, step.low, step.high, gain, step.high < measured, None,
            "predicted by itself, since the layout in use is not known: all errors of the plan are in it",
        )  # fmt: skip
    before, after = groups_of(used.step), groups_of(one.step)
    # The mean step of the cores, of which the parts are, is a little shorter than that of the slowest core.
    parts = {name: value * measured / max(sum(shown.parts_s.values()), 1e-30) for name, value in shown.parts_s.items()}
    expected = {name: _expected(name, parts[name], before[name], after[name]) for name in GROUPS}
    total = sum(expected.values())
    delta = {name: expected[name] - parts[name] for name in GROUPS}
    hidden = _hidden(one.step) - _hidden(used.step)
    error = (
        profile.spread * abs(delta["compute"]) + _COMMUNICATION_ERROR * abs(delta["communication"])
        + _HIDDEN_ERROR * abs(hidden) + _REST_ERROR * sum(abs(delta[name]) for name in ("waiting", "copies", "idle"))
    )  # fmt: skip
    return Change(
        rank, one, total, max(total - error, 0.0), total + error, 1 - total / measured, total + error < measured,
        expected, _why(delta, used, one, measured),
    )  # fmt: skip


def _expected(name: str, measured: float, before: float, after: float) -> float:
    if name == "compute" and before > 0:
        return measured * after / before
    scale = 1.0
    if name == "communication" and before > 0:
        scale = min(max(measured / before, _SCALE[0]), _SCALE[1])
    return max(measured + scale * (after - before), 0.0)


def _hidden(step: StepEstimate) -> float:
    return sum(moved.seconds - moved.exposed for moved in step.collectives)


def _why(delta: Mapping[str, float], used: Candidate, one: Candidate, measured: float) -> str:
    said: list[str] = []
    for name in sorted(GROUPS, key=lambda name: delta[name]):
        share = delta[name] / measured
        if abs(share) < _NAMED:
            continue
        detail = _detail(name, share, used.step, one.step)
        said.append(f"{name} {share:+.1%} of the step{f' ({detail})' if detail else ''}")
    same = used.step.layout == one.step.layout and used.job.policy.name == one.job.policy.name
    return "; ".join(said) or ("the layout in use" if same else "no part of the step changes by half a percent")


def _detail(name: str, share: float, used: StepEstimate, one: StepEstimate) -> str:
    """What in the plan's own parts moves a group the most, in the direction of the group."""
    if name == "compute":
        moved = {key: one.parts[key] - used.parts[key] for key in one.parts if key not in _OTHERS}
    elif name == "communication":
        before, after = used.exposed, one.exposed
        moved = {key: after.get(key, 0.0) - before.get(key, 0.0) for key in {**before, **after}}
    else:
        return {"waiting": "pipeline bubbles", "copies": "transfers to the host"}.get(name, "")
    most = max(moved, key=lambda key: moved[key] * (1 if share > 0 else -1), default="")
    return f"most of it {most}" if most and moved[most] * share > 0 else ""


def _another_job(shown: ShownRun, in_use: InUse, ratio: float | None) -> str:
    """Why the plan cannot be about what ran, so that differences of its layouts say nothing of the run; else empty."""
    if ratio is not None and not _SCALE[0] <= ratio <= _SCALE[1]:
        return (
            f"The trace does {ratio:.3g} times the FLOPs of this model, batch and sequence: it is another job, or its "
            "steps are no optimizer steps, so no gain is given."
        )
    if in_use.parts_s is None:
        return ""
    measured, predicted = shown.parts_s["compute"], in_use.parts_s["compute"]
    if _SCALE[0] * predicted <= measured <= predicted / _SCALE[0]:
        return ""
    return (
        f"The computation of the layout in use is predicted at {predicted:.3g} s and was measured at {measured:.3g} s: "
        "check model, batch, sequence and --remat. No gain is given, since this is no plan of what ran."
    )


def _warnings(shown: ShownRun, in_use: InUse, ratio: float | None) -> list[str]:
    found: list[str] = []
    if in_use.candidate is not None and in_use.candidate.step.fits is False:
        found.append(
            "The layout in use ran, and is predicted not to fit: the plan asks for too much memory here, so that "
            "layouts may be missing that fit, too."
        )
    if ratio is not None and _SCALE[0] <= ratio <= _SCALE[1] and not _PLAUSIBLE[0] <= ratio <= _PLAUSIBLE[1]:
        found.append(
            f"The trace does {ratio:.3g} times the FLOPs of this model, batch and sequence: they may not be those of "
            "the run, or a step of the trace is no optimizer step."
        )
    fixed = (shown.parts_s["idle"] + shown.parts_s["waiting"]) / max(sum(shown.parts_s.values()), 1e-30)
    if fixed > 0.1:
        found.append(
            f"{format_percent(fixed)} of the step is idle time and waiting for other cores; of that a plan knows the "
            "bubbles of pipelines only."
        )
    return found
