"""``python -m tpuprof_dashboards.start run SCRIPT …``: streamlit, which meanwhile loads what the first page will need.

A person's browser takes a second to load streamlit's own page. In that second a thread imports the libraries, so that
they are there when the first script runs.
"""

from __future__ import annotations

import sys
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


def main() -> None:
    """Runs streamlit's command line in this process."""
    from streamlit.web.cli import main as streamlit

    Thread(target=load, name="imports", daemon=True).start()
    sys.argv[0] = "streamlit"
    streamlit()


def load() -> None:
    """Imports :data:`FIRST`. What cannot be imported is the page's to say, where somebody reads it."""
    for name in FIRST:
        try:
            import_module(name)
        except Exception:  # the page imports it again, and shows why that fails
            return


if __name__ == "__main__":
    main()
