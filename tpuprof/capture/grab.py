"""A capture of a running job from outside, through the profiler server that it has started.

The client is that of the xprof package. It runs in a child process: it is native code that talks on both streams, and
its time limits are not ours.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tpuprof._version import __version__
from tpuprof.capture.options import CaptureOptions
from tpuprof.capture.session import check_logdir, check_name, open_logdir, profile_root, session_name, write_new
from tpuprof.errors import CaptureError, MissingDependencyError, UsageError
from tpuprof.sidecar import SCHEMA_VERSION, SIDECAR_NAME

LONGEST_FOR_S = 600.0
EXTRA_S = 120.0  # for connecting, collecting and sending the trace
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9][A-Za-z0-9._-]{0,253}):(?P<port>[0-9]{1,5})\Z")
_MOST_ADDRESSES = 1024
_XPLANE = ".xplane.pb"

# The last argument but one is unused by servers of jax; one attempt, since each would be another window.
_CLIENT = """
import json, sys
from xprof.convert import _pywrap_profiler_plugin as client
address, folder, milliseconds, options = json.loads(sys.argv[1])
client.trace(address, folder, "", False, milliseconds, 1, options)
"""
_REASONS = (
    ("Connection refused", "Nothing listens there."),
    ("address lookup failed", "There is no host of that name."),
    ("Domain name not found", "There is no host of that name."),
    ("DEADLINE_EXCEEDED", "The job did not answer in time."),
    ("ALREADY_EXISTS", "Another profiling session is running in the job."),
    ("Another profil", "Another profiling session is running in the job."),
    ("UNIMPLEMENTED", "What listens there is no profiler server."),
    ("No trace event", "The job delivered no events."),
)


@dataclass(frozen=True)
class Grabbed:
    """What came of it: the session, and its files."""

    session: Path
    files: tuple[Path, ...]


def grab(
    addresses: Sequence[str],
    *,
    logdir: str,
    for_s: float,
    name: str | None = None,
    options: CaptureOptions | None = None,
) -> Grabbed:
    """Has the profiler servers at these addresses record for a while, and stores their traces as one run.

    A job serves after ``jax.profiler.start_server(port)``. All servers record at the same time.

    Args:
        addresses: ``HOST:PORT`` each.
        logdir: log directory that receives the run; made if need be.
        for_s: length of the window in seconds.
        name: name of the session; by default the time.
        options: what to record; as for `tpuprof.capture`.

    Raises:
        UsageError: an address, the window or the name is no good.
        MissingDependencyError: xprof is not installed.
        CaptureError: no trace came, or it cannot be written.
    """
    wanted = check_addresses(addresses)
    if not 0 < for_s <= LONGEST_FOR_S:
        raise UsageError(
            f"A window of {for_s:g} s is not above 0 and at most {LONGEST_FOR_S:g} s.",
            why="Profilers drop data, or all of it, when the window is long.",
            hint="A few seconds are usually enough.",
        )
    directory = check_logdir(logdir)
    if name is not None:
        check_name(name)
    if importlib.util.find_spec("xprof") is None:
        raise MissingDependencyError(
            "Grabbing a trace needs the client of xprof, which is not installed.",
            hint='Install it: pip install "tpuprof[xprof]". Without it, run the job under tpuprof capture.',
        )
    open_logdir(directory)
    chosen = options or CaptureOptions()
    staging = Path(tempfile.mkdtemp(prefix=".tpuprof-grab-", dir=directory))
    try:
        begun = time.time()
        said = _run_client(wanted, staging, for_s, chosen)
        found = sorted(staging.rglob(f"*{_XPLANE}"))
        filled = [path for path in found if path.stat().st_size > 0]
        if not filled:
            raise _nothing(wanted, said, empty=bool(found))
        session = _keep(filled, directory, datetime.fromtimestamp(begun), name)
        missing = [address for address in wanted if not any(_is_from(path, address) for path in filled)]
        files = tuple(session / path.name for path in filled)
        _write_sidecar(session, files, wanted, missing, for_s, chosen, begun)
        return Grabbed(session, files)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def check_addresses(addresses: Sequence[str]) -> list[str]:
    """The addresses without repetitions.

    Raises:
        UsageError: one of them is not ``HOST:PORT``, or there are none, or too many.
    """
    found = list(dict.fromkeys(address.strip() for address in addresses))
    for address in found:
        match = _ADDRESS.match(address)
        if match is None or not 0 < int(match["port"]) < 65_536:
            raise UsageError(
                f"{address!r} is not the address of a profiler server.",
                hint="Write HOST:PORT, with the port that the job gave to jax.profiler.start_server.",
            )
    if not 0 < len(found) <= _MOST_ADDRESSES:
        raise UsageError(f"{len(found)} addresses are not between 1 and {_MOST_ADDRESSES}.")
    return found


def _run_client(addresses: Sequence[str], staging: Path, for_s: float, options: CaptureOptions) -> str:
    """What the client said, which is where its reasons are."""
    asked = {
        "host_tracer_level": options.host_tracer_level,
        "python_tracer_level": options.python_tracer_level,
        **options.advanced,
    }
    arguments = json.dumps([",".join(addresses), str(staging), max(int(for_s * 1000), 1), asked])
    try:
        done = subprocess.run(
            [sys.executable, "-c", _CLIENT, arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=for_s + EXTRA_S,
            check=False,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired as error:
        raise CaptureError(
            f"No trace came within {for_s + EXTRA_S:g} s.",
            where=", ".join(addresses)[:500],
            hint="Is the job overloaded, or the network slow? Try a shorter window.",
        ) from error
    except OSError as error:
        raise CaptureError("The client of xprof cannot be started.", why=f"{error}.") from error
    return done.stdout[-100_000:]


def _nothing(addresses: Sequence[str], said: str, *, empty: bool) -> CaptureError:
    known = [reason for text, reason in _REASONS if text in said]
    last = [line for line in said.strip().splitlines() if line.strip()]
    why = known[0] if known else f"The client said: {last[-1].strip()[:300]}" if last else "The client said nothing."
    if empty:
        why = "A trace above 2 GB cannot be delivered."
    return CaptureError(
        "No trace came from the profiler server.",
        where=", ".join(addresses)[:500],
        why=why,
        hint="The job must have called jax.profiler.start_server(PORT), and the port must be reachable from here.",
    )


def _keep(files: Sequence[Path], logdir: Path, begun: datetime, name: str | None) -> Path:
    """Moves the files into a session of their own; a session that exists is never added to."""
    root = profile_root(logdir)
    base = session_name(begun) if name is None else name
    for number in range(1, 1000):
        session = root / (base if number == 1 else f"{base}-{number}")
        try:
            session.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise _unwritable(root, error) from error
        try:
            for path in files:
                path.rename(session / path.name)
        except OSError as error:
            raise _unwritable(session, error) from error
        return session
    raise CaptureError("No free name is left for the run.", where=str(root))


def _unwritable(place: Path, error: OSError) -> CaptureError:
    return CaptureError("The trace cannot be written.", where=str(place), why=f"{error.strerror or error}.")


def _is_from(path: Path, address: str) -> bool:
    """Whether the client wrote the file for the address: it calls it HOST_PORT."""
    host, _, port = address.rpartition(":")
    return path.name.removesuffix(_XPLANE) in (f"{host}_{port}", f"{host.strip('[]')}_{port}", address)


def _write_sidecar(
    session: Path,
    files: Sequence[Path],
    addresses: Sequence[str],
    missing: Sequence[str],
    for_s: float,
    options: CaptureOptions,
    begun: float,
) -> None:
    """What is known from outside; the job itself tells nothing of its versions and devices."""
    content: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "tool": "tpuprof",
        "complete": not missing,
        "trigger": f"grab: {for_s:g} s of time",
        "file": files[0].name,
        "file_bytes": files[0].stat().st_size,
        "grabbed": {"addresses": list(addresses), "files": [path.name for path in files], "for_s": for_s},
        "versions": {"tpuprof": __version__},
        "started_at": datetime.fromtimestamp(begun, UTC).isoformat(timespec="milliseconds"),
        "options": options.as_dict(),
        "errors": [f"No trace came from {address}." for address in missing],
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    try:
        write_new(session / SIDECAR_NAME, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise _unwritable(session, error) from error
