"""Page Compare."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpuprof_dashboards.text import plain

import tpuprof
from tests.dashboards.harness import SAMPLES, page_test, pair, problems, texts
from tpuprof.compare import diff
from tpuprof.report.diff import diff_document
from tpuprof.report.diff_page import sentence
from tpuprof.units import format_ps


@pytest.mark.parametrize("by", ["op", "scope"])
def test_it_says_what_diff_says(tmp_path: Path, by: str) -> None:
    base, new = pair(tmp_path)
    document = diff_document(diff(tpuprof.load(tmp_path, run=base), tpuprof.load(tmp_path, run=new)), by)
    test = page_test("compare", tmp_path, run=new, base=base, by=by)
    assert [p for p in problems(test) if "Regressed" not in p] == []
    shown = texts(test)
    assert plain(sentence(document)) in shown
    assert f"+{format_ps(document['step_delta_ps'])}" in shown
    table = test.dataframe[0].value
    assert len(table) == len(document["groups"])
    assert table["delta_ps"].iloc[0] > 0


def test_without_a_base_it_asks_for_one(tmp_path: Path) -> None:
    base, _ = pair(tmp_path)
    test = page_test("compare", tmp_path)
    assert problems(test) == []
    assert "Choose the run to compare with" in texts(test)
    test = page_test("compare", tmp_path, base="nothing-like-it")
    assert problems(test) == []
    assert "has no run" in texts(test)
    test = page_test("compare", tmp_path, run=base, base=base)
    assert problems(test) == []
    assert "nchanged" in texts(test) or "cannot" in texts(test).lower()


def test_runs_that_are_nothing_alike_are_said_to_be() -> None:
    test = page_test("compare", SAMPLES, run="2025_11_24_17_00_00", base="2025_11_24_16_00_00")
    assert [p for p in problems(test) if "Regressed" not in p] == []
    assert "annot" in texts(test)
