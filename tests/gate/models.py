"""Runs for the gate: pairs with a known change, files of step times, and the command line."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.compare.models import NS, Op, built, layers, renumbered

US = 1_000 * NS
Run = Callable[..., tuple[int, str, str]]
BASE = [replace(op, ps=op.ps * 1_000) for op in layers(4)]
SLOW = renumbered([replace(op, ps=2 * op.ps) if "/attn" in (op.scope or "") else op for op in BASE])


def write_run(directory: Path, ops: Sequence[Op] = BASE, **options: object) -> Path:
    """A run of twelve steps as a log directory; 160 us a step (200 us for ``SLOW``)."""
    built(ops, **{"steps": 12, **options}).write(directory)  # type: ignore[arg-type]
    return directory


def write_steps(path: Path, seconds: Sequence[float]) -> Path:
    path.write_text("step_time_s\n" + "".join(f"{value!r}\n" for value in seconds))
    return path


def f28(path: Path) -> tuple[Path, Path, Path]:
    """Files of step times: a base, the same with one long last step, and all 8 % slower."""
    rng = random.Random(28)
    common = [0.400 * (1 + 0.01 * rng.uniform(-1, 1)) for _ in range(499)]
    base = write_steps(path / "base.csv", [*common, 0.400])
    odd = write_steps(path / "odd.csv", [*common, 0.807])
    slow = write_steps(path / "slow.csv", [value * 1.08 for value in [*common, 0.400]])
    return base, odd, slow


def f28_jobs(path: Path) -> tuple[list[Path], list[Path]]:
    """Eight jobs, each with a base and a new run of 50 steps on a machine of its own speed, the new one 8 % slower."""
    rng = random.Random(28)
    base: list[Path] = []
    new: list[Path] = []
    for job in range(8):
        factor = 1 + rng.uniform(-0.26, 0.26)
        times = [[0.400 * factor * (1 + 0.01 * rng.uniform(-1, 1)) for _ in range(50)] for _ in range(2)]
        base.append(write_steps(path / f"base{job}.csv", times[0]))
        new.append(write_steps(path / f"new{job}.csv", [value * 1.08 for value in times[1]]))
    return base, new
