"""The truth table itself: the truth is stated twice, tpuprof meets it exactly, and the page is current."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.accuracy.__main__ import PAGE, XPROF_VERSION, main
from tests.accuracy.measured import counted_steps, measured_by_tpuprof
from tests.accuracy.page import GROUPS, RIGHT, WRONG, is_right, lines_of
from tests.accuracy.real import REAL_TITLE, real_section
from tests.accuracy.truth import Case, truth_of
from tests.accuracy.xprof import closest

MAKERS = [maker for _, makers in GROUPS for maker in makers]
PS_PER_US = 1_000_000


@pytest.fixture
def xprof() -> None:
    """The version of XProf whose numbers the page shows."""
    pytest.importorskip("xprof", reason="the page shows what XProf says")
    if not version("xprof").startswith(f"{XPROF_VERSION}."):
        pytest.skip(f"the page shows the numbers of XProf {XPROF_VERSION}, another version is installed")


def test_there_are_enough_programs_with_names_of_their_own() -> None:
    names = [maker().name for maker in MAKERS]
    assert len(names) >= 20
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_the_truth_is_what_was_worked_out_by_hand(maker: Callable[[], Case]) -> None:
    case = maker()
    truth = truth_of(case)
    assert {name: truth[name] for name in case.by_hand} == pytest.approx(
        {name: us * PS_PER_US for name, us in case.by_hand.items()}, abs=0.5
    )
    parts = ("compute", "collective exposed", "host transfer", "dma wait", "barrier wait", "idle")
    assert sum(truth[part] for part in parts) == pytest.approx(truth["step"], abs=0.5)


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_tpuprof_meets_the_truth_to_the_picosecond(maker: Callable[[], Case]) -> None:
    case = maker()
    truth, found = truth_of(case), measured_by_tpuprof(case.trace)
    assert {name: found[name] for name in truth} == pytest.approx(truth, abs=0.5)
    if not case.causes:
        # What the trace cannot tell is not told: nothing links device work to the host.
        assert found["idle: input"] in (None, 0)


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_the_same_steps_count(maker: Callable[[], Case]) -> None:
    """Means over equal steps would not tell that one of them is missing."""
    case = maker()
    expected = [(device, end - start) for device, windows in case.windows.items() for start, end in windows]
    assert sorted(counted_steps(case.trace)) == sorted(expected)


def test_building_a_case_twice_gives_the_same_file() -> None:
    def files() -> list[bytes]:
        return [trace.to_bytes(host.name) for maker in MAKERS for trace in [maker().trace] for host in trace]

    assert files() == files()


def test_one_tolerance_for_both_tools() -> None:
    assert is_right(1_004_999_999, 1_000_000_000)
    assert not is_right(1_005_000_001, 1_000_000_000)
    assert is_right(50_000, 0)
    assert not is_right(50_001, 0)


def test_a_wrong_number_is_called_wrong() -> None:
    case = MAKERS[0]()
    mine: dict[str, float | None] = {**truth_of(case)}
    mine["idle"] = 1.0
    lines = {line.quantity: line for line in lines_of(case, mine, {"step": {"a tool": 7e8, "b": 9.99e8}})}
    assert lines["idle"].verdicts == (WRONG, "-")
    assert lines["step"].verdicts == (RIGHT, RIGHT)
    assert (lines["step"].xprof, lines["step"].xprof_tool) == (9.99e8, "b")


def test_the_reading_closest_to_the_truth_is_taken() -> None:
    assert closest({"a": 5.0, "b": 11.0, "c": 30.0}, 10.0) == ("b", 11.0)


@pytest.mark.usefixtures("xprof")
def test_the_page_is_current(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["accuracy", "--check"])
    monkeypatch.delenv("TPUPROF_REAL_TRACES", raising=False)
    assert main() == 0, capsys.readouterr().out


def test_a_page_that_is_not_current_is_noticed_and_written_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    copy = tmp_path / "accuracy.md"
    copy.write_text("old")
    monkeypatch.setattr("tests.accuracy.__main__.PAGE", copy)

    def made(real: str | None) -> str:
        return f"new {real}"

    monkeypatch.setattr("tests.accuracy.__main__.page", made)
    monkeypatch.setattr("tests.accuracy.__main__.version", {"xprof": "2.24.9"}.__getitem__)
    monkeypatch.delenv("TPUPROF_REAL_TRACES", raising=False)
    monkeypatch.setattr("sys.argv", ["accuracy", "--check"])
    assert main() == 1
    assert "accuracy.md is out of date: python -m tests.accuracy" in capsys.readouterr().out
    assert copy.read_text() == "old"
    monkeypatch.setattr("sys.argv", ["accuracy"])
    assert main() == 0
    assert copy.read_text() == "new None"


def test_another_xprof_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("tests.accuracy.__main__.version", {"xprof": "2.3.1"}.__getitem__)
    monkeypatch.setattr("sys.argv", ["accuracy"])
    assert main() == 2
    assert capsys.readouterr().err == "The page shows the numbers of XProf 2.24; 2.3.1 is installed.\n"


@pytest.mark.real
@pytest.mark.usefixtures("xprof")
def test_the_section_on_real_traces_is_current(real_traces: Path) -> None:
    section = real_section(real_traces)
    text = PAGE.read_text(encoding="utf-8")
    assert text[text.index(REAL_TITLE) :].rstrip("\n") == section.rstrip("\n")
    assert WRONG not in section
