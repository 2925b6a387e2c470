"""The results of ``tpuprof history``: JSON documents with their listings, made from what the store gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.listing import Field, Listing, Result, show_count, show_text
from tpuprof.report.plain import jsonable, table_of
from tpuprof.units import UNKNOWN, format_bytes, format_percent, format_ps

if TYPE_CHECKING:
    from tpuprof.history import Added, Baseline, Metric, OpGroup, Run

_SHOWN_METRIC = "step_p50_ps"
_SHORT = 8
_RUN_COLUMNS = (
    "id", "key", "name", "path", "captured_ns", "added_ns", "tool_version", "platform", "device_kind", "n_devices",
    "n_hosts", "step_source", "n_steps", "window_ps", "worst_quality", "program_name", "program", "structure",
    "hardware", "tags",
)  # fmt: skip


def list_result(place: str, runs: Sequence[Run], metrics: dict[int, dict[str, Metric]], shown: int) -> Result:
    """Runs, newest first; the listing for people shows at most so many.

    Args:
        place: the store.
        runs: oldest first.
        metrics: of these runs.
        shown: rows of the listing.
    """
    rows = [{**_run(run), _SHOWN_METRIC: _value(metrics, run, _SHOWN_METRIC)} for run in reversed(runs)]
    document = {**head("history list", place), "total": len(rows), "runs": rows}
    listing = Listing("Runs of the store, newest first", "run", _RUN_FIELDS, rows[:shown], len(rows))
    return Result(document, "runs", (*_RUN_COLUMNS, _SHOWN_METRIC), (listing,))


def added_result(place: str, added: Added, metrics: dict[int, dict[str, Metric]]) -> Result:
    """What came of adding a run."""
    row = {**_run(added.run), _SHOWN_METRIC: _value(metrics, added.run, _SHOWN_METRIC)}
    document = {
        **head("history add", place),
        "added": added.new,
        "new_tags": dict(added.new_tags),
        "kept_tags": dict(added.kept_tags),
        "runs": [row],
    }
    title = "Added" if added.new else "In the store already"
    return Result(document, "runs", (*_RUN_COLUMNS, _SHOWN_METRIC), (Listing(title, "run", _RUN_FIELDS, [row], 1),))


def show_result(
    place: str, run: Run, metrics: dict[str, Metric], groups: Sequence[OpGroup], samples: Sequence[int], shown: int
) -> Result:
    """All that the store has of one run; CSV and JSON lines give its metrics."""
    rows = [{"name": each.name, "value": each.value, "reason": each.reason} for each in metrics.values()]
    ops = [asdict(group) for group in groups]
    document = {
        **head("history show", place),
        "run": {**_run(run), "facts": jsonable(run.facts)},
        "metrics": rows,
        "op_groups": ops,
        "step_times_ps": list(samples),
    }
    facts = [{"fact": name, "value": value} for name, value in _facts(run)]
    known = [row for row in rows if row["value"] is not None and row["value"] != 0]
    about = (
        Listing("Run", "fact", (Field("fact", "fact"), Field("value", "value", role="name")), facts, len(facts)),
        Listing("Metrics that are not zero", "metric", _METRIC_FIELDS, [_shown(row) for row in known], len(known)),
        Listing("Ops by scope and kind, sums over all cores", "group", _OP_FIELDS, ops[:shown], len(ops)),
    )
    return Result(document, "metrics", ("name", "value", "reason"), about)


def baselines_result(place: str, baselines: Sequence[Baseline], command: str) -> Result:
    """Baselines with the numbers of their runs."""
    rows = [
        {
            "name": baseline.name,
            "program": baseline.program,
            "hardware": baseline.hardware,
            "program_text": str(baseline.runs[-1].facts.get("program")),
            "hardware_text": str(baseline.runs[-1].facts.get("hardware")),
            "set_ns": baseline.set_ns,
            "n_runs": len(baseline.runs),
            "runs": [run.id for run in baseline.runs],
        }
        for baseline in baselines
    ]
    document = {**head(command, place), "total": len(rows), "baselines": rows}
    columns = ("name", "program", "hardware", "program_text", "hardware_text", "set_ns", "n_runs", "runs")
    return Result(
        document, "baselines", columns, (Listing("Baselines", "baseline", _BASELINE_FIELDS, rows, len(rows)),)
    )


def show_time(ns: int | None) -> str:
    """A time since the epoch as UTC, to the second."""
    if ns is None:
        return UNKNOWN
    return datetime.fromtimestamp(ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def show_metric(name: str, value: float | None) -> str:
    """A metric's value with the unit that its name states."""
    if value is None:
        return UNKNOWN
    if name.endswith("_ps"):
        return format_ps(value)
    if name.endswith("_bytes"):
        return format_bytes(value)
    if name in ("mfu", "step_cv"):
        return format_percent(value)
    return f"{value:g}"


def head(command: str, place: str) -> dict[str, Any]:
    """The keys that every document starts with."""
    return {"schema_version": SCHEMA_VERSION, "command": command, "store": place}


def _run(run: Run) -> dict[str, Any]:
    row = {field.name: getattr(run, field.name) for field in fields(run) if field.name not in ("facts", "tags")}
    return {**row, "tags": dict(run.tags)}


def _value(metrics: dict[int, dict[str, Metric]], run: Run, name: str) -> float | None:
    found = metrics.get(run.id, {}).get(name)
    return None if found is None else found.value


def _facts(run: Run) -> list[tuple[str, str]]:
    """What people want to know of a run, most important first."""
    facts: list[tuple[str, object]] = [
        ("number", run.id),
        ("key", run.key[:16]),
        ("name", run.name),
        ("path", run.path),
        ("captured", show_time(run.captured_ns)),
        ("added", show_time(run.added_ns)),
        ("hardware", run.facts.get("hardware")),
        ("program", run.facts.get("program")),
        ("fingerprints", f"program {show_fingerprint(run.program)}, compiled {show_fingerprint(run.structure)}, "
                         f"hardware {show_fingerprint(run.hardware)}"),
        ("steps", f"{run.n_steps} from {run.step_source}"),
        ("window", format_ps(run.window_ps)),
        ("worst quality", run.worst_quality or "nothing to report"),
    ]  # fmt: skip
    for group in ("versions", "environment"):
        facts += list(table_of(run.facts.get(group)).items())
    facts += [(f"tag {name}", value) for name, value in run.tags.items()]
    return [(name, show_text(value)) for name, value in facts]


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "shown": show_metric(row["name"], row["value"])}


def show_fingerprint(fingerprint: str | None) -> str:
    """As much of a fingerprint as tells it from others."""
    return UNKNOWN if fingerprint is None else fingerprint[:_SHORT]


def _tags(tags: dict[str, str]) -> str:
    return ", ".join(show_text(f"{name}={value}") for name, value in tags.items())


_RUN_FIELDS = (
    Field("id", "run", right=True),
    Field("name", "name", role="name"),
    Field("captured_ns", "captured (UTC)", show_time, rank=2),
    Field("program_name", "program", rank=1, role="name"),
    Field("program", "alike", lambda text: show_fingerprint(text)[:5], rank=3),
    Field("hardware", "on", lambda text: show_fingerprint(text)[:5], rank=3),
    Field("n_steps", "steps", show_count, right=True, rank=1),
    Field(_SHOWN_METRIC, "step p50", format_ps, right=True),
    Field("tags", "tags", _tags, rank=1, role="name"),
)
_METRIC_FIELDS = (Field("name", "metric"), Field("shown", "value", right=True))
_OP_FIELDS = (
    Field("module", "function", rank=2, role="name"),
    Field("scope", "scope", role="name"),
    Field("kind", "kind", rank=1, role="kind"),
    Field("count", "count", show_count, right=True, rank=1),
    Field("self_ps", "self", format_ps, right=True),
)
_BASELINE_FIELDS = (
    Field("name", "baseline"),
    Field("runs", "runs", lambda runs: ", ".join(map(str, runs[:8])) + (" …" if len(runs) > 8 else "")),
    Field("hardware_text", "hardware", role="name", rank=1),
    Field("program_text", "program", role="name", rank=2),
    Field("set_ns", "set (UTC)", show_time, rank=1),
)
