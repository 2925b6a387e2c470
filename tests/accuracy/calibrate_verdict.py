"""Writes tests/accuracy/verdict.md, the section of docs/accuracy.md on how often verdicts are wrong; takes a while.

python -m tests.accuracy.calibrate_verdict [--workers N] [--share S]

A share below 1 takes fewer repetitions. Then run `python -m tests.accuracy`, which puts the section into the page.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.accuracy.verdict_noise import KINDS, capture
from tpuprof.compare.verdict import Thresholds, judge

SECTION = Path(__file__).with_name("verdict.md")
TITLE = "## Verdicts on step times"
RHOS = (0.0, 0.3, 0.5, 0.7)
SDS = (0.005, 0.02, 0.05)
SIZES = (20, 50, 200)
SLOWDOWN = 1.03
COUNTS, BETWEEN = (2, 3, 5), (0.002, 0.01, 0.05)  # captures a side, and how their levels scatter
SEED = 6
REPEATS = 200


@dataclass(frozen=True)
class Cell:
    """Pairs of sides that are drawn alike, but for a slowdown of the new one."""

    kind: str = "normal"
    rho: float = 0.0
    sd: float = 0.01
    n: int = 50
    level: float = 1.0
    captures: int = 1
    between: float = 0.0  # the standard deviation between captures, as a share
    paired: bool = False  # the two captures of a pair share their level

    def key(self) -> list[int]:
        """Numbers for the seed: what is drawn depends on the cell alone."""
        kinds = list(KINDS)
        shares = [round(1000 * share) for share in (self.rho, self.sd, self.level, self.between)]
        return [SEED, kinds.index(self.kind), *shares, self.n, self.captures, int(self.paired)]


def verdicts(cell: Cell, repeats: int) -> Counter[str]:
    """How often each verdict is given with the default thresholds."""
    rng = np.random.default_rng(cell.key())
    counts: Counter[str] = Counter()
    for _ in range(repeats):
        levels = 1 + cell.between * rng.standard_normal((2, cell.captures))
        if cell.paired:
            levels[1] = levels[0]
        levels[1] *= cell.level
        base, new = (
            [capture(rng, kind=cell.kind, rho=cell.rho, sd=cell.sd, n=cell.n, level=float(at)) for at in side]
            for side in levels
        )
        counts[judge(base, new, paired=cell.paired).verdict] += 1
    return counts


def pooled_alarms(results: dict[Cell, Counter[str]]) -> dict[tuple[str, float, float], float]:
    """False alarms by kind, scatter and rho, over all numbers of steps."""
    pooled: dict[tuple[str, float, float], Counter[str]] = {}
    for cell in AA:
        pooled.setdefault((cell.kind, cell.sd, cell.rho), Counter()).update(results[cell])
    return {key: alarms(counts) for key, counts in pooled.items()}


def alarms(counts: Counter[str]) -> float:
    """The share that are called a change."""
    return (counts["regressed"] + counts["improved"]) / counts.total()


AA = [Cell(kind, rho, sd, n) for kind in KINDS for sd in SDS for n in SIZES for rho in RHOS]
POWER = [Cell(kind, rho, 0.01, n, SLOWDOWN) for kind in KINDS for n in SIZES for rho in RHOS]
SEVERAL = [
    Cell(rho=0.5, n=20, captures=captures, between=between, paired=paired, level=level)
    for level in (1.0, SLOWDOWN)
    for paired in (False, True)
    for between in BETWEEN
    for captures in COUNTS
]


def section(results: dict[Cell, Counter[str]]) -> str:
    """The section, from the verdicts of every cell."""
    worst = max(pooled_alarms(results).values())
    passes = max(results[cell]["unchanged"] / results[cell].total() for cell in POWER)
    limits = Thresholds()
    text = [
        TITLE,
        "",
        f"What `tpuprof.compare.verdict.judge` says, with its default thresholds ({100 * limits.relative:g} %,"
        f" alpha {limits.alpha:g}), of captures that are drawn from a known law"
        f" ({', '.join(str(n) for n in sorted({r.total() for r in results.values()}))} pairs a cell). How it decides:"
        " [verdict.md](verdict.md).",
        "",
        "Noise is first-order autoregressive with correlation rho between neighbouring steps. Kinds:",
        "",
        *[f"* *{kind}*: {what};" for kind, what in KINDS.items()],
        "",
        "### False alarms",
        "",
        "Both sides are the same program, one capture each: the percentage called `regressed` or `improved`."
        " No more than 1 % over the three numbers of steps together is required; the worst of these has"
        f" {100 * worst:.2f} %. A single cell is known to about 0.5.",
        "",
        *_grid(AA, results, lambda counts: 100 * alarms(counts), by_sd=True),
        "",
        "### Slowdowns found",
        "",
        "The new side is 3 % slower, single steps scatter by 1 %, one capture each: the percentage called `regressed`."
        f" Never more than {100 * passes:.1f} % were called `unchanged`; the rest is `cannot_tell`.",
        "",
        *_grid(POWER, results, lambda counts: 100 * counts["regressed"] / counts.total(), by_sd=False),
        "",
        "### Several captures",
        "",
        "Captures of 20 steps (normal, rho 0.5, 1 %) whose levels differ by the standard deviation given."
        " The percentage of false alarms, and of slowdowns by 3 % that are found.",
        "",
        *_several(results),
    ]
    return "\n".join(text) + "\n"


def _grid(
    cells: Sequence[Cell], results: dict[Cell, Counter[str]], number: Callable[[Counter[str]], float], *, by_sd: bool
) -> list[str]:
    head = ["noise", *(["scatter"] if by_sd else []), "steps", *[f"rho {rho:g}" for rho in RHOS]]
    rows = [_row(head), _row(["---"] * (len(head) - len(RHOS)) + ["---:"] * len(RHOS))]
    lines: dict[tuple[str, float, int], list[str]] = {}
    for cell in cells:
        lines.setdefault((cell.kind, cell.sd, cell.n), []).append(f"{number(results[cell]):.1f}")
    for (kind, sd, n), numbers in lines.items():
        rows.append(_row([kind, *([f"{100 * sd:g} %"] if by_sd else []), str(n), *numbers]))
    return rows


def _several(results: dict[Cell, Counter[str]]) -> list[str]:
    rows = [
        _row(["captures a side", "between captures", "false alarms", "found", "pairs: false alarms", "pairs: found"]),
        _row(["---:"] * 6),
    ]
    for between in BETWEEN:
        for captures in COUNTS:
            row = [str(captures), f"{100 * between:g} %"]
            for paired in (False, True):
                for level in (1.0, SLOWDOWN):
                    cell = Cell(rho=0.5, n=20, captures=captures, between=between, paired=paired, level=level)
                    counts = results[cell]
                    share = alarms(counts) if level == 1.0 else counts["regressed"] / counts.total()
                    row.append(f"{100 * share:.1f}")
            rows.append(_row(row))
    return rows


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Draws all cells and writes the section."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.calibrate_verdict", description=__doc__)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0)
    options = parser.parse_args()
    cells = [*AA, *POWER, *SEVERAL]
    repeats = [max(20, round(options.share * REPEATS))] * len(cells)
    with ProcessPoolExecutor(options.workers) as pool:
        results = dict(zip(cells, pool.map(verdicts, cells, repeats), strict=True))
    SECTION.write_text(section(results), encoding="utf-8")
    bad = {key: share for key, share in pooled_alarms(results).items() if share > 0.01}
    for key, share in bad.items():
        print(f"{100 * share:.2f} % false alarms: {key}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
