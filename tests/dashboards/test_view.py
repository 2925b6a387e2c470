"""What is looked at, to a query string and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tpuprof_dashboards.view import PICKS, View

_NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True).filter(lambda name: name not in PICKS)
_VALUES = st.text(min_size=1, max_size=50)


def test_a_link_says_all_that_was_picked() -> None:
    view = View.parse({"run": "r1", "steps": "3:8", "kind": "matmul"}).changed(devices="TPU:0", op="fusion.1")
    assert view.params() == {"run": "r1", "steps": "3:8", "devices": "TPU:0", "kind": "matmul", "op": "fusion.1"}
    assert view.changed(op="", steps=None).params() == {"run": "r1", "devices": "TPU:0", "kind": "matmul"}


@settings(max_examples=40)
@given(st.dictionaries(st.one_of(_NAMES, st.sampled_from(PICKS)), _VALUES, max_size=20))
def test_a_query_string_and_its_view_are_the_same(params: dict[str, str]) -> None:
    assert View.parse(params).params() == params
    assert View.parse(View.parse(params).params()) == View.parse(params)


@settings(max_examples=40)
@given(
    st.dictionaries(st.text(max_size=40), st.one_of(st.text(max_size=50), st.lists(st.text(max_size=5))), max_size=80)
)
def test_whatever_the_url_says_is_a_view_of_bounded_size(params: dict[str, str | list[str]]) -> None:
    view = View.parse(params)
    assert len(view.params()) <= 44
    assert View.parse(view.params()) == view


def test_the_last_of_several_values_counts_and_what_is_too_long_does_not() -> None:
    assert View.parse({"kind": ["a", "b"], "q": "x" * 3000, "Bad Name": "1", "op": []}).params() == {"kind": "b"}


def test_a_filter_no_url_can_hold_is_a_mistake_of_the_page() -> None:
    with pytest.raises(ValueError, match="cannot be the name of a filter"):
        View().changed(No="1")
