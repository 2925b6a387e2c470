"""The pages on steps, idle time and collectives on real runs of TPUs and a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dashboards.harness import charts, page_test, problems, texts

pytestmark = pytest.mark.real
SLUGS = ("overview", "steps", "idle", "collectives", "runs")


@pytest.mark.parametrize("run", ["v6e-4-host-offload", "v7x-2-prefill", "mi300-gemm"])
@pytest.mark.parametrize("slug", SLUGS)
def test_it_is_shown(real_traces: Path, run: str, slug: str) -> None:
    test = page_test(slug, real_traces, run=run)
    assert problems(test) == []
    assert len(texts(test)) > 100 or not test.dataframe[0].value.empty
    assert all(len(chart) < 400_000 for chart in charts(test))


def test_a_hundred_steps_of_host_offload_differ_by_next_to_nothing(real_traces: Path) -> None:
    test = page_test("steps", real_traces, run="v6e-4-host-offload")
    shown = {metric.label: metric.value for metric in test.metric}
    assert (shown["p50"], shown["Variation"]) == ("784.3 ms", "0.01 %")
    assert next(iter(test.dataframe[0].value["device"])) == "host/TPU:1"


def test_an_inference_step_waits_little_and_its_host_is_unknown(real_traces: Path) -> None:
    test = page_test("collectives", real_traces, run="v7x-2-prefill", split="wait", group="kind")
    assert "waiting for the last core: 68.61 us per step" in charts(test)[0]
    idle = page_test("idle", real_traces, run="v7x-2-prefill")
    assert "Causes on the host are not known" in texts(idle)
