"""Names in Markdown."""

from __future__ import annotations

import pytest
from tpuprof_dashboards.text import plain, sentence

JOINER = "\u2060"


@pytest.mark.parametrize("name", [":material/bug:", ":bug:", ":+1:", ":-1:", ":100:", "a:smile_cat:b"])
def test_icons_and_emoji_are_broken_up(name: str) -> None:
    """Streamlit looks for them in the text that Markdown leaves, so that no escape helps."""
    shown = plain(name).replace("\\", "")
    assert name not in shown
    assert shown.replace(JOINER, "") == name


@pytest.mark.parametrize("name", ["aten::sub.Tensor", "file.py:10:5", "a:b", "host/TPU:0, host/TPU:1"])
def test_other_colons_are_left_alone(name: str) -> None:
    assert plain(name).replace("\\", "") == name


def test_a_sentence_has_no_backquotes() -> None:
    assert sentence("Check `--chip` of `<b>`.").replace("\\", "") == "Check --chip of <b>."
