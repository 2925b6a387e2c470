"""What is published of planted changes meets the bars: each named first, each sum exact, no alarm without a change."""

from __future__ import annotations

import re

from tests.accuracy.planted_pairs import SECTION, TITLE
from tests.compare.pairs import PAIRS


def test_the_published_causes_are_the_planted_ones() -> None:
    text = SECTION.read_text(encoding="utf-8")
    assert text.startswith(TITLE)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"][2:]
    assert {row[0] for row in rows} == {pair.name for pair in PAIRS}
    for row in rows:
        pair = next(pair for pair in PAIRS if pair.name == row[0])
        assert row[5].split(":")[0] in pair.what
        assert "wrong" not in row[5]
        assert row[4] == "0"
        assert 50 < float(row[3].removesuffix(" %")) <= 100


def test_the_same_program_raised_no_alarm() -> None:
    text = SECTION.read_text(encoding="utf-8")
    found = re.search(r"captured twice, (\d+) pairs: (.*?)\. 5 captures a side, independent or in pairs: (.*?)\.", text)
    assert found is not None
    assert int(found[1]) >= 20
    for words in found.groups()[1:]:
        assert set(re.findall(r"`(\w+)`", words)) <= {"unchanged", "cannot_tell"}
