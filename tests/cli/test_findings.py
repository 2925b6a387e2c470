"""Findings on the command line: they are shown, and ``--fail-on`` covers them."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Run
from tpuprof import registry
from tpuprof.analysis import AnalysisResult, Context, Finding


class Late:
    """An analyzer with one finding."""

    name, rules, needs, pages = "late", ("TPU311",), (), "tpuprof_analyzers.rules"
    severity = "warning"

    def run(self, context: Context) -> AnalysisResult:
        scope = {"source": "model.py:12"}
        finding = Finding(
            "TPU311", self.severity, "One core", "Core 3 is late.", "Swap it.", 5e8, 0.5, "high", (), scope
        )
        return AnalysisResult((finding,))


class Picky(Late):
    """An analyzer that wants what is not there."""

    name, needs = "picky", ("moonlight",)


class Mild(Late):
    """The same as info."""

    severity = "info"


@pytest.fixture
def analyzers(monkeypatch: pytest.MonkeyPatch) -> list[type]:
    chosen: list[type] = []
    monkeypatch.setattr(registry, "discover", lambda: tuple(each() for each in chosen))
    return chosen


def test_the_terminal_shows_rule_title_message_and_suggestion(run: Run, analyzers: list[type]) -> None:
    analyzers += [Late, Picky]
    code, out, _ = run("report", "clean")
    assert code == 0
    section = out.partition("\nFindings\n")[2].partition("\nStep time")[0]
    assert " ".join(section.split()) == (
        "! warning TPU311 One core. Core 3 is late. Swap it. More on a rule: tpuprof explain TPU311. Impacts overlap: "
        "do not add them. Not looked at by picky: This version knows nothing of 'moonlight'."
    )


def test_without_findings_it_says_so_if_something_was_not_looked_at(run: Run, analyzers: list[type]) -> None:
    assert "Findings" not in run("report", "clean")[1]
    analyzers.append(Picky)
    assert "Findings none above the floor" in " ".join(run("report", "clean")[1].split())


@pytest.mark.parametrize("form", ["md", "html", "junit", "sarif", "github"])
def test_every_view_shows_the_finding(run: Run, analyzers: list[type], form: str) -> None:
    analyzers.append(Late)
    _, out, _ = run("report", "clean", "--format", form)
    assert "TPU311" in out
    assert "One core" in out
    assert "Core 3 is late." in out
    assert "Swap it." in out


def test_sarif_points_to_the_source_line(run: Run, analyzers: list[type]) -> None:
    analyzers.append(Late)
    document = json.loads(run("report", "clean", "--format", "sarif")[1])
    (result,) = document["runs"][0]["results"]
    assert result["ruleId"] == "TPU311"
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("model.py", 12)


@pytest.mark.parametrize(
    ("found", "fail_on", "code"),
    [(Late, "never", 0), (Late, "error", 0), (Late, "warning", 1), (Mild, "warning", 0), (Mild, "info", 1)],
)
def test_fail_on_covers_findings(run: Run, analyzers: list[type], found: type, fail_on: str, code: int) -> None:
    analyzers.append(found)
    assert run("report", "clean", "--fail-on", fail_on)[0] == code


def test_a_failing_analyzer_does_not_stop_the_report(run: Run, analyzers: list[type]) -> None:
    class Broken(Late):
        def run(self, context: Context) -> AnalysisResult:
            raise RuntimeError("\x1b[31mred")

    analyzers.append(Broken)
    code, out, _ = run("report", "clean")
    assert code == 0
    assert "TPU190" in out
    assert "\x1b[31m" not in out
    assert "Where a step goes" in out
