"""Chips from what the files say of them, later files over earlier ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, cast

from tpuprof.errors import UsageError
from tpuprof.hardware.chip import Chip, Fact, Figure, Ici, Platform, WrapRule
from tpuprof.hardware.entries import FACTS, FIGURES, Entry

_TOP_FIGURES = tuple(key for key in FIGURES if "." not in key)
_TOP_FACTS = (
    "cores_per_chip", "devices_per_chip", "mxu_size", "mxus_per_core", "sparse_cores", "host_shape", "pod_shape",
    "pod_chips", "max_job_shape", "scale_up_size", "scale_out_unit_size", "sms",
)  # fmt: skip
_ICI_FIGURES = tuple(key.removeprefix("ici.") for key in FIGURES if key.startswith("ici."))
_SHAPES = ("host_shape", "pod_shape", "max_job_shape")
_ICI_FACTS = ("dims", "links", "wrap_rule")


def build_chip(entries: Iterable[Entry], edition: str) -> Chip:
    """The chip that the entries describe together; a later entry replaces single figures of an earlier one.

    Raises:
        UsageError: no entry says what platform it is, or a part of the ICI description is missing.
    """
    name, where, note = "", "", ""
    platform: Platform | None = None
    aliases: dict[str, None] = {}
    figures: dict[str, Figure] = {}
    facts: dict[str, Fact] = {}
    reasons: dict[str, str] = {}
    for entry in entries:
        name, where = name or entry.name, entry.where
        platform = entry.platform or platform
        note = entry.note or note
        aliases |= dict.fromkeys(entry.aliases)
        figures |= entry.figures
        facts |= entry.facts
        reasons |= entry.reasons
        if "pod_shape" in entry.facts and "pod_chips" not in entry.facts:
            facts.pop("pod_chips", None)
    if platform is None:
        raise UsageError(
            f"{name!r} is a new chip, so its platform must be stated.",
            where=where,
            hint='Write platform = "tpu" (or "gpu", "cpu"), or use the name of a known chip to change its figures.',
        )
    _add_vmem_bandwidth(figures, facts)
    _add_pod_chips(facts)
    _check(name, where, facts)
    values: dict[str, Any] = {key: figures[key] for key in _TOP_FIGURES if key in figures}
    values |= {key: facts[key].value for key in _TOP_FACTS if key in facts}
    return Chip(
        name=name,
        platform=platform,
        edition=edition,
        aliases=tuple(aliases),
        peak={key.removeprefix("peak."): figure for key, figure in figures.items() if key.startswith("peak.")},
        ici=_ici(name, where, figures, facts),
        facts={key: facts[key] for key in FACTS if key in facts},
        reasons={key: text for key, text in reasons.items() if key not in figures},
        note=note,
        **values,
    )


def _add_vmem_bandwidth(figures: dict[str, Figure], facts: Mapping[str, Fact]) -> None:
    """VMEM bandwidth is stated only as a multiple of HBM bandwidth, so it follows the latter."""
    ratio, hbm = facts.get("vmem_over_hbm"), figures.get("hbm_bandwidth")
    if ratio is None or hbm is None or "vmem_bandwidth" in figures:
        return
    times = cast("int", ratio.value)
    note = f"derived: {times} x the HBM bandwidth of {hbm.value / 1e9:,.0f} GB/s; {ratio.note}"
    figures["vmem_bandwidth"] = Figure(times * hbm.value, "B/s", ratio.source, note, unverified=ratio.unverified)


def _add_pod_chips(facts: dict[str, Fact]) -> None:
    shape = facts.get("pod_shape")
    if shape is None or "pod_chips" in facts:
        return
    facts["pod_chips"] = Fact(_product(shape), shape.source, "product of the pod's shape")


def _check(name: str, where: str, facts: Mapping[str, Fact]) -> None:
    """Facts that contradict each other would end as wrong topologies far from here."""
    dims = facts.get("ici.dims")
    for key in _SHAPES:
        shape = facts.get(key)
        if shape is not None and dims is not None and len(cast("tuple[int, ...]", shape.value)) != dims.value:
            raise UsageError(
                f"{key} of {name} is {shape.value}, but its torus has {dims.value} dimensions.", where=where
            )
    shape, chips = facts.get("pod_shape"), facts.get("pod_chips")
    if shape is not None and chips is not None and _product(shape) != chips.value:
        raise UsageError(
            f"pod_shape of {name} has {_product(shape)} chips, but pod_chips is {chips.value}.",
            where=where,
            hint="Give only one of them.",
        )
    cores, devices = (facts[key].value if key in facts else 1 for key in ("cores_per_chip", "devices_per_chip"))
    if cast("int", devices) > cast("int", cores):
        raise UsageError(
            f"{name} has {devices} runtime devices per chip, but {cores} core{'s' if cores != 1 else ''}.",
            where=where,
            hint="Give cores_per_chip, too.",
        )


def _product(shape: Fact) -> int:
    return math.prod(cast("tuple[int, ...]", shape.value))


def _ici(name: str, where: str, figures: Mapping[str, Figure], facts: Mapping[str, Fact]) -> Ici | None:
    said = [key for key in (*figures, *facts) if key.startswith("ici.")]
    if not said:
        return None
    missing = [key for key in _ICI_FACTS if f"ici.{key}" not in facts]
    if missing:
        raise UsageError(
            f"The ICI of {name} lacks {', '.join(missing)}.",
            where=where,
            hint='Write, for example, dims = 2, links = 4, wrap_rule = "only_16".',
        )
    values: dict[str, Any] = {key: figures[f"ici.{key}"] for key in _ICI_FIGURES if f"ici.{key}" in figures}
    return Ici(
        dims=cast("int", facts["ici.dims"].value),
        links=cast("int", facts["ici.links"].value),
        wrap_rule=cast("WrapRule", facts["ici.wrap_rule"].value),
        **values,
    )
