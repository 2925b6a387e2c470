"""The step-time logs as a table: known logs in, known rows out."""

import json

import pytest

from tpuprof.cli import main
from tpuprof.errors import TraceNotFoundError
from tpuprof.report.render import render_result
from tpuprof.report.steplogs import read_logs, step_times_result

MS = 1_000_000


def write(tmp_path, lines, *, pid=7, started=1000):
    folder = tmp_path / "step_times"
    folder.mkdir(exist_ok=True)
    head = {"kind": "step_times", "host": "h", "pid": pid, "started_ns": started}
    text = "".join(json.dumps(line) + "\n" for line in [head, *lines])
    (folder / f"h.{pid}.{started}.jsonl").write_text(text)


def loop(times):
    return [[n, n * 1000 * MS, time * MS] for n, time in enumerate(times)]


CAPTURED = [
    *loop([50] + [10] * 19),
    {"event": "slow_step", "step": 19, "duration_ns": 1, "median_ns": 1},
    {"event": "capture_started", "step": 20, "stop": 22, "trigger": "slow step 19"},
    [20, 20_000 * MS, 12 * MS],
    [21, 21_000 * MS, 12 * MS],
    {"event": "capture_ended", "step": 22, "path": "/run", "error": None, "before_ns": 10 * MS, "during_ns": 12 * MS},
    *[[n, n * 1000 * MS, 10 * MS] for n in range(22, 40)],
    {"event": "overhead", "after_ns": 10 * MS},
]


def test_slow_and_captured_steps_are_told(tmp_path):
    write(tmp_path, CAPTURED)
    result = step_times_result(read_logs(tmp_path), 30)
    rows = result.rows
    assert [row["step"] for row in rows] == list(range(40))
    assert {row["step"]: row["state"] for row in rows if row["state"]} == {19: "slow", 20: "captured", 21: "captured"}
    assert rows[20] == {
        "process": "h:7",
        "step": 20,
        "start_ps": 20_000 * MS * 1000,
        "duration_ps": 12 * MS * 1000,
        "ratio": 1.2,
        "state": "captured",
        "trigger": "slow step 19",
    }
    (process,) = result.document["processes"]
    assert (process["steps"], process["median_ps"]) == (40, 10 * MS * 1000)
    assert process["captures"] == [
        {
            "first_step": 20,
            "stop_step": 22,
            "trigger": "slow step 19",
            "path": "/run",
            "error": None,
            "step_time_ps": {"before": 10 * MS * 1000, "during": 12 * MS * 1000, "after": 10 * MS * 1000},
        }
    ]
    text = render_result(result, "md")
    assert "Capture at step 20 (slow step 19): /run. Median step: before 10 ms, during 12 ms, after 10 ms." in text
    assert "h:7: 40 steps, median 10 ms, 95 % within 12 ms." in text
    assert render_result(result, "csv").splitlines()[20] == "h:7,19,19000000000000,10000000000,1.0,slow,"


def test_slow_steps_are_found_where_nobody_looked(tmp_path):
    write(tmp_path, loop([10] * 30 + [90] + [10] * 5))
    result = step_times_result(read_logs(tmp_path), 30)
    assert [row["step"] for row in result.rows if row["state"] == "slow"] == [30]


def test_a_warm_up_is_neither_slow_nor_captured(tmp_path):
    warm_up = [
        {"event": "capture_started", "step": 20, "stop": 21, "trigger": "warm-up"},
        [20, 20_000 * MS, 90 * MS],  # the first start of a profiler takes its time
        {"event": "warm_up", "step_events": 1},
        {"event": "capture_started", "step": 21, "stop": 22, "trigger": "steps 21:22"},
        [21, 21_000 * MS, 10 * MS],
        {"event": "capture_ended", "step": 22, "path": "/run", "error": None},
    ]
    write(tmp_path, [*loop([10] * 20), *warm_up])
    rows = step_times_result(read_logs(tmp_path), 30).rows
    assert {row["step"]: row["state"] for row in rows if row["state"]} == {20: "warm-up", 21: "captured"}


def test_without_anything_notable_the_last_steps_are_shown(tmp_path):
    write(tmp_path, loop([10] * 50))
    (listing,) = step_times_result(read_logs(tmp_path), 4).listings
    assert listing.title == "Step times: the last steps"
    assert [row["step"] for row in listing.rows] == [46, 47, 48, 49]
    assert listing.extent() == "4 of 50 steps"


@pytest.mark.parametrize(
    ("events", "told"),
    [
        ([{"event": "capture_started", "step": 1, "trigger": "t"}], "no run. The process ended without a word"),
        ([{"event": "capture_ended", "step": 1, "path": None, "error": "boom."}], "(not started): no run. boom."),
        ([{"event": "warm_up"}, {"event": "overhead", "after_ns": 3}, {"event": "capture_started"}], "(None): no run"),
    ],
)
def test_captures_that_left_nothing(tmp_path, events, told):
    write(tmp_path, [*loop([10] * 3), *events])
    (listing,) = step_times_result(read_logs(tmp_path), 4).listings
    assert any(told in note for note in listing.notes), listing.notes


def test_a_warm_up_is_no_capture(tmp_path):
    write(tmp_path, [{"event": "capture_started", "step": 1, "trigger": "warm-up"}, {"event": "warm_up"}, [1, 0, 5]])
    result = step_times_result(read_logs(tmp_path), 4)
    assert result.document["processes"][0]["captures"] == []
    assert [row["state"] for row in result.rows] == [""]


def test_logs_of_several_processes_and_an_empty_one(tmp_path):
    write(tmp_path, loop([10, 10]), pid=1, started=5)
    write(tmp_path, [], pid=2, started=4)
    result = step_times_result(read_logs(tmp_path), 4)
    assert [process["name"] for process in result.document["processes"]] == ["h:2", "h:1"]
    assert [process["median_ps"] for process in result.document["processes"]] == [None, 10 * MS * 1000]
    assert len(result.rows) == 2
    for form in ("table", "json", "jsonl", "csv", "md"):
        assert "h:1" in render_result(result, form)


def test_damaged_lines_are_said(tmp_path):
    write(tmp_path, [*loop([10]), "nonsense"])
    (listing,) = step_times_result(read_logs(tmp_path), 4).listings
    assert any("1 line of" in note for note in listing.notes)


def test_a_place_without_logs_is_said(tmp_path):
    with pytest.raises(TraceNotFoundError, match=r"There is no step-time log here. Captures write them into LOGDIR/st"):
        read_logs(tmp_path)


def test_steps_narrow_the_rows_down_and_not_what_they_are_compared_with(tmp_path):
    write(tmp_path, loop([10] * 30 + [90] + [10] * 5))
    result = step_times_result(read_logs(tmp_path), 30, (29, 32))
    assert [(row["step"], row["state"], row["ratio"]) for row in result.rows] == [
        (29, "", 1.0),
        (30, "slow", 9.0),
        (31, "", 1.0),
    ]


def test_the_command(tmp_path, capfdbinary):
    write(tmp_path, loop([10] * 30 + [90]))

    def run(*words):
        code = main(("steps", *words))
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    code, out, _ = run(str(tmp_path), "--log", "--steps", "29:", "--format", "csv")
    assert (code, [line.split(",")[1] for line in out.splitlines()]) == (0, ["step", "29", "30"])
    code, _, err = run(str(tmp_path), "--log", "--devices", "0")
    assert (code, "--devices cannot be combined with --log." in err) == (2, True)
    code, _, err = run(str(tmp_path), "--top", "3")
    assert (code, "--top needs --log." in err) == (2, True)
    assert run(str(tmp_path / "nowhere"), "--log")[0] == 3
