"""What XProf says of traces, asked in a process of its own: ``python -m tests.accuracy.xprof_raw DIRECTORY ...``.

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


def ask(session: Path) -> dict[str, Any]:
    """The tables of one session (a directory of files, one per host), null for a tool that gives none."""
    # XProf has no types; what it returns is checked where it is read.
    overlap: Any = import_module("xprof.cli.tools.analyze_async_overlap_tool")
    convert: Any = import_module("xprof.convert.raw_to_tool_data")
    said: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as directory:
        for tool in TOOLS:
            copied = Path(shutil.copytree(session, Path(directory) / tool))
            paths = sorted(str(path) for path in copied.glob("*.xplane.pb"))
            data, _ = convert.xspace_to_tool_data(paths, tool, {"use_saved_result": False})
            said[tool] = json.loads(data) if data else None
        with contextlib.redirect_stdout(io.StringIO()):
            copied = Path(shutil.copytree(session, Path(directory) / "overlap"))
            paths = sorted(str(path) for path in copied.glob("*.xplane.pb"))
            source = paths[0] if len(paths) == 1 else str(copied)
            text = overlap.analyze_async_overlap(source, top_k=100_000, bypass_cache=True)
        said["async_overlap"] = json.loads(text)
    return said


if __name__ == "__main__":
    json.dump([ask(Path(name)) for name in sys.argv[1:]], sys.stdout)
