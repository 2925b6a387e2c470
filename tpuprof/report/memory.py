"""The documents of the command ``memory``, of a run and of a saved memory profile, with their listings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.documents import head
from tpuprof.report.listing import Field, Listing, Result, show_count, show_text
from tpuprof.report.plain import records
from tpuprof.tables.schemas import MEMORY, MEMORY_SUMMARY
from tpuprof.units import format_bytes, format_percent, format_ps

if TYPE_CHECKING:
    from tpuprof.formats.pprof import MemoryProfile
    from tpuprof.roofline import RunHardware
    from tpuprof.trace import Trace

GROUPINGS = ("program", "buffer", "scope", "source")
_ALLOCATORS_SHOWN = 16
_PROGRAMS_SHOWN = 4  # of which text for people lists what is live
_GROUP_COLUMNS = ("module", "memory_space", "name", "buffers", "bytes", "peak_fraction")
_PROFILE_COLUMNS = ("kind", "device", "count", "bytes", "function", "source")

_MODULE = Field("module", "program", role="name")
_SPACE = Field("memory_space", "memory", show_text)
_PROGRAM_FIELDS = (
    _MODULE,
    _SPACE,
    Field("total_bytes", "needs", format_bytes, right=True),
    Field("peak_bytes", "peak", format_bytes, right=True),
    Field("arguments_bytes", "arguments", format_bytes, right=True, rank=2),
    Field("output_bytes", "output", format_bytes, right=True, rank=4),
    Field("aliased_bytes", "aliased", format_bytes, right=True, rank=6),
    Field("temp_bytes", "temp", format_bytes, right=True, rank=3),
    Field("padding_bytes", "padding", format_bytes, right=True, rank=7),
    Field("peak_op", "peak at", rank=5, role="name"),
)
_REASON = Field("reason", "unknown because", lambda value: "" if value is None else str(value), rank=1)
_LIVE_FIELDS = (
    Field("op", "op", role="name"),
    Field("kind", "kind", rank=2),
    Field("bytes", "bytes", format_bytes, right=True),
    Field("peak_fraction", "of the peak", format_percent, right=True),
    Field("shape", "shape", rank=4, role="name"),
    Field("scope", "scope", rank=1, role="tail"),
    Field("source", "source", rank=5, role="tail"),
)
_GROUP_FIELDS = (
    Field("buffers", "buffers", show_count, right=True, rank=1),
    Field("bytes", "bytes", format_bytes, right=True),
    Field("peak_fraction", "of the peak", format_percent, right=True),
)
_ALLOCATOR_FIELDS = (
    Field("allocator", "allocator", role="name"),
    Field("host", "host", rank=4, role="tail"),
    Field("max_bytes", "most taken", format_bytes, right=True),
    Field("max_at_ps", "at", format_ps, right=True, rank=1),
    Field("max_step", "step", show_text, right=True, rank=2),
    Field("max_reserved_bytes", "reserved", format_bytes, right=True, rank=3),
    Field("capacity_bytes", "capacity", format_bytes, right=True),
    Field("process_peak_bytes", "since start", format_bytes, right=True, rank=4),
    Field("max_fragmentation", "fragmented", format_percent, right=True, rank=5),
)


def memory_result(trace: Trace, by: str, top: int | None, shown: int) -> Result:
    """Memory of a run.

    The document holds ``programs`` (rows of table `memory_summary`, the largest need first), ``live`` and
    ``allocators`` (rows of that table). ``live`` is what is in use at the peaks: rows of table `memory` with their
    ``peak_fraction``, or for ``by`` scope or source their sums. ``total`` counts the rows of what was asked for,
    which are also the rows of CSV and JSON lines: programs for ``program``, else ``live``.

    Args:
        by: one of :data:`GROUPINGS`.
        top: how many rows to give at most, null for all.
        shown: how many of them the listings for people show at most.
    """
    programs = _programs(trace)
    order = {(row["module"], row["memory_space"]): at for at, row in enumerate(programs)}
    peaks = {(row["module"], row["memory_space"]): row["peak_bytes"] for row in programs}
    live = records(trace.memory)
    live.sort(key=lambda row: order[row["module"], row["memory_space"]])  # stable: largest first within a program
    columns = (*MEMORY.names, "peak_fraction")
    if by in ("scope", "source"):
        live, columns = memory_groups(live, by), _GROUP_COLUMNS
    for row in live:
        most = peaks[row["module"], row["memory_space"]]
        row["peak_fraction"] = row["bytes"] / most if most else None
    allocators = records(trace.allocators)
    total = len(programs) if by == "program" else len(live)
    document = {
        **head(trace, "memory"),
        "by": by,
        "total": total,
        "programs": programs if by != "program" or top is None else programs[:top],
        "live": live if top is None else live[:top],
        "allocators": allocators,
    }
    listings = _listings(document, by, shown)
    if by == "program":
        return Result(document, "programs", MEMORY_SUMMARY.names, listings)
    return Result(document, "live", columns, listings)


def profile_result(profile: MemoryProfile, by: str, top: int | None, shown: int) -> Result:
    """A saved memory profile: ``allocations`` by stack, or for ``by`` source summed by source line and kind.

    Args:
        by: ``source``, else each stack on its own.
        top: how many rows to give at most, null for all.
        shown: how many of them the listing for people shows at most.
    """
    rows: list[dict[str, Any]] = [
        {
            "kind": each.kind,
            "device": each.device,
            "count": each.count,
            "bytes": each.bytes,
            "function": each.place.function if each.place is not None else None,
            "source": str(each.place) if each.place is not None else None,
            "stack": [f"{frame.function} ({frame})" for frame in each.stack],
        }
        for each in profile.allocations
    ]
    if by == "source":
        rows = _by_source(rows)
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "command": "memory",
        "profile": {"path": profile.path, "time_ns": profile.time_ns or None, "total_bytes": profile.total_bytes},
        "by": by,
        "total": len(rows),
        "allocations": rows if top is None else rows[:top],
    }
    fields = (
        Field("kind", "kind"),
        Field("device", "device", rank=3),
        Field("count", "count", show_count, right=True, rank=2),
        Field("bytes", "bytes", format_bytes, right=True),
        Field("function", "function", rank=1, role="name"),
        Field("source", "source", role="tail"),
    )
    title = f"Device memory in use when the profile was saved: {format_bytes(profile.total_bytes)}, largest first"
    listing = Listing(title, "allocation", fields, document["allocations"][:shown], len(rows))
    return Result(document, "allocations", _PROFILE_COLUMNS, (listing,))


UNKNOWN_MEMORY = {
    "hlo_missing": "The trace holds no HLO of this program, and only that says where its buffers are.",
    "buffers_missing": "The HLO of this program holds no buffer assignment; a trace has it where XLA compiled the "
    "program in the process that was captured, a dump to text does not.",
    "buffers_damaged": "The buffer assignment of this program cannot be read.",
    "not_scheduled": "The HLO of this program has no schedule: what it needs is known, what is live when is not.",
}
"""Why memory is not known, as sentences, by the ``reason`` of table `memory_summary`."""


def _programs(trace: Trace) -> list[dict[str, Any]]:
    """The rows of `memory_summary`; the program with the largest need in one memory first, its memories together.

    Of programs whose need is not known, the one that ran longest comes first.
    """
    rows = records(trace.memory_summary)
    largest: dict[str, int] = {}
    for row in rows:
        largest[row["module"]] = max(largest.get(row["module"], -1), row["total_bytes"] or 0)
    ran = trace.modules.groupby("module", observed=True)["duration_ps"].sum()
    longest = {str(module): int(ps) for module, ps in ran.items()}
    return sorted(
        rows,
        key=lambda row: (
            -largest[row["module"]], -longest.get(row["module"], 0), row["module"], -(row["total_bytes"] or 0)
        ),
    )  # fmt: skip


def memory_capacity(trace: Trace, hardware: RunHardware) -> tuple[float, str] | None:
    """Main memory of one device, in bytes, and where the figure comes from; null if it is not known.

    What an allocator of the run had to give away is taken before what the chip has.
    """
    known = trace.allocators["capacity_bytes"].dropna()
    if len(known) and int(known.max()) > 0:
        return float(known.max()), "what the largest allocator of the capture had to give away"
    figure = hardware.hbm_capacity
    return None if figure is None else (figure.value, hardware.source)


def memory_groups(live: list[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    """Rows of table `memory` summed by one of its columns, per program and memory space, largest first.

    Rows have ``module``, ``memory_space``, ``name`` (null where the column is), ``buffers`` and ``bytes``.
    """
    groups: dict[tuple[str, str, str | None], dict[str, Any]] = {}
    for row in live:
        key = (row["module"], row["memory_space"], row[by])
        fresh = {"module": key[0], "memory_space": key[1], "name": key[2], "buffers": 0, "bytes": 0}
        group = groups.setdefault(key, fresh)
        group["buffers"] += 1
        group["bytes"] += row["bytes"]
    order = {key[:2]: at for at, key in reversed(list(enumerate(groups)))}
    return sorted(groups.values(), key=lambda row: (order[row["module"], row["memory_space"]], -row["bytes"]))


def _by_source(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = (row["kind"], row["device"], row["source"])
        group = groups.setdefault(key, {**row, "count": 0, "bytes": 0, "stack": None})
        group["count"] += row["count"]
        group["bytes"] += row["bytes"]
    return sorted(groups.values(), key=lambda row: -row["bytes"])


def _listings(document: dict[str, Any], by: str, shown: int) -> tuple[Listing, ...]:
    programs, live = document["programs"], document["live"]
    found: list[Listing] = []
    if by == "program":
        fields = (*_PROGRAM_FIELDS, _REASON) if any(row["reason"] for row in programs) else _PROGRAM_FIELDS
        title = "Programs: needs = arguments + output - aliased + temp + constants; peak = live at one instruction"
        found.append(Listing(title, "program", fields, programs[:shown], document["total"]))
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in live:
        groups.setdefault((row["module"], row["memory_space"]), []).append(row)
    for (module, space), rows in list(groups.items())[: 1 if by == "program" else _PROGRAMS_SHOWN]:
        title = f"Live at the peak of {module} in {space}, "
        if by in ("scope", "source"):
            fields = (Field("name", by, role="tail"), *_GROUP_FIELDS)
            found.append(Listing(title + f"by {by}", by, fields, rows[:shown], len(rows)))
        else:
            found.append(Listing(title + "largest first", "buffer", _LIVE_FIELDS, rows[:shown], len(rows)))
    if by != "program" and not groups:
        found.append(Listing("Live at the peak", "buffer", _LIVE_FIELDS, [], 0))
    allocators = document["allocators"]
    if by == "program" and allocators:
        title = "Allocators: what the hosts recorded during the capture"
        rows = allocators[:_ALLOCATORS_SHOWN]
        found.append(Listing(title, "allocator", _ALLOCATOR_FIELDS, rows, len(allocators)))
    return tuple(found)
