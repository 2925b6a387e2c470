"""Models by name, and from files: TOML of our keys, or the ``config.json`` of Hugging Face."""

from __future__ import annotations

import difflib
import functools
import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tpuprof.errors import InputError, UsageError
from tpuprof.plan.hugging_face import model_of_config
from tpuprof.plan.model import ModelConfig
from tpuprof.plan.table import model_of_table
from tpuprof.text import clean

_ZOO = Path(__file__).with_name("zoo.toml")
_MOST_BYTES = 5_000_000


def load_model(name: str | os.PathLike[str]) -> ModelConfig:
    """The model of a name or of a file.

    Args:
        name: such as ``llama3-70b``; or a path that ends in ``.toml`` or ``.json``, or a directory with a
            ``config.json``.

    Raises:
        UsageError: there is no such model, or the file says something that is not known.
        InputError: the file cannot be read.
    """
    text = os.fspath(name)
    if text.endswith((".toml", ".json")) or os.path.isdir(text):
        return read_model(Path(text))
    key = _names().get(_plain(text))
    if key is None:
        # The last part alone, so that an owner before a slash does not hide the name.
        close = difflib.get_close_matches(_plain(text)[:200].rpartition("/")[2][:100], _names(), n=3)
        near = list(dict.fromkeys(_names()[name] for name in close))
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Models: {', '.join(_tables())}."
        raise UsageError(f"There is no model {clean(text)[:100]!r}.", hint=f"{hint} A path ends in .toml or .json.")
    return _built(key)


def models() -> tuple[ModelConfig, ...]:
    """All named models, in the order of the file."""
    return tuple(_built(key) for key in _tables())


def aliases(name: str) -> tuple[str, ...]:
    """The other names of a named model."""
    return tuple(_tables()[name].get("aliases", ()))


def read_model(path: Path) -> ModelConfig:
    """The model of a file, or of the ``config.json`` in a directory.

    Raises:
        UsageError: the file says something that is not known.
        InputError: it cannot be read, or is too large.
    """
    path = path / "config.json" if path.is_dir() else path
    where = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"The model file cannot be read: {error.strerror or error}.", where=where) from error
    if len(data) > _MOST_BYTES:
        raise InputError("The model file is too large.", where=where, hint=f"The limit is {_MOST_BYTES:,} bytes.")
    parse = tomllib.loads if path.suffix == ".toml" else json.loads
    try:
        table: Any = parse(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise UsageError(
            f"The model file is no {kind}.", where=where, why=f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(table, dict):
        raise UsageError("The model file holds no table.", where=where)
    named = cast("dict[str, object]", table)
    if "model_type" in named or "architectures" in named:
        return model_of_config(named, where, name=path.parent.name if path.name == "config.json" else path.stem)
    return model_of_table({"name": path.stem, **named}, where)


@functools.cache
def _built(key: str) -> ModelConfig:
    fields = {name: value for name, value in _tables()[key].items() if name != "aliases"}
    return model_of_table({"name": key, **fields}, f"zoo.toml, {key}")


@functools.cache
def _tables() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(_ZOO.read_text(encoding="utf-8"))["models"]


@functools.cache
def _names() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for key in _tables():
        found |= {_plain(name): key for name in (key, *aliases(key))}
    return found


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")
