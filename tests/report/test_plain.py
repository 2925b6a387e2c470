"""Names are made safe before they are shown."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.report.listing import md, to_csv
from tpuprof.text import clean, csv_text, number_ranges, plural


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("fusion.3", "fusion.3"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("\x1b]0;title\x1b\\name", "name"),
        ("\x1b]unterminated", "unterminated"),
        ("\x9b31mred", "red"),
        ("\x1bPq#0\x1b\\name", "name"),
        ("a\nb\r\n\tc", "a b c"),
        ("a\x00b\x07", "a\ufffdb\ufffd"),
        ("abc\u202edef\u200b", "abc\ufffddef\ufffd"),
        ("\ud800", "\ufffd"),
        ("größe 尺寸", "größe 尺寸"),
        (7, "7"),
    ],
)
def test_clean(raw: object, shown: str) -> None:
    assert clean(raw) == shown


@given(st.text(st.characters(codec=None), max_size=80))
def test_clean_leaves_no_control_character_and_changes_nothing_twice(text: str) -> None:
    once = clean(text)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", once)
    assert clean(once) == once
    once.encode("utf-8")


@given(st.text(max_size=60))
def test_markdown_cells_hold_no_live_markup(text: str) -> None:
    shown = md(text)
    assert not re.search(r"(?<!\\)(?:\\\\)*[|*`\[\]~]", re.sub(r"\\[\\`*_\[\]|#~]", "", shown))
    assert "<" not in shown
    assert "\n" not in shown


def test_plural() -> None:
    assert [plural(1, "core"), plural(0, "core"), plural(1200, "entry")] == ["1 core", "0 cores", "1,200 entries"]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"), ("+1", "'+1"), ("-x", "'-x"), ("@SUM(1)", "'@SUM(1)"), (" =1", "' =1"),
        ("\t=1", "' =1"), ("\x1b[31m=1", "'=1"), ("a=b", "a=b"), ("fusion.1", "fusion.1"), ("", ""), ("'=1", "'=1"),
    ],
)  # fmt: skip
def test_a_csv_cell_is_no_formula(raw: str, shown: str) -> None:
    assert csv_text(raw) == shown


def test_csv_keeps_numbers_as_they_are() -> None:
    rows = [{"name": "=1+1", "a": -5, "b": -0.5, "c": None, "d": True}]
    assert to_csv(rows, ("name", "a", "b", "c", "d")) == "name,a,b,c,d\n'=1+1,-5,-0.5,,true\n"


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1, 2], "0 to 2"),
        ([0, 2, 3, 9], "0, 2 to 3, 9"),
        (range(0, 20, 2), "0, 2, 4, 6, 8, 10 …"),
    ],
)
def test_number_ranges(numbers: Sequence[int], shown: str) -> None:
    assert number_ranges(numbers) == shown
