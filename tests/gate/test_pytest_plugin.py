"""The pytest plugin, in sessions of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import tpuprof.compare.verdict  # noqa: F401 - sessions inside this process drop what they import, and numpy loads once
from tpuprof.errors import InputError, UsageError
from tpuprof.gate import metering
from tpuprof.gate.metering import Meter, Wanted, baseline_path, judge_test, read_baseline, wanted_of, write_baseline

pytest_plugins = ["pytester"]

# Where the distribution is installed, its entry point loads the plugin; loading it twice is an error.
_INSTALLED = any(entry.value == "tpuprof.pytest_plugin" for entry in entry_points(group="pytest11"))
PLUGIN = () if _INSTALLED else ("-p", "tpuprof.pytest_plugin")
INI = "[pytest]\naddopts = -p no:cacheprovider -p no:xdist -p no:hypothesispytest\n"
MS = 1_000_000_000


@pytest.fixture
def session(pytester: pytest.Pytester):
    """Runs the tests of a text with the plugin: the outcome."""
    pytester.makeini(INI)

    def call(text: str, *words: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=text)
        return pytester.runpytest_inprocess(*PLUGIN, *words)

    return call


FAST = """
    import pytest

    @pytest.mark.tpuprof(budget="{budget}", steps=5, warmup=1)
    def test_step(tpuprof):
        calls = []
        assert tpuprof(lambda: calls.append(1) or 7) == 7
        assert len(calls) == 6
"""


def test_a_function_within_its_budget_passes(session) -> None:
    session(FAST.format(budget="5 s"), "--strict-markers").assert_outcomes(passed=1)


def test_a_function_above_its_budget_fails_and_says_so(session) -> None:
    found = session(
        """
        import time, pytest

        @pytest.mark.tpuprof(budget="1 ms", steps=3, warmup=0)
        def test_step(tpuprof):
            tpuprof(time.sleep, 0.005)
        """
    )
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*tpuprof: the median is * ms, above its budget of 1 ms*"])


def test_the_marker_alone_measures_the_test_itself(session) -> None:
    found = session(
        """
        import time, pytest

        @pytest.mark.tpuprof(budget="1 ms")
        def test_slow():
            time.sleep(0.005)

        @pytest.mark.tpuprof(budget="60 s")
        def test_fast():
            pass

        @pytest.mark.tpuprof
        def test_without_budget():
            pass
        """
    )
    found.assert_outcomes(passed=1, failed=2)
    found.stdout.fnmatch_lines(["*without the fixture needs a budget*"])


def test_a_failure_of_the_test_itself_comes_first(session) -> None:
    found = session(
        """
        import pytest

        @pytest.mark.tpuprof(budget="1 ps")
        def test_step(tpuprof):
            tpuprof(lambda: None)
            assert 1 == 2
        """
    )
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*assert 1 == 2*"])
    found.stdout.no_fnmatch_line("*above its budget*")


def test_a_test_that_measures_nothing_and_wrong_arguments_fail(session) -> None:
    found = session(
        """
        import pytest

        @pytest.mark.tpuprof(budget="1 s")
        def test_nothing(tpuprof):
            pass

        @pytest.mark.tpuprof(limit="1 s")
        def test_unknown(tpuprof):
            pass

        @pytest.mark.tpuprof("1 s")
        def test_position(tpuprof):
            pass

        @pytest.mark.tpuprof(budget=5)
        def test_no_time():
            pass

        def test_other():
            pass
        """
    )
    assert found.parseoutcomes()["passed"] == 1
    text = found.stdout.str()
    for message in ("nothing was measured", "does not take 'limit'", "by name only", "5 is no time for budget"):
        assert message in text


RECORDED = """
    import random, pytest

    @pytest.mark.tpuprof({marker})
    def test_step(tpuprof):
        rng = random.Random({seed})
        for _ in range(40):
            tpuprof.record(0.1 * {factor} * (1 + 0.005 * rng.uniform(-1, 1)))
"""


def test_a_baseline_is_stored_and_kept(session, pytester: pytest.Pytester) -> None:
    def text(factor: float = 1, marker: str = "", seed: int = 1) -> str:
        return RECORDED.format(factor=factor, marker=marker, seed=seed)

    where = ("--tpuprof-baselines", "baselines")
    session(text(), *where).assert_outcomes(passed=1)  # none there: nothing to hold it against
    found = session(text(marker="baseline=True"), *where, "-rs")
    found.assert_outcomes(skipped=1)
    found.stdout.fnmatch_lines(["*there is no baseline; run pytest with --tpuprof-update*"])
    session(text(marker="baseline=True"), *where, "--tpuprof-strict").assert_outcomes(failed=1)

    found = session(text(), *where, "--tpuprof-update")
    found.assert_outcomes(passed=1)
    found.stdout.fnmatch_lines(["*stored the baseline of test_it.py::test_step*"])
    (file,) = (pytester.path / "baselines").iterdir()
    assert len(json.loads(file.read_text())["step_ps"]) == 40

    session(text(seed=2), *where).assert_outcomes(passed=1)
    found = session(text(1.08, seed=2), *where)
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*tpuprof: +8.*the step got slower*"])
    session(text(0.9, seed=2), *where).assert_outcomes(passed=1)
    session(text(1.08, marker="min_effect='20 %'", seed=2), *where).assert_outcomes(passed=1)
    session(text(1.08, marker="baseline=False", seed=2), *where).assert_outcomes(passed=1)

    pytester.makeini(f"{INI}tpuprof_baselines = baselines\ntpuprof_strict = true\n")
    session(text(1.08, seed=2)).assert_outcomes(failed=1)
    document = json.loads(file.read_text())
    file.write_text(json.dumps({**document, "hardware": "8 × TPU v9"}))
    found = session(text(seed=2))
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*cannot tell: unlike hardware*"])
    file.write_text("{")
    found = session(text(seed=2))
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*holds something else than it should*"])


def test_update_needs_a_place(session) -> None:
    found = session(RECORDED.format(factor=1, marker="", seed=1), "--tpuprof-update")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*--tpuprof-update needs --tpuprof-baselines*"])


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import tpuprof.pytest_plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parents[2])  # fmt: skip
    assert set(done.stdout.split()) <= {"tpuprof", "tpuprof._version", "tpuprof.errors", "tpuprof.pytest_plugin"}


def test_steps_that_raise_are_not_counted() -> None:
    meter = Meter()
    with pytest.raises(ValueError, match="stop"), meter.step():
        raise ValueError("stop")
    assert meter.step_ps == []
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="is no step time"):
            meter.record(wrong)


@pytest.mark.parametrize("arguments", [{"steps": 0}, {"steps": 10**9}, {"warmup": -1}, {"baseline": "yes"}])
def test_arguments_that_make_no_sense(arguments: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        wanted_of(arguments)


def test_results_of_jax_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[object] = []

    class Jax:
        block_until_ready = staticmethod(waited.append)

    monkeypatch.setitem(sys.modules, "jax", Jax)  # type: ignore[arg-type]
    assert Meter(Wanted(steps=2, warmup=1))(lambda: "result") == "result"
    assert waited == ["result"] * 3
    assert "cores" in metering.hardware(), "a jax that cannot start is no failure"


def test_a_percentile_has_a_budget_of_its_own() -> None:
    meter = Meter(Wanted(p95_ps=2.0 * MS), [MS] * 9 + [9.0 * MS])
    judged = judge_test(meter, None)
    assert (judged.outcome, "95th percentile" in judged.message) == ("fail", True)


def test_baselines_are_checked_when_they_are_read(tmp_path: Path) -> None:
    path = baseline_path(tmp_path, "tests/test_a.py::test_b[x/y z]")
    assert path.parent == tmp_path
    assert read_baseline(path) is None
    with pytest.raises(UsageError, match="Nothing was measured"):
        write_baseline(path, "t", Meter())
    for text in ("[]", '{"step_ps": []}', '{"step_ps": [1, "x"]}', '{"step_ps": [true]}', '{"step_ps": [-1]}',
                 '{"step_ps": [NaN]}', "\xff"):  # fmt: skip
        path.write_text(text, "latin-1")
        with pytest.raises(InputError):
            read_baseline(path)
    write_baseline(path, "t", Meter(step_ps=[1.4, 2.6]))
    assert read_baseline(path) == ((1.0, 3.0), metering.hardware())
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_marked_test_that_is_not_measured_fails(session) -> None:
    found = session(
        """
        import unittest, pytest

        class Case(unittest.TestCase):
            @pytest.mark.tpuprof(budget="5 s")
            def test_marked(self):
                pass

            @pytest.mark.tpuprof(budget="5 s")
            def test_left_out(self):
                self.skipTest("why")

            def test_plain(self):
                pass

        class TestPlain:
            @pytest.mark.tpuprof(budget="5 s")
            def test_method(self):
                pass
        """
    )
    found.assert_outcomes(passed=2, skipped=1, failed=1)
    found.stdout.fnmatch_lines(["*of unittest, for instance*nothing was measured*"])


@pytest.mark.parametrize("hardware", [None, "", 7, ["cpu"]])
def test_a_baseline_that_names_no_hardware_is_none(tmp_path: Path, hardware: object) -> None:
    path = tmp_path / "b.json"
    path.write_text(json.dumps({"step_ps": [1, 2], "hardware": hardware}))
    with pytest.raises(InputError, match="no baseline"):
        read_baseline(path)
