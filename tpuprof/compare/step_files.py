"""Step times from the logs of a program: CSV and JSON lines."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections.abc import Iterator
from typing import Any, cast

from tpuprof.compare.samples import MAX_STEP_PS, Samples
from tpuprof.errors import InputError, InputTooLargeError
from tpuprof.formats.files import as_location, base_name, open_bytes
from tpuprof.units import PS_PER_MS, PS_PER_NS, PS_PER_S, PS_PER_US

MAX_BYTES = 64 << 20
MAX_STEPS = 1_000_000
NAME = "step_time"
UNITS = {"s": PS_PER_S, "ms": PS_PER_MS, "us": PS_PER_US, "ns": PS_PER_NS, "ps": 1}
_COLUMNS = {f"{NAME}_{unit}": scale for unit, scale in UNITS.items()}
_EXPECTED = f"{NAME}_s, _ms, _us, _ns or _ps"
_OTHER_UNITS = frozenset(("m", "min", "mins", "minutes", "h", "hr", "hrs", "hours", "percent", "pct"))
_RATES = frozenset(("per", "rate", "throughput", "qps", "fps", "speed", "mfu", "tps"))
_MAX_SHOWN = 60


def read_samples(path: str | os.PathLike[str]) -> Samples:
    """The step times in a CSV or JSON lines file, a local path or any fsspec URL.

    A CSV file has a column ``step_time_s``, ``_ms``, ``_us``, ``_ns`` or ``_ps`` among any others, or one column
    alone, whose unit is the end of its name and otherwise seconds; a rate or another unit is refused. A JSON line is
    an object with such a key, or a number of seconds. Empty lines are passed over.

    Raises:
        TraceNotFoundError: there is no such file.
        InputTooLargeError: it passes ``MAX_BYTES`` or ``MAX_STEPS``.
        InputError: it is no such file, or a value is not a positive number; the line is named.
    """
    location = as_location(path)
    raw = open_bytes(location)
    if len(raw) > MAX_BYTES:
        raise InputTooLargeError(f"The file has {len(raw)} bytes; the limit is {MAX_BYTES}.", where=location)
    try:
        text = bytes(raw).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            "The file is not text in UTF-8.", where=location, hint="Give step times as CSV or JSON lines."
        ) from error
    is_json = location.lower().endswith((".jsonl", ".ndjson", ".json")) or text.lstrip().startswith("{")
    values: list[float] = []
    for line, value in _json_values(text, location) if is_json else _csv_values(text, location):
        if len(values) == MAX_STEPS:
            raise InputTooLargeError(f"The file has more than {MAX_STEPS} steps.", where=f"{location}, line {line}")
        values.append(value)
    if not values:
        raise InputError("The file holds no step time.", where=location, hint=f"Write one column {NAME}_s.")
    return Samples(tuple(values), base_name(location))


def _csv_values(text: str, location: str) -> Iterator[tuple[int, float]]:
    """(line, ps) of every row of values."""
    reader = csv.reader(io.StringIO(text), strict=True)
    column, scale, width = -1, 0, 0
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            where = f"{location}, line {reader.line_num}"
            if not any(cells):
                continue
            if column < 0:
                header = not all(_is_number(cell) for cell in cells)
                column, scale = _column(cells if header else [""] * len(cells), where)
                width = len(cells)
                if header:
                    continue
            if len(cells) != width:
                raise InputError(f"This row has {len(cells)} columns; the first one has {width}.", where=where)
            yield reader.line_num, _positive(cells[column], scale, where)
    except csv.Error as error:
        raise InputError(f"This is not CSV ({error}).", where=f"{location}, line {reader.line_num}") from error


def _column(names: list[str], where: str) -> tuple[int, int]:
    """Where the step times are, and how many ps their unit has."""
    found = [at for at, name in enumerate(names) if name.lower() in _COLUMNS]
    if len(found) == 1:
        return found[0], _COLUMNS[names[found[0]].lower()]
    if found:
        raise InputError(
            f"The step time is given more than once: {', '.join(names[at] for at in found)}.",
            where=where,
            hint="Keep one of these columns.",
        )
    if len(names) == 1:
        words = re.split(r"[^a-z]+", names[0].lower())
        if words[-1] in _OTHER_UNITS or not _RATES.isdisjoint(words) or "/" in names[0]:
            # Taken for seconds, a rate that falls would be an improvement.
            raise InputError(
                f"{names[0]!r} is no step time in a unit known here.", where=where, hint=f"Write {_EXPECTED}."
            )
        unit = names[0].lower().rpartition("_")[2]
        return 0, UNITS.get(unit, PS_PER_S)
    raise InputError(f"None of the {len(names)} columns is the step time.", where=where, hint=f"Call it {_EXPECTED}.")


def _json_values(text: str, location: str) -> Iterator[tuple[int, float]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{location}, line {number}"
        try:
            entry: Any = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError("This is not a line of JSON.", where=where) from error
        if not isinstance(entry, dict):
            yield number, _positive(entry, PS_PER_S, where)
            continue
        fields = cast("dict[str, Any]", entry)
        names = [name for name in fields if name.lower() in _COLUMNS]
        if len(names) != 1:
            what = "The step time is given more than once." if names else "This line has no step time."
            raise InputError(what, where=where, hint=f"Every line needs one of {_EXPECTED}.")
        yield number, _positive(fields[names[0]], _COLUMNS[names[0].lower()], where)


def _positive(value: object, scale: int, where: str) -> float:
    """A time in ps; whatever is not a positive number is refused rather than left out, as it may hide a bad run."""
    number = math.nan
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            number = float(value) * scale
        except (ValueError, OverflowError):
            number = math.nan
    if not 0 < number <= MAX_STEP_PS:
        shown = repr(value)
        shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}…"
        raise InputError(f"{shown} is not the time of a step.", where=where, hint="Step times are positive numbers.")
    return number


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
