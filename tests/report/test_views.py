"""The views of the report: they parse back, and say the same as the dictionary."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from tests.report.fake import HOSTILE, US, fake_trace
from tpuprof.quality import Quality
from tpuprof.report import REPORT_FORMATS, build_report, render_report
from tpuprof.report.screen import Screen
from tpuprof.tables.schemas import PARTS

QUALITY = (
    Quality("cores_missing", "warning", "4 of the 8 cores of the program were recorded.", 4, {}),
    Quality("hlo_missing", "info", "The HLO of 1 program is not in the trace.", 1, {}),
    Quality("over_peak", "error", "105 % of the peak: 50 %, more: or less.", None, {}),
)
FINDING = {
    "rule": "TPU301", "severity": "warning", "title": "Exposed all-gather", "message": "all-gather.5 is exposed.",
    "impact_ps": 1, "impact_fraction": 0.1, "confidence": "high", "evidence": {}, "suggestion": "Overlap it.",
    "scope": {"source": "models/a b.py:118"},
}  # fmt: skip


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return {**build_report(fake_trace(4, quality=QUALITY)), "findings": [FINDING]}


@pytest.fixture(scope="module")
def hostile() -> dict[str, Any]:
    """A report in which every text that comes from the trace tries to break out."""
    ops = ((HOSTILE, "matmul", 250, HOSTILE, HOSTILE), (f"all-gather{HOSTILE}", "collective", 50, HOSTILE, HOSTILE))
    quality = (Quality("events_capped", "warning", HOSTILE, 1, {"name": HOSTILE}),)
    trace = fake_trace(2, name=HOSTILE, ops_rows=ops, module=HOSTILE, quality=quality, causes_reason=HOSTILE,
                       metadata={"versions": {HOSTILE: HOSTILE}})  # fmt: skip
    finding = {**FINDING, "title": HOSTILE, "message": HOSTILE, "suggestion": HOSTILE, "rule": HOSTILE}
    return {**build_report(trace), "findings": [finding, {**FINDING, "scope": {"source": HOSTILE}}]}


@pytest.mark.parametrize("form", REPORT_FORMATS)
def test_every_view_survives_a_run_without_anything(form: str) -> None:
    text = render_report(build_report(fake_trace(0, n_steps=0, step_source="none")), form)
    assert text.endswith("\n")
    assert "None" not in text
    assert "nan" not in text.lower()


@pytest.mark.parametrize("form", [form for form in REPORT_FORMATS if form not in ("json", "jsonl", "sarif")])
def test_hostile_names_bring_no_control_characters(hostile: dict[str, Any], form: str) -> None:
    text = render_report(hostile, form)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


def test_json_and_jsonl_parse_back_to_the_report(report: dict[str, Any], hostile: dict[str, Any]) -> None:
    for one in (report, hostile):
        assert json.loads(render_report(one, "json")) == one
        line = render_report(one, "jsonl")
        assert line.count("\n") == 1
        assert json.loads(line) == one


def test_csv_holds_the_breakdown(report: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(render_report(report, "csv"))))
    assert [row["device"] for row in rows] == ["mean", *(core["device"] for core in report["breakdown"]["per_device"])]
    for row in rows:
        total = sum(float(row[f"parts.{part}_ps"]) for part in PARTS)
        assert total == pytest.approx(float(row["step_ps"]), abs=1)
    assert float(rows[4]["parts.collective_exposed_ps"]) == 200 * US


def test_markdown_names_stay_in_their_cells(hostile: dict[str, Any]) -> None:
    text = render_report(hostile, "md")
    tables = [line for line in text.splitlines() if line.startswith("|")]
    pipes = {len(re.findall(r"(?<!\\)\|", line)) for line in tables if "alert" in line}
    assert pipes == {9, 11}  # ops have 8 columns, collectives 10
    assert "<script" not in text
    assert "[link](x)" not in text
    assert "@team" not in text
    assert not any(line.startswith("::") for line in text.splitlines())


def test_markdown_keeps_inner_underscores_readable() -> None:
    from tpuprof.report.listing import md

    assert md("jit_train_step") == "jit_train_step"
    assert md("_private_ *x*") == "\\_private\\_ \\*x\\*"
    assert md("see https://a.b and www.c.d") == "see https&#58;//a.b and www&#46;c.d"


class Tags(HTMLParser):
    """Collects start tags, checks that they nest, and gathers the text."""

    VOID = frozenset({"meta", "wbr", "br", "rect"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in {"meta", "wbr"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    return tags


def test_html_nests_has_no_script_and_loads_nothing(hostile: dict[str, Any]) -> None:
    text = render_report(hostile, "html")
    tags = parsed(text)
    assert not {"script", "link", "img", "iframe", "a"} & set(tags.tags)
    assert not [name for name, _ in tags.attributes if name.startswith("on") or name in ("src", "href", "style")]
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in tags.attributes
    assert not re.search(r"https?://|url\(", text)
    assert "alert(1)" in tags.text  # the name is shown, as text


def test_html_draws_each_core_to_its_length(report: dict[str, Any]) -> None:
    text = render_report(report, "html")
    bars = re.findall(r'<svg class="bar" role="img".*?</svg>', text)
    assert len(bars) == 1 + 4
    for bar in bars:
        widths = [float(width) for width in re.findall(r'<rect [^>]*width="([0-9.]+)"', bar)]
        assert sum(widths) == pytest.approx(1000, abs=0.1)
    tags = parsed(text)
    for shown in ("fusion.2", "cores_missing", "Overlap it.", "TPU v6 lite", "hostA/TPU:3", "16.89 %"):
        assert shown in tags.text


def test_html_has_charts_of_roofline_ladder_and_collectives(report: dict[str, Any]) -> None:
    collectives = [{**row, "predicted_ps": row["window_ps"] / 2} for row in report["collectives"]]
    report = {**report, "collectives": collectives}
    text = render_report(report, "html")
    labels = re.findall(r'<figure><div class="wide"><svg [^>]*aria-label="(\w+)', text)
    assert labels == ["Roofline", "Ideal", "Collectives"]
    assert "tpuprof[charts]" not in text
    assert text == render_report(report, "html")
    used = {name for names in re.findall(r'class="((?:fill|stroke)-[^"]*)"', text) for name in names.split()}
    assert used
    assert all(f".{name}{{" in text for name in used)  # a class without a rule would be drawn black
    tags = parsed(text)
    assert "fusion.2 (matmul)" in tags.text  # shown on hover
    assert tags.tags.count("figcaption") == 3


def test_html_says_how_to_get_charts_where_they_are_not_installed(
    report: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpuprof.report.html_charts.charts_available", lambda: False)
    text = render_report(report, "html")
    parsed(text)
    assert "<figure" not in text
    assert text.count("pip install &quot;tpuprof[charts]&quot;") == 1
    assert 'class="bar" role="img"' in text  # the bars that need nothing


def test_html_of_unknown_hardware_has_the_ladder_alone() -> None:
    devices = tuple(replace(device, kind=None) for device in fake_trace(2).devices)
    text = render_report(build_report(replace(fake_trace(2), devices=devices)), "html")
    assert re.findall(r'<figure><div class="wide"><svg [^>]*aria-label="(\w+)', text) == ["Ideal"]
    assert "No roofline. " in text


def test_html_is_light_and_dark_and_prints(report: dict[str, Any]) -> None:
    text = render_report(report, "html")
    assert "@media screen and (prefers-color-scheme:dark)" in text
    assert "@media print" in text


def test_junit_fails_errors_always_and_warnings_on_request(report: dict[str, Any]) -> None:
    def failures(fail_on: str) -> list[str]:
        root = ElementTree.fromstring(render_report(report, "junit", fail_on=fail_on))
        assert int(root.attrib["tests"]) == len(root.findall(".//testcase")) == 4
        assert int(root.attrib["failures"]) == len(root.findall(".//failure"))
        return [
            case.attrib["name"].partition(":")[0] for case in root.iter("testcase") if case.find("failure") is not None
        ]

    assert failures("never") == failures("error") == ["over_peak"]
    assert failures("warning") == ["over_peak", "cores_missing", "TPU301"]
    assert failures("info") == ["over_peak", "cores_missing", "hlo_missing", "TPU301"]


def test_junit_of_a_clean_run_has_passing_cases() -> None:
    root = ElementTree.fromstring(render_report(build_report(fake_trace(1)), "junit"))
    assert [case.attrib["name"] for case in root.iter("testcase")] == ["no quality entries", "no findings entries"]
    assert root.attrib["failures"] == "0"


def test_junit_takes_hostile_names(hostile: dict[str, Any]) -> None:
    root = ElementTree.fromstring(render_report(hostile, "junit", fail_on="info"))
    assert any("alert(1)" in (node.text or "") for node in root.iter("failure"))


def test_sarif_has_a_rule_per_id_and_a_result_per_entry(report: dict[str, Any]) -> None:
    sarif = json.loads(render_report(report, "sarif"))
    assert sarif["version"] == "2.1.0"
    (run,) = sarif["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["over_peak", "cores_missing", "hlo_missing", "TPU301"]
    assert [result["level"] for result in run["results"]] == ["error", "warning", "note", "warning"]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    place = run["results"][3]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "models/a%20b.py"}, "region": {"startLine": 118}}
    assert "physicalLocation" not in run["results"][0]["locations"][0]


def test_sarif_takes_hostile_names(hostile: dict[str, Any]) -> None:
    (run,) = json.loads(render_report(hostile, "sarif"))["runs"]
    assert all("\x1b" not in json.dumps(result).encode().decode("unicode_escape") for result in run["results"])
    assert all("\n" not in result["message"]["text"] for result in run["results"])


def test_github_annotations_are_one_command_per_entry_and_escaped(report: dict[str, Any]) -> None:
    lines = render_report(report, "github").splitlines()
    commands = [line for line in lines if line.startswith("::")]
    assert commands == [
        "::error title=tpuprof over_peak::105 %25 of the peak: 50 %25, more: or less.",
        "::warning title=tpuprof TPU301%3A Exposed all-gather::all-gather.5 is exposed. Overlap it.",
        "::warning title=tpuprof cores_missing::4 of the 8 cores of the program were recorded.",
        "::notice title=tpuprof hlo_missing::The HLO of 1 program is not in the trace.",
    ]
    assert lines[len(commands)].startswith("## tpuprof report")


def test_github_annotations_cannot_be_forged(hostile: dict[str, Any]) -> None:
    commands = [
        line for line in render_report(hostile, "github").splitlines() if line.lstrip().startswith(("::", "##["))
    ]
    assert [command.split(" ")[0] for command in commands] == ["::warning"] * 3


def test_github_bounds_annotations_per_severity() -> None:
    many = tuple(Quality(f"q{n}", "warning", "w") for n in range(25))
    text = render_report(build_report(fake_trace(1, quality=many)), "github")
    assert text.count("::warning ") == 10
    assert text.count("- **warning**") == 25


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
@pytest.mark.parametrize("color", [None, "standard", "truecolor"])
def test_terminal_lines_keep_to_the_width(
    hostile: dict[str, Any], report: dict[str, Any], width: int, color: Any
) -> None:
    for one in (report, hostile):
        text = render_report(one, "table", Screen(width, color))
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
        assert "\x1b" not in plain
        assert max(len(line) for line in plain.splitlines()) <= width
        assert (color is None) == ("\x1b[" not in text)


def test_no_number_of_the_breakdown_is_cut_in_a_narrow_terminal(report: dict[str, Any]) -> None:
    text = render_report(report, "table", Screen(40, None))
    assert re.search(r"^  M  matmul +\d+(\.\d+)? us +\d+\.\d\d %$", text, re.MULTILINE)
    assert re.search(r"^  X  coll\S*….* us +\d+\.\d\d %$", text, re.MULTILINE)
    breakdown = text[text.index("  M  matmul") : text.index("Idle by cause")]
    assert not re.search(r"\d…", breakdown)


def test_terminal_in_ascii_draws_with_letters(report: dict[str, Any]) -> None:
    text = render_report(report, "table", Screen(80, None, plain=True))
    assert text.isascii()
    assert re.search("M{20,}A{8,}E{6,}D+X{8,}W+\\.+", text)


def test_idle_causes_that_are_not_known_are_said_so() -> None:
    reason = "The clocks of host and device cannot be compared."
    text = render_report(build_report(fake_trace(1, causes_reason=reason)), "table", Screen(160))
    assert "Idle by cause: intra program 25.00 %." in text
    assert f"The other causes of idle time are not known: {reason}" in text
    assert "Idle by cause: dispatch 50.00 %, unexplained 50.00 %." in render_report(build_report(fake_trace(1)), "md")


def test_a_single_step_has_one_figure_and_devices_without_kind_are_said_so() -> None:
    from dataclasses import replace

    trace = fake_trace(2, n_steps=1)
    plain = replace(trace, devices=tuple(replace(device, kind=None) for device in trace.devices))
    text = render_report(build_report(plain), "table", Screen(100))
    assert "  2 devices of unknown kind · 1 host" in text
    assert "  step 1 ms\n" in text
    mixed = replace(trace, devices=(trace.devices[0], replace(trace.devices[1], kind="TPU v5")))
    assert "2 devices of several kinds" in render_report(build_report(mixed), "md")


@pytest.mark.parametrize("charts", [True, False])
def test_every_view_for_people_says_once_why_a_rung_is_not_known(charts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not charts:
        monkeypatch.setattr("tpuprof.report.html_charts.charts_available", lambda: False)
    report = build_report(fake_trace(2))
    for form in ("table", "md", "html"):
        text = render_report(report, form, Screen(200) if form == "table" else None)
        assert text.count("No wait for other cores is known.") == 1, form
