"""Programs that the user wants described beside the trace: their optimised HLO and what memory they need.

The trace holds the HLO of what ran, as a rule; the memory analysis, and programs that did not run in the window,
only come from the compiled function itself.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuprof.capture.session import write_new
from tpuprof.errors import UsageError

FOLDER = "hlo"
MOST_PROGRAMS = 32
_MEMORY = ("argument", "output", "alias", "temp", "generated_code")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+=@-]+")


@dataclass(frozen=True)
class _Program:
    name: str
    compiled: Any


_programs: dict[str, _Program] = {}
_lock = threading.Lock()


def note_program(compiled: Any, name: str | None = None) -> None:
    """Has a compiled function described in every later capture of this process.

    Each session then holds its optimised HLO as ``hlo/NAME.PROCESS.txt``, which ``tpuprof report RUN --hlo RUN/hlo``
    joins to the trace, and the sidecar what memory it needs. Writing the HLO of a large program takes seconds after
    each capture.

    Args:
        compiled: what ``jitted.lower(...).compile()`` returns.
        name: its name; by default that of its HLO module. A program of the same name is replaced.

    Raises:
        UsageError: the object is no compiled function, or there are `MOST_PROGRAMS` already.
    """
    if not hasattr(compiled, "as_text") or not hasattr(compiled, "memory_analysis"):
        raise UsageError(
            f"{type(compiled).__name__} is not a compiled function.",
            hint="Give what jitted.lower(...).compile() returns.",
        )
    known = _clean(name) if name is not None else _module_name(compiled)
    with _lock:
        if known not in _programs and len(_programs) >= MOST_PROGRAMS:
            raise UsageError(f"There are {MOST_PROGRAMS} programs noted already.", hint="Call forget_programs() first.")
        _programs[known] = _Program(known, compiled)


def forget_programs() -> None:
    """Later captures describe none of the programs noted so far."""
    with _lock:
        _programs.clear()


def describe_programs(session: Path, process_index: int) -> list[Mapping[str, Any]]:
    """Writes the HLO of the noted programs into the session and returns what the sidecar says of each.

    A program that cannot be described has an ``error`` instead; nothing is raised.
    """
    with _lock:
        programs = list(_programs.values())
    return [_described(program, session, process_index) for program in programs]


def _described(program: _Program, session: Path, process_index: int) -> dict[str, Any]:
    found: dict[str, Any] = {"name": program.name, "file": None, "memory": None}
    try:
        found["memory"] = memory_of(program.compiled)
        path = session / FOLDER / f"{program.name}.p{process_index}.txt"
        path.parent.mkdir(exist_ok=True)
        if write_new(path, str(program.compiled.as_text()).encode()):
            found["file"] = f"{FOLDER}/{path.name}"
        else:
            found["error"] = f"{path.name} exists"
    except Exception as error:  # a backend without analysis, a full disk: the trace is safe already
        found["error"] = f"{type(error).__name__}: {error}"[:500]
    return found


def memory_of(compiled: Any) -> dict[str, int] | None:
    """Bytes per device by purpose, as the compiler planned them; None where the backend does not say."""
    analysis = compiled.memory_analysis()
    if analysis is None:
        return None
    sizes = {f"{purpose}_bytes": getattr(analysis, f"{purpose}_size_in_bytes", None) for purpose in _MEMORY}
    return {name: int(size) for name, size in sizes.items() if size is not None} or None


def _module_name(compiled: Any) -> str:
    head = re.match(r"HloModule\s+([^\s,]+)", str(compiled.as_text())[:1000])
    return _clean(head[1] if head else "program")


def _clean(name: str) -> str:
    return _UNSAFE.sub("_", name).strip(".")[:100] or "program"
