"""Every rule has a page and every page a rule; quality entries too; and the pages can be read from the command line."""

from __future__ import annotations

import ast
import json
import re
from importlib import resources
from pathlib import Path

import pytest

import tpuprof.rules
from tests.analyzers.builtin import ROOT, builtin
from tpuprof.cli import main
from tpuprof.errors import UsageError
from tpuprof.registry import FAILED_RULE
from tpuprof.rules import all_pages, analyzer_page, comparison_pages, find_page, quality_pages

SECTIONS = ["## Why it costs", "## What to try", "## How it is measured", "## When it is wrong"]


def quality_ids() -> set[str]:
    """All ids with which the source makes quality entries."""
    found: set[str] = set()
    for path in (ROOT / "tpuprof").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Quality":
                first = node.args[0] if node.args else next(k.value for k in node.keywords if k.arg == "id")
                found |= {n.value for n in ast.walk(first) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return found


def test_every_rule_of_an_analyzer_has_a_page_and_every_page_a_rule() -> None:
    declared = {rule for found in builtin() for rule in found.rules}
    files = {f.name.removesuffix(".md") for f in resources.files("tpuprof_analyzers.rules").iterdir()}
    assert {name for name in files if name.startswith("TPU")} == declared


def test_every_rule_that_the_source_can_emit_is_declared_and_every_declared_one_can_be_emitted() -> None:
    for found in builtin():
        path = Path(str(resources.files("tpuprof_analyzers") / f"{type(found).__module__.rpartition('.')[2]}.py"))
        texts = [n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)]
        rules = [text for text in texts if isinstance(text, str) and re.fullmatch(r"TPU\d{3}", text)]
        assert set(rules) == set(found.rules)
        assert all(rules.count(rule) >= 2 for rule in found.rules), "declared and used"


@pytest.mark.parametrize("found", builtin(), ids=lambda a: a.name)
def test_pages_say_the_five_things(found: object) -> None:
    for rule in found.rules:
        page = analyzer_page(found, rule)
        heads = [line for line in page.text.splitlines() if line.startswith("#")]
        assert heads == SECTIONS
        assert page.text.index(SECTIONS[0]) > 20, "what it means comes first"
        assert page.quality is None


def test_titles_of_findings_are_those_of_their_pages() -> None:
    for found in builtin():
        path = Path(str(resources.files("tpuprof_analyzers") / f"{type(found).__module__.rpartition('.')[2]}.py"))
        source = path.read_text()
        for rule in found.rules:
            assert f'"{analyzer_page(found, rule).title}"' in source


def test_every_quality_entry_has_a_rule_and_every_such_rule_an_entry() -> None:
    explained = {page.quality for page in quality_pages()}
    missing = quality_ids() - explained
    assert not missing, f"add a section to tpuprof/rules/quality.md for: {sorted(missing)}"
    assert explained - quality_ids() == {"analyzer_failed", "bad_utf8"} - quality_ids()


def test_quality_rules_are_numbered_once_from_101() -> None:
    rules = [page.rule for page in quality_pages()]
    assert rules == [f"TPU{number}" for number in range(101, 100 + len(rules))] + [FAILED_RULE]


def test_pages_are_found_by_rule_and_by_quality_id() -> None:
    pages = all_pages(builtin())
    assert [page.rule for page in pages] == sorted(page.rule for page in pages)
    assert find_page("tpu401", pages).title == "The loop waits for a result on the host"
    assert find_page("truncated", pages) == find_page("TPU101", pages)
    with pytest.raises(UsageError, match=r"There is no rule 'TPU4O1'\. Did you mean TPU4"):
        find_page("TPU4O1", pages)
    with pytest.raises(UsageError, match="Without a name, tpuprof explain lists all rules"):
        find_page("zzzzzzzz", pages)


def test_a_page_about_another_rule_or_without_a_head_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "odd_pages"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "TPU201.md").write_text("# TPU301 Something\n\ntext\n")
    (package / "TPU202.md").write_text("Something\n")
    monkeypatch.syspath_prepend(tmp_path)

    class Odd:
        name, rules, needs, pages = "odd", ("TPU201", "TPU202", "TPU203"), (), "odd_pages"

        def run(self, context: object) -> None: ...

    with pytest.raises(UsageError, match="The page of TPU201 is about TPU301"):
        analyzer_page(Odd(), "TPU201")
    with pytest.raises(UsageError, match="must begin with '# TPUnnn title'"):
        analyzer_page(Odd(), "TPU202")
    with pytest.raises(UsageError, match=r"The rule TPU203 of the analyzer 'odd' has no page"):
        analyzer_page(Odd(), "TPU203")
    own = {page.rule for page in (*quality_pages(), *comparison_pages())}
    assert {page.rule for page in all_pages([Odd()])} == own


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpuprof.rules, "discover", lambda: tuple(builtin()))


@pytest.mark.usefixtures("installed")
def test_explain_shows_a_page(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["explain", "TPU311"]) == 0
    text = capsysbinary.readouterr().out.decode()
    assert text.startswith("TPU311 One core holds the others up\n\n")
    assert "What to try\n" in text
    assert "#" not in text
    assert main(["explain", "TPU311", "--format", "md"]) == 0
    assert capsysbinary.readouterr().out.decode().startswith("# TPU311 One core holds the others up\n\n")
    assert main(["explain", "cores_missing"]) == 0
    assert "TPU120 Not all cores were traced (quality entry cores_missing)" in capsysbinary.readouterr().out.decode()


@pytest.mark.usefixtures("installed")
def test_explain_lists_all_rules(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["explain", "--json"]) == 0
    document = json.loads(capsysbinary.readouterr().out)
    assert (document["schema_version"], document["command"]) == (1, "explain")
    assert {row["rule"] for row in document["rules"]} == {page.rule for page in all_pages(builtin())}
    assert main(["explain"]) == 0
    text = capsysbinary.readouterr().out.decode()
    assert "TPU501" in text
    assert "The step waits for host-offload copies" in text


@pytest.mark.usefixtures("installed")
def test_explain_answers_a_wrong_name_with_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "cores_mising"]) == 2
    assert "Did you mean cores_missing" in capsys.readouterr().err
