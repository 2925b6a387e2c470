"""What XProf says of trace files, asked in a process of its own: ``python -m tests.accuracy.xprof_raw FILE ...``.

Prints one JSON list. XProf writes caches beside its input and messages to stderr, and it can crash: hence copies in
a directory of their own, and a child process.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

TOOLS = ("overview_page", "hlo_stats", "pod_viewer")


def ask(path: Path) -> dict[str, Any]:
    """The tables of one file, null for a tool that gives none."""
    # XProf has no types; what it returns is checked where it is read.
    overlap: Any = import_module("xprof.cli.tools.analyze_async_overlap_tool")
    convert: Any = import_module("xprof.convert.raw_to_tool_data")

    said: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        for tool in TOOLS:
            own = Path(directory) / tool
            own.mkdir()
            copied = str(shutil.copy(path, own / path.name))
            data, _ = convert.xspace_to_tool_data([copied], tool, {"use_saved_result": False})
            said[tool] = json.loads(data) if data else None
        with contextlib.redirect_stdout(io.StringIO()):
            copied = str(shutil.copy(path, Path(directory) / path.name))
            text = overlap.analyze_async_overlap(copied, top_k=100_000, bypass_cache=True)
        said["async_overlap"] = json.loads(text)
    return said


if __name__ == "__main__":
    json.dump([ask(Path(name)) for name in sys.argv[1:]], sys.stdout)
