"""The process that compiles: reads a question as JSON from its input and answers on its output. See ``compiler``."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_MEMORY = {
    "arguments": "argument_size_in_bytes", "outputs": "output_size_in_bytes", "aliased": "alias_size_in_bytes",
    "temporaries": "temp_size_in_bytes", "code": "generated_code_size_in_bytes", "peak": "peak_memory_in_bytes",
}  # fmt: skip
_TOTAL = re.compile(r"Memory Space: default \(color=0\)\s+Total bytes: (\d{1,18})\b")
_MOST_HEAD = 10_000
_HOST = ("host_argument_size_in_bytes", "host_output_size_in_bytes", "host_temp_size_in_bytes")


def main() -> int:
    """Answers one question; ends with the process that asked."""
    threading.Thread(target=_end_with, args=(int(sys.argv[2]),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the program prints must not get into the answer
    question = json.loads(sys.stdin.buffer.read())
    with answers:
        json.dump(answer(question), answers)
    return 0


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """The outcome (``compiled``, ``refused``, ``topology``, ``program``) and what belongs to it."""
    try:
        devices = _devices(question)
    except Exception as error:
        return {"outcome": "topology", "message": _last(error)}
    began = time.monotonic()
    try:
        lowered = _function(question["function"])(devices, **question["arguments"])
        compile_ = lowered.compile
    except Exception as error:
        return {"outcome": "program", "message": _last(error)}
    with tempfile.TemporaryDirectory() as folder:
        options = {"xla_dump_to": folder} | question["options"]
        try:
            compiled = compile_(compiler_options=options)
        except Exception as error:
            return {"outcome": "refused", "message": str(error)}
        memory = _memory(compiled.memory_analysis(), laid_out(Path(options["xla_dump_to"])))
    return {
        "outcome": "compiled", "memory": memory, "device_kind": devices[0].device_kind, "devices": len(devices),
        "seconds": time.monotonic() - began,
    }  # fmt: skip


def laid_out(folder: Path) -> int | None:
    """Bytes of HBM that the compiler's newest report in a folder states; null if there is none that does."""
    reports = sorted(folder.glob("*memory-usage-report.txt"), key=lambda path: path.stat().st_mtime)
    for path in reports[-1:]:
        with path.open(encoding="utf-8", errors="replace") as lines:
            if found := _TOTAL.match(lines.read(_MOST_HEAD)):
                return int(found[1])
    return None


def _end_with(watched: int) -> None:
    os.read(watched, 1)  # nothing is ever written: it returns when the other end is closed
    os._exit(1)


def _devices(question: dict[str, Any]) -> list[Any]:
    topologies: Any = importlib.import_module("jax.experimental.topologies")
    settings: dict[str, Any] = {}
    if question["slices"] > 1:
        settings["num_slices"] = question["slices"]
    if question["chips_per_host"]:
        settings["chips_per_host_bounds"] = tuple(question["chips_per_host"])
    found = topologies.get_topology_desc(platform="tpu", topology_name=question["topology"], **settings)
    return list(found.devices)


def _function(text: str) -> Callable[..., Any]:
    where, _, name = text.rpartition(":")
    if not where.endswith(".py"):
        return getattr(importlib.import_module(where), name)
    path = Path(where).resolve()
    sys.path.insert(0, str(path.parent))  # as for a script: its neighbours can be imported
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def _memory(found: Any, hbm: int | None) -> dict[str, int]:
    known = {ours: getattr(found, theirs, None) for ours, theirs in _MEMORY.items()}
    known["host"] = sum(getattr(found, name, 0) for name in _HOST)
    if known["host"]:
        known["peak"] = None  # then it is the host's memory and the arguments
    known["hbm"] = hbm
    return {name: int(value) for name, value in known.items() if value is not None}


def _last(error: Exception) -> str:
    """The error and the line of the user's program it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if frame.filename != __file__]
    place = f" ({Path(outside[-1].filename).name}:{outside[-1].lineno})" if outside else ""
    return f"{type(error).__name__}: {error}"[:1_000] + place
