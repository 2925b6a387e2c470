"""The built-in analyzers as pyproject.toml declares them, whether or not the package is installed."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

from tpuprof.analysis import Analyzer

ROOT = Path(__file__).resolve().parents[2]


def declared() -> dict[str, str]:
    """Entry points of the group by name."""
    with (ROOT / "pyproject.toml").open("rb") as stream:
        return tomllib.load(stream)["project"]["entry-points"]["tpuprof.analyzers"]


def builtin() -> list[Analyzer]:
    """One of each, by name."""
    found: list[Analyzer] = []
    for _, value in sorted(declared().items()):
        module, _, name = value.partition(":")
        found.append(getattr(import_module(module), name)())
    return found


def analyzer(name: str) -> Analyzer:
    """The built-in analyzer of this name."""
    return next(found for found in builtin() if found.name == name)
