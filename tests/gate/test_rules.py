"""The rules of comparisons and of the gate have pages, and the pages are theirs."""

from __future__ import annotations

import pytest

from tpuprof.compare import rule_findings
from tpuprof.gate import check
from tpuprof.rules import all_pages, comparison_pages, find_page

TITLES = {**rule_findings.TITLES, **check.TITLES}
SECTIONS = ["## Why it costs", "## What to try", "## How it is measured", "## When it is wrong"]


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    assert {page.rule: page.title for page in comparison_pages()} == TITLES
    assert {page.rule for page in comparison_pages()} <= {page.rule for page in all_pages(())}


@pytest.mark.parametrize("rule", sorted(TITLES))
def test_pages_say_the_five_things(rule: str) -> None:
    page = find_page(rule, all_pages(()))
    assert [line for line in page.text.splitlines() if line.startswith("#")] == SECTIONS
    assert page.text.index(SECTIONS[0]) > 20
    assert page.quality is None
