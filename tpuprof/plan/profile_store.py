"""Where profiles are kept: files of the user's configuration directory, found by name; and how one is written."""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tpuprof.errors import TpuprofError, UsageError
from tpuprof.plan.profiles import Profile, read_profile
from tpuprof.text import clean

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}\Z")
_RESERVED = ("built-in", "default")
_MOST_FILES = 1_000


def profile_directory(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Where a user's profiles are: by the XDG rule, on macOS in Application Support."""
    home = Path(environment["HOME"]) if environment.get("HOME") else Path.home()
    named = environment.get("XDG_CONFIG_HOME")
    if named and Path(named).is_absolute():
        base = Path(named)
    else:
        base = home / "Library" / "Application Support" if platform == "darwin" else home / ".config"
    return base / "tpuprof" / "profiles"


def profile_path(name: str, directory: Path | None = None) -> Path:
    """The file of a name, whether there is one or not.

    Raises:
        UsageError: it cannot be a name.
    """
    if not NAME.match(name) or name in _RESERVED:
        raise UsageError(
            f"{clean(name)[:64]!r} cannot name a profile.",
            hint="Use letters, digits, dots, dashes, plus signs and underscores, at most 64; "
            f"not {' or '.join(_RESERVED)}.",
        )
    return (directory or profile_directory()) / f"{name}.toml"


def profile_names(directory: Path | None = None) -> tuple[str, ...]:
    """The names of the user's profiles, sorted."""
    found = directory or profile_directory()
    try:
        files = sorted(path.stem for path in found.glob("*.toml"))
    except OSError:
        return ()
    return tuple(name for name in files if NAME.match(name))[:_MOST_FILES]


def load_profile(text: str, directory: Path | None = None) -> Profile:
    """The profile of a name, or of a file: a text that ends in ``.toml`` or holds a path separator.

    Raises:
        UsageError: there is no such name, or a value in the file is wrong.
        InputError: the file cannot be read.
    """
    if text.endswith(".toml") or os.sep in text:
        return read_profile(Path(text).expanduser())
    path = profile_path(text, directory)
    known = profile_names(directory)
    if text not in known:
        near = difflib.get_close_matches(text, known, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Profiles: {', '.join(known) or 'none yet'}."
        raise UsageError(f"There is no profile {text!r}.", where=str(path.parent), hint=f"{hint} A file ends in .toml.")
    return read_profile(path)


def stored_profiles(directory: Path | None = None) -> Iterator[tuple[str, Profile | TpuprofError]]:
    """The user's profiles by name, each read, or the error why it cannot be."""
    for name in profile_names(directory):
        try:
            yield name, read_profile(profile_path(name, directory))
        except TpuprofError as error:
            yield name, error


def profile_text(profile: Profile) -> str:
    """The profile as TOML, as :func:`tpuprof.plan.profiles.read_profile` reads it."""
    head = {"name": profile.name, "created": profile.created, "source": profile.source}
    lines = [
        "# Constants of tpuprof's training plans, in place of the built-in ones; see docs/planner.md, calibration.",
        "", "[profile]", *_pairs({key: value for key, value in head.items() if value}),
    ]  # fmt: skip
    for section, own in profile.tables.items():
        table, _, chip = section.partition(".")
        name = f"{table}.{_key(chip)}" if chip else table
        lines += ["", f"[{name}]", *_pairs(own)]
    for name, entries in profile.notes.items():
        for entry in entries:
            lines += ["", f"[[{name}]]", *_pairs({key: value for key, value in entry.items() if value is not None})]
    return "\n".join(lines) + "\n"


def _pairs(content: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in content.items()]


def _key(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else _value(text)


def _value(value: object) -> str:
    # JSON's texts and numbers are TOML's, once control characters are gone.
    return json.dumps(clean(value) if isinstance(value, str) else value, ensure_ascii=False, allow_nan=False)
