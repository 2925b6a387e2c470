"""A case of the data file, and the means to ask for its answer in both ways that a user has."""

from __future__ import annotations

import fnmatch
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tpuprof.cli.commands import group
from tpuprof.perfmodel.derivation import Derivation, plain

DATA = Path(__file__).parents[1] / "data" / "scaling_book.json"
_LIMITS = {"infinity": math.inf, "large": math.inf, "many": None}


class Given:
    """The inputs of a case, by attribute; ``many`` members are null, which the API takes as the limit."""

    def __init__(self, given: dict[str, dict[str, Any]]) -> None:
        self._values = {name: quantity["value"] for name, quantity in given.items()}

    def __getattr__(self, name: str) -> Any:
        try:
            value = self._values[name]
        except KeyError:
            raise AttributeError(name) from None
        return _LIMITS.get(value, value) if isinstance(value, str) else value

    def __contains__(self, name: str) -> bool:
        return name in self._values


@dataclass(frozen=True)
class Measured:
    """What is said to a published measurement: the prediction, where the case has one, and how the two compare.

    Args:
        predicted: in the unit of the case; null if the case gives no prediction.
        compared: of the comparison that the case states, such as predicted over measured.
        stated: what the case says that the comparison must give.
        tolerance: of the comparison, relative.
    """

    predicted: float | None
    compared: float
    stated: float
    tolerance: float = 0.01


Mapper = Callable[[Given, dict[str, Any]], Any]
_MAPPERS: list[tuple[str, Mapper]] = []


def case(*patterns: str) -> Callable[[Mapper], Mapper]:
    """Registers how the cases whose id fits a pattern are asked."""

    def register(mapper: Mapper) -> Mapper:
        _MAPPERS.extend((pattern, mapper) for pattern in patterns)
        return mapper

    return register


def mapper_of(case_id: str) -> Mapper | None:
    """The mapper of a case; the last one registered of those that fit."""
    return next((mapper for pattern, mapper in reversed(_MAPPERS) if fnmatch.fnmatchcase(case_id, pattern)), None)


def mappers() -> list[Mapper]:
    """All registered mappers."""
    return [mapper for _, mapper in _MAPPERS]


def ask(words: str | list[object], answer: Derivation) -> Any:
    """The answer of the API, after making sure that the command line gives the same one with its derivation.

    Args:
        words: of ``tpuprof calc``, without ``--json``; a text is split at spaces.
    """
    split = words.split() if isinstance(words, str) else [str(word) for word in words]
    result = CliRunner().invoke(group, ["calc", *split, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert set(document) >= {"answer", "regime", "formula", "inputs", "assumptions", "steps", "schema_version"}
    assert document["formula"]
    assert document["inputs"]
    assert document["answer"]["unit"] == answer.unit
    expected = plain(answer.value)
    found = document["answer"]["value"]
    assert found == expected or math.isclose(found, expected, rel_tol=1e-12), (found, expected)
    return answer.value


def by(values: list[int]) -> str:
    """``16x20x28``."""
    return "x".join(map(str, values))


def load() -> list[dict[str, Any]]:
    """All cases of the file."""
    return json.loads(DATA.read_text(encoding="utf-8"))["cases"]
