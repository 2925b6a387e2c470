"""The rates of one device that the time models need: of a known chip, or those a user states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tpuprof.errors import UsageError
from tpuprof.hardware import Chip, Figure, matmul_peak
from tpuprof.perfmodel.checks import positive
from tpuprof.perfmodel.derivation import Quantity

LINKS = ("hbm", "vmem", "ici", "dcn", "pcie", "scale-up", "scale-out")
"""The links that can carry the bytes of a roofline."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate with its source, or the reason why it is not known.

    Args:
        value: FLOP/s or B/s; null if unknown.
        source: the document; empty for what the user gave.
        note: an assumption that comes with it, such as float32 in bf16 passes.
        reason: why the value is null.
    """

    value: float | None
    source: str = ""
    note: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Rates:
    """What one runtime device can do.

    Args:
        name: of the chip; ``this device`` where the user gives the rates.
        peak: the rate of matmuls for all types that the user stated; null to look types up in the chip.
        links: bandwidths by :data:`LINKS`; ICI is both directions of one link, GPU networks are one-way.
        vector: elementwise rate, FLOP/s.
        mxu_size: edge of a matrix unit; null where matmuls are not padded.
        chip: where types are looked up.
    """

    name: str = "this device"
    peak: Rate | None = None
    links: Mapping[str, Rate] = field(default_factory=dict[str, Rate])
    vector: Rate = Rate(None, reason="No vector rate is given.")
    mxu_size: int | None = None
    chip: Chip | None = None

    def matmul_rate(self, dtype: str, precision: str = "default") -> Rate:
        """The rate of matmuls of a type; its value is null with a reason if there is none.

        Args:
            dtype: an element type, or one with its precision as cost analyses write it (``f32@highest``).
            precision: where the type is without one.

        Raises:
            UsageError: there is no such precision.
        """
        dtype, _, own = dtype.partition("@")
        precision = own or precision
        if self.peak is not None:
            return self.peak
        if self.chip is None:
            return Rate(None, reason="No peak rate is given.")
        found = matmul_peak(self.chip, dtype, precision)
        if found.device is None:
            return Rate(None, note=found.assumption, reason=found.reason)
        return Rate(found.device.value, _origin(self.name, found.device), found.assumption)

    def link(self, name: str) -> Rate:
        """The bandwidth of a link; its value is null with a reason if it is not known."""
        return self.links.get(name, Rate(None, reason=f"No bandwidth of {name} is known for {self.name}."))

    def need_peak(self, dtype: str) -> Quantity:
        """The rate of matmuls of a type, where an answer cannot do without.

        Raises:
            UsageError: it is not known.
        """
        return _needed(self.matmul_rate(dtype), "FLOP/s", "--peak")

    def need_link(self, name: str) -> Quantity:
        """The bandwidth of a link, where an answer cannot do without.

        Raises:
            UsageError: it is not known.
        """
        return _needed(self.link(name), "B/s", "--bandwidth")

    def with_peak(self, peak: float) -> Rates:
        """The same with one peak rate for all types.

        Raises:
            UsageError: it is not above zero.
        """
        return replace(self, peak=Rate(positive("The peak rate", peak)))

    def with_link(self, name: str, bandwidth: float) -> Rates:
        """The same with another bandwidth of a link.

        Raises:
            UsageError: it is not above zero.
        """
        return replace(self, links={**self.links, name: Rate(positive(f"The bandwidth of {name}", bandwidth))})


def rates_of(chip: Chip) -> Rates:
    """The rates of one runtime device of a chip: half of a TPU7x, a whole v5e.

    ICI, DCN and PCIe are those of the chip, since its devices share them; the note says so.
    """
    figures = {
        "hbm": chip.device_hbm_bandwidth,
        "vmem": chip.device_vmem_bandwidth,
        "ici": None if chip.ici is None else chip.ici.axis_bandwidth,
        "dcn": chip.dcn_bandwidth,
        "pcie": chip.pcie_bandwidth,
        "scale-up": chip.scale_up_bandwidth,
        "scale-out": chip.scale_out_bandwidth,
    }
    links = {name: Rate(figure.value, _origin(chip.name, figure)) for name, figure in figures.items() if figure}
    vector = chip.device_vector_flops
    return Rates(
        chip.name, None, links,
        Rate(vector.value, _origin(chip.name, vector)) if vector
        else Rate(None, reason=f"No source states a vector rate of {chip.name}."),
        chip.mxu_size, chip,
    )  # fmt: skip


def rates_of_whole(chip: Chip) -> Rates:
    """The rates of a whole chip, as documents print them: both halves of a TPU7x."""
    rates = rates_of(chip)
    count = chip.devices_per_chip
    if count == 1:
        return rates
    scaled = {
        name: replace(rate, value=rate.value * count, source=f"{rate.source}; whole chip")
        for name, rate in rates.links.items()
        if name in ("hbm", "vmem") and rate.value is not None
    }
    vector = rates.vector if rates.vector.value is None else replace(rates.vector, value=rates.vector.value * count)
    return replace(rates, links={**rates.links, **scaled}, vector=vector, chip=replace(chip, devices_per_chip=1))


def _needed(rate: Rate, unit: str, option: str) -> Quantity:
    if rate.value is None:
        raise UsageError(rate.reason or "The rate is not known.", hint=f"Give {option}, or a --chip that states it.")
    return Quantity(rate.value, unit, rate.source)


def _origin(name: str, figure: Figure) -> str:
    parts = [f"{name}: {figure.source}", figure.note, f"but: {figure.conflict}" if figure.conflict else ""]
    return "; ".join(part for part in [*parts, "unverified" if figure.unverified else ""] if part)
