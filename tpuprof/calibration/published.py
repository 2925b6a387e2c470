"""Constants of training plans from published rows: one scale of all computation per chip, as validation leaves out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from tpuprof._version import __version__
from tpuprof.calibration.estimates import Estimate, typical
from tpuprof.calibration.result import Calibration, Fitted, Kept, RowOrigin, make_profile, unfitted
from tpuprof.hardware import chip as find
from tpuprof.plan.profiles import CHIP, default_of, limits_of
from tpuprof.plan.train_profile import efficiency
from tpuprof.plan.validation import FEWEST, chip_factors

_LEAST_FOR_SPREAD = 5
_RATES = ("matmul", "attention", "memory")
_STEP_ONLY = "a step time does not tell it: only one scale of all computation is fitted"


def calibrate_published(
    rows: Iterable[Mapping[str, Any]], name: str = "published", *, chip: str | None = None, source: str = "rows",
    now: datetime | None = None,
) -> Calibration:  # fmt: skip
    """What published steps tell: by how much all computation of a chip is faster or slower than built-in constants say.

    The factor of a chip is the median of its rows, as in the leave-one-out column of ``tpuprof validate``. It scales
    matmuls, attention, memory and launches alike. With five rows or more the spread becomes what 80 % of the factors
    lie within, on either side.

    Args:
        name: of the profile.
        chip: only this one; all that have rows if not given.
        source: of the rows, for people, such as the name of their file.
        now: the date of the profile.

    Raises:
        UsageError: there is no such chip.
    """
    factors = chip_factors(rows)
    wanted = sorted(factors) if chip is None else [find(chip).name]
    fitted: list[Fitted] = []
    kept: list[Kept] = []
    used: list[RowOrigin] = []
    for each in wanted:
        found = factors.get(each, [])
        said = _fit(each, [factor for _, factor in found], fitted, kept)
        if said:
            kept += [Kept(f"chips.{each}.{key}", default_of(f"chips.{each}.{key}"), said) for key in CHIP]
        else:
            used += [RowOrigin(row, each, factor) for row, factor in found]
    kept += unfitted(wanted, [*fitted, *kept], {}, _STEP_ONLY)
    if not wanted:
        kept.append(Kept("chips.*", None, "no row counts"))
    profile = make_profile(
        name, (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        f"scaled by tpuprof {__version__} to {len(used)} published steps of {source}"[:500],
        fitted, rows=used, kept=kept,
    )  # fmt: skip
    return Calibration(profile, (), tuple(used), tuple(fitted), tuple(kept), ())


def _fit(chip: str, factors: list[float], fitted: list[Fitted], kept: list[Kept]) -> str:
    """Adds the constants of a chip; or says why there are none."""
    found = typical(factors, 0.0)
    if found is None or len(factors) < FEWEST:
        return f"{len(factors)} of its rows count; {FEWEST} are needed"
    base = efficiency(chip)
    scaled = base.scaled(found.value, "", "")
    values = {key: float(getattr(scaled, key)) for key in (*_RATES, "launch_s")}
    for key, value in values.items():
        limits = limits_of(f"chips.{chip}.{key}")
        if not limits.allow(value):
            return (
                f"the rows are {found.value:.3g} times as fast as predicted, so that {key} would be {value:.3g}: "
                "something else than its efficiency is wrong"
            )
    count = len(factors)
    for key, value in values.items():
        built_in = float(getattr(base, key))
        scales = [1 / scale if key == "launch_s" else scale for scale in (found.low, found.high) if scale]
        ends = sorted(built_in * scale for scale in scales)
        low, high = (ends[0], ends[-1]) if ends else (None, None)
        sign = "/" if key == "launch_s" else "x"
        said = f"the built-in {built_in:g} {sign} {found.value:.4g}, the median scale of all computation"
        constant = f"chips.{chip}.{key}"
        fitted.append(Fitted(constant, value, default_of(constant), low, high, count, count, None, said))
    constant = f"chips.{chip}.spread"
    spread = _spread(found)
    if spread is None:
        why = f"{count} rows are too few for a spread; {_LEAST_FOR_SPREAD} are needed"
        kept.append(Kept(constant, default_of(constant), why))
    else:
        said = "within which the scales of four of five rows lie around their median"
        fitted.append(Fitted(constant, spread, default_of(constant), None, None, count, count, None, said))
    return ""


def _spread(found: Estimate) -> float | None:
    """The relative error of a compute time that is predicted with the median scale, for four of five rows."""
    if found.samples < _LEAST_FOR_SPREAD or found.low is None or found.high is None:
        return None
    return max(found.value / found.low, found.high / found.value) - 1
