"""The small views of a trace."""

from __future__ import annotations

from rich.console import Console

from tests.report.fake import HOSTILE
from tpuprof.summary import MAX_FACTS, html_summary, rich_summary


def drawn(title: str, facts: dict[str, object]) -> str:
    console = Console(width=80, record=True, file=open("/dev/null", "w"), force_terminal=True)  # noqa: SIM115
    console.print(rich_summary(title, facts))
    console.file.close()
    return console.export_text()


def test_shows_title_and_facts() -> None:
    facts: dict[str, object] = {"devices": "4 × TPU v6 lite", "steps": 100}
    assert drawn("run 1", facts) == "run 1\n  devices  4 × TPU v6 lite\n  steps    100\n"
    html = html_summary("run 1", facts)
    assert "<strong>run 1</strong>" in html
    assert '<td style="text-align:left">100</td>' in html
    assert drawn("empty", {}) == "empty\n"


def test_is_bounded() -> None:
    many: dict[str, object] = {f"fact {n}": "x" * 10_000 for n in range(1000)}
    text = rich_summary("t", many)
    assert text.plain.count("\n") == MAX_FACTS + 1 == 19
    assert "982 more" in text.plain
    assert len(text.plain) < 4000
    assert len(html_summary("t", many)) < 6000


def test_hostile_names_are_text() -> None:
    html = html_summary(HOSTILE, {HOSTILE: HOSTILE})
    assert "<script" not in html
    assert "\x1b" not in rich_summary(HOSTILE, {HOSTILE: HOSTILE}).plain
    assert rich_summary("t", {"[red]": "[/red]"}).plain == "t\n  [red]  [/red]"
