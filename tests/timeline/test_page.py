"""The timeline on a page without a browser: it mounts, answers, and says when there is nothing to draw."""

from __future__ import annotations

import pytest

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest


def page_of_a_run() -> None:
    import streamlit as st
    from tpuprof_dashboards.timeline import timeline

    from tests.timeline.made import made_model

    found = timeline(
        made_model(1000, devices=2), key="t", search="matmul", go=("there", 10, 2000), on_view=lambda *_: None
    )
    st.text(f"selected: {found}")


def page_of_nothing() -> None:
    import streamlit as st
    from tpuprof_dashboards.timeline import TimelineModel, timeline
    from tpuprof_dashboards.timeline.items import Items

    empty = TimelineModel("empty", (), Items(()), 0, 1, (0, 1))
    st.text(f"selected: {timeline(empty, key='t')}")


def test_a_page_with_a_timeline_runs() -> None:
    page = AppTest.from_function(page_of_a_run, default_timeout=30).run()
    assert not page.exception
    assert page.text[0].value == "selected: None"


def test_a_run_without_events_says_so() -> None:
    page = AppTest.from_function(page_of_nothing, default_timeout=30).run()
    assert not page.exception
    assert page.info[0].value == "This run has no event that takes time: there is nothing to draw."
    assert page.text[0].value == "selected: None"
