"""Plans for people: what fits a screen, what pastes into a design document, and one file for a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from tpuprof.charts.plan_looks import COLLECTIVES
from tpuprof.hardware import chip, make_slice, parse_slice
from tpuprof.plan import load_model, model_of_table, remat_policy
from tpuprof.plan.serve import ServeQuestion, Sla, Workload, load_curve, plan_serving
from tpuprof.plan.serve import explain as serve_explain
from tpuprof.plan.train_explain import explain
from tpuprof.plan.train_layout import Job
from tpuprof.plan.train_scaling import strong_scaling
from tpuprof.plan.train_search import Plan, search
from tpuprof.report import plan_figures
from tpuprof.report.listing import Field, Listing
from tpuprof.report.page import Page, page_html, page_markdown, page_text
from tpuprof.report.plan_serve_page import serve_brief, serve_page
from tpuprof.report.plan_train_page import scaling_page, train_brief, train_page
from tpuprof.report.plan_words import render_plan, show_days, show_money, show_rate, show_tokens
from tpuprof.report.screen import Screen
from tpuprof.report.serve_plan import serve_result
from tpuprof.report.training_plan import plan_result, scaling_result

JOB = Job(load_model("llama3-8b"), 64, 8192, remat_policy("block-inputs"))
SLICE = parse_slice("v5p:4x4x4")


class Reader(HTMLParser):
    """Tags and headings of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.titles: list[str] = []
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._in = tag
        assert not [name for name, _ in attrs if name.startswith("on") or name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        if self._in == "h2" and data.strip():
            self.titles.append(data)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return search(JOB, SLICE, policies=[JOB.policy])


@pytest.fixture(scope="module")
def document(plan: Plan) -> dict[str, Any]:
    return plan_result(plan, 15e12, None, 5).document


@pytest.fixture(scope="module")
def served() -> tuple[ServeQuestion, dict[str, Any], Any]:
    question = ServeQuestion(
        load_model("llama3.2-1b"), tuple(make_slice(chip("v5e"), shape) for shape in ((1, 1), (2, 2))),
        Workload(256, 64), sla=Sla(tpot_s=0.02), batches=(1, 4, 400000),
    )  # fmt: skip
    found = plan_serving(question)
    curve = load_curve(question, found.candidates[0], (0.2, 0.9))
    return question, serve_result(found, curve=curve).document, found.candidates[0]


def test_the_screen_shows_layouts_whole_and_says_why_others_lose(document: dict[str, Any]) -> None:
    text = page_text(train_brief(document), Screen(80))
    assert max(map(len, text.splitlines())) <= 80
    first = document["candidates"][0]
    for row in document["candidates"]:
        assert f"  {row['layout']}  " in text
    assert "15 T tokens take" in text
    assert f"1: {first['why']}" in " ".join(text.split())
    assert "5 of" in text
    assert "--explain 1 derives every number" in text
    assert "days" in text.splitlines()[text.splitlines().index("Layouts by step time") + 1]


def test_parts_of_the_first_step_add_up_to_it(document: dict[str, Any]) -> None:
    (section,) = [one for one in train_page(document).sections if one.title.startswith("Where the step")]
    assert section.listing is not None
    rows = section.listing.rows
    assert sum(row["seconds"] for row in rows) == pytest.approx(document["candidates"][0]["step_time_s"])
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    told = {row["part"]: row for row in rows}
    first = document["candidates"][0]
    assert first["exposed"]
    for name, seconds in first["exposed"].items():
        assert told[COLLECTIVES[name]]["seconds"] == seconds
        assert told[COLLECTIVES[name]]["hidden"] == first["hidden"][name]


def test_a_design_document_has_the_question_the_numbers_and_the_assumptions(document: dict[str, Any]) -> None:
    text = page_markdown(train_page(document))
    titles = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert titles[0] == "The question"
    assert [title.partition(":")[0] for title in titles[1:]] == [
        "Layouts by step time", "Why the first wins and the others lose", "Where the step of candidate 1 goes",
        "Memory of a device", "Exposed communication by mesh shape", "Not possible", "What is assumed",
    ]  # fmt: skip
    assert "| model | llama3-8b: 8.03 B parameters, 32 layers, width 4,096 |" in text
    assert "<" not in text
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    for table in tables:  # every row of a table has as many cells
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
    shown = {(cell["tensor"], cell["batch_devices"]): cell for cell in document["mesh_map"]}
    (grid,) = [table for table in tables if "tensor" in table.splitlines()[0] and "data x fsdp" in table]
    head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in grid.splitlines()]
    for row in body:
        for column, cell in zip(head[1:], row[1:], strict=True):
            known = shown.get((int(row[0]), int(column.replace(",", ""))))
            if known is None:
                assert cell == ""
            elif known["layout"]:
                assert cell == f"{100 * known['exposed_fraction']:.1f} %"
            else:
                assert cell == known["kinds"][0]


def test_a_browser_gets_one_file_with_charts_and_every_derivation(plan: Plan, document: dict[str, Any]) -> None:
    found = explain(plan, plan.candidates[1])
    text = page_html(train_page(document, found, 2))
    page = Reader(text)
    assert page.tags.count("svg") == 3  # steps, memory, the map
    assert "script" not in page.tags
    assert "Derivation of candidate 2" in page.titles
    assert "default-src &#x27;none&#x27;" in text
    for name in found:
        assert f"<td>{name}</td>" in text
    assert "tensor \\ data x fsdp" not in text  # the chart stands in place of the table
    assert "Derivation of" not in page_html(train_page(document))


def test_a_named_profile_is_named_with_its_constants(document: dict[str, Any]) -> None:
    stored = {"name": "ours", "path": "ours.toml", "created": "2026-01-02", "source": None,
              "constants": {"chips.v5p.matmul": 0.8123456}}  # fmt: skip
    named = {**document, "profile": {**document["profile"], "stored": stored}}
    said = "profile ours (ours.toml, made 2026-01-02): source not stated; its constants: chips.v5p.matmul 0.8123"
    assert said in " ".join(page_text(train_brief(named), Screen(100)).split())
    assert f"| named profile | {said} |" in page_markdown(train_page(named))
    assert "named profile" not in page_markdown(train_page(document))


def test_listings_of_a_result_come_first(plan: Plan) -> None:
    result = plan_result(plan, top=2)
    listing = Listing("What a run showed", "row", (Field("a", "a"),), [{"a": "measured"}], 1)
    document = result.document
    brief, full = train_brief(document), train_page(document)
    for form in ("table", "md", "html"):
        text = render_plan(replace(result, listings=(listing,)), brief, full, form)
        assert text.index("What a run showed") < text.index("Layouts by step time")
    assert render_plan(result, brief, full, "csv").startswith("rank,layout,")


def test_without_the_extra_the_page_says_how_to_get_charts_and_keeps_the_map(
    document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_figures, "charts_available", lambda: False)
    text = page_html(train_page(document))
    assert text.count("pip install &quot;tpuprof[charts]&quot;") == 1
    assert "svg" not in Reader(text).tags
    assert "tensor \\ data x fsdp" in text


def test_what_is_not_possible_says_what_would_help() -> None:
    large = Job(load_model("llama3-405b"), 64, 8192, remat_policy("block-inputs"))
    document = plan_result(search(large, parse_slice("v5e:2x2"))).document
    for page in (train_brief(document), train_page(document)):
        assert page.severity == "error"
        assert page.lead.startswith("No layout is possible: does not fit: at least ")
        assert "Take more chips, or keep less: --weights bf16" in page.lead
    text = page_text(train_brief(document), Screen(80))
    assert "Layouts by step time" not in text
    assert "No layout is possible" in page_html(train_page(document))
    assert page_markdown(train_page(document)).count("### ") == 3


def test_reasons_are_named_by_the_one_that_is_nearest_to_possible() -> None:
    few = Job(load_model("llama3-8b"), 1, 8192, remat_policy("block-inputs"))
    document = plan_result(search(few, parse_slice("v5p:16x16x16"))).document
    assert train_page(document).lead == (
        "No layout is possible: only 1 sequence for 4096 replicas x 1 microbatches. "
        "Give more --batch-tokens, a shorter --seq, or fewer chips."
    )


def test_the_curve_is_a_page(plan: Plan) -> None:
    points = strong_scaling(JOB, parse_slice("v5e:4x4"), sizes=(4, 16, 64), policies=[JOB.policy])
    page = scaling_page(scaling_result(JOB, points).document)
    assert page.lead.startswith("From 16 to 64 chips throughput grows ")
    text = page_text(page, Screen(80))
    assert "4 chips: does not fit" in " ".join(text.split())
    assert Reader(page_html(page)).tags.count("svg") == 1
    none = scaling_page(scaling_result(JOB, points[:1]).document)
    assert none.lead == "The job fits none of the sizes."


def test_serving_has_the_same_three_views(served: tuple[ServeQuestion, dict[str, Any], Any]) -> None:
    question, document, first = served
    text = page_text(serve_brief(document), Screen(80))
    assert max(map(len, text.splitlines())) <= 80
    assert "The smallest slice that meets the limits: v5e:1x1, 1 chip." in " ".join(text.split())
    assert "400000 sequences" in text
    marked = page_markdown(serve_page(document))
    for title in ("The question", "Splits, each at its best batch", "Latency against throughput", "Under load",
                  "Memory of the fullest device", "Candidate 1 under more and more load", "Not possible",
                  "What is assumed"):  # fmt: skip
        assert f"### {title}" in marked
    derived = serve_explain.explain(question, first)
    page = Reader(page_html(serve_page(document, derived=derived)))
    assert page.tags.count("svg") == 4  # steps, the front, memory, load
    assert "Derivation of candidate 1" in page.titles
    (section,) = [one for one in serve_page(document).sections if one.title.startswith("Where the average")]
    assert section.listing is not None
    assert sum(row["seconds"] for row in section.listing.rows) == pytest.approx(
        document["candidates"][0]["average_step_s"]
    )


def test_an_engine_is_an_assumption(served: tuple[ServeQuestion, dict[str, Any], Any]) -> None:
    _, document, _ = served
    ideal = {**document, "assumptions": {**document["assumptions"], "engine": None}}
    assert "| engine |" not in page_markdown(serve_page(ideal))
    engine = {"attention": 0.3, "tile": 128, "source": "a public trace"}
    known = {**document, "assumptions": {**document["assumptions"], "engine": engine}}
    assert "| engine | attention 0.3, tile 128; a public trace |" in page_markdown(serve_page(known))


def test_missed_limits_are_a_warning(served: tuple[ServeQuestion, dict[str, Any], Any]) -> None:
    _, document, _ = served
    missed = {**document, "candidates": [{**row, "meets_sla": False} for row in document["candidates"]],
              "smallest_slice": None}  # fmt: skip
    page = serve_page(missed)
    assert (page.verdict, page.severity) == ("misses", "warning")
    assert page.lead.startswith("Nothing meets the limits; the nearest is v5e:1x1 as tensor=1")


HOSTILE = "a\x1b[31m<b>|x|@you `y`\n[l](http://e.example)\u202e"


def pages() -> list[Page]:
    model = model_of_table({"layers": 2, "d_model": 256, "n_heads": 4, "d_ff": 512, "gated": True, "vocab": 1024,
                            "tied_embeddings": False})  # fmt: skip
    job = Job(model, 16, 256, remat_policy("block-inputs"))
    document = plan_result(search(job, parse_slice("v5e:2x2"))).document
    document["model"] |= {"name": HOSTILE, "source": HOSTILE}
    document["hardware"] |= {"slice": HOSTILE, "note": HOSTILE}
    document["profile"] |= {"name": HOSTILE, "source": HOSTILE}
    for row in (*document["candidates"], *document["rejected"]):
        row |= {"layout": HOSTILE, "why": HOSTILE, "remat": HOSTILE}
    return [train_brief(document), train_page(document), train_page({**document, "candidates": []})]


def test_names_from_files_cannot_break_out() -> None:
    for page in pages():
        assert not {"\x1b", "\u202e"} & set(page_text(page, Screen(100)))
        marked = page_markdown(page)
        assert "<b>" not in marked
        assert "@you" not in marked
        assert "http://e" not in marked
        html = page_html(page)
        assert "<b>|x|" not in html
        assert not {"\x1b", "\u202e"} & set(html)
        Reader(html)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (show_money(None), "n/a"), (show_money(8.056), "$8.06"), (show_money(8123.4), "$8,123"),
        (show_money(28_818_557.0), "$28.8 M"), (show_money(4.2e9), "$4,200 M"), (show_days(34.94), "34.9"),
        (show_days(1234.5), "1,234"), (show_rate(607.25), "607.2"), (show_rate(52_000.4), "52,000"),
        (show_tokens(15e12), "15 T tokens"), (show_tokens(2_281_901.0), "2.28 M tokens"),
        (show_tokens(96.0), "96 tokens"),
    ],
)  # fmt: skip
def test_numbers_have_as_many_digits_as_an_estimate(shown: str, text: str) -> None:
    assert shown == text
