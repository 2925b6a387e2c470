"""Values that are safe to write: plain data for strict JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import pandas as pd


def jsonable(value: object) -> Any:
    """The value as plain JSON data: numpy scalars become numbers; NaN, infinities and pandas nulls become None."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        mapping = cast("Mapping[object, object]", value)
        return {str(key): jsonable(item) for key, item in mapping.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(item) for item in cast("list[object]", value)]
    if isinstance(value, bytes):
        return value.hex()
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    to_plain = getattr(value, "tolist", None)
    return jsonable(to_plain()) if callable(to_plain) else str(value)


def table_of(value: Any) -> dict[str, Any]:
    """A nested object of a document, empty where it is null."""
    return value or {}


def rows_of(value: Any) -> list[dict[str, Any]]:
    """A list of objects of a document, empty where it is null."""
    return value or []


def to_json(document: Mapping[str, Any], indent: int | None = 2) -> str:
    """Strict JSON in ASCII, so that it passes any locale; ends with a newline."""
    try:
        return json.dumps(document, indent=indent, allow_nan=False, default=jsonable) + "\n"
    except (TypeError, ValueError):  # keys that are no text, or floats that are not finite: rare, so found this way
        return json.dumps(jsonable(document), indent=indent, allow_nan=False) + "\n"


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as plain dictionaries: Python numbers, None for nulls and for what is not finite."""
    columns: list[list[Any]] = []
    for name in frame.columns:
        series = frame[name]
        values: list[Any] = series.tolist()
        if series.dtype.kind == "f":
            values = [value if math.isfinite(value) else None for value in values]
        elif bool(series.isna().any()):
            values = [None if gone else value for value, gone in zip(values, series.isna().tolist(), strict=True)]
        columns.append(values)
    names = [str(name) for name in frame.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
