"""The pictures of published measurements are current, and what no constant has seen is predicted as well."""

from __future__ import annotations

import pytest

from tests.accuracy import published
from tests.accuracy.published import HELD_OUT, IMAGES, pictures, said_in
from tpuprof.charts import charts_available
from tpuprof.plan.published import PublishedStep, published_step, read_rows
from tpuprof.plan.validation import scores, validate


@pytest.mark.skipif(not charts_available(), reason="needs the extra charts")
def test_the_pictures_are_current() -> None:
    made = pictures()
    assert set(made) == {"accuracy.svg", "accuracy-serving.svg"}
    for name, svg in made.items():
        # Shapes move with versions of the drawing library; what the marks say does not.
        assert said_in((IMAGES / name).read_text(encoding="utf-8")) == said_in(svg), (
            "python -m tests.accuracy.published"
        )
        assert said_in(svg)


def test_pictures_that_are_not_current_are_noticed(monkeypatch, capsys, tmp_path) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(published, "IMAGES", tmp_path)
    monkeypatch.setattr(published, "pictures", lambda: {"accuracy.svg": "<title>a: 3.0 %</title>"})
    monkeypatch.setattr("sys.argv", ["published", "--check"])
    assert published.main() == 1
    assert "accuracy.svg is out of date" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["published"])
    assert published.main() == 0
    monkeypatch.setattr("sys.argv", ["published", "--check"])
    assert published.main() == 0
    # Another library may draw the same otherwise; what is said decides.
    monkeypatch.setattr(published, "pictures", lambda: {"accuracy.svg": "<g/><title>a: 3.0 %</title>"})
    assert published.main() == 0
    monkeypatch.setattr(published, "pictures", lambda: {"accuracy.svg": "<title>a: 4.0 %</title>"})
    assert published.main() == 1


def test_steps_that_no_constant_has_seen() -> None:
    rows = read_rows(HELD_OUT)
    found = validate(rows)
    assert all(row.counts and row.predicted_s for row in found)
    assert scores(found)[-1].absolute_median <= 0.08
    assert max(abs(row.error or 1) for row in found) <= 0.15
    assert all(row.low_s <= row.measured_s <= row.high_s for row in found)  # type: ignore[operator]
    for row in rows:  # the dimensions are right: the stated TFLOP/s are theirs
        step = published_step(row)
        assert isinstance(step, PublishedStep)
        assert step.stated_work == pytest.approx(1, abs=0.002)
