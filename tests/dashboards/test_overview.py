"""Page Overview: the figures of the report, its parts, and findings with their evidence and places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from tpuprof_dashboards.findings import place_of

from tests.dashboards.harness import SAMPLES, charts, page_test, problems, sample_report, texts
from tests.dashboards.odd import HOSTILE, ODD
from tpuprof.units import format_percent, format_ps

RUNS = ("tpu_two_hosts", "tpu_loop_async", "cpu_demo")


def tiles(test: AppTest) -> dict[str, str]:
    """The figures by label."""
    return {metric.label: metric.value for metric in test.metric}


@pytest.mark.parametrize("run", RUNS)
def test_its_figures_are_those_of_the_report(run: str) -> None:
    report = sample_report(run)
    test = page_test("overview", SAMPLES / run)
    assert problems(test) == []
    shown, breakdown = tiles(test), report["breakdown"]
    assert shown["Step p50"] == format_ps(report["steps"]["p50_ps"])
    assert shown["MFU"] == format_percent(report["roofline"]["mfu"], 1)
    for label, part in (("Exposed comm.", "collective_exposed_ps"), ("Idle", "idle_ps")):
        assert shown[label] == format_percent(breakdown["parts"][part] / breakdown["step_ps"], 1)
    assert format_ps(breakdown["step_ps"]) in texts(test).replace("\\", "")
    for finding in report["findings"]:
        assert finding["rule"] in texts(test)


def test_the_bar_of_the_mean_step_has_every_part() -> None:
    test = page_test("overview", SAMPLES / "tpu_two_hosts")
    (mean, steps) = charts(test)
    for text in ("matmul 312.5 us · 39.1 %", "collective, exposed 200 us · 25.0 %", "idle 100 us · 12.5 %"):
        assert text in mean
    assert "time of the step" in steps


@pytest.mark.parametrize(("chart", "name"), [("device", "cores"), ("ladder", "ladder"), ("junk", "steps")])
def test_the_url_says_which_chart_is_shown(chart: str, name: str) -> None:
    test = page_test("overview", SAMPLES / "tpu_two_hosts", chart=chart)
    assert problems(test) == []
    assert f'"name": "{name}"' in charts(test)[-1]


def test_a_finding_shows_its_evidence_and_leads_to_its_op() -> None:
    test = page_test("overview", SAMPLES / "tpu_two_hosts")
    links = {link.proto.label: link.proto.query_string for link in test.get("page_link")}
    assert "op=all-reduce.3" in links["Collectives: all\\-reduce\\.3"]
    assert any("confidence" in expander.label for expander in test.expander)
    assert "- kinds: all\\_reduce 120 us, all\\_gather 80 us" in texts(test)


def finding(rule: str, **scope: Any) -> dict[str, Any]:
    return {"rule": rule, "scope": scope}


def test_every_rule_has_a_page_and_only_filters_that_it_honours() -> None:
    from tpuprof_analyzers.rules import __path__ as folders

    rules = sorted(path.stem for folder in folders for path in Path(folder).glob("TPU*.md"))
    assert len(rules) > 30
    for rule in rules:
        assert place_of(finding(rule)) is not None, rule
    place = place_of(finding("TPU301", op="all-reduce.1", module="jit_f(1)", source="a.py:3"))
    assert place is not None
    assert (place.slug, dict(place.filters)) == ("collectives", {"op": "all-reduce.1", "of": "jit_f(1)"})
    place = place_of(finding("TPU311", device="h/TPU:1", step=None, module="jit_f(1)"))
    assert place is not None
    assert (place.slug, dict(place.filters)) == ("steps", {"device": "h/TPU:1"})
    assert place_of(finding("ACME1")) is None
    other = place_of(finding("ACME1", op="dot.1", module="m"))
    assert other is not None
    assert other.slug == "ops"
    assert place_of(finding("TPU301", module="m")) is not None
    assert dict(place_of(finding("TPU301", module="m")).filters) == {}  # type: ignore[union-attr]


@pytest.mark.parametrize("run", ODD)
def test_odd_runs_are_shown_or_say_why_not(odd: Path, run: str) -> None:
    test = page_test("overview", odd, run=run)
    assert problems(test) == []
    if run == "no_devices":
        assert "The trace holds no device work." in texts(test)
    elif run == "no_steps":
        assert tiles(test)["Recorded"] == "100 us"
        assert "What was recorded, 100 us" in texts(test)
    else:
        assert tiles(test)["Step p50"] in ("100 us", "1 ms")


def test_names_of_a_trace_are_never_markup(odd: Path) -> None:
    test = page_test("overview", odd, run="hostile")
    assert HOSTILE not in texts(test)
    assert "\\<img src\\=x onerror\\=alert\\(1\\)\\>" in texts(test)
    assert not any(HOSTILE in label for label in (link.proto.label for link in test.get("page_link")))
