"""Collectives against what the links allow: those far below their bound, and small ones that could be one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tpuprof.analysis import AnalysisResult, Context, Finding
from tpuprof.perfmodel.collective_time import CollectiveTime
from tpuprof.units import PS_PER_S, format_percent, format_ps, format_si
from tpuprof_analyzers.common import PAGES, ROWS, of_step, place, top_rows

LOW = 0.5
EXPOSED = 0.1
"""Of asynchronous collectives the window is their transfer only if the end of it was waited for: this share of it."""
NO_BOUND = ("latency", "embedded ring", "none")
"""Regimes whose time is no strict bound of the transfer."""
_KEYS = ["op", "kind", "form", "module", "scope", "source", "mesh_axes"]
_FIGURES = ("count", "transfer_ps", "exposed_ps", "bytes", "participants")
_ASPECTS = ("steps", "cores", "hlo", "hardware")
_ADVICE = {
    "line": "its mesh axis does not close to a ring, so only one direction carries data: an axis of full length (16 "
    "chips on v5e and v6e, multiples of 4 elsewhere) or spread over two torus axes has twice the bandwidth and more",
    "dcn": "it crosses slices: reduce within the slice first, and keep only data parallelism between slices",
    "tree": "it crosses nodes: keep tensor parallelism within a node",
}


@dataclass(frozen=True, slots=True)
class _Group:
    """One collective instruction: its row of sums and means, and what it should take."""

    row: dict[str, Any]
    time: CollectiveTime
    bound_ps: float

    @property
    def is_small(self) -> bool:
        """Whether starting it takes longer than its bytes."""
        known = self.time.calibration
        started = known is not None and known.t0_s >= self.bound_ps / PS_PER_S / known.c
        return self.time.regime == "latency" or started

    @property
    def share(self) -> float:
        """The bound over the measured transfer."""
        return self.bound_ps / self.row["transfer_ps"] if self.row["transfer_ps"] else 1.0


class CollectiveRates:
    """Collectives under half of their bound, and many small ones."""

    name = "collective_rates"
    rules = ("TPU305", "TPU306")
    needs = ("breakdown",)
    pages = PAGES

    def run(self, context: Context) -> AnalysisResult:
        """At most one finding per rule."""
        if not context.matters((context.breakdown or {"parts": {}})["parts"]["collective_exposed_ps"]):
            return AnalysisResult()
        rows, unmet = _measured(context)
        groups: list[_Group] = []
        reasons: list[str] = []
        for row in rows:
            known = context.roofline.prediction(row["op"], row["kind"], row["module"])
            time = None if known is None else known.time
            if time is None or time.seconds is None:
                reasons.append((known.reason if known is not None else "") or "The HLO of a collective is not known.")
            else:
                groups.append(_Group(row, time, time.seconds * PS_PER_S))
        unmet += sorted(set(reasons))[:ROWS]
        return AnalysisResult((*_slow(context, groups), *_many(context, groups)), tuple(unmet))


def _measured(context: Context) -> tuple[list[dict[str, Any]], list[str]]:
    """Instructions with their transfers, the one with the most exposed time first, and what cannot be told."""
    frame = context.collectives
    frame = frame.take(np.flatnonzero(frame["exposed_ps"].notna().to_numpy()))
    known = frame["transfer_ps"].notna().to_numpy()
    unmet: list[str] = []
    if not known.all():
        unmet.append(f"Of {int((~known).sum())} collective(s) the transfer is not told apart from waiting.")
    exposed, window = (frame[name].astype("float64").to_numpy() for name in ("exposed_ps", "window_ps"))
    waited_for = (frame["form"] == "sync").to_numpy() | (exposed >= EXPOSED * window)
    frame = frame.take(np.flatnonzero(known & waited_for))
    transfer = frame["transfer_ps"].astype("float64")
    values = frame[_KEYS].astype("object").where(frame[_KEYS].notna(), None)
    values = values.assign(
        count=1,
        transfer_ps=transfer,
        # What no compute hides, without waiting for others.
        exposed_ps=np.minimum(frame["exposed_ps"].astype("float64"), transfer),
        bytes=frame["bytes"].astype("float64"),
        participants=frame["participants"].astype("float64"),
    )
    grouped = values.groupby(_KEYS, dropna=False, sort=False)
    sums = grouped[["count", "transfer_ps", "exposed_ps"]].sum()
    sums = sums.join(grouped[["bytes", "participants"]].max()).reset_index()
    sums = sums.assign(all_ps=sums["exposed_ps"]).sort_values(["all_ps", "op"], ascending=[False, True], kind="stable")
    sums = sums.assign(transfer_ps=sums["transfer_ps"] / sums["count"], exposed_ps=sums["exposed_ps"] / sums["count"])
    return top_rows(sums, (*_KEYS, *_FIGURES), len(sums)), unmet


def _slow(context: Context, groups: list[_Group]) -> list[Finding]:
    pairs = max(context.pairs, 1)
    far = [
        (group, min(group.row["exposed_ps"], group.row["transfer_ps"] - group.bound_ps) * group.row["count"] / pairs)
        for group in groups
        if group.time.regime not in NO_BOUND and not group.is_small and group.bound_ps and group.share < LOW
    ]
    far.sort(key=lambda pair: (-pair[1], pair[0].row["op"]))
    ps = sum(gain for _, gain in far)
    if not context.matters(ps):
        return []
    rows = [_evidence(group, could_save_ps=gain) for group, gain in far[:ROWS]]
    first, top = rows[0], far[0][0]
    shared = f" {top.time.shared:g} groups share the busiest link." if top.time.shared > 1 else ""
    place_ = context.roofline.place
    return [
        context.finding(
            "TPU305",
            "Collectives run far below their bound",
            f"{len(far)} collective(s) take more than twice what the links allow, waiting left out: at most "
            f"{of_step(context, ps)} more. First {first['op']}{place(first)}: {format_ps(first['transfer_ps'])} for "
            f"{format_si(first['bytes'], 'B')} where {format_ps(first['bound_ps'])} would do "
            f"({format_percent(first['bound_fraction'])} of the bound, {first['regime']}).{shared}",
            _advice(top),
            ps,
            confidence=context.confidence(*_ASPECTS, at_most="medium"),
            evidence={"slice": None if place_.where is None else place_.source, "collectives": rows},
            scope=_scope(first),
        )
    ]


def _advice(group: _Group) -> str:
    """What to try, by what limits the slowest."""
    why = _ADVICE.get(group.time.regime)
    parts = [f"The regime of the first is {group.time.regime}: {why}." if why else ""]
    if group.time.shared > 1:
        parts.append(
            "Order the mesh so that the members of a group are neighbours (jax.make_mesh, mesh_utils), and groups no "
            "longer share links."
        )
    parts.append(
        "Otherwise look for another collective or a copy at the same time, for groups that are not where the bound "
        "assumes them (--topology names the slice), and for many small arrays in one collective."
    )
    return " ".join(part for part in parts if part)


def _many(context: Context, groups: list[_Group]) -> list[Finding]:
    """Small collectives of one kind over the same devices: together they would start once."""
    pairs = max(context.pairs, 1)
    alike: dict[tuple[Any, ...], list[_Group]] = {}
    for group in groups:
        if group.is_small and group.time.regime != "none":
            row = group.row
            alike.setdefault((row["module"], row["kind"], row["participants"], row["mesh_axes"]), []).append(group)
    found: list[tuple[float, float, list[_Group]]] = []
    for members in alike.values():
        runs = sum(group.row["count"] for group in members) / pairs
        if runs <= 1:
            continue
        # Joined, all but one of the starts are saved; what the bytes need stays.
        starts = sum(_start_ps(group) * group.row["count"] for group in members) / pairs
        found.append((starts * (1.0 - 1.0 / runs), runs, members))
    found.sort(key=lambda item: -item[0])
    ps = sum(gain for gain, _, _ in found)
    if not context.matters(ps):
        return []
    _, runs, members = found[0]
    members = sorted(members, key=lambda group: -group.row["exposed_ps"] * group.row["count"])
    first = members[0].row
    sets = [
        {
            "kind": each[0].row["kind"],
            "module": each[0].row["module"],
            "mesh_axes": each[0].row["mesh_axes"],
            "participants": each[0].row["participants"],
            "per_step": number,
            "could_save_ps": saved,
        }
        for saved, number, each in found[:ROWS]
    ]
    return [
        context.finding(
            "TPU306",
            "Many small collectives",
            f"{runs:,.4g} {first['kind'].replace('_', ' ')}(s) per step are so small that starting them takes longer "
            f"than their bytes. Joined, small collectives would take at most {of_step(context, ps)} less. The largest "
            f"is {first['op']}{place(first)}: {format_si(first['bytes'], 'B')} in {format_ps(first['transfer_ps'])}.",
            "Join them: reduce one flattened array (or a pytree in one psum) instead of many leaves, compute norms and "
            "metrics in one reduction at the end of the step, take them out of inner loops, and let XLA's combiners "
            "work (do not lower their thresholds).",
            ps,
            confidence=context.confidence(*_ASPECTS, at_most="medium"),
            evidence={"sets": sets, "collectives": [_evidence(group) for group in members[:ROWS]]},
            scope=_scope(first),
        )
    ]


def _start_ps(group: _Group) -> float:
    """Exposed transfer of one beyond what its bytes need."""
    bytes_ps = 0.0 if group.time.regime == "latency" else group.bound_ps
    return max(min(group.row["exposed_ps"], group.row["transfer_ps"] - bytes_ps), 0.0)


def _evidence(group: _Group, **more: Any) -> dict[str, Any]:
    expected = group.time.expected_s
    return {
        **group.row,
        "bound_ps": group.bound_ps,
        "bound_fraction": group.share,
        "expected_ps": None if expected is None else expected * PS_PER_S,
        "regime": group.time.regime,
        "shared": group.time.shared,
        **more,
    }


def _scope(row: dict[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("op", "module", "scope", "source")}
