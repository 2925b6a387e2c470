"""Profiles by name: constants of training plans that a calibration or a user put in place of the built-in ones.

A profile is a TOML file with the tables of ``train_profile.toml``, all of them optional, and with what it rests on:
``profile`` (name, date, tool), ``runs``, ``fitted`` and ``kept``. Such files are shared, so every value is checked.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tpuprof.errors import InputError, UsageError
from tpuprof.hardware import find_chip
from tpuprof.plan.train_profile import Efficiency, built_in, efficiency, efficiency_in
from tpuprof.text import clean

_MOST_BYTES = 1_000_000
_MOST_ENTRIES = 1_000
_MOST_TEXT = 2_000
_MOST_NUMBER = 1e18
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """Between what a constant must be.

    Args:
        whole: it is a count.
    """

    low: float
    high: float
    whole: bool = False

    def text(self) -> str:
        """The range in words."""
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.low:g} to {self.high:g}"

    def allow(self, value: object) -> bool:
        """Whether it is such a number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.low <= value <= self.high and (not self.whole or value == int(value))


_LEAST_RATE = 1e-3
"""Times are divided by rates: what is close to zero gives steps without end."""
_RATE, _SHARE, _COUNT = Limits(_LEAST_RATE, 1), Limits(0, 1), Limits(1, 1 << 20, whole=True)
_ELEMENTS = Limits(0, 1_000)
CHIP = {
    "matmul": _RATE, "attention": _RATE, "memory": _RATE, "launch_s": Limits(0, 1e-3), "spread": Limits(0, 2),
    "gather": _RATE,
}  # fmt: skip
"""Constants of one chip, in the tables ``chips.NAME`` and ``default``."""
COLLECTIVE_KINDS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "collective_permute")
SHARED: Mapping[str, Mapping[str, Limits]] = {
    "overlap": {"weights": _SHARE, "activations": _SHARE, "network": _SHARE},
    "steps": {"per_doubling_of_slices": _SHARE, "idle_s": Limits(0, 3_600)},
    "attention": {"block": _COUNT, "blocks_of_a_sequence": _COUNT},
    "offload": {"bandwidth_share": _RATE, "hidden": _SHARE},
    "elementwise": {
        "width": _ELEMENTS,
        "heads": _ELEMENTS,
        "hidden": _ELEMENTS,
        "backward": _ELEMENTS,
        "narrow_bytes": _ELEMENTS,
    },
    "experts": {"tile_rows": _COUNT, "gather": _RATE},
    "collectives": dict.fromkeys(COLLECTIVE_KINDS, Limits(_LEAST_RATE, 2)),
}
"""Constants of all chips by table."""
_HOST = Limits(1e6, 1e15)
_LISTS = ("runs", "rows", "fitted", "kept", "left_out")
_HEAD = ("name", "created", "tool", "source")


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """Constants with a name.

    Args:
        name: of the profile.
        tables: its own constants by table and key, such as ``chips.v6e`` and ``overlap``; the rest is built in.
        created: when it was made, as a text; empty if not stated.
        source: what it rests on, in a few words.
        notes: its lists ``runs``, ``rows``, ``fitted``, ``kept`` and ``left_out``, for those who want to know.
        path: its file; null if it was not read from one.
    """

    name: str
    tables: Mapping[str, Mapping[str, float]]
    created: str = ""
    source: str = ""
    notes: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict[str, Any])
    path: str | None = None

    def efficiency(self, chip: str) -> Efficiency:
        """What a chip reaches by this profile; what it does not know is built in."""
        base = built_in()
        table: dict[str, Any] = dict(base)
        for section in SHARED:
            table[section] = {**base.get(section, {}), **self.tables.get(section, {})}
        own = self.tables.get(f"chips.{chip}", {})
        known = base["chips"].get(chip)
        general = {**base["default"], **self.tables.get("default", {})}
        first: Mapping[str, Any] = general if known is None else known
        source = f"{self.name}: {self.source or 'a profile'}"
        missing = [name for name in ("matmul", "attention", "memory") if name not in own]
        if missing:
            source += f"; {', '.join(missing)} of {chip} built in: {first['source']}"
        table["default"] = general
        table["chips"] = {chip: {**first, **own, "source": source}}
        table["host"] = {**base["host"], **self.tables.get("host", {})}
        said = {
            **{key: self._said(f"chips.{chip}.{key}") for key in own},
            **{
                f"{section}.{key}": self._said(f"{section}.{key}")
                for section in SHARED
                for key in self.tables.get(section, {})
            },
        }
        return efficiency_in(table, chip, self.name, said)

    def to_json(self) -> dict[str, Any]:
        """What it holds and what that rests on, as plain data."""
        return {
            "name": self.name, "path": self.path, "created": self.created or None, "source": self.source or None,
            "constants": {f"{table}.{key}": value for table, own in self.tables.items() for key, value in own.items()},
            **{name: [dict(entry) for entry in self.notes.get(name, ())] for name in _LISTS},
        }  # fmt: skip

    def _said(self, constant: str) -> str:
        entry = next((each for each in self.notes.get("fitted", ()) if each.get("constant") == constant), None)
        text = "" if entry is None else str(entry.get("source", ""))
        return f"profile {self.name}" + (f": {text}" if text else "")


def default_of(constant: str) -> float | None:
    """The built-in value of a constant, such as ``chips.v6e.matmul`` or ``overlap.weights``; null without one."""
    if constant.startswith("chips."):
        chip, _, key = constant.removeprefix("chips.").rpartition(".")
        return getattr(efficiency(chip), key, None)
    section, _, key = constant.partition(".")
    found = built_in().get(section, {}).get(key)
    return found if found is not None else 1.0 if section == "collectives" else 0.0 if key == "idle_s" else None


def limits_of(constant: str) -> Limits:
    """Between what a constant must be; the KeyError of one that there is not is a fault of the program."""
    section, _, key = constant.rpartition(".")
    return CHIP[key] if section.startswith("chips.") or section == "default" else SHARED[section][key]


def read_profile(path: Path) -> Profile:
    """The profile of a file.

    Raises:
        InputError: it cannot be read, is too large, or is no TOML.
        UsageError: a key is not known, or a value is none that the constant can have.
    """
    where = str(path)
    if path.is_fifo():  # whose reader waits until somebody writes
        raise InputError("The profile is no file.", where=where)
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"The profile cannot be read: {error.strerror or error}.", where=where) from error
    if len(data) > _MOST_BYTES:
        raise InputError("The profile is too large.", where=where, hint=f"The limit is {_MOST_BYTES:,} bytes.")
    try:
        table = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError("The profile is no TOML.", where=where, why=f"{type(error).__name__}: {error}") from error
    return profile_of_table(table, where, path.stem)


def profile_of_table(table: Mapping[str, Any], where: str, name: str) -> Profile:
    """The profile of a parsed file; see :func:`read_profile`.

    Args:
        name: if the file states none.
    """
    known = ("profile", "default", "chips", "host", *SHARED, *_LISTS)
    tables: dict[str, dict[str, float]] = {}
    for section, content in table.items():
        if section not in known:
            raise _unknown(section, known, where, "table of a profile")
        if section in _LISTS or section == "profile":
            continue
        inside = _mapping(content, section, where)
        if section == "chips":
            for chip, own in inside.items():
                found = find_chip(chip) if 0 < len(chip) <= _LONGEST_NAME else None
                key = clean(chip)[:_LONGEST_NAME] if found is None else found.name
                tables[f"chips.{key}"] = _numbers(_mapping(own, f"chips.{key}", where), CHIP, f"chips.{key}", where)
        elif section == "host":
            tables["host"] = _numbers(inside, dict.fromkeys(inside, _HOST), section, where)
        else:
            tables[section] = _numbers(inside, CHIP if section == "default" else SHARED[section], section, where)
    head = _mapping(table.get("profile", {}), "profile", where)
    for key in head:
        if key not in _HEAD:
            raise _unknown(key, _HEAD, where, "key of [profile]")
    texts = {key: _text(head.get(key, ""), f"profile.{key}", where) for key in _HEAD}
    lists = {name: _entries(table.get(name, []), name, where) for name in _LISTS}
    return Profile(texts["name"] or name, tables, texts["created"], texts["source"], lists, where)


def _numbers(content: Mapping[str, Any], known: Mapping[str, Limits], section: str, where: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for key, value in content.items():
        if key == "source":
            _text(value, f"{section}.source", where)
        elif key not in known:
            raise _unknown(key, known, where, f"key of [{section}]")
        elif not known[key].allow(value):
            raise UsageError(
                f"{section}.{clean(key)[:_LONGEST_NAME]} cannot be {clean(value)[:60]}.",
                where=where, hint=f"It must be {known[key].text()}.",
            )  # fmt: skip
        else:
            found[key] = int(value) if known[key].whole else float(value)
    return found


def _entries(content: object, name: str, where: str) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(content, list) or len(cast("list[Any]", content)) > _MOST_ENTRIES:
        raise UsageError(f"{name} must be a list of tables.", where=where, hint=f"At most {_MOST_ENTRIES:,}.")
    found: list[Mapping[str, Any]] = []
    for entry in cast("list[Any]", content):
        values = _mapping(entry, name, where)
        for key, value in values.items():
            plain = isinstance(value, int | float) and abs(value) < _MOST_NUMBER
            if not plain:
                _text(value, f"{name}.{clean(key)[:_LONGEST_NAME]}", where)
        shown = {clean(key)[:_LONGEST_NAME]: clean(v) if isinstance(v, str) else v for key, v in values.items()}
        found.append(shown)
    return tuple(found)


def _mapping(value: object, name: str, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{name} must be a table.", where=where, hint="See docs/planner.md, calibration.")
    return cast("dict[str, Any]", value)


def _text(value: object, name: str, where: str) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        raise UsageError(f"{name} must be a text.", where=where, hint=f"At most {_MOST_TEXT:,} characters.")
    return clean(value)


def _unknown(key: str, known: Any, where: str, what: str) -> UsageError:
    near = difflib.get_close_matches(key[:_LONGEST_NAME], list(known), n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(known)}."
    return UsageError(f"{clean(key)[:_LONGEST_NAME]!r} is no {what}.", where=where, hint=hint)
