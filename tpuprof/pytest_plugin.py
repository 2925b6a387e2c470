"""The pytest plugin: a test fails if its function got slower than its budget or its baseline.

    @pytest.mark.tpuprof(budget="5 ms")
    def test_step(tpuprof):
        tpuprof(step, state, batch)

pytest loads it wherever tpuprof is installed; hence everything else is imported when a test needs it.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tpuprof.gate.metering import Judged, Meter

_METER = pytest.StashKey["Meter"]()
_NOTES = pytest.StashKey["list[str]"]()
_MARKER = (
    "tpuprof(budget, p95, baseline, min_effect, steps, warmup): fail the test if what it measures is slower than "
    "its budget (a time such as '5 ms') or than its stored baseline"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("tpuprof", "step times of tests")
    group.addoption("--tpuprof-baselines", metavar="DIR", help="Directory with the baselines of tests.")
    group.addoption(
        "--tpuprof-update", action="store_true", help="Store what tests measure as their baselines; judge nothing."
    )
    group.addoption(
        "--tpuprof-strict", action="store_true", help="Fail tests of which it cannot be told whether they got slower."
    )
    parser.addini("tpuprof_baselines", "directory with the baselines of tests, from the root directory")
    parser.addini("tpuprof_strict", "fail tests of which it cannot be told whether they got slower", type="bool")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line("markers", _MARKER)
    config.stash[_NOTES] = []


@pytest.fixture
def tpuprof(request: pytest.FixtureRequest) -> Meter:
    """Measures a function: ``tpuprof(function, *args)`` calls it several times; ``tpuprof.step()`` times one step."""
    return _meter(request.node)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Runs the test, then judges what it measured; without the fixture the test itself is what is measured."""
    marked = pyfuncitem.get_closest_marker("tpuprof") is not None
    uses = "tpuprof" in pyfuncitem.fixturenames
    if not marked and not uses:
        return (yield)
    meter = _meter(pyfuncitem)
    if uses:
        result = yield
    else:
        if meter.wanted.budget_ps is None or meter.wanted.baseline:
            pytest.fail(
                "the marker tpuprof without the fixture needs a budget, and has no baseline, since one call says "
                "nothing of noise: use the fixture tpuprof",
                pytrace=False,
            )
        with meter.step():
            result = yield
    _judge(pyfuncitem, meter, can_compare=uses)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fails a marked test that pytest does not call as a function, such as one of unittest: nothing was measured."""
    result = yield
    if item.get_closest_marker("tpuprof") is not None and _METER not in item.stash:
        pytest.fail(
            "the marker tpuprof measures test functions and methods of plain classes only, and this is another kind of "
            "test (of unittest, for instance): nothing was measured",
            pytrace=False,
        )
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Names the tests whose baselines were stored, or of which nothing could be told."""
    notes = config.stash[_NOTES]
    if notes:
        terminalreporter.section("tpuprof")
        for note in notes:
            terminalreporter.line(note)


def _meter(item: pytest.Item) -> Meter:
    """The meter of a test, made when it is first asked for."""
    if _METER not in item.stash:
        from tpuprof.errors import UsageError
        from tpuprof.gate.metering import Meter, wanted_of

        mark = item.get_closest_marker("tpuprof")
        try:
            if mark is not None and mark.args:
                raise UsageError("The marker tpuprof takes arguments by name only.")
            item.stash[_METER] = Meter(wanted_of(mark.kwargs if mark is not None else {}))
        except UsageError as error:
            pytest.fail(str(error), pytrace=False)
    return item.stash[_METER]


def _judge(item: pytest.Item, meter: Meter, *, can_compare: bool) -> None:
    from tpuprof.errors import TpuprofError
    from tpuprof.gate.metering import baseline_path, judge_test, write_baseline

    config = item.config
    folder = _folder(config)
    path = baseline_path(folder, item.nodeid) if folder is not None and can_compare else None
    try:
        if config.getoption("--tpuprof-update") and can_compare and meter.wanted.baseline is not False:
            if path is None:
                pytest.fail("--tpuprof-update needs --tpuprof-baselines DIR, or tpuprof_baselines", pytrace=False)
            write_baseline(path, item.nodeid, meter)
            config.stash[_NOTES].append(f"stored the baseline of {item.nodeid}")
            return
        judged = judge_test(meter, path)
    except TpuprofError as error:
        pytest.fail(f"tpuprof: {error}", pytrace=False)
    _end(item, judged)


def _end(item: pytest.Item, judged: Judged) -> None:
    """Fails the test, or leaves it undecided: what cannot be told is no pass."""
    config = item.config
    item.user_properties.append(("tpuprof", judged.message))
    if judged.outcome == "fail":
        pytest.fail(f"tpuprof: {judged.message}", pytrace=False)
    if judged.outcome == "cannot_tell":
        if config.getoption("--tpuprof-strict") or config.getini("tpuprof_strict"):
            pytest.fail(f"tpuprof: cannot tell: {judged.message}", pytrace=False)
        config.stash[_NOTES].append(f"cannot tell of {item.nodeid}: {judged.message}")
        pytest.skip(f"tpuprof: cannot tell: {judged.message}")


def _folder(config: pytest.Config) -> Path | None:
    given = config.getoption("--tpuprof-baselines")
    if given:
        return Path(str(given)).absolute()
    written = str(config.getini("tpuprof_baselines") or "")
    return config.rootpath / written if written else None
