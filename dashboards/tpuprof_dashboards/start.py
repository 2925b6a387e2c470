"""``python -m tpuprof_dashboards.start run SCRIPT …``: streamlit, which meanwhile makes what the first page will need.

A person's browser takes a second to load streamlit's own page. In that second a thread imports the libraries and opens
the newest run, which is what the first page shows, so that they are there when the first script runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from threading import Thread

FIRST = (
    "pandas",
    "tpuprof.trace",
    "tpuprof.report",
    "tpuprof.roofline",
    "tpuprof.charts",
    "altair",
    "tpuprof_dashboards.app",
    "tpuprof_dashboards.pages.overview",
)
"""Modules that the first page imports, the slowest first."""

LATER = ("tpuprof_dashboards.pages.planner", "tpuprof.plan.train_search", "tpuprof.cli.plan.train")
"""Modules that take a while and that nobody needs at once."""

LARGEST_BYTES = 500_000_000
"""Larger runs are read when somebody asks for them."""


def main() -> None:
    """Runs streamlit's command line in this process."""
    from streamlit.web.cli import main as streamlit

    Thread(target=prepare, args=(sys.argv[1:],), name="prepare", daemon=True).start()
    sys.argv[0] = "streamlit"
    streamlit()


def prepare(arguments: Sequence[str]) -> None:
    """Imports modules, and analyses the newest run if it is not larger than :data:`LARGEST_BYTES`.

    Whatever goes wrong is the page's to say, where somebody reads it: it does the same again.
    """
    with suppress(Exception):
        for name in FIRST:
            import_module(name)
        from tpuprof_dashboards.runs import library_of, timeline_of
        from tpuprof_dashboards.settings import Settings

        library = library_of(Settings.of_arguments(arguments).logdir)
        newest = next(iter(library.list()), None)
        if newest is not None and newest.size_bytes <= LARGEST_BYTES:
            selection = library.open(newest).selection()
            _ = selection.report
            timeline_of(selection)
        for name in LATER:
            import_module(name)


if __name__ == "__main__":
    main()
