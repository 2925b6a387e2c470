"""``tpuprof check``: outcomes, exit codes, formats, baselines."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.gate.models import BASE, SLOW, Run, f28, f28_jobs, write_run, write_steps
from tests.report.fake import HOSTILE
from tpuprof.report import REPORT_FORMATS


def check(tpuprof_cli: Run, *words: object) -> tuple[int, dict]:  # type: ignore[type-arg]
    code, out, err = tpuprof_cli("check", *words, "--json")
    assert out, err
    found = json.loads(out)
    assert found["exit_code"] == code
    return code, found


def test_f28_a_long_last_step_is_unchanged_and_a_slower_run_regressed(tpuprof_cli: Run, tmp_path: Path) -> None:
    base, odd, slow = f28(tmp_path)
    code, found = check(tpuprof_cli, odd, "--against", base)
    assert (code, found["verdict"], found["outcome"]) == (0, "unchanged", "pass")
    assert found["new"]["steps"]["p50_ps"] == pytest.approx(0.400e12, rel=0.004)
    code, found = check(tpuprof_cli, slow, "--against", base)
    assert (code, found["verdict"], found["outcome"]) == (1, "regressed", "fail")
    assert found["effect"]["relative"] == pytest.approx(0.08, abs=0.005)
    code, found = check(tpuprof_cli, base, "--against", slow)
    assert (code, found["verdict"]) == (0, "improved")


def test_f28_jobs_tell_it_only_as_pairs(tpuprof_cli: Run, tmp_path: Path) -> None:
    base, new = f28_jobs(tmp_path)
    against = [word for path in base for word in ("--against", path)]
    assert check(tpuprof_cli, *new, *against, "--paired")[0] == 1
    code, found = check(tpuprof_cli, *new, *against)
    assert (code, found["reason"].split(":")[0]) == (5, "noise too high")


def test_three_steps_a_side_cannot_tell(tpuprof_cli: Run, tmp_path: Path) -> None:
    few = write_steps(tmp_path / "few.csv", [0.4, 0.4, 0.4])
    code, found = check(tpuprof_cli, few, "--against", few)
    assert (code, found["outcome"]) == (5, "cannot_tell")
    assert found["reason"].startswith("not enough samples")


def test_a_traces_regression_is_explained(tpuprof_cli: Run, runs: tuple[Path, Path]) -> None:
    code, found = check(tpuprof_cli, runs[1], "--against", runs[0])
    assert code == 1
    assert found["causes"][0]["scope"] == "layers_*/attn/dot_general"
    code, out, _ = tpuprof_cli("check", runs[1], "--against", runs[0])
    assert "failed: Step time +25.00 %" in out


def test_unlike_hardware_is_no_pass(tpuprof_cli: Run, runs: tuple[Path, Path], tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", BASE, kind="TPU v4")
    code, found = check(tpuprof_cli, other, "--against", runs[0])
    assert code == 5
    assert found["reason"].startswith("not comparable")


@pytest.mark.parametrize(
    ("budget", "code", "outcome"),
    [
        ("step_time_p50 = '1 s'", 0, "pass"),
        ("step_time_p50 = {warn = '100 us', fail = '1 s'}", 0, "warn"),
        ("step_time_p50 = '100 us'", 1, "fail"),
        ("recompiles = 0", 5, "cannot_tell"),
        ("recompiles = 0\nstep_time_p50 = '100 us'", 1, "fail"),
        ("idle = '1 %'\nexposed_collectives = '1 us'", 0, "pass"),
    ],
)
def test_budgets_decide_without_anything_to_compare_with(
    tpuprof_cli: Run, runs: tuple[Path, Path], tmp_path: Path, budget: str, code: int, outcome: str
) -> None:
    (tmp_path / "b.toml").write_text(f"[budget]\n{budget}\n")
    ended, found = check(tpuprof_cli, runs[0], "--budget", tmp_path / "b.toml")
    assert (ended, found["outcome"], found["verdict"]) == (code, outcome, None)
    rules = {"pass": set(), "warn": {"TPU611"}, "fail": {"TPU611"}, "cannot_tell": {"TPU612"}}[outcome]
    assert rules <= {finding["rule"] for finding in found["findings"]}
    assert bool(found["findings"]) == bool(rules)


def test_a_kept_verdict_does_not_hide_a_budget_and_the_other_way_round(
    tpuprof_cli: Run, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.tpuprof.budget]\nstep_time_p50 = '100 us'\n")
    code, found = check(tpuprof_cli, runs[0], "--against", runs[0])
    assert (code, found["verdict"], found["outcome"]) == (1, "unchanged", "fail")
    assert check(tpuprof_cli, runs[0], "--against", runs[0], "--no-budget")[0] == 0
    (tmp_path / "pyproject.toml").write_text("[tool.tpuprof.budget]\nmemory_peak = '1 GB'\n")
    code, found = check(tpuprof_cli, runs[1], "--against", runs[0])
    assert (code, found["outcome"]) == (1, "fail")
    assert check(tpuprof_cli, runs[0], "--against", runs[0])[0] == 5


def test_thresholds_of_the_file_and_of_the_command(tpuprof_cli: Run, runs: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.tpuprof.verdict]\nmin_effect = '60 %'\n")
    assert check(tpuprof_cli, runs[1], "--against", runs[0])[0] == 0
    assert check(tpuprof_cli, runs[1], "--against", runs[0], "--min-effect", "2 %")[0] == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "nothing to hold the run against"),
        (("--against", "x", "--baseline", "y"), 2, "contradict"),
        (("--budget", "x", "--no-budget"), 2, "contradict"),
        (("--paired", "--baseline", "y"), 2, "--paired needs"),
        (("--budget", "none.toml"), 3, "cannot be read"),
        (("--against", "none"), 3, "no such file"),
        (("--baseline", "nightly", "--store", "none.db"), 3, "no run store"),
    ],
)
def test_wrong_use_and_bad_input(
    tpuprof_cli: Run, runs: tuple[Path, Path], words: tuple[str, ...], code: int, message: str
) -> None:
    ended, out, err = tpuprof_cli("check", runs[0], *words)
    assert (ended, out) == (code, "")
    assert message in err


@pytest.mark.parametrize("form", REPORT_FORMATS)
def test_every_format_with_hostile_names(tpuprof_cli: Run, runs: tuple[Path, Path], tmp_path: Path, form: str) -> None:
    (tmp_path / "b.toml").write_text("[budget]\nstep_time_p50 = '100 us'\nrecompiles = 0\nidle = '5 %'\n")
    name = HOSTILE.replace("/", "_").replace("\0", "").replace("::", ":") + ".csv"  # what a file system and fsspec take
    steps = write_steps(tmp_path / name, [0.4 + n * 1e-4 for n in range(20)])
    for words in ((steps, "--against", steps), (runs[1], "--against", runs[0]), (runs[1],)):
        code, text, _ = tpuprof_cli("check", *words, "--budget", tmp_path / "b.toml", "--format", form)
        assert code == 1
        assert "\x1b" not in text
        assert "None" not in text
        if form in ("html", "md"):
            assert "<script" not in text
        if form == "junit":
            root = ElementTree.fromstring(text)
            assert int(root.get("failures", "0")) >= 1
            assert int(root.get("errors", "0")) >= 1
        if form == "csv":
            rows = {row["name"]: row["status"] for row in csv.DictReader(io.StringIO(text))}
            assert rows["recompiles"] == "unknown"
            assert rows["step_time_p50"] == "fail"
        if form == "github":
            assert all(not line.startswith("::") or line.startswith(("::error title=tpuprof", "::warning title=tpuprof",
                       "::notice title=tpuprof")) for line in text.splitlines())  # fmt: skip


def test_a_stored_baseline(tpuprof_cli: Run, runs: tuple[Path, Path], tmp_path: Path) -> None:
    store = ("--store", tmp_path / "h.db")
    for number, options in enumerate(({"steps": 12}, {"steps": 13}, {"steps": 14}), 1):
        run = write_run(tmp_path / f"stored{number}", BASE, **options)
        assert tpuprof_cli("history", "add", run, *store)[0] == 0
    assert tpuprof_cli("history", "baseline", "set", "nightly", "--last", "3", *store)[0] == 0
    code, found = check(tpuprof_cli, write_run(tmp_path / "fresh", BASE, steps=20), "--baseline", "nightly", *store)
    assert (code, found["verdict"], found["against"]) == (0, "unchanged", "baseline nightly")
    assert found["base"]["n_captures"] == 3
    assert found["parts"]["elementwise_ps"]["delta"] == 0

    slow = write_run(tmp_path / "slow", [*SLOW], steps=12)
    code, out, _ = tpuprof_cli("check", slow, "--baseline", "nightly", *store)
    assert code == 1
    assert "Parts of the mean step" in out

    other = write_run(tmp_path / "other", BASE, kind="TPU v4")
    code, found = check(tpuprof_cli, other, "--baseline", "nightly", *store)
    assert (code, found["outcome"]) == (5, "cannot_tell")
    assert found["reason"].startswith("not comparable")
    root = ElementTree.fromstring(tpuprof_cli("check", other, "--baseline", "nightly", *store, "--format", "junit")[1])
    assert root.get("errors") == "1"

    code, found = check(tpuprof_cli, tmp_path / "stored1", "--baseline", "nightly", *store)
    assert (code, found["base"]["n_captures"]) == (0, 2)
    assert any("left out of it" in note for note in found["notes"])

    declared = ("--hardware", "ci", "--program", "train")
    assert tpuprof_cli("history", "add", other, *declared, *store)[0] == 0
    assert tpuprof_cli("history", "baseline", "set", "declared", "4", *store)[0] == 0
    named = ("--hardware-name", "ci", "--program-name", "train")
    slow_other = write_run(tmp_path / "slow_other", SLOW, kind="TPU v4")
    assert check(tpuprof_cli, slow_other, "--baseline", "declared", *named, *store)[0] == 1
    assert check(tpuprof_cli, slow_other, "--baseline", "declared", *store)[0] == 5

    steps = write_steps(tmp_path / "steps.csv", [160.005e-6] * 20)
    code, found = check(tpuprof_cli, steps, "--baseline", "nightly", *store)
    assert code == 0
    assert any("make sure it was the same" in note for note in found["notes"])
    code, _, err = tpuprof_cli("check", steps, "--baseline", "none", *store)
    assert (code, "There is no baseline 'none'" in err) == (2, True)


def test_every_capture_has_to_be_like_the_baseline(tpuprof_cli: Run, runs: tuple[Path, Path], tmp_path: Path) -> None:
    store = ("--store", tmp_path / "h.db")
    assert tpuprof_cli("history", "add", runs[0], *store)[0] == 0
    assert tpuprof_cli("history", "baseline", "set", "b", "1", *store)[0] == 0
    other = write_run(tmp_path / "other", BASE, kind="TPU v4")
    assert check(tpuprof_cli, runs[0], "--baseline", "b", *store)[0] == 0
    assert check(tpuprof_cli, runs[0], other, "--baseline", "b", *store)[0] == 5


def test_the_chip_can_be_named_for_the_utilisation(tpuprof_cli: Run, runs: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text("[budget]\nmfu = 0.000001\n")
    code, found = check(tpuprof_cli, runs[0], "--budget", tmp_path / "b.toml")
    assert (code, found["budgets"][0]["value"]) == (1, 0)
    code, _, err = tpuprof_cli("check", runs[0], "--budget", tmp_path / "b.toml", "--chip", "abacus")
    assert (code, "abacus" in err) == (2, True)
