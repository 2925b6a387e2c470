"""Writes docs/accuracy.md, or with --check says whether it is current.

The section on real traces is made where TPUPROF_REAL_TRACES names them; elsewhere the one that is there is kept.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.metadata import version
from pathlib import Path

from tests.accuracy.page import page
from tests.accuracy.real import REAL_TITLE, real_section

XPROF_VERSION = "2.24"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy.md"


def main() -> int:
    """Does what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy", description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    found = version("xprof")
    if not found.startswith(f"{XPROF_VERSION}."):
        print(f"The page shows the numbers of XProf {XPROF_VERSION}; {found} is installed.", file=sys.stderr)
        return 2
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    folder = os.environ.get("TPUPROF_REAL_TRACES")
    kept = old[old.index(REAL_TITLE) :] if REAL_TITLE in old else None
    new = page(real_section(Path(folder)) if folder else kept)
    if new == old:
        return 0
    if check:
        print(f"{PAGE} is out of date: python -m tests.accuracy")
        return 1
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
