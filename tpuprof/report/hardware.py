"""The documents and tables of ``tpuprof hardware``: all chips, or one with every number's source."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

from tpuprof.hardware import PATHS, Chip, Fact, Figure, chips, ridges
from tpuprof.hardware.entries import FACTS, FIGURES
from tpuprof.report.build import SCHEMA_VERSION
from tpuprof.report.listing import Field, Listing, Result, show_count
from tpuprof.text import clean
from tpuprof.units import PS_PER_S, UNKNOWN, format_ps, format_si

_SHOWN_DTYPES = ("bf16", "fp8", "int8")
_PER_DEVICE = ("hbm_bytes", "hbm_usable_bytes", "hbm_bandwidth", "vmem_bandwidth", "vector_flops")
_BINARY_STEPS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"))
_ALL_COLUMNS = (
    "name", "platform", *(f"peak.{dtype}" for dtype in ("bf16", "fp16", "fp8", "fp4", "int8", "int4")), "hbm_bytes",
    "hbm_bandwidth", "link_bandwidth", "cores_per_chip", "devices_per_chip", "pod_chips", "price_usd_per_hour",
)  # fmt: skip
_FIGURE_COLUMNS = ("name", "value", "unit", "device_value", "source", "note", "conflict", "unverified", "reason")


def format_figure(value: object, unit: str) -> str:
    """A figure or fact for people: bytes that are whole binary units as such, everything else decimal."""
    if value is None:
        return UNKNOWN
    if isinstance(value, tuple | list):
        sizes = cast("tuple[float, ...] | list[float]", value)
        shape = all(isinstance(size, int) for size in sizes)
        return (" x " if shape else " / ").join(f"{size:,.10g}" for size in sizes)
    if not isinstance(value, int | float):
        return clean(value)
    if unit == "s":
        return format_ps(value * PS_PER_S)
    if unit == "USD/h":
        return f"{value:g} {unit}"
    if unit == "B":
        for step, name in _BINARY_STEPS:
            if value >= step and value * 100 % step == 0:
                return f"{value / step:g} {name}"
    return format_si(value, unit) if unit else f"{value:,}"


def hardware_result(edition: str | None, files: tuple[str, ...]) -> Result:
    """All chips of an edition, one row each.

    The document holds ``edition`` and ``chips``: raw numbers per chip in SI units, null where unknown.
    """
    known = chips(edition=edition, files=files)
    rows = [_chip_row(chip) for chip in known]
    fields = (
        Field("name", "chip"),
        *(Field(f"peak.{dtype}", dtype, _show_flops, right=True, rank=_rank(dtype)) for dtype in _SHOWN_DTYPES),
        Field("hbm_bytes", "HBM", _show_bytes, right=True, rank=1),
        Field("hbm_bandwidth", "HBM bandwidth", _show_bandwidth, right=True),
        Field("link_bandwidth", "link", _show_bandwidth, right=True, rank=2),
        Field("devices_per_chip", "devices", show_count, right=True, rank=4),
        Field("pod_chips", "pod", show_count, right=True, rank=6),
        Field("price_usd_per_hour", "USD/h", _show_price, right=True, rank=7),
    )
    name = known[0].edition if known else edition
    title = f"Chips, figures per chip, edition {name}: tpuprof hardware CHIP shows one with its sources"
    notes = ("link: one ICI link of a TPU, all NVLink-like links of a GPU; one way. devices: per chip, as JAX counts.",)
    document = {"schema_version": SCHEMA_VERSION, "command": "hardware", "edition": name, "chips": rows}
    return Result(document, "chips", _ALL_COLUMNS, (Listing(title, "chip", fields, rows, len(rows), notes),))


def chip_result(chip: Chip) -> Result:
    """One chip: every figure and fact with its source, and the ridge points.

    The document holds ``chip`` (name, platform, edition, aliases, note), ``figures`` and ``ridges``. A figure that no
    source states is a row with a null value and its reason.
    """
    rows = _figure_rows(chip)
    ridge_rows = [
        {
            "dtype": ridge.dtype,
            "path": ridge.path,
            "flops_per_byte": ridge.flops_per_byte,
            "peak_flops": ridge.peak.value,
            "bandwidth": ridge.bandwidth.value,
        }
        for ridge in ridges(chip)
    ]
    document = {
        "schema_version": SCHEMA_VERSION,
        "command": "hardware",
        "chip": {
            "name": chip.name,
            "platform": chip.platform,
            "edition": chip.edition,
            "aliases": list(chip.aliases),
            "note": chip.note or None,
        },
        "figures": rows,
        "ridges": ridge_rows,
    }
    listings = (_figures_listing(chip, rows), _ridges_listing(ridge_rows))
    return Result(document, "figures", _FIGURE_COLUMNS, listings)


def _chip_row(chip: Chip) -> dict[str, Any]:
    link = chip.scale_up_bandwidth if chip.ici is None else chip.ici.link_bandwidth
    return {
        "name": chip.name,
        "platform": chip.platform,
        "aliases": list(chip.aliases),
        "peak": {dtype: figure.value for dtype, figure in chip.peak.items()},
        "hbm_bytes": _value(chip.hbm_bytes),
        "hbm_bandwidth": _value(chip.hbm_bandwidth),
        "link_bandwidth": _value(link),
        "cores_per_chip": chip.cores_per_chip,
        "devices_per_chip": chip.devices_per_chip,
        "pod_chips": chip.pod_chips,
        "price_usd_per_hour": _value(chip.price_usd_per_hour),
    }


def _figure_rows(chip: Chip) -> list[dict[str, Any]]:
    """Peaks, the other figures, facts, and what is null for a reason."""
    rows = [_row(f"peak.{dtype}", figure, figure.unit, chip.device_peak(dtype)) for dtype, figure in chip.peak.items()]
    for key, unit in FIGURES.items():
        figure = _figure_of(chip, key)
        if figure is not None:
            rows.append(_row(key, figure, unit, getattr(chip, f"device_{key}") if key in _PER_DEVICE else None))
    rows += [_row(key, chip.facts[key], "", None) for key in FACTS if key in chip.facts and key != "vmem_over_hbm"]
    rows += [{**_empty(key), "reason": reason} for key, reason in chip.reasons.items()]
    return rows


def _figure_of(chip: Chip, key: str) -> Figure | None:
    if key.startswith("peak."):
        return None  # peaks come first, in the chip's own order
    if key.startswith("ici."):
        return None if chip.ici is None else getattr(chip.ici, key.removeprefix("ici."))
    return getattr(chip, key)


def _row(key: str, said: Figure | Fact, unit: str, device: Figure | None) -> dict[str, Any]:
    details = asdict(said)
    value = list(said.value) if isinstance(said.value, tuple) else said.value
    empty = _empty(key)
    return {
        **empty,
        "value": value,
        "unit": unit or None,
        "device_value": _value(device),
        **{name: details[name] or empty[name] for name in ("source", "note", "conflict", "unverified")},
    }


def _empty(key: str) -> dict[str, Any]:
    nothing = dict.fromkeys(_FIGURE_COLUMNS)
    return {**nothing, "name": key, "unverified": False}


def _figures_listing(chip: Chip, rows: list[dict[str, Any]]) -> Listing:
    """Sources, notes and conflicts are too long for cells: the cells hold numbers, the texts follow the table."""
    sources: dict[str, int] = {}
    remarks: list[str] = []
    shown: list[dict[str, Any]] = []
    for row in rows:
        number = sources.setdefault(row["source"], len(sources) + 1) if row["source"] else None
        marks = [word for word in ("conflict", "unverified") if row[word]]
        shown.append(
            {
                "name": row["name"],
                "value": format_figure(row["value"], row["unit"] or ""),
                "device": format_figure(row["device_value"], row["unit"] or ""),
                "source": f"[{number}]" if number else "",
                "marks": ", ".join(marks),
            }
        )
        said = [row["note"], row["conflict"] and f"elsewhere {row['conflict']}", row["reason"]]
        text = "; ".join(part for part in said if part)
        remarks += [f"{row['name']}: {text}"] if text else []
    several = chip.devices_per_chip > 1
    fields = (
        Field("name", "figure"),
        Field("value", "per chip", right=True),
        *((Field("device", "per device", _show_known, right=True, rank=1),) if several else ()),
        Field("source", "source"),
        Field("marks", "", rank=2),
    )
    title = f"{chip.name} ({chip.platform}), edition {chip.edition}; also {', '.join(chip.aliases) or 'no other name'}"
    notes = [*([chip.note] if chip.note else []), *(f"[{number}] {text}" for text, number in sources.items()), *remarks]
    return Listing(title, "figure", fields, shown, len(shown), tuple(notes))


def _ridges_listing(rows: list[dict[str, Any]]) -> Listing:
    table: dict[str, dict[str, Any]] = {}
    for row in rows:
        table.setdefault(row["dtype"], {"dtype": row["dtype"]})[row["path"]] = row["flops_per_byte"]
    paths = [path for path in PATHS if any(path in row for row in table.values())]
    fields = (
        Field("dtype", "dtype"),
        *(Field(path, path.replace("_", " "), _show_ridge, right=True) for path in paths),
    )
    title = "Ridge points in FLOP/B: below it the bytes are the limit, above it the arithmetic"
    said = {
        "ici": "ici is one axis of the torus, both directions",
        "scale_up": "scale up and scale out are one way",
        "dcn": "dcn and pcie are one way",
    }
    notes = tuple(f"{text}." for path, text in said.items() if path in paths)
    return Listing(title, "ridge point", fields, list(table.values()), len(table), notes)


def _value(figure: Figure | None) -> float | None:
    return None if figure is None else figure.value


def _rank(dtype: str) -> int:
    return 0 if dtype == "bf16" else 3


def _show_flops(value: float | None) -> str:
    return format_si(value, "FLOP/s")


def _show_bandwidth(value: float | None) -> str:
    return format_si(value, "B/s")


def _show_bytes(value: float | None) -> str:
    return format_figure(value, "B")


def _show_price(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:g}"


def _show_ridge(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _show_known(value: str) -> str:
    return "" if value == UNKNOWN else value
