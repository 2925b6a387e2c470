"""How often change points are found where there is none, and where there is one: ``python -m tests.history.rates [N]``.

Prints the tables of ``docs/history.md``. Too long for the tests, which check a few of the same cases.
"""

from __future__ import annotations

import sys

from tests.history.test_changepoints import noisy
from tpuprof.history.changepoints import change_points


def false_alarms(n: int, rho: float, count: int) -> float:
    """The share of series without a change in which one is found."""
    found = (change_points(noisy(n, seed, rho=rho, spread=0.05)) for seed in range(count))
    return sum(map(bool, found)) / count


def power(n: int, after: int, effect: float, count: int) -> float:
    """The share of series with a change before their last values in which it is found near its place; 1 % noise."""
    hits = 0
    for seed in range(count):
        values = noisy(n, seed)
        values[n - after :] *= 1 + effect
        hits += any(abs(change.index - (n - after)) <= 2 for change in change_points(values))
    return hits / count


def main() -> None:
    """Both tables as Markdown."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rhos, effects = (0.0, 0.3, 0.5, 0.7), (0.03, 0.05, 0.10)
    print("| no change, runs | " + " | ".join(f"correlation {rho:g}" for rho in rhos) + " |")
    print("|---:|" + "---:|" * len(rhos))
    for n in (12, 20, 50, 200):
        print(f"| {n} | " + " | ".join(f"{100 * false_alarms(n, rho, count):.1f} %" for rho in rhos) + " |")
    print("\n| a change under 1 % noise | " + " | ".join(f"by {100 * effect:g} %" for effect in effects) + " |")
    print("|---|" + "---:|" * len(effects))
    for n, after in ((12, 6), (20, 3), (30, 15), (50, 3), (50, 5)):
        shares = (f"{100 * power(n, after, effect, count):.0f} %" for effect in effects)
        print(f"| in the last {after} of {n} runs | " + " | ".join(shares) + " |")


if __name__ == "__main__":
    main()
