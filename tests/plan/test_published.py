"""Predictions of published training steps: no row is dropped, errors are what they are said to be."""

from __future__ import annotations

import json
import math
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.accuracy.bundle import BUNDLE, bundle
from tpuprof.errors import InputError
from tpuprof.plan.model import Experts
from tpuprof.plan.published import (
    PublishedStep,
    Unsupported,
    bundled_rows,
    model_of_row,
    published_memory,
    published_step,
    read_rows,
)
from tpuprof.plan.serve.validation import served_rows
from tpuprof.plan.train_profile import Efficiency, efficiency
from tpuprof.plan.validation import scores, support, validate, worst
from tpuprof.report.validation import validation_result

FILE = Path(__file__).parents[1] / "data" / "published_perf.json"
ROWS = read_rows(FILE)
FOUND = validate(ROWS)


def _row(name: str) -> dict[str, Any]:
    return deepcopy(next(row for row in ROWS if row["id"] == name))


def test_every_row_comes_back() -> None:
    assert [row.row for row in FOUND] == [row["id"] for row in ROWS]
    for row in FOUND:
        assert (row.predicted_s is None) <= bool(row.reason)
        assert not row.counts or row.error == pytest.approx(row.predicted_s / row.measured_s - 1)  # type: ignore[operator]
    covered = support(FOUND)
    assert sum(count for found in covered.values() for count in found.values()) == len(ROWS)


def test_errors_stay_within_the_bars() -> None:
    # The rows that state batch, parallelism, rematerialisation, and a step time, throughput or TFLOP/s.
    by_name = {score.group: score for score in scores(FOUND)}
    assert by_name["all"].rows >= 56
    assert by_name["all"].absolute_median <= 0.15
    assert by_name["all"].calibrated_absolute_median is not None
    assert by_name["all"].calibrated_absolute_median <= 0.08
    # Where it stands, with room for a row more or less: a change that makes it worse should be seen.
    assert by_name["all"].absolute_median <= 0.055
    assert by_name["all"].calibrated_absolute_median <= 0.045
    assert all(score.absolute_median <= 0.09 for score in by_name.values())
    counted = [row for row in FOUND if row.counts]
    assert by_name["all"].signed_median == median(row.error for row in counted if row.error is not None)
    errors = [abs(row.error or 0) for row in worst(FOUND)]
    assert errors == sorted(errors, reverse=True)
    assert all(row.why for row in worst(FOUND))


@pytest.mark.parametrize(
    "change",
    [{"overlap_weights": share, "overlap_activations": share, "overlap_network": share} for share in (0.0, 0.5, 1.0)]
    + [{"matmul": share} for share in (0.7, 0.95)],
)
def test_the_bars_do_not_hang_on_the_constants_that_are_guesses(change: dict[str, float]) -> None:
    old = ("v4", "v5e", "v5p")  # on the others matmuls were measured

    def profile(chip: str) -> Efficiency:
        return replace(efficiency(chip), **change) if "matmul" not in change or chip in old else efficiency(chip)

    pooled = scores(validate(ROWS, profile))[-1]
    assert pooled.absolute_median <= 0.15
    assert pooled.calibrated_absolute_median is not None
    assert pooled.calibrated_absolute_median <= 0.08


def test_a_row_calibrates_others_and_never_itself() -> None:
    # Twice the measured time of one row changes the calibrated prediction of others, and not its own.
    name = next(row.row for row in FOUND if row.chip == "v4" and row.counts)
    changed = deepcopy(ROWS)
    for row in changed:
        if row["id"] == name:
            row["measured"]["tflops_per_chip"] /= 2
    again = {row.row: row for row in validate(changed)}
    before = {row.row: row for row in FOUND}
    assert again[name].predicted_s == before[name].predicted_s
    assert again[name].calibrated_s == before[name].calibrated_s
    assert any(again[row.row].calibrated_s != row.calibrated_s for row in FOUND if row.chip == "v4" and row.row != name)


def test_a_stated_step_time_comes_before_what_follows_from_others() -> None:
    row = _row("perf-0013")
    found = published_step(row)
    assert isinstance(found, PublishedStep)
    assert (found.measured_s, found.source) == (12.2, "step_time_s")
    row["measured"]["step_time_s"] = None
    other = published_step(row)
    assert isinstance(other, PublishedStep)
    assert other.source == "tokens_per_s_per_chip"
    assert other.measured_s == pytest.approx(12.2, rel=0.01)
    row["measured"]["tokens_per_s_per_chip"] = None
    third = published_step(row)
    assert isinstance(third, PublishedStep)
    assert third.source == "tflops_per_chip"
    assert third.measured_s == pytest.approx(12.2, rel=0.02)  # under the convention that the row states
    row["flop_convention"] = None
    assert "not how attention was counted" in _reason(row)


def _reason(row: dict[str, Any]) -> str:
    found = published_step(row)
    assert isinstance(found, Unsupported)
    return found.reason


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("kind", "serving", "a serving measurement"),
        ("chip", None, "the chip is not stated"),
        ("chip", "H100-SXM", "GPU networks"),
        ("chip", "abacus", "unknown chip abacus"),
        ("parallelism", {}, "the parallelism is not stated"),
        ("parallelism", {"fsdp": 64}, "it needs 64 devices, not 128"),
        ("parallelism", {"fsdp": 128, "dcn_pipeline": 2}, "data-centre network are not modelled"),
        ("global_batch_seqs", 300, "300 sequences cannot be split evenly into 128 replicas"),
        ("remat", None, "the rematerialisation is not stated"),
        ("remat", {"policy": "mystery"}, "no policy of rematerialisation"),
        ("remat", {"policy": "custom", "on_device": ["mystery"]}, "no tensor that a policy can keep"),
        ("n_chips", 65, "is not 65 chips"),
        ("topology", "8x", "a field is missing or of another kind"),
        ("model", {"name": "x"}, "The model has no layers"),
        ("measured", {}, "No step time, throughput or TFLOP/s"),
        ("flags", ["not_a_language_model"], "not a language model"),
        ("dtype", "fp2", "fp2"),
    ],
)
def test_reasons_name_what_is_missing(key: str, value: object, said: str) -> None:
    row = _row("perf-0013")
    row[key] = value
    (found,) = validate([row])
    assert found.predicted_s is None
    assert said in found.reason


def test_upper_bounds_are_predicted_and_not_counted() -> None:
    bounds = [row for row in FOUND if "upper bound" in row.reason]
    assert len(bounds) == 3
    for row in bounds:
        assert row.predicted_s is not None
        assert row.measured_s is not None
        assert row.predicted_s < row.measured_s
        assert not row.counts


def test_memory_is_compared_where_a_peak_is_stated() -> None:
    known = [row for row in FOUND if row.memory_error is not None]
    assert len(known) == 5
    assert all(-0.5 < (row.memory_error or 0) < 0.5 for row in known)
    assert published_memory(_row("perf-0013")) is None


def test_files_that_are_none_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_rows(tmp_path / "none.json")
    for text, said in (("{", "no JSON"), ('{"rows": 3}', "no list of rows"), ("[1]", "Row 0 is no object")):
        path = tmp_path / "bad.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=said):
            read_rows(path)
    path.write_text(json.dumps([{}]), encoding="utf-8")
    (found,) = validate(read_rows(path))
    assert found.reason == "a None measurement: only training and serving are predicted"


def test_the_measurements_of_the_package_are_those_of_the_tests() -> None:
    assert BUNDLE.read_text(encoding="utf-8") == bundle(json.loads(FILE.read_text(encoding="utf-8"))["rows"])
    assert validate(bundled_rows()) == FOUND
    assert all(row["source"] for row in bundled_rows())


def test_rows_share_models_by_name(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    shared = {"models": {"small": {"name": "small", "layers": 2, "vocab": 8}}, "rows": [
        {"id": "a", "model": {"like": "small", "layers": 3, "seq_len": 4}}, {"id": "b", "model": {"name": "own"}},
    ]}  # fmt: skip
    path.write_text(json.dumps(shared), encoding="utf-8")
    first, second = read_rows(path)
    assert first["model"] == {"name": "small", "layers": 3, "vocab": 8, "seq_len": 4}  # a row's own values come first
    assert second["model"] == {"name": "own"}
    for like in ("large", 3, None, ["small"]):
        path.write_text(json.dumps({"models": {"small": {}}, "rows": [{"model": {"like": like}}]}), encoding="utf-8")
        with pytest.raises(InputError, match="The file has no model"):
            read_rows(path)


WILD = (None, True, -1, 0, 1e308, math.nan, math.inf, "", "x", [], [1], {}, {"a": 1}, 10**400)
PLACES = [
    (name, key, inner)
    for name in ("perf-0013", "perf-0041", "perf-0482", "perf-0514")
    for key, value in _row(name).items()
    for inner in (None, *(value if isinstance(value, dict) else ()))
]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLACES), st.sampled_from(WILD))
def test_no_value_in_a_row_is_an_error(place: tuple[str, str, str | None], value: Any) -> None:
    name, key, inner = place
    row = _row(name)
    row[key] = value if inner is None else row[key] | {inner: value}
    (found,) = validate([row])
    assert found.predicted_s is None or 0 < found.predicted_s < math.inf
    for one in served_rows([row]).values():
        assert one.found.predicted is None or 0 < one.found.predicted < math.inf
    json.dumps(validation_result([found], "a file", served_rows([row])).document)


def test_stated_operations_show_what_a_row_leaves_out() -> None:
    # Gemma 4 E2B has wider MLPs in its later layers, which the row does not say; MaxText's TFLOP/s do.
    found = published_step(_row("perf-0004"))
    assert isinstance(found, PublishedStep)
    assert found.stated_work == pytest.approx(1.31, abs=0.01)
    why = next(row.why for row in FOUND if row.row == "perf-0004")
    assert why.startswith("the TFLOP/s that it states are 1.31 times those of the dimensions that it states")
    for row in FOUND:
        made = published_step(_row(row.row))
        if (
            isinstance(made, PublishedStep)
            and made.stated_work is not None
            and row.row not in ("perf-0004", "perf-0026")
        ):
            assert made.stated_work == pytest.approx(1, abs=0.02)


def test_what_all_tokens_pass_beside_the_experts_has_its_own_width() -> None:
    # Gemma 4 26B has no dense layer, so that its d_ff can only be that of the MLP beside the experts.
    (layer, *_) = model_of_row(_row("perf-0006")).layers
    assert isinstance(layer.mlp, Experts)
    assert (layer.mlp.hidden, layer.mlp.shared_hidden) == (704, 2112)
    last = model_of_row(_row("perf-0000")).layers[-1]
    assert isinstance(last.mlp, Experts)
    assert (last.mlp.hidden, last.mlp.shared_hidden) == (2048, 2048)  # here d_ff is that of the dense layers
