"""Page Report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tpuprof_dashboards.pages.report import FORMS

from tests.dashboards.harness import RUNS, SAMPLES, Dashboard, page_test, problems, sample_report, settled
from tpuprof.report import render_report
from tpuprof.report.render import REPORT_FORMATS

RUN = RUNS["tpu_two_hosts"]


@pytest.mark.parametrize("form", [form for form in FORMS if form != "html"])
def test_every_format_is_what_the_command_writes(form: str) -> None:
    report = sample_report("tpu_two_hosts")
    test = page_test("report", SAMPLES, run=RUN, format=form)
    assert problems(test) == []
    assert test.code[0].value == render_report(report, form)[:60_000].strip()


def test_it_offers_all_formats_but_one_line_json() -> None:
    assert set(FORMS) == set(REPORT_FORMATS) - {"jsonl"}


def test_redacting_takes_hosts_out() -> None:
    assert "worker-1" in page_test("report", SAMPLES, run=RUN, format="md").code[0].value
    test = page_test("report", SAMPLES, run=RUN, format="md", redact="1")
    assert problems(test) == []
    assert "worker-1" not in test.code[0].value


def test_what_is_downloaded_is_whole_and_the_preview_may_run_nothing(samples: Dashboard, tab: Any) -> None:
    tab.goto(samples.url("report", run=RUN))
    tab.get_by_role("heading", name="Report").wait_for()
    settled(tab)
    frame = tab.locator("iframe[title='Report of the run']")
    frame.wait_for()
    assert frame.get_attribute("sandbox") == ""
    tab.frame_locator("iframe[title='Report of the run']").get_by_text("TPU301").first.wait_for()
    with tab.expect_download() as waiting:
        tab.get_by_role("button", name="Download HTML").click()
    written = Path(waiting.value.path()).read_text(encoding="utf-8")
    assert written == render_report(sample_report("tpu_two_hosts"), "html")
    assert waiting.value.suggested_filename == f"tpuprof-{RUN}.html"
    with tab.expect_download() as waiting:
        tab.get_by_role("button", name="For speedscope").click()
    assert json.loads(Path(waiting.value.path()).read_text(encoding="utf-8"))["profiles"]
