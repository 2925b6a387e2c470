"""What is in a log directory: the result of ``tpuprof runs``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.listing import Field, Listing, Result, show_count
from tpuprof.units import format_bytes

if TYPE_CHECKING:
    from tpuprof.formats.recording import RunFiles

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
        "size_bytes": sum(file.xplane_size + file.trace_json_size for file in run.files),
    }
