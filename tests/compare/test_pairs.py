"""Real captures that differ in one thing: it is named first, under whatever load, and all of the difference is told.

All pairs, several times each, are in ``tests.accuracy.planted_pairs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

import tpuprof
from tests.compare.pairs import PAIRS, Pair, capture, other_number, renumber, rows_sum
from tpuprof.compare import comparability, diff, differences, explain
from tpuprof.compare.verdict import judge, samples_of
from tpuprof.trace import Trace

pytestmark = pytest.mark.slow
STEPS = 40
CHANGES = ("gather", "stall")


@dataclass(frozen=True)
class Captures:
    """The folders of all captures, and the traces in them."""

    folders: dict[str, Path]
    traces: dict[str, Trace]


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Captures:
    folder = tmp_path_factory.mktemp("pairs")
    folders = {change: capture(change, folder / change, steps=STEPS) for change in ("none", *CHANGES)}
    return Captures(folders, {change: tpuprof.load(path) for change, path in folders.items()})


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair.new in CHANGES], ids=lambda pair: pair.new)
def test_what_was_changed_is_the_first_cause(captures: Captures, pair: Pair) -> None:
    base, new = captures.traces["none"], captures.traces[pair.new]
    assert base.n_steps == new.n_steps == STEPS
    found = explain(base, new)
    assert pair.named(found.causes[0]), [(cause.what, cause.where, cause.delta_ps) for cause in found.causes[:5]]
    assert found.causes[0].delta_ps > 0
    assert pair.told(differences(base, new, found))
    assert found.residual_ps == 0
    assert rows_sum(found) == found.step_delta_ps
    assert found.matched_time_fraction is not None
    assert 0.5 < found.matched_time_fraction <= 1
    assert comparability(base, new) == []


def test_the_stall_is_as_long_as_it_was(captures: Captures) -> None:
    cause = explain(captures.traces["none"], captures.traces["stall"]).causes[0]
    assert cause.delta_ps > 0.8 * 30e9  # it sleeps for 30 ms; a busy machine may make it longer
    assert 0 < cause.sure_ps <= cause.delta_ps
    told = diff(captures.traces["none"], captures.traces["stall"])
    assert told.causes[0].kind == "idle"
    assert told.causes[0].title == "idle, input"


def test_a_capture_with_other_numbers_is_the_same(captures: Captures, tmp_path: Path) -> None:
    trace = captures.traces["none"]
    renumber(trace, captures.folders["none"], tmp_path / "other")
    other = tpuprof.load(tmp_path / "other")
    names = [{info.name for info in each.built.infos if "." in info.name} for each in (trace, other)]
    assert len(names[0]) > 10
    assert {other_number(name) for name in names[0]} == names[1]
    assert all(other_number(name) != name for name in names[0])
    for new in (trace, other):
        found = explain(trace, new)
        assert found.step_delta_ps == 0
        assert found.matched_time_fraction == 1.0
        assert found.changed == found.causes == ()
        assert judge([samples_of(trace)], [samples_of(new)]).verdict in ("unchanged", "cannot_tell")
