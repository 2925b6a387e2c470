"""The page docs/accuracy.md: for every program and quantity the truth, and what each tool says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.accuracy import cpu_cases, gpu_cases, host_cases, tpu_cases
from tests.accuracy.measured import measured_by_tpuprof
from tests.accuracy.published import published_section
from tests.accuracy.step_memory import memory_section
from tests.accuracy.truth import QUANTITIES, Case, truth_of
from tests.accuracy.xprof import Readings, ask_xprof, closest, readings

INTRODUCTION = Path(__file__).with_name("introduction.md")  # states the tolerances below, too
VERDICTS = Path(__file__).with_name("verdict.md")  # made by calibrate_verdict.py, which takes long
PAIRS = Path(__file__).with_name("pairs.md")  # made by planted_pairs.py, on a real machine
ALWAYS = ("step", "compute", "collective exposed", "collective hidden", "idle")
RELATIVE_TOLERANCE = 0.005
ABSOLUTE_TOLERANCE_PS = 50_000
RIGHT, WRONG, NOT_GIVEN = "right", "**wrong**", "-"
GROUPS = (
    ("TPU: the device's own time", tpu_cases.CASES),
    ("TPU: waiting for the host", host_cases.CASES),
    ("GPU", gpu_cases.CASES),
    ("CPU backend", cpu_cases.CASES),
)


@dataclass(frozen=True)
class Line:
    """One quantity of one program; times in ps, null where a tool gives none."""

    quantity: str
    truth: float
    tpuprof: float | None
    xprof: float | None
    xprof_tool: str

    @property
    def verdicts(self) -> tuple[str, str]:
        """What is to be said of tpuprof and of XProf."""
        return _verdict(self.tpuprof, self.truth), _verdict(self.xprof, self.truth)


def is_right(value: float, truth: float) -> bool:
    """One tolerance for both tools."""
    return abs(value - truth) <= max(ABSOLUTE_TOLERANCE_PS, RELATIVE_TOLERANCE * abs(truth))


def lines_of(case: Case, mine: dict[str, float | None], theirs: Readings) -> list[Line]:
    """The quantities that say something about a program: the main ones, and all that are not 0 for someone."""
    truth = truth_of(case)
    result: list[Line] = []
    for quantity in QUANTITIES:
        if quantity not in truth:
            continue
        tool, value = closest(theirs[quantity], truth[quantity]) if theirs.get(quantity) else ("", None)
        line = Line(quantity, truth[quantity], mine[quantity], value, tool)
        if quantity in ALWAYS or truth[quantity] or WRONG in line.verdicts:
            result.append(line)
    return result


def page(real: str | None) -> str:
    """The whole page; ``real`` is the section on real traces, null if they are not at hand."""
    cases = [(title, [make() for make in makers]) for title, makers in GROUPS]
    every = [case for _, group in cases for case in group]
    said = ask_xprof([{host.name: case.trace.to_bytes(host.name) for host in case.trace} for case in every])
    lines = {
        case.name: lines_of(case, measured_by_tpuprof(case.trace), readings(case, answer))
        for case, answer in zip(every, said, strict=True)
    }
    text = [
        INTRODUCTION.read_text(encoding="utf-8"),
        *_summary([line for group in lines.values() for line in group], len(every)),
    ]
    for title, group in cases:
        text += [f"## {title}", ""]
        for case in group:
            text += [f"### {case.name}", "", case.what, "", *_table(lines[case.name]), ""]
    text += [VERDICTS.read_text(encoding="utf-8"), PAIRS.read_text(encoding="utf-8"), published_section()]
    text += [memory_section()]
    if real is not None:
        text += [real]
    return "\n".join(text).rstrip("\n") + "\n"


def _summary(lines: Sequence[Line], programs: int) -> list[str]:
    rows: list[str] = []
    for quantity in QUANTITIES:
        mine = [line for line in lines if line.quantity == quantity]
        if mine:
            counts = [[line.verdicts[tool] for line in mine] for tool in (0, 1)]
            cells = [f"{c.count(RIGHT)} / {c.count(WRONG)} / {c.count(NOT_GIVEN)}" for c in counts]
            rows.append(f"| {quantity} | {len(mine)} | {cells[0]} | {cells[1]} |")
    return [
        "## Summary",
        "",
        f"{programs} programs; right / wrong / not given.",
        "",
        "| quantity | programs | tpuprof | XProf 2.24 |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def _table(lines: Sequence[Line]) -> list[str]:
    rows = ["| quantity | truth | tpuprof | | XProf | | read from |", "|---|---:|---:|---|---:|---|---|"]
    for line in lines:
        mine, theirs = line.verdicts
        rows.append(
            f"| {line.quantity} | {_us(line.truth)} | {_us(line.tpuprof)} | {mine} | {_us(line.xprof)} | "
            f"{theirs if line.xprof is not None else ''} | {line.xprof_tool} |"
        )
    return rows


def _verdict(value: float | None, truth: float) -> str:
    return NOT_GIVEN if value is None else RIGHT if is_right(value, truth) else WRONG


def _us(ps: Any) -> str:
    return "-" if ps is None else f"{ps / 1_000_000:.2f}".removesuffix("0").removesuffix("0").removesuffix(".")
