"""The part of the launcher's hook that runs when a Python process starts: it waits for `import jax`.

Every Python process of the program passes through here, also those that never touch jax, so it is kept to a
look at one environment variable and one entry in `sys.meta_path`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

SPEC_VARIABLE = "TPUPROF_CAPTURE_SPEC"


def install() -> None:
    """Has the capture armed once this process has imported jax; does nothing outside the launcher."""
    text = os.environ.get(SPEC_VARIABLE)
    if not text or any(isinstance(finder, JaxWatcher) for finder in sys.meta_path):
        return
    import json

    from tpuprof.capture.status import Status

    status = Status(str(json.loads(text)["status_dir"]))
    status.update(stage="python")
    sys.meta_path.insert(0, JaxWatcher(text, status))


class JaxWatcher:
    """A meta path entry that finds nothing itself and is told when `jax` has been imported."""

    def __init__(self, spec: str, status: Any) -> None:
        self._spec = spec
        self._status = status
        self._looking = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of jax as other finders make it, with our call after its loading; else None."""
        if name != "jax" or self._looking:
            return None
        import importlib.util

        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: Any) -> None:
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            # Only a finished import gets here; one that failed may be tried again.
            del loader.exec_module
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self._arm()

        try:
            loader.exec_module = exec_module  # the loader belongs to this one module
        except AttributeError:
            self._status.problem("this import system does not let tpuprof follow jax")

    def _arm(self) -> None:
        self._status.adopt()  # launchers often fork their workers before these import jax
        try:
            from tpuprof.capture.controller import arm

            arm(self._spec, self._status)
        except Exception as error:
            self._status.problem(f"the capture could not be prepared: {error!r}")
