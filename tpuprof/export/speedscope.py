"""Flame graphs for https://www.speedscope.app: one profile per device, name scopes as frames.

The format is described by https://www.speedscope.app/file-format-schema.json; profiles are of its type ``sampled``,
whose weights are the self times of ops, so that a profile sums to the op time of its device and nothing counts twice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tpuprof._version import __version__
from tpuprof.errors import UsageError
from tpuprof.redact import Redactor
from tpuprof.tables.scopes import NO_SCOPE, split_scope

if TYPE_CHECKING:
    from tpuprof.trace import Trace

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
MAX_EVENTS = 1_000_000
_LINE = re.compile(r"(?P<file>.*?):(?P<line>\d{1,9})(?::\d+)?\Z", re.DOTALL)


def speedscope_document(trace: Trace, max_events: int, redactor: Redactor | None = None) -> dict[str, Any]:
    """The file as JSON data. A stack is the program, its name scopes from the outside in, and the op.

    Samples are in order of time; neighbours with one stack are joined. Weights are nanoseconds with three decimals.

    Raises:
        UsageError: there are more than ``max_events`` ops, or none.
    """
    ops = trace.ops
    if not len(ops):
        raise UsageError("The run holds no device op, so there is no profile.", where=trace.path)
    if len(ops) > max_events:
        raise UsageError(
            f"There are {len(ops)} ops, more than --max-events {max_events}.",
            hint="Choose fewer steps with --steps or fewer cores with --devices, or allow more events.",
        )
    frames = _Frames(redactor)
    profiles = [
        _profile(str(device), rows, frames) for device, rows in ops.groupby("device", observed=True, sort=False)
    ]
    return {
        "$schema": SCHEMA,
        "exporter": f"tpuprof@{__version__}",
        "name": frames.show("name", trace.name),
        "activeProfileIndex": 0,
        "shared": {"frames": frames.rows},
        "profiles": profiles,
    }


class _Frames:
    """The frames of all profiles, each once."""

    def __init__(self, redactor: Redactor | None) -> None:
        self.rows: list[dict[str, Any]] = []
        self._row: dict[tuple[str, str | None], int] = {}
        self._redactor = redactor

    def show(self, key: str, text: str) -> str:
        return text if self._redactor is None else self._redactor.value(key, text)

    def add(self, name: str, source: str | None = None) -> int:
        row = self._row.get((name, source))
        if row is None:
            row = self._row[name, source] = len(self.rows)
            place = _LINE.match(self.show("source", source)) if source else None
            file = {"file": place["file"], "line": int(place["line"])} if place is not None else {}
            self.rows.append({"name": self.show("name", name), **file})
        return row


def _profile(device: str, ops: pd.DataFrame, frames: _Frames) -> dict[str, Any]:
    ops = ops.sort_values("start_ps", kind="stable")
    keys = ["module", "scope", "op", "source"]
    codes = np.stack([ops[key].cat.codes.to_numpy() for key in keys], axis=1)
    unique, inverse = np.unique(codes, axis=0, return_inverse=True)
    texts: list[list[str]] = [[str(text) for text in ops[key].cat.categories] for key in keys]
    rows: list[list[int]] = unique.tolist()
    stacks: list[list[int]] = []
    for row in rows:
        module, scope, op, source = (texts[at][code] if code >= 0 else None for at, code in enumerate(row))
        stacks.append(_stack(module, scope, op, source, frames))
    kind = inverse.reshape(-1)
    weight = ops["self_ps"].array.to_numpy(np.int64, na_value=0)
    heads = np.flatnonzero(np.concatenate([[True], kind[1:] != kind[:-1]])) if len(kind) else np.zeros(0, np.intp)
    weights = np.add.reduceat(weight, heads) if len(heads) else np.zeros(0, np.int64)
    return {
        "type": "sampled",
        "name": frames.show("name", device),
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": int(weight.sum()) / 1000,
        "samples": [stacks[row] for row in kind[heads].tolist()],
        "weights": [ps / 1000 for ps in weights.tolist()],
    }


def _stack(module: str | None, scope: str | None, op: str | None, source: str | None, frames: _Frames) -> list[int]:
    names = split_scope(scope).names if scope is not None else (NO_SCOPE,)
    outer = [frames.add(module)] if module is not None else []
    return [*outer, *(frames.add(name) for name in names), frames.add(op or "(unknown)", source)]
