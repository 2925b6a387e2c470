"""Programs that are compiled inside the captured window, and why there are several of one function."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.analysis import AnalysisResult, Context, Finding
from tpuprof.hlo.shapes import Shape
from tpuprof.tables.hostwork import HOST_CAUSES
from tpuprof.tables.sweep import Spans, union
from tpuprof.units import format_ps
from tpuprof_analyzers.common import PAGES, of_step, program_of, when
from tpuprof_analyzers.hostside import GapView, gap_view, idle_means, per_step, recurrence

if TYPE_CHECKING:
    from tpuprof.trace import Trace

COMPILE, DISPATCH = HOST_CAUSES.index("compile"), HOST_CAUSES.index("dispatch")
SHAPES_NAMED = 4
_CALL = re.compile(r"PjitFunction\((?P<name>.*)\)\Z", re.DOTALL)


class Recompile:
    """Compilation inside the window, with function, steps and the shapes that changed."""

    name = "recompile"
    rules = ("TPU431",)
    needs = ("breakdown",)
    pages = PAGES

    def run(self, context: Context) -> AnalysisResult:
        """One finding if compilation keeps devices idle."""
        ps = idle_means(context).get("compile")
        if ps is None:
            return AnalysisResult(unmet=("Compilation cannot be placed between device work: clocks do not compare.",))
        if not context.matters(ps):
            return AnalysisResult()
        return AnalysisResult((_finding(context, ps),))


def _finding(context: Context, ps: float) -> Finding:
    series = per_step(context, "idle_compile_ps")
    steps, period = recurrence(context, series)
    view = gap_view(context)
    steps = steps if view is None else view.host_steps(steps, "compile")
    compilations = [] if view is None else _compilations(context, view)
    variants = _variants(context.trace)
    functions = list(dict.fromkeys(row["function"] for row in compilations if row["function"]))
    named = " of " + ", ".join(functions[:3]) if functions else ""
    changes = [text for variant in variants for text in variant["changed_inputs"]]
    changed = f" Inputs that changed: {'; '.join(changes[:SHAPES_NAMED])}." if changes else ""
    count = len(compilations)
    return context.finding(
        "TPU431",
        "Programs are compiled inside the loop",
        f"Devices wait for {f'{count} compilation(s)' if count else 'compilation'}{named}: {of_step(context, ps)}, up "
        f"to {format_ps(float(series.max()))} at once, in {when(steps, period, len(series))}.{changed}",
        "Every new shape, dtype, sharding or static argument compiles the function again. Pad the last batch or drop "
        "it (drop_remainder), bucket lengths, keep Python scalars that change out of static arguments; "
        "jax.log_compiles() names the cause, and the persistent compilation cache helps on restart.",
        ps,
        confidence=context.confidence("steps", "host"),
        evidence={
            "steps": steps[:50],
            "period_steps": period,
            "compilations": compilations[:10],
            "programs": variants[:5],
        },
        scope={"function": functions[0] if functions else None, "step": steps[0] if steps else None},
    )


def _compilations(context: Context, view: GapView) -> list[dict[str, Any]]:
    """Stretches of compilation on the host of the core that is idle most: function, step, start and length."""
    if view.view is None:
        return []
    work = view.view.work
    mine = work.cause == COMPILE
    calls = np.flatnonzero(
        (work.cause == DISPATCH) & np.isin(work.name, [row for row, name in enumerate(work.names) if _CALL.match(name)])
    )
    # Phases of one compilation (lowering, backend) lie in one call of the function; without calls, side by side.
    spans = union(Spans(work.start[mine], work.end[mine]))
    steps = context.partition[(context.partition["device"] == view.device).to_numpy()]
    start_of = steps["start_ps"].to_numpy(np.int64)
    end_of = start_of + steps["duration_ps"].to_numpy(np.int64)
    numbers = steps["step"].to_numpy(np.int64)
    rows: dict[tuple[int, str | None], dict[str, Any]] = {}
    for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True):
        inside = calls[(work.start[calls] <= start) & (work.end[calls] >= end)]
        function = None
        if len(inside):
            innermost = inside[np.argmin(work.end[inside] - work.start[inside])]
            match = _CALL.match(work.names[int(work.name[innermost])])
            function = None if match is None else match["name"]
        at = np.flatnonzero((start_of < end) & (end_of > start))
        if not len(at):
            continue
        annotated = view.view.step_at(start)
        step = int(numbers[at[-1]]) if annotated is None else annotated
        row = rows.setdefault(
            (step, function), {"function": function, "step": step, "start_ps": start, "compile_ps": 0}
        )
        row["compile_ps"] += end - start
    longest = max((row["compile_ps"] for row in rows.values()), default=0)
    return [row for row in rows.values() if row["compile_ps"] >= 0.05 * longest]


def _variants(trace: Trace) -> list[dict[str, Any]]:
    """Functions that ran as several programs, with the inputs in which each differs from the most frequent one."""
    modules = trace.modules["module"].value_counts(sort=True)
    by_function: dict[str, list[str]] = {}
    for label, count in modules.items():
        if count:
            by_function.setdefault(str(label).rpartition("(")[0] or str(label), []).append(str(label))
    rows: list[dict[str, Any]] = []
    for function, labels in by_function.items():
        if len(labels) < 2:
            continue
        usual = _inputs(trace, labels[0])
        changed: dict[str, None] = {}
        for label in labels[1:]:
            for number, (a, b) in enumerate(zip(usual, _inputs(trace, label), strict=False)):
                if a != b:
                    changed.setdefault(f"parameter {number} from {a} to {b}")
        rows.append({"function": function, "programs": len(labels), "changed_inputs": list(changed)[:20]})
    return rows


def _inputs(trace: Trace, label: str) -> list[str]:
    """The shapes of a program's parameters on one device; empty without its HLO."""
    program = program_of(trace, label)
    return [] if program is None else [_shape(p.shape) for p in program.entry.parameters]


def _shape(shape: Shape) -> str:
    return f"{shape.dtype}[{','.join(map(str, shape.dims))}]"
