"""Requests are checked, answers are bounded, searches find what they should."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuprof_dashboards.timeline import payload, window
from tpuprof_dashboards.timeline.items import Item, Items
from tpuprof_dashboards.timeline.looks import COLOURS
from tpuprof_dashboards.timeline.model import Group, TimelineModel, Track
from tpuprof_dashboards.timeline.payload import block_columns, event_columns, layout, match_columns, window_data
from tpuprof_dashboards.timeline.rows import Events, make_rows
from tpuprof_dashboards.timeline.search import nearest, search
from tpuprof_dashboards.timeline.window import (
    MAX_ROWS,
    Request,
    Window,
    closed_at_first,
    first_request,
    parse_request,
    query,
)

from tests.timeline.made import events_of, items_of, made_model

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
FIELDS = ("t0", "t1", "width", "rows", "query", "near", "number")


@pytest.fixture(scope="module")
def model() -> TimelineModel:
    return made_model(20_000, devices=2)


def asked(model: TimelineModel, **changed: Any) -> Request | None:
    good: dict[str, Any] = {"t0": 100, "t1": 1e9, "width": 800, "rows": [[0, 3]], "query": "x", "near": 5, "number": 4}
    return parse_request({**good, **changed}, model)


def test_a_request_counts_from_the_start_of_the_timeline(model: TimelineModel) -> None:
    assert asked(model) == Request(model.start + 100, model.start + 10**9, 800, (0, 1, 2), "x", model.start + 5, 4)


@given(st.dictionaries(st.sampled_from(FIELDS), anything))
def test_no_request_of_a_browser_does_harm(raw: dict[str, Any]) -> None:
    small = small_model()
    request = asked(small, **raw)
    if request is not None:
        assert small.start <= request.t0 < request.t1 <= small.end
        assert all(0 <= row < len(small.rows) for row in request.rows)
        json.dumps(window_data(small, query(small, request))["window"])


@pytest.mark.parametrize(
    "raw", [None, 3, "x", [], {}, {"t0": 1, "t1": 1, "width": 3}, {"t0": 0, "t1": float("nan"), "width": 1}]
)
def test_what_is_no_request_is_none(raw: object, model: TimelineModel) -> None:
    assert parse_request(raw, model) is None


def test_rows_are_bounded(model: TimelineModel) -> None:
    big = made_model(1000, devices=200)
    request = asked(big, rows=[[-5, 10**9], [0, 10**18]])
    assert request is not None
    assert request.rows == tuple(range(MAX_ROWS))
    found = asked(model, rows=[[1, 2], [1, 3], "ab", [4], [2.0, 4]])
    assert found is not None
    assert found.rows == (1, 2, 3)


def test_the_first_request_is_the_view_with_half_of_it_on_both_sides() -> None:
    small = small_model()
    wide = first_request(small, (small.start + 40, small.start + 60))
    assert (wide.t0 - small.start, wide.t1 - small.start) == (30, 70)
    assert first_request(small).t0 == small.start


def test_of_many_devices_the_first_is_open_and_the_others_are_sketched() -> None:
    few, many = made_model(1000, devices=2), made_model(2000, devices=10)
    assert (closed_at_first(few), closed_at_first(many)) == (set(), set(range(1, 10)))
    assert first_request(few).rows == (0, 1, 2, 3, 4, 5)
    assert first_request(many).rows == (0, 1, 2, *range(4, 30, 3))
    assert [many.places[row].track.name for row in first_request(many).rows[3:]] == ["XLA Ops"] * 9


def test_an_answer_keeps_to_its_budget_and_loses_nothing(model: TimelineModel, monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(model.start, model.end, 4000, tuple(range(len(model.rows))))
    fine = query(model, request)
    monkeypatch.setattr(window, "BUDGET", len(fine) // 5)
    coarse = query(model, request)
    assert len(coarse) <= len(fine) // 5
    assert coarse.level > fine.level
    assert counted(coarse) == counted(fine) == model.n_events


def counted(answer: Window) -> int:
    return sum(len(each.event) + int((each.last - each.first).sum()) for each in answer.cuts)


def small_model(names: tuple[str, ...] = ("fusion.1", "Copy.2", "fusion.3")) -> TimelineModel:
    """Three ops of 10 ps, 30 ps apart, the last within a loop."""
    items = Items((*(Item(name, n, "matmul", f"scope/{n}") for n, name in enumerate(names)), Item("while", 14, "loop")))
    events = Events(
        np.array([1000, 1030, 1060, 1055], np.int64), np.array([1010, 1040, 1070, 1100], np.int64),
        np.array([0, 1, 2, 3], np.int32), np.array([10, 10, 10, 35], np.int64), np.array([True, True, False, True]),
    )  # fmt: skip
    track = Track("XLA Ops", "ops", *make_rows(events, items.colours), is_work=True)
    group = Group("/device:TPU:0", "h/TPU:0", (track,), "a note")
    return TimelineModel("run", (group,), items, 1000, 1100, (1000, 1100))


def test_columns_say_what_the_rows_hold() -> None:
    small = small_model()
    answer = query(small, Request(1000, 1100, 100, (0, 1), "fus"))
    assert answer.t0 == 1000 - 1000 % (1 << answer.level)
    columns = event_columns(small, answer)
    assert columns["row"].tolist() == [0, 0, 0, 1]
    assert (columns["start"] + answer.t0).tolist() == [1000, 1030, 1055, 1060]
    assert columns["item"].tolist() == [0, 1, 3, 2]
    np.testing.assert_array_equal(columns["length"], [10, 10, 45, np.nan])
    np.testing.assert_array_equal(columns["self"], [np.nan, np.nan, 35, np.nan])
    assert columns["position"].tolist() == [0, 1, 2, 0]
    found = match_columns(small, answer)
    assert (found["row"].tolist(), found["start"].tolist(), found["item"].tolist()) == ([0, 1], [0, 60], [0, 2])
    data = window_data(small, answer)
    assert data["window"]["found"] == 2
    assert {(row[1], row[8]) for row in data["items"]} == {
        ("fusion.1", 1),
        ("fusion.3", 1),
        ("Copy.2", 0),
        ("while", 0),
    }


def test_blocks_say_what_they_stand_for(model: TimelineModel) -> None:
    answer = query(model, Request(model.start, model.end, 200, (1,), "matmul"))
    blocks = block_columns(model, answer)
    (found,) = answer.cuts
    assert blocks["count"].sum() + len(found.event) == len(model.rows[1])
    assert (blocks["busy"] <= blocks["span"]).all()
    searched = sum(int(n) for n in blocks["hits"]) + int(np.isin(found.event, answer.hits.rows[1]).sum())  # type: ignore[union-attr]
    assert searched == len(answer.hits.rows[1])  # type: ignore[union-attr]


def test_an_empty_answer_has_typed_columns() -> None:
    small = small_model()
    data = window_data(small, query(small, Request(1000, 1001, 10, ())))
    assert data["events"].num_rows == data["blocks"].num_rows == data["matches"].num_rows == 0
    assert [str(t) for t in data["blocks"].schema.types] == [
        "uint16", "double", "double", "double", "int32", "int32", "uint8",
    ]  # fmt: skip


def test_answers_stay_below_two_megabytes_whatever_the_names() -> None:
    items = Items(tuple(Item(f"{n}" + "n" * 5000, 0, "host", "s" * 5000) for n in range(30_000)))
    rows: list[Track] = []
    for seed in range(30):
        events = events_of(np.random.default_rng(seed), 1000, 30_000)
        rows.append(Track("t", "", *make_rows(events, items.colours)))
    end = max(int(track.rows[0].events.end[-1]) for track in rows)
    big = TimelineModel("big", (Group("g", "", tuple(rows)),), items, 0, end, (0, end))
    data = window_data(big, query(big, Request(0, end, 3200, tuple(range(30)), "n")))
    tables = sum(data[name].nbytes for name in ("events", "blocks", "matches"))
    assert tables + len(json.dumps([data["items"], data["texts"], data["window"]])) < 2_000_000
    assert len(data["items"]) <= payload.MAX_ITEMS


def test_names_that_no_utf8_holds_are_sent_all_the_same() -> None:
    small = small_model(("\ud800broken", "a" * 5000, "</script>"))
    data = window_data(small, query(small, Request(1000, 1100, 100, (0, 1), "\ud800")))
    texts = json.dumps([layout(small), data["items"], data["texts"]]).encode("utf-8")
    assert b"</script>" in texts  # a text like any other: the page never reads it as markup
    assert max(len(row[1]) for row in data["items"]) <= payload.MAX_NAME + 1


@given(st.text(max_size=6))
def test_a_search_finds_what_reading_finds(text: str) -> None:
    small = small_model()
    hits = search(small, text)
    words = text.casefold().split()
    if not words:
        assert hits is None
        return
    assert hits is not None
    for row, found in zip(small.rows, hits.rows, strict=True):
        for n, item in enumerate(row.events.item.tolist()):
            of = small.items[item]
            read = all(
                any(w in t.casefold() for t in (of.name, of.kind, COLOURS[of.colour].label, of.scope, of.module))
                for w in words
            )
            assert (n in found) == read


def test_words_of_a_search_narrow_it() -> None:
    small = small_model()
    assert [len(search(small, text) or ()) for text in ("FUSION", "fusion scope/2", "copy fusion", "  copy  ")] == [
        2,
        1,
        0,
        1,
    ]
    assert search(small, "fusion") is search(small, " Fusion")


@given(st.integers(0, 40_000_000_000), st.integers(1, 60))
def test_the_nearest_matches_are_the_nearest(time: int, limit: int) -> None:
    big = made_model(400, devices=2)
    hits = search(big, "matmul")
    assert hits is not None
    found = nearest(big, hits, time, limit)
    pairs = list(zip(found.row.tolist(), found.position.tolist(), strict=True))
    starts = [int(big.rows[row].events.start[position]) for row, position in pairs]
    assert starts == sorted(starts)
    every = sorted(
        abs(int(start) - time) for row, of in zip(big.rows, hits.rows, strict=True) for start in row.events.start[of]
    )
    assert sorted(abs(start - time) for start in starts) == every[:limit]
    assert len(set(pairs)) == len(pairs) == min(limit, len(hits))


def test_the_layout_is_plain_and_numbers_rows_through(model: TimelineModel) -> None:
    told = json.loads(json.dumps(layout(model)))
    firsts = [(track["first"], track["rows"]) for group in told["groups"] for track in group["tracks"]]
    assert firsts == [(0, 1), (1, 2), (3, 1), (4, 2)]
    assert told["events"] == model.n_events
    assert told["span"] == model.end - model.start
    assert len(told["overview"]) > 100
    assert 0.5 < max(told["overview"]) <= 1


def test_items_are_told_apart_by_all_that_is_known() -> None:
    assert len(set(items_of(50).all)) == 50
