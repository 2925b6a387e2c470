"""Profiles from published rows: the scale that validation leaves out one row for, and nothing else."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tpuprof.calibration import Calibration, calibrate_published
from tpuprof.errors import UsageError
from tpuprof.plan.published import read_rows
from tpuprof.plan.train_profile import efficiency
from tpuprof.plan.validation import chip_factors, scores, validate

ROWS = read_rows(Path(__file__).parents[1] / "data" / "published_perf.json")


@pytest.fixture(scope="module")
def found() -> Calibration:
    return calibrate_published(ROWS, "rows", source="rows.json")


def test_the_scale_is_the_median_that_validation_knows(found: Calibration) -> None:
    factors = chip_factors(ROWS)
    fitted = {one.constant: one for one in found.fitted}
    for chip, rows in factors.items():
        if f"chips.{chip}.matmul" not in fitted:
            continue
        scale = median(factor for _, factor in rows)
        for key in ("matmul", "attention", "memory"):
            assert fitted[f"chips.{chip}.{key}"].value == pytest.approx(scale * getattr(efficiency(chip), key))
        assert fitted[f"chips.{chip}.launch_s"].value == pytest.approx(efficiency(chip).launch_s / scale)
        assert fitted[f"chips.{chip}.matmul"].samples == len(rows)
        assert {(row.row, row.factor) for row in found.rows if row.chip == chip} == set(rows)
    assert {"v4", "v5e", "v5p", "v6e"} <= {name.split(".")[1] for name in fitted}
    assert "rows.json" in found.profile.source


def test_predictions_with_the_profile_are_better_in_the_middle(found: Calibration) -> None:
    before = {score.group: score for score in scores(validate(ROWS))}
    after = {score.group: score for score in scores(validate(ROWS, found.profile.efficiency))}
    for chip in {row.chip for row in found.rows}:
        assert abs(after[chip].signed_median) <= abs(before[chip].signed_median) + 0.01
        assert abs(after[chip].signed_median) < 0.02


def test_one_chip_alone() -> None:
    found = calibrate_published(ROWS, chip="TPU v5p")
    assert {row.chip for row in found.rows} == {"v5p"}
    assert all(one.constant.startswith("chips.v5p.") for one in found.fitted)
    assert {one.constant for one in found.kept} >= {"overlap.weights", "steps.idle_s", "collectives.all_gather"}
    none = calibrate_published(ROWS, chip="v2")
    assert not none.fitted
    assert "0 of its rows count; 2 are needed" in {one.reason for one in none.kept}
    with pytest.raises(UsageError, match="There is no chip"):
        calibrate_published(ROWS, chip="v5q")


def test_few_rows_give_no_spread_and_one_gives_nothing() -> None:
    rows = [row for row in ROWS if row.get("chip") == "v5p"]
    ids = [row for row, _ in chip_factors(rows)["v5p"]]
    three = calibrate_published([row for row in rows if row["id"] in ids[:3]])
    reasons = {one.constant: one.reason for one in three.kept}
    assert "3 rows are too few" in reasons["chips.v5p.spread"]
    one = calibrate_published([row for row in rows if row["id"] == ids[0]])
    assert not one.fitted
    assert calibrate_published([]).kept[-1].reason == "no row counts"


def test_rows_that_would_take_more_than_the_peak_fit_nothing() -> None:
    rows: list[dict[str, Any]] = deepcopy([row for row in ROWS if row.get("chip") == "v5p"])
    for row in rows:
        for name in ("step_time_s", "tokens_per_s_per_chip", "tflops_per_chip"):
            value = row["measured"].get(name)
            if value:
                row["measured"][name] = value / 3 if name == "step_time_s" else value * 3
    found = calibrate_published(rows)
    assert not found.fitted
    assert (
        "something else than its efficiency is wrong"
        in {one.constant: one.reason for one in found.kept}["chips.v5p.matmul"]
    )
