"""The documents of ``tpuprof calibrate``: what was fitted, from what, and what not and why; and the known profiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tpuprof.calibration import Calibration, Fitted
from tpuprof.errors import TpuprofError
from tpuprof.plan.profiles import Profile
from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.listing import Field, Listing, Result, show_count, show_text
from tpuprof.units import PS_PER_S, UNKNOWN, format_ps

_COLUMNS = (
    "constant", "value", "default", "low", "high", "samples", "executions", "seconds", "source"
)  # fmt: skip


def _number(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.4g}"


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else format_ps(value * PS_PER_S)


_FITTED = (
    Field("constant", "constant"),
    Field("value", "fitted", _number, right=True),
    Field("default", "built in", _number, right=True),
    Field("low", "10 %", _number, right=True, rank=2),
    Field("high", "90 %", _number, right=True, rank=2),
    Field("samples", "samples", show_count, right=True),
    Field("seconds", "time", _seconds, right=True, rank=3),
    Field("source", "from", show_text, role="name", rank=1),
)
_PATHS = (
    Field("kind", "kind"),
    Field("axes", "axes", show_text),
    Field("reached", "expected / measured", _number, right=True),
    Field("low", "10 %", _number, right=True, rank=1),
    Field("high", "90 %", _number, right=True, rank=1),
    Field("samples", "samples", show_count, right=True),
    Field("seconds", "time", _seconds, right=True),
)
_KEPT = (
    Field("constant", "constant"),
    Field("default", "built in", _number, right=True),
    Field("reason", "why it stays", show_text, role="name"),
)
_LEFT_OUT = (
    Field("constant", "for"),
    Field("count", "ops", show_count, right=True),
    Field("seconds", "time", _seconds, right=True),
    Field("reason", "why", show_text, role="name"),
    Field("names", "such as", show_text, rank=1),
)
_RUNS = (
    Field("name", "run", show_text, role="name"),
    Field("chip", "chip", show_text),
    Field("slice", "slice", show_text, rank=2),
    Field("steps", "steps", show_count, right=True),
    Field("step_s", "step", _seconds, right=True),
    Field("digest", "digest", lambda value: str(value)[:12], rank=1),
)
_ROWS = (
    Field("row", "row", show_text, role="name"),
    Field("chip", "chip", show_text),
    Field("factor", "computation, measured over predicted speed", _number, right=True),
)
_PROFILES = (
    Field("name", "profile"),
    Field("created", "made", show_text),
    Field("count", "constants", show_count, right=True),
    Field("source", "from", show_text, role="name"),
    Field("problem", "problem", show_text, role="name", rank=1),
)


def calibration_result(found: Calibration, stored: str | None = None) -> Result:
    """What a calibration gives.

    The document holds ``profile``, ``fitted``, ``collectives``, ``kept``, ``left_out``, ``runs``, ``rows``, ``notes``.

    Args:
        stored: the file that the profile was written to; null if to none.
    """
    fitted = [asdict(one) for one in found.fitted]
    kept = [asdict(one) for one in found.kept]
    left_out = [{**asdict(one), "names": list(one.names)} for one in found.left_out]
    paths = [asdict(path) for path in found.paths]
    runs, rows = [asdict(run) for run in found.runs], [asdict(row) for row in found.rows]
    document = {
        "schema_version": SCHEMA_VERSION, "command": "calibrate",
        "profile": {"name": found.profile.name, "created": found.profile.created, "source": found.profile.source,
                    "path": stored},
        "fitted": fitted, "collectives": paths, "kept": kept,
        "left_out": left_out, "runs": runs, "rows": rows, "notes": list(found.notes),
    }  # fmt: skip
    shown = [{**row, "names": ", ".join(row["names"])} for row in left_out]
    listings = [Listing("Fitted", "constant", _FITTED, fitted, len(fitted), _spread(found.fitted))]
    if paths:
        listings.append(Listing("Synchronous collectives by axes", "kind", _PATHS, paths, len(paths)))
    listings.append(Listing("Not told, so they stay", "constant", _KEPT, kept, len(kept)))
    if left_out:
        listings.append(Listing("Left out", "reason", _LEFT_OUT, shown, len(shown)))
    if runs:
        listings.append(Listing("Runs", "run", _RUNS, runs, len(runs), found.notes))
    if rows:
        listings.append(Listing("Published steps", "step", _ROWS, rows, len(rows)))
    return Result(document, "fitted", _COLUMNS, tuple(listings))


def profiles_result(found: Iterable[tuple[str, Profile | TpuprofError]], directory: str) -> Result:
    """The user's profiles; one that cannot be read is listed with its problem."""
    rows = [_profile(name, profile) for name, profile in found]
    document = {
        "schema_version": SCHEMA_VERSION, "command": "calibrate --list", "directory": directory, "profiles": rows,
    }  # fmt: skip
    listing = Listing(f"Profiles in {directory}", "profile", _PROFILES, rows, len(rows))
    return Result(document, "profiles", ("name", "created", "count", "source", "problem"), (listing,))


def profile_sentence(stored: Mapping[str, Any]) -> str:
    """A named profile in one line, from ``profile.stored`` of a document: its constants, and what they rest on."""
    listed = ", ".join(f"{name} {value:.4g}" for name, value in stored["constants"].items()) or "none"
    made = f", made {stored['created']}" if stored["created"] else ""
    source = stored["source"] or "source not stated"
    return f"profile {stored['name']} ({stored['path']}{made}): {source}; its constants: {listed}"


def _profile(name: str, found: Profile | TpuprofError) -> dict[str, Any]:
    if isinstance(found, TpuprofError):
        return {"name": name, "created": None, "count": None, "source": None, "problem": str(found), "constants": {}}
    constants = found.to_json()["constants"]
    return {
        "name": name, "created": found.created or None, "count": len(constants), "source": found.source or None,
        "problem": None, "constants": constants,
    }  # fmt: skip


def _spread(fitted: Sequence[Fitted]) -> tuple[str, ...]:
    if not fitted:
        return ("nothing here tells a constant of training plans",)
    return ("10 % and 90 %: of the measured time, the steps or the rows; samples: ops, steps or rows",)
