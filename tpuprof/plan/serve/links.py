"""Times of the collectives of a layout, which are many and alike: one look-up of each kind, then arithmetic."""

from __future__ import annotations

from dataclasses import dataclass, field

from tpuprof.errors import UsageError
from tpuprof.hardware.mesh import torus_mesh
from tpuprof.perfmodel.collective_time import collective_time
from tpuprof.plan.serve.layout import ServeLayout

_LARGE = 1e15


class UnknownLinkError(UsageError):
    """A bandwidth that decides a collective is not known."""


@dataclass(frozen=True, slots=True)
class LinkCost:
    """``seconds = t0 + max(bytes * per_byte, floor) / c``: what `collective_time` gives, for any size.

    Args:
        per_byte: seconds per byte of the busiest link.
        floor: seconds of the hops.
        c, t0: what measurements add; 1 and 0 for the physical bound.
        source: of the latter.
    """

    per_byte: float
    floor: float
    c: float = 1.0
    t0: float = 0.0
    source: str = ""

    def seconds(self, size: float) -> float:
        """The time of so many bytes; none for nothing."""
        return self.t0 + max(size * self.per_byte, self.floor) / self.c if size > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Links:
    """The collectives of a layout.

    Args:
        bound: take the physical bound.
    """

    layout: ServeLayout
    bound: bool = False
    _known: dict[tuple[str, str], LinkCost] = field(default_factory=dict[tuple[str, str], LinkCost], compare=False)

    def cost(self, kind: str, over: str) -> LinkCost:
        """The cost of a collective over ``all`` devices, ``x``, ``y``, or the ``rest`` that share a KV head.

        Raises:
            UnknownLinkError: a bandwidth that decides it is not known.
        """
        found = self._known.get((kind, over))
        if found is None:
            found = self._known[kind, over] = self._look_up(kind, over)
        return found

    def seconds(self, kind: str, over: str, size: float) -> float:
        """The time of a collective of so many bytes, as `collective_time` counts them for the kind."""
        return self.cost(kind, over).seconds(size)

    def _look_up(self, kind: str, over: str) -> LinkCost:
        layout = self.layout
        members = {"all": layout.devices, "x": layout.x, "y": layout.y, "rest": layout.rest}[over]
        if members == 1:
            return LinkCost(0.0, 0.0)
        devices = torus_mesh(layout.where).devices
        if over in ("x", "y"):
            axes = layout.x_axes if over == "x" else layout.y_axes
            large, small = (collective_time(kind, size, layout.where, axes=axes) for size in (_LARGE, 0.0))
        else:
            groups = [devices[start : start + members] for start in range(0, len(devices), members)]
            large, small = (collective_time(kind, size, layout.where, groups=groups) for size in (_LARGE, 0.0))
        if large.seconds is None or small.seconds is None:
            unknown = [text for text in large.derivation.assumptions if "is not known" in text]
            raise UnknownLinkError(
                f"The time of a collective on {layout.where.name} is not known.", why=" ".join(unknown)
            )
        known = large.calibration
        if self.bound or known is None:
            return LinkCost(large.seconds / _LARGE, small.seconds)
        return LinkCost(large.seconds / _LARGE, small.seconds, known.c, known.t0_s, known.source)
