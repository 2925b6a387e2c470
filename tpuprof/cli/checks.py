"""What ``tpuprof doctor`` looks at. Nothing here imports jax, except in a child process."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tpuprof._version import __version__
from tpuprof.cache.container import NotKeptError
from tpuprof.cache.directory import DIRECTORY_VARIABLE, SIZE_VARIABLE, user_cache
from tpuprof.errors import UsageError
from tpuprof.predict.installed import Installed, wanted_libtpu
from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.listing import Field, Listing, Result
from tpuprof.text import clean, plural
from tpuprof.units import format_bytes

REQUIRED = {
    "numpy": "numpy",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "protobuf": "google.protobuf",
    "numba": "numba",
    "scipy": "scipy",
    "click": "click",
    "rich": "rich",
    "fsspec": "fsspec",
    "sqlalchemy": "sqlalchemy",
    "alembic": "alembic",
}
"""Distribution → module to import. A test compares them with what the package declares."""

OPTIONAL = {
    "psycopg": ("a run store in PostgreSQL", 'pip install "tpuprof[postgres]"'),
    "jax": ("capture and the demo", 'pip install "tpuprof[capture]"'),
    "jaxlib": ("capture and the demo", 'pip install "tpuprof[capture]"'),
    "libtpu": ("capture on TPUs, and compiling for them without one", 'pip install "tpuprof[tpu]"'),
    "xprof": ("tpuprof grab, and opening the same log directory in XProf", 'pip install "tpuprof[xprof]"'),
    "altair": ("charts", 'pip install "tpuprof[charts]"'),
    "vl-convert-python": ("charts as pictures and in the HTML report", 'pip install "tpuprof[charts]"'),
    "gcsfs": ("runs under gs://", "pip install gcsfs"),
    "s3fs": ("runs under s3://", "pip install s3fs"),
}
"""Distribution → (what it is needed for, how to get it)."""

_JAX_TIMEOUT_S = 120
_JAX_PROGRAM = """
import json, jax
print(json.dumps({"backend": jax.default_backend(), "devices": [d.device_kind for d in jax.devices()]}))
"""


def _show_or_blank(value: object) -> str:
    return "" if value is None else clean(value)


_FIELDS = (
    Field("name", "what", role="name"),
    Field("status", "status"),
    Field("version", "version", _show_or_blank, rank=1),
    Field("detail", "detail", _show_or_blank, rank=3, role="name"),
    Field("next", "what to do", _show_or_blank, rank=2, role="name"),
)
_COLUMNS = ("name", "status", "severity", "version", "detail", "next")


@dataclass(frozen=True, slots=True)
class Check:
    """One answer.

    Args:
        status: ``ok``, ``missing``, ``broken`` or ``doubtful``.
        severity: null if all is well, else info, warning or error.
        next: what to do about it.
    """

    name: str
    status: str
    severity: str | None = None
    version: str | None = None
    detail: str | None = None
    next: str | None = None


def doctor_result(checks: list[Check]) -> Result:
    """The checks as a table result; ``ok`` is true if none is an error."""
    rows: list[dict[str, Any]] = [asdict(check) for check in checks]
    document = {
        "schema_version": SCHEMA_VERSION,
        "command": "doctor",
        "ok": all(check.severity != "error" for check in checks),
        "checks": rows,
    }
    listing = Listing("Installation", "check", _FIELDS, rows, len(rows))
    return Result(document, "checks", _COLUMNS, (listing,))


def check_installation() -> list[Check]:
    """Versions, required packages (imported), optional ones (looked up only), and settings that cost speed."""
    checks = [
        Check("tpuprof", "ok", version=__version__, detail=str(Path(__file__).parents[1])),
        Check("python", "ok", version=platform.python_version(), detail=f"{platform.system()} {platform.machine()}"),
    ]
    checks += [_required(name, module) for name, module in REQUIRED.items()]
    checks += [_optional(name, *facts) for name, facts in OPTIONAL.items()]
    return [*checks, *_libtpu_pin(), _protobuf(), _numba_cache(), _run_cache(), _terminal()]


def check_jax(timeout_s: float = _JAX_TIMEOUT_S) -> list[Check]:
    """Imports jax in a child process, which may fail or hang without harm, and lists its devices."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _JAX_PROGRAM], capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        detail = f"no answer after {timeout_s:g} s"
        return [
            Check("jax devices", "broken", "error", detail=detail, next="Is another process using the accelerator?")
        ]
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return [Check("jax devices", "broken", "error", detail=last, next="Run: python -c 'import jax; jax.devices()'")]
    found = json.loads(lines[-1])
    kinds = sorted(set(found["devices"]))
    return [Check("jax devices", "ok", detail=f"{len(found['devices'])} x {', '.join(kinds)} ({found['backend']})")]


def _required(name: str, module: str) -> Check:
    try:
        importlib.import_module(module)
    except Exception as error:  # a broken binary wheel may raise anything
        missing = isinstance(error, ModuleNotFoundError)
        status = "missing" if missing else "broken"
        detail = f"{type(error).__name__}: {error}"
        return Check(name, status, "error", _version(name), detail, f"pip install --force-reinstall {name}")
    return Check(name, "ok", version=_version(name))


def _optional(name: str, purpose: str, how: str) -> Check:
    version = _version(name)
    if version is None:
        return Check(name, "missing", "info", None, f"optional, for {purpose}", how)
    return Check(name, "ok", version=version, detail=f"for {purpose}")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _libtpu_pin() -> Iterator[Check]:
    """jax states which libtpu it was built for; with another one the profiler can crash the job."""
    installed, jax_version, wanted = _version("libtpu"), _version("jax"), wanted_libtpu()
    if installed is None or jax_version is None or wanted is None:
        return
    if Installed(jax_version, installed, wanted).matched:
        yield Check("libtpu for this jax", "ok", version=installed)
    else:
        detail = f"jax {jax_version} wants {wanted}; a mismatch can crash the profiler"
        yield Check("libtpu for this jax", "doubtful", "warning", installed, detail, 'pip install "jax[tpu]"')


def _protobuf() -> Check:
    try:
        from google.protobuf.internal import api_implementation

        kind = str(api_implementation.Type())
    except Exception as error:
        return Check("protobuf backend", "broken", "warning", detail=f"{type(error).__name__}: {error}")
    if kind != "python":
        return Check("protobuf backend", "ok", detail=kind)
    hint = "Unset PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION or install a binary wheel."
    return Check("protobuf backend", "doubtful", "warning", detail="python: slow on large traces", next=hint)


def _numba_cache() -> Check:
    """Compiled loops are cached on disk; where that fails every start costs seconds."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    places = [Path(named)] if named else [Path(__file__).parents[1], home]
    for place in places:
        if _writable(place):
            return Check("numba cache", "ok", detail=str(place))
    hint = "Set NUMBA_CACHE_DIR to a directory that can be written."
    return Check("numba cache", "doubtful", "warning", detail="not writable: every start compiles anew", next=hint)


def _run_cache() -> Check:
    """What is made of large runs is kept on disk; without that they are read anew each time."""
    name = "run cache"
    try:
        cache = user_cache()
        used = None if cache is None else cache.usage()
    except UsageError as error:
        return Check(name, "doubtful", "warning", detail=str(error), next=f"Unset or correct {SIZE_VARIABLE}.")
    except (NotKeptError, OSError) as error:
        return Check(
            name, "doubtful", "warning", detail=str(error), next=f"Name another directory in {DIRECTORY_VARIABLE}."
        )
    if cache is None or used is None:
        return Check(name, "ok", detail=f"off ({SIZE_VARIABLE})")
    if not _writable(cache.path):
        hint = f"Name another directory in {DIRECTORY_VARIABLE}."
        return Check(name, "doubtful", "info", detail=f"not writable: {cache.path}", next=hint)
    size = f"{format_bytes(used.bytes)} of {format_bytes(cache.max_bytes)} in {plural(used.files, 'file')}"
    return Check(name, "ok", detail=f"{cache.path}: {size}")


def _writable(place: Path) -> bool:
    """Whether the directory, or the nearest existing one above it, can be written."""
    while not place.exists() and place != place.parent:
        place = place.parent
    return place.is_dir() and os.access(place, os.W_OK)


def _terminal() -> Check:
    encoding = (getattr(sys.stdout, "encoding", None) or "unknown").lower()
    if encoding.replace("-", "") in ("utf8", "utf8sig"):
        return Check("stdout encoding", "ok", detail=encoding)
    hint = "Set PYTHONIOENCODING=utf-8 or a UTF-8 locale."
    return Check("stdout encoding", "doubtful", "info", detail=f"{encoding}: bars are drawn with letters", next=hint)
