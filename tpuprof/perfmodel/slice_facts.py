"""What a slice of TPUs holds and how its axes close, each fact with its derivation."""

from __future__ import annotations

from tpuprof.hardware.slices import job_limit
from tpuprof.hardware.topology import Slice
from tpuprof.perfmodel.derivation import Derivation, Quantity
from tpuprof.perfmodel.peaks import slice_totals

_RULES = {
    "only_16": "an axis closes if it is 16 long, or as long as the pod's",
    "multiples_of_4": "all axes close if every one is a multiple of 4, else none",
}


def slice_facts(
    where: Slice,
    *,
    host: tuple[int, ...] | None = None,
    cores_per_chip: int | None = None,
    hbm: float | None = None,
    peak: float | None = None,
) -> dict[str, Derivation]:
    """``chips``, ``wrap``, ``devices``, ``diameter``, and the totals of :func:`tpuprof.perfmodel.peaks.slice_totals`.

    Args:
        host, cores_per_chip, hbm, peak: instead of the chip's figures; the peak is that of bf16.

    Raises:
        UsageError: a number is out of range.
    """
    chip = where.chip
    bf16 = chip.peak.get("bf16")
    shape = where.shape if where.slices == 1 else (where.slices, *where.shape)
    found = slice_totals(
        shape,
        host=host if host is not None else chip.host_shape,
        cores_per_chip=cores_per_chip if cores_per_chip is not None else chip.cores_per_chip,
        hbm=hbm if hbm is not None else chip.hbm_bytes.value if chip.hbm_bytes is not None else None,
        peak=peak if peak is not None else bf16.value if bf16 is not None else None,
    )
    if host is None and where.n_hosts is not None and "hosts" in found:
        # A slice of less than a host has a whole host of its own, and so has each of several such slices.
        found["hosts"] = Derivation(
            where.n_hosts, "host", "slices * chips of a slice / chips of a host, rounded up", found["hosts"].inputs
        )
    if where.slices > 1:
        note = f"{where.slices} slices, whose number is the first of the shape"
        found = {name: answer.assuming(note) for name, answer in found.items()}
    inputs = {"slice": Quantity(where.name), "shape": Quantity(list(where.shape), "chip")}
    rule = _RULES[chip.ici.wrap_rule] if chip.ici is not None else "no links"
    limit = job_limit(where)
    twisted = "twisted torus" if where.twisted else None
    found["wrap"] = Derivation(
        list(where.wrap), "bool per axis", rule, inputs, twisted, (limit,) if limit else (), (), "scaling book, TPUs"
    )
    found["devices"] = Derivation(where.n_devices, "device", "chips * devices of a chip", inputs)
    found["diameter"] = Derivation(
        where.diameter, "hop", "sum of size/2 of closed axes and size-1 of others", inputs, twisted
    )
    return found
