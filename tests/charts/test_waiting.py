"""Bars of who waits, and of the mean step."""

from __future__ import annotations

from typing import Any

from tests.charts.samples import HOSTILE, MS, layers_of, rows
from tpuprof.charts import collective_split_chart, idle_causes_chart, mean_step_chart, skew_chart, themed
from tpuprof.charts.stacks import PICKED
from tpuprof.charts.waiting import MOST_CORES, MOST_GROUPS
from tpuprof.palette import LOOKS


def pieces(drawing: Any) -> list[tuple[int, str, float, float]]:
    found = rows(themed(drawing.chart), 0)
    return [(row["row"], row["piece"], row["x"], row["x2"]) for row in found]


def texts(drawing: Any, key: str) -> list[str]:
    spec = themed(drawing.chart)
    return [row[key] for row in rows(spec, layers_of(spec, "text")[0])]


def group(name: str | None, **times: float | None) -> dict[str, Any]:
    return {"name": name, "count": 2, **{f"{key}_ps": None if ms is None else ms * MS for key, ms in times.items()}}


def core(device: str, late: float | None, wait: float | None) -> dict[str, Any]:
    return {"device": device, **{f"{key}_ps": None if ms is None else ms * MS
                                 for key, ms in (("late", late), ("wait", wait))}}  # fmt: skip


def test_exposed_and_hidden_stand_behind_each_other() -> None:
    drawing = collective_split_chart([group("a", exposed=3, hidden=1), group(None, exposed=1, hidden=0)], "exposed")
    exposed, hidden = "exposed: no compute beside it", "hidden under compute"
    assert pieces(drawing) == [(0, exposed, 0, 3), (0, hidden, 3, 4), (1, exposed, 0, 1)]
    assert texts(drawing, "label") == ["a", "not stated"]
    assert texts(drawing, "figure") == ["75.0 % exposed", "100.0 % exposed"]
    (param,) = themed(drawing.chart)["params"]  # type: ignore[arg-type]
    assert (param["name"], param["select"]["fields"]) == (PICKED, ["key"])


def test_a_wait_that_is_not_known_is_neither_waiting_nor_moving() -> None:
    drawing = collective_split_chart(
        [group("a", wait=1, transfer=3, unknown=4), group("b", wait=None, transfer=None, unknown=2)], "wait"
    )
    assert [piece for _, piece, _, _ in pieces(drawing)] == [
        "waiting for the last core", "moving", "not known which", "not known which",
    ]  # fmt: skip
    assert texts(drawing, "figure") == ["25.0 % waiting", "not known"]


def test_groups_are_bounded_and_the_total_said() -> None:
    drawing = collective_split_chart([group(f"g{at}", exposed=50 - at, hidden=0) for at in range(40)], "exposed")
    assert len(texts(drawing, "label")) == MOST_GROUPS
    assert drawing.caption.startswith("16 of 40 groups, the one with the most exposed time first.")
    assert collective_split_chart([group("a", exposed=None, hidden=0)], "exposed").caption == (
        "No chart: the counted steps hold no collective with a known time."
    )


def test_causes_are_sorted_and_what_they_leave_is_said() -> None:
    drawing = idle_causes_chart([("input", 1.0 * MS), ("dispatch", 3.0 * MS), ("none", 0.0)], 10.0 * MS)
    assert texts(drawing, "label") == ["dispatch", "input", "cause not known"]
    assert texts(drawing, "figure") == ["30.0 %", "10.0 %", "60.0 %"]
    assert texts(idle_causes_chart([("input", 4.0)], 4.0), "label") == ["input"]
    assert idle_causes_chart([], 0.0).caption == "No chart of causes: there is no idle time."
    assert idle_causes_chart([("input", float("nan"))], None).chart is None


def test_cores_that_wait_go_left_and_late_ones_right() -> None:
    drawing = skew_chart([core("a", 0, 4), core("b", 3, 1), core("c", None, None)])
    late, waited = "kept the others waiting", "waited for others"
    assert pieces(drawing) == [(0, late, 0, 3), (0, waited, 0, -1), (1, waited, 0, -4)]
    assert texts(drawing, "label") == ["b", "a"]
    assert drawing.caption == "2 cores, the one that cost the others most first."
    spec = themed(drawing.chart)  # type: ignore[arg-type]
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [-4, 3]
    assert spec["layer"][0]["encoding"]["x"]["axis"]["labelExpr"] == "format(abs(datum.value), ',.6~g')"


def test_of_many_cores_the_latest_and_those_that_wait_longest_are_shown() -> None:
    drawing = skew_chart([core(f"c{at:03}", 100 - at, at) for at in range(100)])
    labels = texts(drawing, "label")
    assert (len(labels), labels[0], labels[-1]) == (MOST_CORES, "c000", "c099")
    assert drawing.caption.startswith("32 of 100 cores: the 16 that cost the others most")


def test_without_waits_there_is_a_sentence() -> None:
    assert skew_chart([core("a", None, None)]).caption == (
        "No chart of waits between cores: no arrivals at collectives can be compared."
    )
    assert skew_chart([core("a", 0, 0)]).caption == "No chart of waits between cores: no core waited for another."


def test_the_mean_step_has_every_part_with_time_and_share() -> None:
    parts = {"matmul_ps": 6.0 * MS, "idle_ps": 3.9 * MS, "barrier_wait_ps": 0.1 * MS, "attention_ps": 0.0}
    drawing = mean_step_chart(parts)
    spec = themed(drawing.chart)  # type: ignore[arg-type]
    found = rows(spec, 0)
    assert [row["part"] for row in found] == ["matmul", "barrier wait", "idle"]
    assert [row["x"] for row in found[1:]] == [row["x2"] for row in found[:-1]]
    assert found[-1]["x2"] - found[0]["x"] == spec["width"]
    assert found[0]["x2"] / spec["width"] == 0.6
    assert [row["text"] for row in rows(spec, 1)] == [
        "matmul 6 ms · 60.0 %", "barrier wait 100 us · 1.0 %", "idle 3.9 ms · 39.0 %",
    ]  # fmt: skip
    assert [row["share"] for layer in layers_of(spec, "text")[1:] for row in rows(spec, layer)] == ["60 %", "39 %"]


def test_all_parts_fit_and_none_is_a_sentence() -> None:
    spec = themed(mean_step_chart({f"{part}_ps": 1.0 for part in LOOKS}).chart)  # type: ignore[arg-type]
    labels = rows(spec, 1)
    assert len(labels) == len(LOOKS)
    assert max(row["y"] for row in labels) < spec["height"]
    for nothing in (None, {}, {"matmul_ps": 0.0}, {"matmul_ps": float("nan")}):
        assert mean_step_chart(nothing).caption == "No step was divided into parts."


def test_hostile_names_stay_data() -> None:
    for drawing in (
        collective_split_chart([group(HOSTILE, exposed=1, hidden=1)], "exposed"),
        skew_chart([core(HOSTILE, 1, 1), core("b", 0, 1)]),
    ):
        spec = themed(drawing.chart)  # type: ignore[arg-type]
        assert HOSTILE not in str(spec)
        assert all("\x1b" not in label and len(label) <= 33 for label in texts(drawing, "label"))
