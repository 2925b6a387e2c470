"""The points of a roofline chart: ops with their intensity and rate, those of the same work together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpuprof.charts.drawing import number, positive, shortened
from tpuprof.palette import LOOKS, part_of_kind
from tpuprof.text import clean, plural
from tpuprof.units import PS_PER_S, format_percent, format_ps, format_si

MEMORIES = {"hbm": "HBM", "vmem": "VMEM"}


def roofline_points(ops: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """What can be drawn, the point with the most self time first; and a sentence on what cannot.

    Ops of one program and kind that do the same work are one point, named by the one with the most time: ``op`` and
    ``program`` are its name and program as they are, ``members`` the names of all.
    """
    alike: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    unknown = still = total = 0.0
    for op in ops:
        part = part_of_kind(op.get("kind"))
        self_ps = positive(op, "self_ps") or 0.0
        if LOOKS[part].group != "compute":
            continue
        total += self_ps
        flops = number(op.get("flops"))
        memory = next((name for name in MEMORIES if positive(op, f"{name}_bytes")), None)
        if flops is None or (memory is None and flops > 0):
            unknown += self_ps
        elif flops <= 0 or memory is None:
            still += self_ps
        elif self_ps:
            key = (op.get("module"), part, flops, op[f"{memory}_bytes"], memory)
            alike.setdefault(key, []).append(op)
    points = [_point(members, *key[1:]) for key, members in alike.items()]
    points = [point for point in points if number(point["rate"]) and number(point["intensity"])]
    points.sort(key=lambda point: (-point["self_ps"], point["name"], point["module"]))
    parts = [
        f"{format_percent(share / total, 1)} {what}"
        for share, what in ((unknown, "in ops whose cost is not known"), (still, "in ops that compute nothing"))
        if total and share / total >= 0.0005
    ]
    return points, f"Of the compute time, {' and '.join(parts)} cannot be shown." if parts else ""


def _point(members: Sequence[Mapping[str, Any]], part: str, flops: float, bytes_: float, memory: str) -> dict[str, Any]:
    """Ops of one program and kind that do the same work, such as those of a layer that repeats, as one point."""
    op = max(members, key=lambda member: (positive(member, "self_ps") or 0.0, clean(member.get("name"))))
    self_ps = sum(positive(member, "self_ps") or 0.0 for member in members)
    runs = sum(positive(member, "occurrences") or 1.0 for member in members)
    rate = flops * runs / (self_ps / PS_PER_S)
    intensity = flops / bytes_
    name = shortened(op.get("name"), 80)
    described = [
        f"{name} ({LOOKS[part].label})",
        f"self time {format_ps(self_ps)} in {runs:,.0f} executions on all cores",
        *([f"with {plural(len(members) - 1, 'op')} of the same work"] if len(members) > 1 else []),
        f"reaches {format_si(rate, 'FLOP/s')}",
        f"intensity {intensity:.4g} FLOP per byte of {MEMORIES[memory]}",
    ]
    by, efficiency = op.get("bound_by"), _mean_efficiency(members)
    if by:
        described.append(
            f"bound by {clean(by)}" + (f", at {format_percent(efficiency, 1)} of it" if efficiency else "")
        )
    return {
        "op": op.get("name"),
        "program": op.get("module"),
        "members": frozenset(str(member.get("name")) for member in members),
        "name": name,
        "module": shortened(op.get("module") or "", 80),
        "kind": LOOKS[part].label,
        "memory": MEMORIES[memory],
        "self_ps": self_ps,
        "self": format_ps(self_ps),
        "ops": len(members),
        "executions": runs,
        "intensity": intensity,
        "rate": rate,
        "reached": format_si(rate, "FLOP/s"),
        "bound_by": clean(by or "not known"),
        "efficiency": format_percent(efficiency, 1),
        "about": "\n".join(described),
    }


def _mean_efficiency(members: Sequence[Mapping[str, Any]]) -> float | None:
    """The efficiency of all members together, which is that of the sum of their times; null if one is not known."""
    needed = total = 0.0
    for member in members:
        efficiency, self_ps = number(member.get("roofline_efficiency")), positive(member, "self_ps")
        if efficiency is None or self_ps is None:
            return None
        needed += efficiency * self_ps
        total += self_ps
    return needed / total if total else None
