"""Entries of hardware files: which keys a chip may have, in which unit, and their check into figures and facts."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from tpuprof.errors import UsageError
from tpuprof.hardware.chip import Fact, Figure, Platform
from tpuprof.hardware.dtypes import CLASSES
from tpuprof.hardware.quantity import parse_quantity
from tpuprof.text import clean

FIGURES: dict[str, str] = {
    "hbm_bytes": "B",
    "hbm_usable_bytes": "B",
    "hbm_bandwidth": "B/s",
    "core_vmem_bytes": "B",
    "vmem_bandwidth": "B/s",
    "cmem_bytes": "B",
    "clock_hz": "Hz",
    "vector_flops": "FLOP/s",
    "host_memory_bytes": "B",
    "dcn_bandwidth": "B/s",
    "pcie_bandwidth": "B/s",
    "host_dma_bandwidth": "B/s",
    "scale_up_bandwidth": "B/s",
    "scale_out_bandwidth": "B/s",
    "scale_out_unit_bandwidth": "B/s",
    "smem_bytes": "B",
    "power_w": "W",
    "price_usd_per_hour": "USD/h",
    **{f"peak.{kind}": "FLOP/s" for kind in CLASSES},
    "ici.link_bandwidth": "B/s",
    "ici.hop_latency_s": "s",
    "ici.total_bandwidth": "B/s",
    "ici.pod_all_reduce": "B/s",
    "ici.pod_bisection": "B/s",
}
"""Keys of figures with their units; a dot leads into a table of the file."""

Kind = Literal["count", "shape", "numbers", "text", "dims", "wrap"]
FACTS: dict[str, Kind] = {
    "cores_per_chip": "count",
    "devices_per_chip": "count",
    "mxu_size": "count",
    "mxus_per_core": "count",
    "sparse_cores": "count",
    "pod_chips": "count",
    "scale_up_size": "count",
    "scale_out_unit_size": "count",
    "sms": "count",
    "vmem_over_hbm": "count",
    "host_shape": "shape",
    "pod_shape": "shape",
    "max_job_shape": "shape",
    "power_w_min_mean_max": "numbers",
    "host": "text",
    "ici.topology": "text",
    "ici.dims": "dims",
    "ici.links": "count",
    "ici.wrap_rule": "wrap",
}
"""Keys of what is no figure."""

_TABLES = ("peak", "ici")
_PLAIN = ("platform", "aliases", "note", "reasons")
_DETAILS = ("value", "source", "note", "conflict", "unverified")
_PLATFORMS = ("tpu", "gpu", "cpu")
LONGEST_NAME = 64
_WRAP_RULES = ("only_16", "multiples_of_4")
_MOST_AXES = 3
_MOST_COUNT = 1_000_000
_REFERENCE = re.compile(r"@(\w+)")


@dataclass(frozen=True, slots=True)
class Entry:
    """What one file says of one chip: figures and facts by key; what it does not say is absent."""

    name: str
    where: str
    platform: Platform | None = None
    aliases: tuple[str, ...] = ()
    note: str = ""
    figures: Mapping[str, Figure] = field(default_factory=dict[str, Figure])
    facts: Mapping[str, Fact] = field(default_factory=dict[str, Fact])
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Origin:
    """Where entries come from: the file for messages, the source of bare numbers, and texts that ``@name`` means."""

    where: str
    source: str
    texts: Mapping[str, str] = field(default_factory=dict[str, str])

    def expand(self, text: str) -> str:
        """The text with its references replaced; one that is not known stays as it is."""
        return _REFERENCE.sub(lambda found: self.texts.get(found[1], found[0]), text) if self.texts else text


def read_entry(name: str, table: object, origin: Origin) -> Entry:
    """The entry of one chip, checked.

    Raises:
        UsageError: a key is unknown, or a value has the wrong type, the wrong unit or no sensible size.
    """
    where = f"{origin.where}, [chips.{name[:LONGEST_NAME]}]"
    rows = _flat(_mapping(table, "a chip", where), where)
    figures: dict[str, Figure] = {}
    facts: dict[str, Fact] = {}
    for key, value in rows.items():
        if key in FIGURES:
            figures[key] = _figure(key, value, origin, where)
        elif key in FACTS:
            facts[key] = _fact(key, value, origin, where)
        elif key not in _PLAIN:
            raise _unknown(key, where)
    aliases = rows.get("aliases", [])
    if not isinstance(aliases, list):
        raise UsageError("aliases must be a list of names.", where=where, hint='Write aliases = ["name"].')
    for alias in [name, *cast("list[object]", aliases)]:
        if not isinstance(alias, str) or not alias.strip() or len(alias) > LONGEST_NAME or not alias.isprintable():
            raise UsageError(
                f"{alias!r} is no name for a chip.", where=where, hint=f"Use 1 to {LONGEST_NAME} printable characters."
            )
    reasons = _mapping(rows.get("reasons", {}), "reasons", where)
    platform = rows.get("platform")
    if platform is not None and platform not in _PLATFORMS:
        raise UsageError(f"{platform!r} is no platform.", where=where, hint=f"Platforms: {', '.join(_PLATFORMS)}.")
    return Entry(
        name,
        where,
        platform,
        tuple(cast("list[str]", aliases)),
        origin.expand(_text(rows.get("note", ""), "note", where)),
        figures,
        facts,
        {key: origin.expand(_text(text, key, where)) for key, text in reasons.items()},
    )


def _flat(table: Mapping[str, object], where: str) -> dict[str, object]:
    rows: dict[str, object] = {}
    for key, value in table.items():
        if key in _TABLES:
            rows |= {f"{key}.{inner}": item for inner, item in _mapping(value, key, where).items()}
        else:
            rows[key] = value
    return rows


def _unknown(key: str, where: str) -> UsageError:
    known = [*FIGURES, *FACTS, *_PLAIN]
    if key.startswith("peak."):
        hint = f"Classes of dtypes: {', '.join(CLASSES)}."
    else:
        near = difflib.get_close_matches(key, known, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Keys: {', '.join(known)}."
    return UsageError(f"{key!r} is no key of a chip.", where=where, hint=hint)


def _figure(key: str, value: object, origin: Origin, where: str) -> Figure:
    bare, details = _details(key, value, where)
    unit = FIGURES[key]
    number = parse_quantity(bare, unit, key, where=where)
    source, note, conflict, unverified = _described(details, key, origin, where)
    return Figure(number, unit, source, note, conflict, unverified)


def _fact(key: str, value: object, origin: Origin, where: str) -> Fact:
    bare, details = _details(key, value, where)
    return Fact(_fact_value(key, bare, where), *_described(details, key, origin, where))


def _details(key: str, value: object, where: str) -> tuple[object, Mapping[str, object]]:
    if not isinstance(value, dict):
        return value, {}
    details = cast("dict[str, object]", value)
    for name in details:
        if name not in _DETAILS:
            raise UsageError(f"{name!r} is no part of {key}.", where=where, hint=f"Parts: {', '.join(_DETAILS)}.")
    if "value" not in details:
        raise UsageError(f"{key} has no value.", where=where, hint=f"Write {key} = {{ value = …, source = … }}.")
    return details["value"], details


def _described(details: Mapping[str, object], key: str, origin: Origin, where: str) -> tuple[str, str, str, bool]:
    unverified = details.get("unverified", False)
    if not isinstance(unverified, bool):
        raise UsageError(f"unverified of {key} must be true or false, not {unverified!r}.", where=where)
    texts = [_text(details.get(name, ""), f"{name} of {key}", where) for name in ("source", "note", "conflict")]
    source, note, conflict = (origin.expand(text) for text in texts)
    return source or origin.source, note, conflict, unverified


def _fact_value(key: str, value: object, where: str) -> int | tuple[int, ...] | tuple[float, ...] | str:
    match FACTS[key]:
        case "count":
            if _is_count(value):
                return cast("int", value)
            raise UsageError(f"{key} must be a whole number above 0, not {value!r}.", where=where)
        case "dims":
            if value in (2, 3) and _is_count(value):
                return cast("int", value)
            raise UsageError(f"{key} must be 2 or 3, not {value!r}.", where=where)
        case "shape":
            sizes = cast("list[object]", value) if isinstance(value, list) else []
            if 1 <= len(sizes) <= _MOST_AXES and all(_is_count(size) for size in sizes):
                return tuple(cast("list[int]", sizes))
            raise UsageError(f"{key} must be a list of one to three sizes, not {value!r}.", where=where)
        case "numbers":
            numbers = cast("list[object]", value) if isinstance(value, list) else [value]
            return tuple(parse_quantity(number, "W", key, where=where) for number in numbers)
        case "wrap":
            if value in _WRAP_RULES:
                return cast("str", value)
            raise UsageError(f"{key} is {value!r}.", where=where, hint=f"Rules: {', '.join(_WRAP_RULES)}.")
        case "text":
            return _text(value, key, where)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_COUNT


def _text(value: object, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a text, not {value!r}.", where=where)
    return clean(value)


def _mapping(value: object, name: str, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise UsageError(f"{name} must be a table, not {value!r}.", where=where)
    return cast("dict[str, object]", value)
