"""Finds chips by name, alias or device kind, in the packaged files and in those of the user."""

from __future__ import annotations

import difflib
import functools
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from tpuprof.errors import InputError, UsageError
from tpuprof.hardware.build import build_chip
from tpuprof.hardware.chip import Chip
from tpuprof.hardware.entries import LONGEST_NAME, Entry, Origin, read_entry

DATASHEET = "datasheet"
EDITIONS = (DATASHEET, "book-2025-02", "book-2026", "cloud-docs")
"""Editions of constants. The first, the default, takes each figure from the best source; others print single documents.

Figures that a document does not print keep the datasheet's, whose source says so.
"""

HardwareFile = str | os.PathLike[str]
_DATA = Path(__file__).with_name("data")
_PACKAGED = ("tpu.toml", "nvidia.toml", "amd.toml")
_MOST_BYTES = 1_000_000
_SEPARATORS = re.compile(r"[\s_\-]+")


def chip(name: str, *, edition: str | None = None, files: Sequence[HardwareFile] = ()) -> Chip:
    """The chip of a name, an alias or a device kind, in any case.

    Args:
        name: such as ``v5e``, ``TPU v5 lite``, ``H100-SXM``, ``NVIDIA H100 80GB HBM3``.
        edition: one of `EDITIONS`; the datasheet figures if not given.
        files: TOML files of the user, whose figures replace others, later files over earlier ones.

    Raises:
        UsageError: there is no such chip or edition, the edition says nothing of the chip, or a file is wrong.
        InputError: a file cannot be read.
    """
    chosen = _edition(edition)
    catalog = _catalog(files)
    key = catalog.names.get(_plain(name))
    if key is None:
        raise _no_chip(name, catalog)
    return _built(catalog, key, chosen)


def find_chip(
    device_kind: str | None, *, edition: str | None = None, files: Sequence[HardwareFile] = ()
) -> Chip | None:
    """The chip of a device kind as a trace states it; null if it is not known, never a similar one.

    Raises:
        UsageError, InputError: as `chip`, but not for a device kind that is not known.
    """
    chosen = _edition(edition)
    catalog = _catalog(files)
    key = None if device_kind is None else catalog.names.get(_plain(device_kind))
    return None if key is None else _built(catalog, key, chosen)


def chips(*, edition: str | None = None, files: Sequence[HardwareFile] = ()) -> tuple[Chip, ...]:
    """All chips that an edition knows, TPUs first, then GPUs, in the order of the files.

    Raises:
        UsageError: there is no such edition, or a file is wrong.
        InputError: a file cannot be read.
    """
    chosen = _edition(edition)
    catalog = _catalog(files)
    printed = _edition_entries(chosen)
    packaged = _packaged().entries
    known = [key for key in catalog.entries if printed is None or key in printed or key not in packaged]
    return tuple(_built(catalog, key, chosen) for key in known)


@dataclass(frozen=True, slots=True)
class _Catalog:
    """Packaged entries by key, entries of the user in order, and keys by plain name."""

    entries: Mapping[str, Entry]
    names: Mapping[str, str]
    ambiguous: Mapping[str, tuple[str, ...]]
    user: tuple[Entry, ...] = ()


def _built(catalog: _Catalog, key: str, edition: str) -> Chip:
    printed = _edition_entries(edition)
    base = catalog.entries[key]
    own = tuple(entry for entry in catalog.user if entry.name == key)
    layers = [base] if base not in own else []
    if printed is not None:
        if key in printed:
            layers.append(printed[key])
        elif key in _packaged().entries:
            raise UsageError(
                f"The edition {edition} says nothing of {key}.",
                hint=f"It has {', '.join(printed)}; or use the edition {DATASHEET}.",
            )
    return build_chip([*layers, *own], edition)


def _edition(name: str | None) -> str:
    chosen = DATASHEET if name is None else name.strip().lower()
    if chosen not in EDITIONS:
        raise UsageError(f"There is no edition {name!r}.", hint=f"Editions: {', '.join(EDITIONS)}.")
    return chosen


def _no_chip(name: str, catalog: _Catalog) -> UsageError:
    shared = catalog.ambiguous.get(_plain(name))
    if shared is not None:
        known = [each for each in shared if _plain(each) in catalog.names]
        return UsageError(
            f"{name!r} stands for several chips: {', '.join(shared)}.", hint=f"Name one of {', '.join(known)}."
        )
    near = difflib.get_close_matches(_plain(name)[:LONGEST_NAME], catalog.names, n=4, cutoff=0.5)
    keys = list(dict.fromkeys(catalog.names[each] for each in near))
    hint = f"Did you mean {' or '.join(keys)}?" if keys else f"Chips: {', '.join(catalog.entries)}."
    return UsageError(
        f"There is no chip {name[:LONGEST_NAME]!r}.", hint=f"{hint} Other chips can be given with --hardware FILE."
    )


def _plain(name: str) -> str:
    """A name as it is compared: lower case, one space for any run of spaces, hyphens and underscores."""
    return _SEPARATORS.sub(" ", name.strip().lower())


def _catalog(files: Sequence[HardwareFile]) -> _Catalog:
    packaged = _packaged()
    if not files:
        return packaged
    entries, names = dict(packaged.entries), dict(packaged.names)
    user: list[Entry] = []
    for path in files:
        for said in _user_entries(path):
            key = names.get(_plain(said.name), said.name)
            entry = said if key == said.name else replace(said, name=key)
            user.append(entry)
            entries.setdefault(key, entry)
            _add_names(names, key, entry.aliases, os.fspath(path))
    return _Catalog(entries, names, packaged.ambiguous, tuple(user))


def _add_names(names: dict[str, str], key: str, aliases: Iterable[str], where: str) -> None:
    for name in (key, *aliases):
        held = names.setdefault(_plain(name), key)
        if held != key:
            raise UsageError(f"The name {name!r} of {key} already stands for {held}.", where=where)


@functools.cache
def _packaged() -> _Catalog:
    entries: dict[str, Entry] = {}
    names: dict[str, str] = {}
    ambiguous: dict[str, tuple[str, ...]] = {}
    for file in _PACKAGED:
        table = _packaged_table(file)
        texts = cast("dict[str, str]", table["sources"])
        for key, chip_table in cast("dict[str, object]", table["chips"]).items():
            entry = read_entry(key, chip_table, Origin(file, "", texts))
            entries[key] = entry
            _add_names(names, key, entry.aliases, file)
        for name, keys in cast("dict[str, list[str]]", table.get("ambiguous", {})).items():
            ambiguous[_plain(name)] = tuple(keys)
    return _Catalog(entries, names, ambiguous)


@functools.cache
def _edition_entries(edition: str) -> dict[str, Entry] | None:
    """What the document of an edition prints, by chip; null for the datasheet edition, which lays nothing over."""
    if edition == DATASHEET:
        return None
    table = cast("dict[str, object]", _packaged_table("editions.toml")[edition])
    origin = Origin("editions.toml", cast("str", table["document"]))
    printed = cast("dict[str, object]", table["chips"])
    return {key: read_entry(key, chip_table, origin) for key, chip_table in printed.items()}


def _packaged_table(name: str) -> dict[str, object]:
    return tomllib.loads((_DATA / name).read_text(encoding="utf-8"))


def _user_entries(path: HardwareFile) -> list[Entry]:
    where = os.fspath(path)
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(
            f"The hardware file cannot be read: {error.strerror or error}.", where=where, hint="Check --hardware."
        ) from error
    if len(data) > _MOST_BYTES:
        raise UsageError("The hardware file is too large.", where=where, hint=f"The limit is {_MOST_BYTES:,} bytes.")
    try:
        table = cast("dict[str, object]", tomllib.loads(data.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise UsageError("The hardware file is not UTF-8.", where=where, why=str(error)) from error
    except (ValueError, RecursionError) as error:  # a ValueError also for numbers of thousands of digits
        raise UsageError("The hardware file is no TOML.", where=where, why=str(error)) from error
    unknown = [key for key in table if key != "chips"]
    found = table.get("chips")
    if unknown or not isinstance(found, dict) or not found:
        what = f"{unknown[0]!r} is no table of a hardware file." if unknown else "The hardware file has no chip."
        raise UsageError(what, where=where, hint="Write [chips.NAME], and its figures below.")
    origin = Origin(where, f"user file {Path(path).name}")
    return [read_entry(name, chip_table, origin) for name, chip_table in cast("dict[str, object]", found).items()]
