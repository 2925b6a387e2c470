"""The table commands' results: documents, listings and what they become."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.report.fake import HOSTILE, US, fake_trace
from tpuprof.formats.recording import HostFile, RunFiles
from tpuprof.report.bars import cells, meter, shares
from tpuprof.report.documents import collectives_result, gaps_result, ops_result, steps_result
from tpuprof.report.info import info_result
from tpuprof.report.listing import Field, Listing, Result
from tpuprof.report.render import TABLE_FORMATS, render_info, render_result
from tpuprof.report.run_list import runs_result
from tpuprof.report.screen import Screen, to_text
from tpuprof.report.terminal_table import draw_listing, shortened
from tpuprof.tables.schemas import PARTS

TRACE = fake_trace(4)
RESULTS = {
    "ops": ops_result(TRACE, "op", None, 30),
    "steps": steps_result(TRACE),
    "gaps": gaps_result(TRACE, None, 30),
    "collectives": collectives_result(TRACE, None, 30),
    "info": info_result(TRACE),
}


@pytest.mark.parametrize("command", RESULTS)
def test_documents_name_their_version_command_run_and_quality(command: str) -> None:
    document = json.loads(render_result(RESULTS[command], "json"))
    assert (document["schema_version"], document["command"]) == (1, command)
    assert document["run"]["name"] == "2026_01_01_00_00_00"
    assert document["quality"] == []


@pytest.mark.parametrize("command", RESULTS)
def test_csv_and_jsonl_hold_the_rows_of_the_document(command: str) -> None:
    result = RESULTS[command]
    lines = [json.loads(line) for line in render_result(result, "jsonl").splitlines()]
    assert lines == result.rows
    reader = csv.DictReader(io.StringIO(render_result(result, "csv")))
    assert tuple(reader.fieldnames or ()) == result.columns
    rows = list(reader)
    assert len(rows) == len(result.rows) > 0
    for column in result.columns:
        value = result.rows[0]
        for key in column.split("."):
            value = value[key]
        assert rows[0][column] == (
            "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        )


def test_steps_have_the_contract_keys_and_exact_sums() -> None:
    rows = RESULTS["steps"].rows
    assert len(rows) == 4 * 6
    for row in rows:
        assert {"device", "step", "start_ps", "duration_ps", "complete", "closed", "parts", "hidden"} <= set(row)
        assert set(row["parts"]) == {f"{part}_ps" for part in PARTS}
        assert set(row["hidden"]) == {"collective_ps", "dma_ps"}
        assert sum(row["parts"].values()) == row["duration_ps"]
        assert all(type(value) is int for value in row["parts"].values())


def test_steps_listing_has_one_row_per_step_of_the_slowest_core() -> None:
    (listing,) = RESULTS["steps"].listings
    assert [row["step"] for row in listing.rows] == list(range(6))
    first = listing.cells()[0]
    assert first[:3] == ["0", "1 ms", "40.0"]
    assert [row["state"] for row in listing.rows] == ["", "", "", "", "", "open"]


def test_a_step_without_a_partition_has_null_parts() -> None:
    trace = fake_trace(1)
    full = trace.partition
    missing = type("Missing", (), {})()
    for name in ("name", "steps", "quality", "step_source"):
        setattr(missing, name, getattr(trace, name))
    missing.partition = full[full["step"] != 2]
    missing.step_statistics = trace.step_statistics
    rows = steps_result(missing).rows
    assert set(rows[2]["parts"].values()) == {None}
    assert type(rows[3]["parts"]["matmul_ps"]) is int


@pytest.mark.parametrize("by", ["op", "kind", "scope", "source", "module"])
def test_ops_by_every_key(by: str) -> None:
    result = ops_result(TRACE, by, None, 30)
    assert result.document["by"] == by
    assert sum(row["self_ps"] for row in result.rows) == 900 * US * 24
    assert sum(row["self_fraction"] for row in result.rows) == pytest.approx(1)
    if by == "kind":
        assert result.rows[0]["name"] == "matmul"
    assert render_result(result, "md").count("\n|") == len(result.rows) + 2


def test_top_bounds_rows_and_the_total_is_told() -> None:
    text = render_result(ops_result(TRACE, "op", None, 3), "table", Screen(100))
    assert "3 of 8 ops" in text
    assert len(ops_result(TRACE, "op", None, 3).rows) == 8
    cut = ops_result(TRACE, "op", 2, 2)
    assert (len(cut.rows), cut.document["total"]) == (2, 8)
    assert "2 of 24 gaps" in render_result(gaps_result(TRACE, 2, 2), "md")


def test_gaps_are_longest_first() -> None:
    result = RESULTS["gaps"]
    lengths = [row["duration_ps"] for row in result.rows]
    assert lengths == sorted(lengths, reverse=True)
    assert result.document["total_ps"] == sum(lengths)
    assert result.rows[-1]["before_op"] == "copy.4"


def test_info_counts_planes_lines_and_programs() -> None:
    document = RESULTS["info"].document
    assert {"host": "hostA", "plane": "/device:TPU:0", "line": "XLA Ops", "events": 48} in document["lines"]
    assert {"host": "hostA", "plane": "/host:metadata", "line": None, "events": 0} in document["lines"]
    assert document["programs"] == [
        {"module": "jit_train_step(1234567890)", "executions": 24, "total_ps": 24 * 950 * US, "hlo": False}
    ]
    assert document["sources"] == [{"path": "hostA.xplane.pb", "format": "xplane", "size_bytes": 4_200_000}]
    known = info_result(fake_trace(1, programs={1234567890: object()}))
    assert known.document["programs"][0]["hlo"] is True


def test_info_bounds_what_people_see() -> None:
    many = fake_trace(60)
    text = render_info(info_result(many), "table", Screen(100))
    assert "40 of 62 planes" in text
    assert len(json.loads(render_info(info_result(many), "json"))["lines"]) == 60 * 2 + 2


@pytest.mark.parametrize("form", TABLE_FORMATS)
def test_no_rows_and_hostile_names_render(form: str) -> None:
    empty = fake_trace(0, n_steps=0, ops_rows=())
    ops = ((HOSTILE, "collective", 100, HOSTILE, HOSTILE),)
    hostile = fake_trace(2, ops_rows=ops, module=HOSTILE, name=HOSTILE)
    for trace in (empty, hostile):
        for result in (
            ops_result(trace, "op", None, 30),
            ops_result(trace, "scope", None, 30),
            steps_result(trace),
            gaps_result(trace, None, 30),
            collectives_result(trace, None, 30),
        ):
            text = render_result(result, form, Screen(70))
            assert "\x1b" not in text
            assert "<script" not in text or form in ("table", "csv", "json", "jsonl")
        assert "\x1b" not in render_info(info_result(trace), form, Screen(70))
    assert "No ops." in render_result(ops_result(empty, "op", None, 30), "table")


def test_runs() -> None:
    files = (
        HostFile("hostA", xplane="a.xplane.pb", xplane_size=10),
        HostFile("hostB", trace_json="b", trace_json_size=5),
    )
    result = runs_result(
        "/logs", [RunFiles("2026_01_02", "/logs/2026_01_02", files), RunFiles("2026_01_01", "/l", files[:1])]
    )
    assert result.rows[0] == {
        "name": "2026_01_02", "path": "/logs/2026_01_02", "hosts": ["hostA", "hostB"], "n_hosts": 2,
        "formats": ["xplane", "trace_json"], "size_bytes": 15,
    }  # fmt: skip
    assert result.rows[1]["formats"] == ["xplane"]
    text = render_result(result, "table", Screen(100))
    assert text.index("2026_01_02") < text.index("2026_01_01")
    rows = list(csv.DictReader(io.StringIO(render_result(result, "csv"))))
    assert json.loads(rows[0]["hosts"]) == ["hostA", "hostB"]


def test_bars_fill_their_width_exactly() -> None:
    parts = {"matmul_ps": 1, "elementwise_ps": 10**9, "idle_ps": 2 * 10**9}
    assert sum(count for _, count in cells(parts, 37)) == 37
    assert cells(parts, 3) == [("elementwise", 1), ("idle", 2)]
    assert cells({}, 10) == cells(None, 10) == []
    assert sum(share for _, share in shares(parts)) == pytest.approx(1)
    assert [meter(f, 10) for f in (0, 1e-9, 0.001, 0.5, 2.0)] == ["", "", "╸", "━━━━━", "━━━━━━━━━━"]


def test_columns_give_way_from_the_least_important() -> None:
    (listing,) = RESULTS["ops"].listings

    def headings(width: int) -> list[str]:
        result = Result(RESULTS["ops"].document, "ops", (), (listing,))
        return render_result(result, "table", Screen(width)).splitlines()[-9].split()

    costs = ["FLOPs", "HBM", "bound", "by", "of", "bound", "recoverable"]
    assert headings(200) == ["op", "kind", "count", "total", "self", "mean", "share", *costs, "scope"]
    assert headings(60) == ["op", "kind", "self", "mean", "share"]
    assert headings(40) == ["op", "self", "share"]


def test_the_widest_column_gives_way_and_short_words_stay_whole() -> None:
    fields = (Field("what", "what"), Field("side", "side"), Field("text", "text"))
    rows = [{"what": "compiler flags", "side": "both", "text": "x" * 300}]
    text = to_text(draw_listing(Listing("t", "slot", fields, rows, 1), Screen(60)), Screen(60))
    assert "compiler flags  both  xxx" in text
    assert max(map(len, text.splitlines())) <= 60


def test_names_are_shortened_where_they_differ_least() -> None:
    assert shortened("broadcast_add_fusion.12", 16, keep_tail=False).plain == "broadcast_…on.12"
    assert shortened("jit(f)/layer_3/mlp/dot", 10, keep_tail=True).plain == "…3/mlp/dot"
    assert shortened("short", 5, keep_tail=False).plain == "short"
    assert shortened("尺寸" * 9, 7, keep_tail=False).cell_len <= 7
    assert shortened("尺寸" * 9, 7, keep_tail=True).cell_len <= 7
