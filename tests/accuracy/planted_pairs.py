"""What the comparison says of pairs of real CPU captures that differ in one thing, and of those that differ in nothing.

``python -m tests.accuracy.planted_pairs [--folder DIR] [--tries N] [--same N] [--write]`` captures all pairs, three
minutes on a quiet machine, and prints what is said of them. With ``--write`` it writes pairs.md; then run
``python -m tests.accuracy``, which puts it into the page. The exit status is 1 if a cause was not named, a sum is not
exact, or the same program was called changed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import tpuprof
from tests.compare.pairs import DEVICES, PAIRS, STEPS, Pair, capture, load_average, rows_sum
from tpuprof.compare import Origin, differences, explain
from tpuprof.compare.outcome import Verdict
from tpuprof.compare.samples import Samples
from tpuprof.compare.verdict import judge, samples_of
from tpuprof.trace import Trace

SECTION = Path(__file__).with_name("pairs.md")
TITLE = "## Causes of planted changes"


@dataclass(frozen=True)
class Try:
    """One pair of captures, compared."""

    pair: Pair
    load: float
    base_ps: float
    delta_ps: float
    coverage: float
    residual_ps: float
    exact: bool
    causes: tuple[Origin, ...]
    rank: int | None
    told: bool
    samples: tuple[Samples, Samples]

    @property
    def verdict(self) -> Verdict:
        return judge([self.samples[0]], [self.samples[1]])

    @property
    def found(self) -> bool:
        return self.rank == 1 and self.told and self.exact


def compared(pair: Pair, base: Trace, new: Trace) -> Try:
    """What is said of two captures."""
    found = explain(base, new)
    assert found.base_step_ps is not None
    assert found.step_delta_ps is not None
    assert found.residual_ps is not None
    assert found.matched_time_fraction is not None
    causes = found.causes
    return Try(
        pair=pair,
        load=load_average(),
        base_ps=found.base_step_ps,
        delta_ps=found.step_delta_ps,
        coverage=found.matched_time_fraction,
        residual_ps=found.residual_ps,
        exact=found.residual_ps == 0 and abs(rows_sum(found) - found.step_delta_ps) < 0.5,
        causes=causes,
        rank=next((n for n, cause in enumerate(causes, 1) if pair.named(cause)), None),
        told=pair.told(differences(base, new, found)),
        samples=(samples_of(base), samples_of(new)),
    )


def tried(pair: Pair, folder: Path) -> Try:
    """Captures both sides, the base first, and compares them."""
    base = tpuprof.load(capture(pair.base, folder / "base"))
    return compared(pair, base, tpuprof.load(capture(pair.new, folder / "new", flag=pair.flag)))


def several(same: Sequence[Try]) -> list[Verdict]:
    """Verdicts on five captures a side of the same program, and on the same as pairs."""
    groups = [same[at : at + SEVERAL] for at in range(0, len(same) - SEVERAL + 1, SEVERAL)]
    return [
        judge([each.samples[0] for each in group], [each.samples[1] for each in group], paired=paired)
        for paired in (False, True)
        for group in groups
    ]


SAME = Pair("the same program")
SEVERAL = 5


def section(tries: Sequence[Try], same: Sequence[Try]) -> str:
    """The section of the page."""
    loads = sorted(each.load for each in (*tries, *same))
    found = sum(each.found for each in tries)
    text = [
        TITLE,
        "",
        f"Real captures of a small training loop on {DEVICES} virtual CPU devices, {STEPS} steps a side, that differ"
        " in one thing. Other programs ran on the machine's two cores meanwhile (load average"
        f" {loads[0]:.1f} to {loads[-1]:.1f}, median {median(loads):.1f}). The cause that is named first was the"
        f" planted one in {found} of {len(tries)} tries; *sure* is how much of it the comparison takes for no chance:"
        " what more or fewer ops make, also where the busy machine made the whole faster, and of the rest what lies"
        " beyond two standard errors."
        " How causes are found and ranked: [comparing.md](comparing.md).",
        "",
        "The CPU backend computes bf16 matmuls in f32, so that what bf16 costs there is conversions; a layer in f64"
        " really computes in another type.",
        "",
        *_rows(tries),
        "",
        f"The same program captured twice, {len(same)} pairs: "
        + _counted([each.verdict for each in same])
        + f". {SEVERAL} captures a side, independent or in pairs: {_counted(several(same))}."
        " The mean step of the two captures differed by"
        f" {100 * max(abs(each.delta_ps) / each.base_ps for each in same):.0f} % at most, by"
        f" {100 * median(abs(each.delta_ps) / each.base_ps for each in same):.0f} % in the median.",
    ]
    return "\n".join(text) + "\n"


def _counted(verdicts: Sequence[Verdict]) -> str:
    words = Counter(verdict.verdict for verdict in verdicts)
    return ", ".join(f"{count} `{word}`" for word, count in sorted(words.items())) or "none"


def _rows(tries: Sequence[Try]) -> list[str]:
    head = [
        "changed",
        "step, ms",
        "difference, ms",
        "covered",
        "residual, ps",
        "first cause",
        "its part, ms",
        "sure, ms",
    ]
    rows = [head, ["---", "---:", "---:", "---:", "---:", "---", "---:", "---:"]]
    for each in tries:
        first = each.causes[0]
        rows.append(
            [
                each.pair.name,
                f"{each.base_ps / 1e9:.2f}",
                f"{each.delta_ps / 1e9:+.2f}",
                f"{100 * each.coverage:.1f} %",
                f"{each.residual_ps:g}",
                _said(first) + ("" if each.found else f" (**wrong**, planted one at {each.rank})"),
                f"{first.delta_ps / 1e9:+.3f}",
                f"{first.sure_ps / 1e9:.3f}",
            ]
        )
    return [f"| {' | '.join(row)} |" for row in rows]


def _said(cause: Origin) -> str:
    change = f" ({cause.base or 'none'} to {cause.new or 'none'})" if cause.base or cause.new else ""
    return f"{cause.what}: {cause.where or 'program'}{change}".replace("|", "/").replace("*", r"\*")


def main() -> int:
    """Captures, prints and writes."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy.planted_pairs", description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--same", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="write pairs.md")
    options = parser.parse_args()
    if options.tries < 1 or options.same < 1:
        parser.error("at least one try of each")
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = Path(made)
        tries = [
            tried(pair, folder / f"{number}-{turn}")
            for number, pair in enumerate(PAIRS)
            for turn in range(options.tries)
        ]
        same = [tried(SAME, folder / f"same-{turn}") for turn in range(options.same)]
    text = section(tries, same)
    print(text)
    for each in tries:
        if not each.found:
            print(f"{each.pair.name}: rank {each.rank}, told {each.told}, exact {each.exact}")
            for cause in each.causes[:4]:
                print(f"    {_said(cause)}: {cause.delta_ps / 1e9:+.3f} ms, sure {cause.sure_ps / 1e9:.3f}")
    if options.write:
        SECTION.write_text(text, encoding="utf-8")
    wrong = [each for each in same if each.verdict.verdict in ("regressed", "improved") or not each.exact]
    for each in wrong:
        print(f"same: {each.verdict.verdict} {each.verdict.reason}")
    changed = [verdict for verdict in several(same) if verdict.verdict in ("regressed", "improved")]
    for verdict in changed:
        print(f"same, {SEVERAL} a side: {verdict.verdict} {verdict.reason}")
    return 1 if wrong or changed or not all(each.found for each in tries) else 0


if __name__ == "__main__":
    sys.exit(main())
