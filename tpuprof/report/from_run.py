"""What ``tpuprof plan train --from-run`` adds to a plan: the measured step, the layout in use, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from tpuprof.calibration.compared import Change, Comparison, uncertainty
from tpuprof.calibration.shown import GROUPS
from tpuprof.plan.train_profile import Efficiency
from tpuprof.report.listing import Field, Listing, Result, show_count, show_text
from tpuprof.text import clean
from tpuprof.units import PS_PER_S, UNKNOWN, format_percent, format_ps


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else format_ps(value * PS_PER_S)


def _gain(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:+.1%}"


_PARTS = (
    Field("part", "part"),
    Field("measured_s", "measured", _seconds, right=True),
    Field("share", "of the step", format_percent, right=True, rank=1),
    Field("predicted_s", "predicted", _seconds, right=True),
    Field("error", "error", _gain, right=True),
)
_CHANGES = (
    Field("rank", "rank", show_count, right=True),
    Field("layout", "layout", role="name"),
    Field("remat", "remat", rank=4),
    Field("expected_s", "expected step", _seconds, right=True),
    Field("low_s", "low", _seconds, right=True, rank=3),
    Field("high_s", "high", _seconds, right=True, rank=3),
    Field("gain", "gain", _gain, right=True),
    Field("sure", "beyond error", lambda value: "yes" if value else "no", rank=2),
    Field("why", "what changes", show_text, role="name", rank=1),
)


def with_run(
    result: Result, found: Comparison, profile: Efficiency, sources: Mapping[str, str], *, given: bool
) -> Result:
    """The result of a plan with ``from_run`` in its document and its listings before its own.

    Args:
        sources: where model, batch, sequence and slice come from, by name.
        given: the user named the layout in use.
    """
    about = run_document(found, profile, sources, given=given)
    listings = (*run_listings(about), *result.listings)
    return replace(result, document={**result.document, "from_run": about}, listings=listings)


def run_document(
    found: Comparison, profile: Efficiency, sources: Mapping[str, str], *, given: bool
) -> dict[str, Any]:  # fmt: skip
    """What a plan's document says of the run that it started from; as :func:`with_run`."""
    shown, used = found.shown, found.in_use
    return {
        "run": asdict(shown.origin),
        "measured": {"step_s": shown.step_s, "parts_s": dict(shown.parts_s)},
        "sources": dict(sources),
        "layout_in_use": {
            "axes": dict(shown.layout.axes) or None, "source": "given" if given else shown.layout.source or None,
            **_in_use(found), "remat_source": used.policy or None, "reason": used.reason or None,
        },
        "flops_ratio": found.flops_ratio,
        "verdict": found.verdict,
        "changes": [_change(one) for one in found.changes],
        "uncertainty": uncertainty(profile),
        "warnings": list(found.warnings), "withheld": found.withheld or None,
    }  # fmt: skip


def run_listings(about: Mapping[str, Any]) -> tuple[Listing, ...]:
    """The measured step beside the layout in use, and what to change, from ``from_run`` of a document."""
    used = about["layout_in_use"]
    if used["layout"] is None:
        said = f"the layout in use is not predicted: {used['reason']}; give it with --mesh"
    else:
        said = f"layout in use: {used['layout']}, {used['source']}; remat {used['remat_source']}"
    told = [f"{name}: {source}" for name, source in about["sources"].items()]
    withheld = (about["withheld"],) if about["withheld"] else ()
    rows, changes = _rows(about), about["changes"]
    step = Listing(
        f"Step of {clean(about['run']['name'])}, measured and predicted", "part", _PARTS, rows, len(rows),
        tuple(map(clean, (said, *told, *about["warnings"], *withheld))),
    )  # fmt: skip
    if withheld:
        return (step,)
    title = "What to change: the first layouts against the measured step"
    notes = (clean(about["verdict"]), about["uncertainty"])
    return step, Listing(title, "layout", _CHANGES, changes, len(changes), notes)


def _rows(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    measured, used = about["measured"], about["layout_in_use"]
    parts: Mapping[str, float] = measured["parts_s"]
    predicted: Mapping[str, float] = used["predicted_parts_s"] or dict[str, float]()
    total = sum(parts.values())
    rows = [_row(name, parts[name], predicted.get(name), total) for name in GROUPS]
    return [*rows, _row("step", measured["step_s"], used["predicted_s"], measured["step_s"])]


def _row(name: str, measured: float, predicted: float | None, total: float) -> dict[str, Any]:
    return {
        "part": name, "measured_s": measured, "share": measured / total if total else None, "predicted_s": predicted,
        "error": predicted / measured - 1 if predicted is not None and measured else None,
    }  # fmt: skip


def _in_use(found: Comparison) -> dict[str, Any]:
    used = found.in_use.candidate
    if used is None:
        names = ("mesh", "layout", "remat", "predicted_s", "low_s", "high_s", "predicted_parts_s", "error", "fits")
        return dict.fromkeys(names)
    step, parts = used.step, found.in_use.parts_s
    return {
        "mesh": step.layout.mesh(), "layout": step.layout.text(), "remat": used.job.policy.name,
        "predicted_s": step.seconds, "low_s": step.low, "high_s": step.high,
        "predicted_parts_s": None if parts is None else dict(parts), "error": found.in_use.error, "fits": step.fits,
    }  # fmt: skip


def _change(one: Change) -> dict[str, Any]:
    return {
        "rank": one.rank, "layout": one.candidate.step.layout.text(), "mesh": one.candidate.step.layout.mesh(),
        "remat": one.candidate.job.policy.name, "expected_s": one.expected_s, "low_s": one.low_s,
        "high_s": one.high_s, "gain": one.gain, "sure": one.sure,
        "parts_s": None if one.parts_s is None else dict(one.parts_s), "why": one.why,
    }  # fmt: skip
