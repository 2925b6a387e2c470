"""Page History."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tpuprof_dashboards.text import plain

from tests.dashboards.harness import SAMPLES, page_test, problems, texts
from tests.history import made


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose 13th of 20 runs is the first of a slower level."""
    path = tmp_path_factory.mktemp("history") / "runs.db"
    made.changed_store(path, branch="<b>main</b>")
    return path


def test_it_names_the_first_run_of_the_new_level(filled: Path) -> None:
    test = page_test("history", SAMPLES, {"store": str(filled)})
    assert all("Regressed" in text for text in problems(test))
    shown = texts(test)
    assert "from run 13 on" in shown
    assert plain("commit c12") in shown
    assert list(test.dataframe[0].value["id"])[:2] == [20, 19]
    assert "<b>" not in shown.replace(plain("<b>"), "").replace("\\<b\\>", "")


def test_other_metrics_and_fewer_runs(filled: Path) -> None:
    test = page_test("history", SAMPLES, {"store": str(filled)}, metric="n_steps", last="30")
    assert problems(test) == []
    assert "Steps that count" in texts(test)
    test = page_test("history", SAMPLES, {"store": str(filled)}, metric="nonsense", last="x", series="99")
    assert all("Regressed" in text for text in problems(test))
    assert "from run 13 on" in texts(test)


def test_without_a_store_it_says_how_to_make_one_and_makes_none(tmp_path: Path) -> None:
    test = page_test("history", SAMPLES, {"store": str(tmp_path / "none.db")})
    assert problems(test) == []
    assert "There is no run store yet" in texts(test)
    assert "tpuprof history add" in texts(test)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_store_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("this is no database at all")
    test = page_test("history", SAMPLES, {"store": str(tmp_path / "x.db")})
    assert len(problems(test)) == 1
    assert "Traceback" not in problems(test)[0]


def test_it_only_reads(filled: Path) -> None:
    before = hashlib.sha256(filled.read_bytes()).digest()
    page_test("history", SAMPLES, {"store": str(filled)})
    assert hashlib.sha256(filled.read_bytes()).digest() == before
