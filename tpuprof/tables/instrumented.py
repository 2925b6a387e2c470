"""Kernels inside which the tracer left marks: measuring them changed them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tpuprof.quality import Quality
from tpuprof.tables.arrays import ints
from tpuprof.tables.rows import CoreRecord, OpInfo
from tpuprof.tables.schemas import COMPUTE_KINDS

MARK_SLACK_PS = 5_000  # times of marks are rounded to ticks of the host's mapping


def instrumented_kernels(records: Sequence[CoreRecord], infos: Sequence[OpInfo]) -> list[Quality]:
    """A quality entry if marks lie inside compute ops, with the ops' names, else none."""
    compute = np.array([info.cls.kind in COMPUTE_KINDS for info in infos] or [False], np.bool_)
    names = Counter[str]()
    marks = marked_ps = compute_ps = 0
    for record in records:
        times, ops = record.marks, record.ops
        if times is None:
            continue
        rows = np.flatnonzero(compute[ops.info] & (ops.duration > 0))
        compute_ps += int(ops.duration[rows].sum())
        at = np.searchsorted(ops.start[rows], times, side="right") - 1
        inside = (at >= 0) & (times >= ops.start[rows][at] + MARK_SLACK_PS) if len(rows) else np.zeros(0, np.bool_)
        inside = inside & (times <= ops.end[rows][at] - MARK_SLACK_PS) if len(rows) else inside
        marks += int(inside.sum())
        for row in ints(rows[np.unique(at[inside])]) if len(rows) else ():
            names[infos[int(ops.info[row])].name] += int(ops.duration[row])
            marked_ps += int(ops.duration[row])
    if not names:
        return []
    largest = [name for name, _ in names.most_common(6)]
    return [
        Quality(
            "instrumented_kernel",
            "warning",
            f"{marks} mark(s) of the tracer lie inside {len(names)} kernel(s), {marked_ps / compute_ps:.1%} of the "
            f"compute time: {', '.join(largest)}{' …' if len(names) > 6 else ''}. Marks keep instructions from "
            "running side by side: these kernels are faster without them. Take scopes out of kernels to time them.",
            len(names),
            {"ops": [name for name, _ in names.most_common(100)], "marks": marks, "fraction": marked_ps / compute_ps},
        )
    ]
