"""Budgets: reading them, and holding figures against them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpuprof.compare import Samples
from tpuprof.compare.capture import Capture
from tpuprof.errors import InputError, UsageError
from tpuprof.gate import figures, judging
from tpuprof.gate.budgets import KINDS, Budget, read_rules
from tpuprof.gate.figures import Figure
from tpuprof.gate.judging import judge_budgets

MS = 1_000_000_000


def rules(path: Path, text: str, name: str = "budget.toml"):
    (path / name).write_text(text)
    return read_rules(path / name)


def one(path: Path, text: str) -> Budget:
    (found,) = rules(path, f"[budget]\n{text}").budgets
    return found


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("step_time_p50 = '120 ms'", Budget("step_time_p50", "time", None, 120 * MS)),
        ("step_time_p95 = {warn = '1 s'}", Budget("step_time_p95", "time", 1000 * MS, None)),
        ("idle = '5 %'", Budget("idle", "share", None, 0.05)),
        ("idle = 0.05", Budget("idle", "share", None, 0.05)),
        ("exposed_collectives = {warn='1 ms', fail='2 ms'}", Budget("exposed_collectives", "time", MS, 2 * MS)),
        ("mfu = {warn = 0.5, fail = '40 %'}", Budget("mfu", "ratio", 0.5, 0.4)),
        ("memory_peak = '14 GiB'", Budget("memory_peak", "bytes", None, 14 * 2**30)),
        ("recompiles = 0", Budget("recompiles", "count", None, 0)),
    ],
)
def test_budgets_are_read(tmp_path: Path, text: str, budget: Budget) -> None:
    assert one(tmp_path, text) == budget


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[budget]\nstep_time = '1 s'", "'step_time' is no key here.*Keys are step_time_p50"),
        ("[budgets]\nidle = 0.1", "'budgets' is no key here.*Keys are budget, verdict"),
        ("[verdict]\nmin = 1", "'min' is no key here"),
        ("budget = 5", "budget is no table"),
        ("[budget]\nidle = {fail = '5 %', ok = 1}", "'ok' is no key here.*Keys are warn, fail"),
        ("[budget]\nidle = {}", "The budget has no limit"),
        ("[budget]\nidle = {warn = '9 %', fail = '5 %'}", "warn lies above fail"),
        ("[budget]\nmfu = {warn = 0.3, fail = 0.4}", "warn lies below fail"),
        ("[budget]\nidle = {warn = '1 ms', fail = '5 %'}", "One limit is a share, the other a time"),
        ("[budget]\nidle = 5", "5 is no share for idle"),
        ("[budget]\nidle = nan", "nan is no share for idle"),
        ("[budget]\nidle = true", "True is no share for idle"),
        ("[budget]\nstep_time_p50 = 5", "5 is no time for step_time_p50"),
        ("[budget]\nstep_time_p50 = '5'", "'5' is no time for step_time_p50"),
        ("[budget]\nstep_time_p50 = 'fast'", "'fast' is no time"),
        ("[budget]\nrecompiles = 1.5", "1.5 is no count"),
        ("[budget]\nrecompiles = -1", "-1 is no count"),
        ("[budget]\nmemory_peak = 'much'", "memory_peak"),
        ("[verdict]\nalpha = 0", "alpha"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        rules(tmp_path, text)
    assert "budget.toml" in caught.value.where or "threshold" in str(caught.value)


def test_a_file_that_is_no_toml_or_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no TOML"):
        rules(tmp_path, "[budget")
    with pytest.raises(InputError, match="cannot be read"):
        read_rules(tmp_path / "none.toml")
    (tmp_path / "big.toml").write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(InputError, match="more than 1048576 bytes"):
        read_rules(tmp_path / "big.toml")


def test_pyproject_is_found_above_and_its_other_tables_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "[tool.other]\nx = 1\n[tool.tpuprof.budget]\nidle = 0.1\n[tool.tpuprof.verdict]\nmin_effect = '3 %'\n"
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    found = read_rules()
    assert [budget.name for budget in found.budgets] == ["idle"]
    assert found.thresholds.relative == 0.03
    (tmp_path / "pyproject.toml").write_text("[tool.tpuprof]\nbudgets = 1\n")
    with pytest.raises(UsageError, match="'budgets' is no key here"):
        read_rules()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert read_rules().budgets == ()
    with pytest.raises(UsageError, match="asks nothing"):
        read_rules(tmp_path / "pyproject.toml")


def held(budget: Budget, *found: Figure, monkeypatch: pytest.MonkeyPatch) -> judging.Kept:
    captures = [Capture(Samples((1.0,), f"run{n}")) for n in range(len(found))]
    by_name = {capture.name: figure for capture, figure in zip(captures, found, strict=True)}
    monkeypatch.setattr(judging, "figures_of", lambda capture, _names, _hardware: {budget.name: by_name[capture.name]})
    (kept,) = judge_budgets(captures, [budget])
    return kept


IDLE = Budget("idle", "share", 0.05, 0.10)
MFU = Budget("mfu", "ratio", 0.5, 0.4)


@pytest.mark.parametrize(
    ("budget", "figure", "status"),
    [
        (IDLE, Figure(4.0, 100.0), "pass"),
        (IDLE, Figure(5.0, 100.0), "pass"),
        (IDLE, Figure(6.0, 100.0), "warn"),
        (IDLE, Figure(10.5, 100.0), "fail"),
        (IDLE, Figure(None, 100.0, "lost"), "unknown"),
        (IDLE, Figure(1.0, None), "unknown"),
        (IDLE, Figure(1.0, 0.0), "unknown"),
        (MFU, Figure(0.55), "pass"),
        (MFU, Figure(0.45), "warn"),
        (MFU, Figure(0.35), "fail"),
        (MFU, Figure(0.55, at_least=True), "pass"),
        (MFU, Figure(0.35, at_least=True), "unknown"),
        (Budget("recompiles", "count", None, 0.0), Figure(0.0), "pass"),
        (Budget("recompiles", "count", None, 0.0), Figure(1.0), "fail"),
    ],
)
def test_a_figure_is_held_against_its_bands(
    monkeypatch: pytest.MonkeyPatch, budget: Budget, figure: Figure, status: str
) -> None:
    kept = held(budget, figure, monkeypatch=monkeypatch)
    assert kept.status == status
    assert budget.name in kept.message
    assert "n/a" not in kept.message


def test_a_figure_just_beyond_its_limit_is_not_shown_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    none = Budget("idle", "share", None, 0.0)
    kept = held(none, Figure(1.0, 1e6), monkeypatch=monkeypatch)
    assert kept.message == "idle of run0 is 1e-06 (0.00 %), above its limit of 0.0 (0.00 %)."
    kept = held(MFU, Figure(0.399999), monkeypatch=monkeypatch)
    assert kept.message == "mfu of run0 is 0.399999 (40.00 %), below its limit of 0.4 (40.00 %)."


def test_the_worst_capture_counts_and_a_failure_before_what_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = held(IDLE, Figure(1.0, 100.0), Figure(7.0, 100.0), Figure(6.0, 100.0), monkeypatch=monkeypatch)
    assert (kept.status, kept.capture, kept.value) == ("warn", "run1", 0.07)
    kept = held(IDLE, Figure(None, reason="lost"), Figure(20.0, 100.0), monkeypatch=monkeypatch)
    assert kept.status == "fail"
    kept = held(IDLE, Figure(None, reason="lost"), Figure(1.0, 100.0), monkeypatch=monkeypatch)
    assert (kept.status, kept.reason) == ("unknown", "lost")
    kept = held(MFU, Figure(0.45), Figure(0.42), monkeypatch=monkeypatch)
    assert kept.value == 0.42


def test_step_times_alone_tell_the_step_time_only() -> None:
    capture = Capture(Samples(tuple(float(n) for n in range(1, 102)), "steps.csv"))
    found = figures.figures_of(capture, set(KINDS))
    assert (found["step_time_p50"].value, found["step_time_p95"].value) == (51.0, 96.0)
    for name in set(KINDS) - {"step_time_p50", "step_time_p95"}:
        assert found[name].value is None
        assert found[name].reason == figures.NO_TRACE
    assert figures.figures_of(Capture(Samples(())), {"step_time_p50"})["step_time_p50"].reason == "No step counts."


def test_figures_of_a_trace(runs: tuple[Path, Path]) -> None:
    import tpuprof
    from tpuprof.compare.samples import samples_of

    trace = tpuprof.load(runs[0])
    found = figures.figures_of(Capture(samples_of(trace), trace), set(KINDS))
    assert found["step_time_p50"].value == 160_005_000
    assert found["idle"] == Figure(5_000.0, 160_005_000.0)
    assert found["exposed_collectives"].value == 0
    assert found["memory_peak"].value is None
    assert found["memory_peak"].reason
    assert found["recompiles"].reason


def test_the_budgets_of_the_documentation_are_valid(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/howto-ci.md").read_text(encoding="utf-8")
    block = text.partition("```toml\n")[2].partition("```")[0]
    found = rules(tmp_path, block, "pyproject.toml")
    assert [budget.name for budget in found.budgets] == list(KINDS)
    assert found.thresholds.absolute_ps == 50_000_000
