"""How the documents of the table commands, and the tables of the report, are shown to people."""

from __future__ import annotations

from typing import Any

from tpuprof.palette import LOOKS, present_parts
from tpuprof.report.listing import Field, Listing, show_count, show_text
from tpuprof.report.roofline import COST_FIELDS
from tpuprof.text import plural
from tpuprof.units import UNKNOWN, format_bytes, format_percent, format_ps, format_si


def _show_bandwidth(value: float | None) -> str:
    return format_si(value, "B/s", 3)


def _show_short_percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f}"


def _show_inside(value: bool | None) -> str:
    return {True: "program", False: "between"}.get(value, UNKNOWN) if value is not None else UNKNOWN


_OP_FIELDS = (
    Field("kind", "kind", rank=2, role="kind"),
    Field("occurrences", "count", show_count, right=True, rank=3),
    Field("total_ps", "total", format_ps, right=True, rank=4),
    Field("self_ps", "self", format_ps, right=True),
    Field("mean_ps", "mean", format_ps, right=True, rank=1),
    Field("self_fraction", "share", format_percent, right=True),
)
_SCOPE = Field("scope", "scope", rank=5, role="tail")
_MODULE = Field("module", "module", rank=6, role="name")

_GAP_FIELDS = (
    Field("device", "core", role="tail"),
    Field("step", "step", show_text, right=True, rank=1),
    Field("start_ps", "start", format_ps, right=True, rank=3),
    Field("duration_ps", "length", format_ps, right=True),
    Field("inside_run", "where", _show_inside, rank=4),
    Field("before_op", "after op", rank=2, role="name"),
    Field("after_op", "before op", rank=2, role="name"),
)

_AXES = Field("mesh_axes", "axes", rank=2, role="name")
_COLLECTIVE_FIELDS = (
    Field("name", "collective", role="name"),
    Field("kind", "kind", rank=2),
    Field("count", "count", show_count, right=True, rank=3),
    Field("participants", "group", show_count, right=True, rank=4),
    _AXES,
    Field("bytes", "bytes", format_bytes, right=True, rank=2),
    Field("window_ps", "window", format_ps, right=True, rank=1),
    Field("exposed_ps", "exposed", format_ps, right=True),
    Field("hidden_ps", "hidden", format_ps, right=True),
    Field("wait_ps", "wait", format_ps, right=True, rank=3),
    Field("algorithm_bandwidth", "bandwidth", _show_bandwidth, right=True, rank=5),
)
_PREDICTED = (
    Field("predicted_ps", "predicted", format_ps, right=True, rank=6),
    Field("bound_fraction", "of bound", lambda value: format_percent(value, 1), right=True, rank=3),
    Field("regime", "regime", rank=7),
)


def ops_listing(document: dict[str, Any], shown: int) -> Listing:
    """The ``ops`` document; shares are of the self time of all ops on all cores."""
    by, rows = document["by"], document["ops"]
    if by == "kind":
        fields = (Field("name", "kind", role="kind"), *_OP_FIELDS[1:])
    else:
        extra = _places(rows) if by == "op" else ()
        name = Field("name", by, role="name" if by in ("op", "module") else "tail")
        fields = (name, *_OP_FIELDS, *_costs(rows), *extra)
    title = f"Ops by {by}: self time over all cores, share of the self time of all ops"
    if by == "op":
        title = "Ops: self time over all cores, share of the self time of all ops"
    noun = "source line" if by == "source" else by
    return Listing(title, noun, fields, rows[:shown], document["total"])


def report_ops_listing(report: dict[str, Any], shown: int, op_time_ps: int) -> Listing:
    """The ops of the report."""
    rows = [
        {
            **op,
            "mean_ps": op["total_ps"] / op["occurrences"] if op["occurrences"] else None,
            "self_fraction": op["self_ps"] / op_time_ps if op_time_ps else None,
        }
        for op in report["ops"][:shown]
    ]
    fields = (Field("name", "op", role="name"), *_OP_FIELDS, *_costs(report["ops"]), *_places(report["ops"]))
    return Listing("Top ops: self time over all cores, share of all ops", "op", fields, rows, len(report["ops"]))


def _costs(rows: list[dict[str, Any]]) -> tuple[Field, ...]:
    """The columns of costs, where any op has one."""
    return tuple(field for field in COST_FIELDS if any(row.get(field.key) is not None for row in rows))


def _places(rows: list[dict[str, Any]]) -> tuple[Field, ...]:
    """Where ops belong; the module says nothing when there is only one."""
    several = len({row["module"] for row in rows}) > 1
    return (_MODULE, _SCOPE) if several else (_SCOPE,)


def collectives_listing(document: dict[str, Any], shown: int) -> Listing:
    """The collectives of the report or of their own document."""
    rows = document["collectives"]
    total = document.get("total", len(rows))
    title = "Collectives: means per occurrence, the most exposed time in all first"
    # Most programs do not name their mesh, and not every chip's links are known: no column for what is never known.
    optional = [field for field in (_AXES, *_PREDICTED) if not any(row.get(field.key) for row in rows)]
    fields = tuple(field for field in (*_COLLECTIVE_FIELDS, *_PREDICTED) if field not in optional)
    return Listing(title, "collective", fields, rows[:shown], total)


def gaps_listing(document: dict[str, Any], shown: int) -> Listing:
    """Idle stretches, longest first."""
    title = f"Gaps: idle stretches inside steps, longest first ({format_ps(document['total_ps'])} in all)"
    return Listing(title, "gap", _GAP_FIELDS, document["gaps"][:shown], document["total"])


def steps_listing(document: dict[str, Any]) -> Listing:
    """One row per step: the slowest core's time and its parts as shares of that core's step."""
    slowest: dict[int, dict[str, Any]] = {}
    cores: set[str] = set()
    for row in document["steps"]:
        cores.add(row["device"])
        held = slowest.get(row["step"])
        if held is None or row["duration_ps"] > held["duration_ps"]:
            slowest[row["step"]] = row
    rows = [_step_row(row) for _, row in sorted(slowest.items())]
    parts = present_parts([row["parts"] for row in slowest.values()])
    sizes = {part: sum(row["parts"][f"{part}_ps"] or 0 for row in slowest.values()) for part in parts}
    order = sorted(parts, key=lambda part: -sizes[part])
    fields = (
        Field("step", "step", right=True),
        Field("duration_ps", "time", format_ps, right=True),
        *(
            Field(
                f"fractions.{part}",
                f"{LOOKS[part].short} %",
                _show_short_percent,
                right=True,
                rank=order.index(part),
            )
            for part in parts
        ),
        *((Field("device", "core", rank=90, role="tail"),) if len(cores) > 1 else ()),
        *((Field("state", "state", rank=80),) if any(row["state"] for row in rows) else ()),
    )
    of = f"the slowest of {plural(len(cores), 'core')}" if len(cores) > 1 else "the only core"
    return Listing(f"Steps: per step {of}, parts in percent of that step", "step", fields, rows, len(rows))


def _step_row(row: dict[str, Any]) -> dict[str, Any]:
    window = row["duration_ps"]
    states = [
        word
        for word, holds in (
            ("cut", not row["complete"]),
            ("open", not row["closed"]),
            ("unmatched", not row["matched"]),
            ("capture start", row["transient"]),
        )
        if holds
    ]
    fractions = {
        key.removesuffix("_ps"): None if ps is None or not window else ps / window for key, ps in row["parts"].items()
    }
    return {**row, "fractions": fractions, "state": ", ".join(states)}
