"""Whether the TPU compiler is installed, and whether it is the one that this jax was built for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import metadata

from tpuprof.errors import MissingDependencyError

INSTALL = 'pip install "tpuprof[tpu]"'
_PIN = re.compile(r"libtpu\s*==\s*([0-9A-Za-z.*]+)")


@dataclass(frozen=True, slots=True)
class Installed:
    """Versions of what compiles.

    Args:
        wanted: the libtpu that this jax asks for, such as ``0.0.42.*``; null if it does not say.
    """

    jax: str
    libtpu: str
    wanted: str | None

    @property
    def matched(self) -> bool | None:
        """Whether libtpu is the wanted one; null if jax does not say."""
        if self.wanted is None:
            return None
        stem = self.wanted.removesuffix(".*")
        return self.libtpu == stem or (self.wanted != stem and self.libtpu.startswith(f"{stem}."))


def compiler_versions() -> Installed:
    """The installed versions; nothing is imported.

    Raises:
        MissingDependencyError: jax or libtpu is not installed.
    """
    found = {name: _version(name) for name in ("jax", "libtpu")}
    missing = [name for name, version in found.items() if version is None]
    if missing:
        raise MissingDependencyError(
            f"Compiling for TPUs needs {' and '.join(missing)}.",
            why="libtpu holds the compiler; it exists for Linux with x86-64 only.",
            hint=INSTALL,
        )
    return Installed(str(found["jax"]), str(found["libtpu"]), wanted_libtpu())


def wanted_libtpu() -> str | None:
    """The version of libtpu that the installed jax asks for; null if there is no jax or it does not say."""
    try:
        asked = metadata.requires("jax") or ()
    except metadata.PackageNotFoundError:
        return None
    pins = (_PIN.match(each) for each in asked)
    return next((pin[1] for pin in pins if pin), None)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
