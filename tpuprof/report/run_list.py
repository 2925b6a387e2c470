"""What is in a log directory: the result of ``tpuprof runs``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tpuprof.quality import worst
from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.listing import Field, Listing, Result, show_count
from tpuprof.units import format_bytes

if TYPE_CHECKING:
    from tpuprof.formats.recording import RunFiles
    from tpuprof.trace import Trace

_COLUMNS = ("name", "path", "n_hosts", "hosts", "formats", "size_bytes")
_FIELDS = (
    Field("name", "run", role="name"),
    Field("n_hosts", "hosts", show_count, right=True),
    Field("formats", "formats", lambda names: ", ".join(names), rank=1),
    Field("size_bytes", "size", format_bytes, right=True),
    Field("path", "path", rank=2, role="tail"),
)


def runs_result(logdir: str, runs: Sequence[RunFiles]) -> Result:
    """The runs in the order given; sizes are those of all files of a run."""
    rows = [_row(run) for run in runs]
    document = {
        "schema_version": SCHEMA_VERSION,
        "command": "runs",
        "logdir": logdir,
        "total": len(rows),
        "runs": rows,
    }
    return Result(document, "runs", _COLUMNS, (Listing("Runs, newest first", "run", _FIELDS, rows, len(rows)),))


def run_knowledge(trace: Trace) -> dict[str, Any]:
    """What a list of runs can say of one that was read, null where unknown.

    ``kind`` is the hardware, ``n_steps`` and ``step_ps`` (mean, per step the slowest core) its steps, ``made`` is
    ``predicted`` for a run that was planned and never ran, else ``recorded``; ``quality`` is the worst thing noticed
    about it and ``quality_entries`` how many there are.
    """
    from tpuprof.history.fingerprints import PREDICTED

    kinds = sorted({device.kind or device.platform for device in trace.devices})
    return {
        "kind": f"{len(trace.devices)} × {', '.join(kinds)}" if kinds else None,
        "n_steps": trace.n_steps,
        "step_ps": trace.step_statistics()["mean_ps"],
        "made": "predicted" if trace.metadata.get(PREDICTED) else "recorded",
        "quality": worst(trace.quality),
        "quality_entries": len(trace.quality),
    }


def _row(run: RunFiles) -> dict[str, Any]:
    formats = {
        "xplane": any(file.xplane is not None for file in run.files),
        "trace_json": any(file.trace_json is not None for file in run.files),
    }
    return {
        "name": run.name,
        "path": run.path,
        "hosts": [file.host for file in run.files],
        "n_hosts": len(run.files),
        "formats": [name for name, present in formats.items() if present],
        "size_bytes": run.size_bytes,
    }
