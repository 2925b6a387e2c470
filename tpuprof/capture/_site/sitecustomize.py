"""Start-up hook of `tpuprof capture`: runs in every Python process of the captured program.

It prepares the capture, takes itself off the import path, and hands over to the program's own
`sitecustomize`. Whatever fails here, the program starts as if nothing had been there.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader


def _load_tpuprof(package: str) -> None:
    """Makes `import tpuprof` work in an interpreter without it, and nothing beside it."""
    if PathFinder.find_spec("tpuprof", sys.path) is not None:
        return
    location = os.path.join(package, "__init__.py")
    spec = ModuleSpec("tpuprof", SourceFileLoader("tpuprof", location), origin=location, is_package=True)
    spec.submodule_search_locations = [package]
    spec.has_location = True
    _load(spec)


def _start(here: str) -> None:
    try:
        _load_tpuprof(os.path.dirname(os.path.dirname(here)))
        from tpuprof.capture.inject import install

        install()
    except Exception as error:
        if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
            return
        print(f"tpuprof: no capture in process {os.getpid()}: {error!r}", file=sys.stderr)


def _hand_over(here: str) -> None:
    """Runs the `sitecustomize` that would have run without us."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        _load(spec)


def _load(spec: ModuleSpec) -> None:
    from importlib.util import module_from_spec  # costs milliseconds, and is rarely needed

    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    assert spec.loader is not None
    spec.loader.exec_module(module)


_here = os.path.dirname(os.path.abspath(__file__))
_start(_here)
_hand_over(_here)
