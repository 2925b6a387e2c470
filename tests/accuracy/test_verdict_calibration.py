"""The bars that verdicts have to meet: in a short simulation, and in the long one whose numbers are published."""

from __future__ import annotations

from collections import Counter
from itertools import product
from statistics import fmean

import pytest

from tests.accuracy import calibrate_verdict
from tests.accuracy.calibrate_verdict import AA, POWER, RHOS, SECTION, SIZES, SLOWDOWN, Cell, alarms, section, verdicts
from tests.accuracy.verdict_noise import KINDS

MOST_ALARMS = 0.01
LEAST_FOUND = 0.95


def published(title: str) -> list[list[str]]:
    """The rows of numbers below a title."""
    text = SECTION.read_text(encoding="utf-8").split(f"### {title}\n")[1].split("\n### ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return rows[2:]


def test_few_alarms_without_a_change() -> None:
    """The hardest cells, fewer times than the page: the same draws every time."""
    counts: Counter[str] = Counter()
    for kind, rho, n in product(KINDS, (0.0, 0.7), (20, 50)):
        counts += verdicts(Cell(kind, rho, 0.05, n), 30)
    assert alarms(counts) <= MOST_ALARMS


def test_a_slowdown_is_found() -> None:
    counts = sum((verdicts(Cell(rho=rho, level=SLOWDOWN), 40) for rho in (0.0, 0.7)), Counter[str]())
    assert counts["regressed"] >= LEAST_FOUND * counts.total()
    assert not counts["improved"]
    assert not counts["unchanged"]


def test_captures_that_differ_raise_no_alarm() -> None:
    """Sides of ten are judged by their scatter; sides of one would be taken for a change a dozen times."""
    assert alarms(verdicts(Cell(n=20, captures=10, between=0.02), 40)) == 0
    assert alarms(verdicts(Cell(n=20, captures=1, between=0.02), 40)) > 0.2
    assert verdicts(Cell(n=20, captures=10, between=0.01, level=SLOWDOWN), 20)["regressed"] >= 19


def test_the_published_numbers_meet_the_bars() -> None:
    rows = published("False alarms")
    assert len(rows) * len(RHOS) == len(AA)
    for at in range(0, len(rows), len(SIZES)):
        shares = [[float(cell) for cell in row[3:]] for row in rows[at : at + len(SIZES)]]
        assert max(map(fmean, zip(*shares, strict=True))) <= 100 * MOST_ALARMS, rows[at]
        assert max(map(max, shares)) <= 3 * 100 * MOST_ALARMS  # a cell alone is a rough figure
    found = {(row[0], int(row[1])): [float(cell) for cell in row[2:]] for row in published("Slowdowns found")}
    assert set(found) == set(product(KINDS, SIZES))
    assert min(found["normal", 50][:3] + found["normal", 200]) >= 100 * LEAST_FOUND
    assert found["normal", 50][3] >= 90  # at rho 0.7, 50 steps are worth 9


@pytest.mark.parametrize("cell", [Cell("skewed", 0.3, n=20, level=SLOWDOWN), Cell("normal", 0.7, n=20, level=SLOWDOWN)])
def test_the_published_numbers_are_of_this_code(cell: Cell) -> None:
    row = next(row for row in published("Slowdowns found") if row[:2] == [cell.kind, str(cell.n)])
    counts = verdicts(cell, calibrate_verdict.REPEATS)
    assert row[2 + RHOS.index(cell.rho)] == f"{100 * counts['regressed'] / counts.total():.1f}"


def test_the_section_shows_the_worst(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [*AA, *POWER, *calibrate_verdict.SEVERAL]
    results = {cell: Counter({"cannot_tell": 90, "unchanged": 10}) for cell in cells}
    results[AA[5]] = Counter({"regressed": 2, "improved": 1, "cannot_tell": 97})
    text = section(results)
    assert "the worst of these has 1.00 %." in text
    assert "Never more than 10.0 % were called `unchanged`" in text
    assert text.count("| 3.0 |") == 1
