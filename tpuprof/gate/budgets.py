"""Budgets: limits that the figures of a run must keep, from TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from tpuprof.compare.outcome import Thresholds
from tpuprof.errors import InputError, UsageError
from tpuprof.gate.quantities import parse_bytes, parse_count, parse_share, parse_time_ps

Unit = Literal["time", "share", "bytes", "count", "ratio"]
MAX_BYTES = 1 << 20
PYPROJECT = "pyproject.toml"
_BANDS = ("warn", "fail")
_SECTIONS = ("budget", "verdict")


@dataclass(frozen=True, slots=True)
class BudgetKind:
    """A figure that can have a budget.

    Args:
        meaning: what it is.
        parse: reads a limit; the unit goes with it.
        least: whether the limit is the least that is wanted rather than the most.
        of_steps: whether step times alone tell it.
    """

    meaning: str
    parse: Callable[..., tuple[float, Unit]]
    least: bool = False
    of_steps: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """A figure with its limits; in ps, bytes, shares or counts as ``unit`` says. At least one limit is set."""

    name: str
    unit: Unit
    warn: float | None
    fail: float | None


@dataclass(frozen=True, slots=True)
class Rules:
    """What a file asks of a run."""

    budgets: tuple[Budget, ...] = ()
    thresholds: Thresholds = field(default_factory=Thresholds)
    place: str = ""


def _time(value: object, name: str, *, where: str) -> tuple[float, Unit]:
    return parse_time_ps(value, name, where=where), "time"


def _time_or_share(value: object, name: str, *, where: str) -> tuple[float, Unit]:
    if isinstance(value, str) and "%" not in value:
        return _time(value, name, where=where)
    return parse_share(value, name, where=where), "share"


def _ratio(value: object, name: str, *, where: str) -> tuple[float, Unit]:
    return parse_share(value, name, where=where), "ratio"


def _size(value: object, name: str, *, where: str) -> tuple[float, Unit]:
    return parse_bytes(value, name, where=where), "bytes"


def _count(value: object, name: str, *, where: str) -> tuple[float, Unit]:
    return parse_count(value, name, where=where), "count"


KINDS: dict[str, BudgetKind] = {
    "step_time_p50": BudgetKind("Median of the step times.", _time, of_steps=True),
    "step_time_p95": BudgetKind("95th percentile of the step times.", _time, of_steps=True),
    "exposed_collectives": BudgetKind("Exposed collectives, as a share of the mean step or a time.", _time_or_share),
    "idle": BudgetKind("Idle time, as a share of the mean step or a time.", _time_or_share),
    "mfu": BudgetKind("Model FLOPs utilisation; the least that is wanted.", _ratio, least=True),
    "memory_peak": BudgetKind("Device memory of the program that needs most.", _size),
    "recompiles": BudgetKind("Compilations inside the window.", _count),
}
"""Every budget by name."""


def read_rules(path: Path | None = None) -> Rules:
    """The budgets and thresholds of a TOML file; of none, those of the nearest ``pyproject.toml``, if it has any.

    ``pyproject.toml`` holds them in ``[tool.tpuprof.budget]`` and ``[tool.tpuprof.verdict]``, any other file in
    ``[budget]`` and ``[verdict]``.

    Raises:
        UsageError: a key is unknown, or a value makes no sense.
        InputError: the file cannot be read, or is no TOML.
    """
    found = nearest_pyproject(Path.cwd()) if path is None else path
    if found is None:
        return Rules()
    document = _document(found)
    where = str(found)
    if found.name == PYPROJECT:
        tool = _table(document.get("tool", {}), "tool", where)
        document = _table(tool.get("tpuprof", {}), "tool.tpuprof", where)
        where = f"{where}, tool.tpuprof"
        if path is not None and not document:
            raise UsageError("The file asks nothing of a run.", where=where, hint="Add [tool.tpuprof.budget].")
    _known(document, _SECTIONS, where)
    budget = _table(document.get("budget", {}), "budget", where)
    _known(budget, tuple(KINDS), f"{where}, budget")
    return Rules(
        budgets=tuple(_budget(name, budget[name], f"{where}, budget") for name in KINDS if name in budget),
        thresholds=_thresholds(_table(document.get("verdict", {}), "verdict", where), f"{where}, verdict"),
        place=str(found),
    )


def nearest_pyproject(directory: Path) -> Path | None:
    """The ``pyproject.toml`` of a directory or of the nearest one above it."""
    for folder in (directory, *directory.parents):
        if (folder / PYPROJECT).is_file():
            return folder / PYPROJECT
    return None


def _document(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InputError(f"The file has more than {MAX_BYTES} bytes.", where=str(path))
        return tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise InputError(f"The file cannot be read: {error.strerror}.", where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"The file is no TOML: {error}.", where=str(path)) from error


def _budget(name: str, value: object, where: str) -> Budget:
    given = cast("Mapping[str, object]", value) if isinstance(value, dict) else {"fail": value}
    place = f"{where}.{name}"
    _known(given, _BANDS, place)
    if not given:
        raise UsageError("The budget has no limit.", where=place, hint="Give it a value, or warn and fail.")
    kind = KINDS[name]
    limits = {band: kind.parse(given[band], name, where=place) for band in _BANDS if band in given}
    units: set[Unit] = {unit for _, unit in limits.values()}
    if len(units) > 1:
        raise UsageError("One limit is a share, the other a time.", where=place, hint="Give both in the same way.")
    warn, fail = (limits[band][0] if band in limits else None for band in _BANDS)
    if warn is not None and fail is not None and (warn < fail if kind.least else warn > fail):
        what = "below" if kind.least else "above"
        raise UsageError(f"warn lies {what} fail, so that it would never warn.", where=place, hint="Exchange them.")
    return Budget(name, units.pop(), warn, fail)


def _thresholds(given: Mapping[str, Any], where: str) -> Thresholds:
    names = ("min_effect", "min_effect_time", "alpha", "min_steps")
    _known(given, names, where)
    values: dict[str, Any] = {}
    if "min_effect" in given:
        values["relative"] = parse_share(given["min_effect"], "min_effect", where=where)
    if "min_effect_time" in given:
        values["absolute_ps"] = parse_time_ps(given["min_effect_time"], "min_effect_time", where=where)
    if "alpha" in given:
        values["alpha"] = parse_share(given["alpha"], "alpha", where=where)
    if "min_steps" in given:
        values["min_steps"] = int(parse_count(given["min_steps"], "min_steps", where=where))
    return Thresholds(**values)


def _table(value: object, name: str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{name} is no table.", where=where, hint=f"Write [{name}] and keys below it.")
    return cast("dict[str, Any]", value)


def _known(given: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    unknown = [name for name in given if name not in names]
    if unknown:
        raise UsageError(f"{unknown[0]!r} is no key here.", where=where, hint=f"Keys are {', '.join(names)}.")
