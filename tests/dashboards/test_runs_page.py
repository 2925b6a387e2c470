"""Page Runs: what is there, what is known of it, and what is shown now."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.dashboards.harness import RUNS, SAMPLES, page_test, problems, texts
from tpuprof.sidecar import SIDECAR_NAME
from tpuprof.testing import TraceBuilder

LOOP, HOSTS, CPU = RUNS.values()


def test_runs_are_listed_newest_first_with_hosts_and_sizes() -> None:
    test = page_test("runs", SAMPLES)
    assert problems(test) == []
    table = test.dataframe[0].value
    assert list(table["name"]) == [CPU, HOSTS, LOOP]
    assert list(table["n_hosts"]) == [1, 2, 1]
    assert list(table["shown"]) == ["run", "", ""]
    assert "3 runs under" in texts(test)


def test_what_is_picked_is_marked_and_reading_fills_the_rest(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "tpu_two_hosts", tmp_path / "logs")
    shutil.copytree(SAMPLES / "tpu_loop_async", tmp_path / "logs", dirs_exist_ok=True)
    test = page_test("runs", tmp_path / "logs", run=LOOP, base=HOSTS)
    table = test.dataframe[0].value
    assert list(table["shown"]) == ["base", "run"]
    assert "kind" not in table
    (button,) = [button for button in test.button if button.label.startswith("Read")]
    assert button.label == "Read the other 2 for hardware, steps and data quality"
    test = button.click().run()
    assert problems(test) == []
    table = test.dataframe[0].value
    assert list(table["kind"]) == ["4 × TPU v5", "2 × TPU v6 lite"]
    assert list(table["n_steps"]) == [3, 4]
    assert list(table["made"]) == ["recorded", "recorded"]
    assert list(table["noticed"]) == ["info (2)", "nothing"] or table["noticed"].notna().all()
    assert not [button for button in test.button if button.label.startswith("Read")]


def test_a_predicted_run_is_marked(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.session = "planned"
    plane = builder.add_host("h").add_tpu(0)
    plane.add_line("Steps").event("0", 0, 100)
    plane.add_line("XLA Ops").event("fusion.1", 0, 90)
    builder.write(tmp_path)
    (tmp_path / "plugins" / "profile" / "planned" / SIDECAR_NAME).write_text('{"schema_version": 1, "predicted": true}')
    test = page_test("runs", tmp_path)
    (button,) = [button for button in test.button if button.label.startswith("Read it")]
    assert list(button.click().run().dataframe[0].value["made"]) == ["predicted"]
    assert "predicted, not recorded" in texts(page_test("overview", tmp_path))


def test_a_search_finds_by_all_of_its_words() -> None:
    test = page_test("runs", SAMPLES, find="2025 worker-1")
    assert list(test.dataframe[0].value["name"]) == [HOSTS]
    assert "1 of 3 runs" in texts(test)
    nothing = page_test("runs", SAMPLES, find="<b>none</b>")
    assert problems(nothing) == []
    assert "No run matches" in texts(nothing)
    assert not nothing.dataframe


def test_many_runs_stay_bounded(tmp_path: Path) -> None:
    for at in range(300):
        folder = tmp_path / "plugins" / "profile" / f"run_{at:05}"
        folder.mkdir(parents=True)
        (folder / "h.xplane.pb").write_bytes(b"")
    test = page_test("runs", tmp_path)
    assert problems(test) == []
    table = test.dataframe[0].value
    assert (len(table), table["name"].iloc[0]) == (256, "run_00299")
    assert "Of each profile directory the newest 256 are listed." in texts(test)


def test_an_empty_directory_says_how_to_fill_it(tmp_path: Path) -> None:
    test = page_test("runs", tmp_path)
    assert problems(test) == []
    assert "There is no run under" in texts(test)
    assert "tpuprof capture" in texts(test)
