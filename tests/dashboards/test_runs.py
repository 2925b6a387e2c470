"""The runs of a log directory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tpuprof_dashboards.runs import Library, check_selection

from tests.dashboards.harness import SAMPLES, page_test, problems, texts
from tpuprof.errors import TraceNotFoundError, UsageError

_SESSION = "plugins/profile/2025_11_24_17_00_00"


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    shutil.copytree(SAMPLES / "tpu_two_hosts", tmp_path / "logs")
    return tmp_path / "logs"


def test_a_run_is_read_once_and_again_when_a_file_of_it_changes(logdir: Path) -> None:
    library = Library.of(str(logdir))
    (files,) = library.list()
    assert not library.is_open(files)
    first = library.open(files)
    assert library.is_open(files)
    assert library.open(files) is first
    changed = next((logdir / _SESSION).glob("*.xplane.pb"))
    os.utime(changed, ns=(1, 1))
    assert not library.is_open(library.list()[0])
    assert library.open(library.list()[0]) is not first


def test_the_picked_run_is_the_one_that_is_opened() -> None:
    library = Library.of(str(SAMPLES))
    for files in library.list():
        trace = library.open(files).trace
        assert trace.name == files.name
        assert trace.path == files.path


def test_a_link_out_of_the_directory_is_not_followed(logdir: Path, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "tpu_loop_async", tmp_path / "elsewhere")
    session = next((tmp_path / "elsewhere" / "plugins" / "profile").iterdir())
    (logdir / "plugins" / "profile" / session.name).symlink_to(session)
    assert [files.name for files in Library.of(str(logdir)).list()] == ["2025_11_24_17_00_00"]


def test_a_run_too_old_to_be_listed_opens_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpuprof.formats.discover.MAX_SESSIONS", 1)
    logs, old, linked = tmp_path / "logs", "2025_11_24_16_00_00", "2025_11_24_15_00_00"
    for sample in ("tpu_two_hosts", "tpu_loop_async"):
        shutil.copytree(SAMPLES / sample, logs, dirs_exist_ok=True)
    shutil.copytree(logs / "plugins" / "profile" / old, tmp_path / "elsewhere" / linked)
    (logs / "plugins" / "profile" / linked).symlink_to(tmp_path / "elsewhere" / linked)
    library = Library.of(str(logs))
    runs = library.list()
    assert [files.name for files in runs] == ["2025_11_24_17_00_00"]
    found = library.find(runs, old)
    assert found is not None
    assert library.open(found).trace.name == old
    assert library.find(runs, linked) is None  # it leads out of the directory
    test = page_test("overview", logs, run=old)
    assert problems(test) == []
    assert test.selectbox[0].value == old
    assert "Step p50" in texts(test)


def test_a_name_in_the_url_is_a_name_and_never_a_path(logdir: Path) -> None:
    library = Library.of(str(logdir))
    runs = library.list()
    assert library.find(runs, "") is runs[0]
    for name in ("../elsewhere", "/etc/passwd", str(logdir), "2025_11_24_17_00_00/.."):
        assert library.find(runs, name) is None
    test = page_test("overview", logdir, run="../../etc")
    assert problems(test) == []
    assert "has no run" in texts(test)


def test_an_empty_directory_has_no_runs_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    assert Library.of(str(tmp_path)).list() == []
    with pytest.raises(TraceNotFoundError):
        Library.of(str(tmp_path / "missing")).list()
    test = page_test("overview", tmp_path)
    assert problems(test) == []
    assert "There is no run" in texts(test)
    assert "tpuprof demo" in texts(test)


def test_a_selection_is_made_once_and_one_that_does_not_exist_is_said(logdir: Path) -> None:
    library = Library.of(str(logdir))
    run = library.open(library.list()[0])
    step = int(run.trace.steps["step"].iloc[0])
    narrowed, wrong = check_selection(run, str(step), "")
    assert wrong is None
    assert set(narrowed.trace.steps["step"]) == {step}
    assert check_selection(run, str(step), "")[0] is narrowed
    whole, wrong = check_selection(run, "1000:", "")
    assert wrong is not None
    assert "No step of the run" in wrong
    assert whole is run.selection()
    with pytest.raises(UsageError):
        run.selection("", "TPU:99")


def test_what_is_derived_is_made_once(logdir: Path) -> None:
    library = Library.of(str(logdir))
    selection = library.open(library.list()[0]).selection()
    assert selection.report is selection.report
    made: list[int] = []
    for _ in range(3):
        selection.derived("x", lambda: made.append(1))
    assert made == [1]


def test_links_with_steps_and_devices_that_the_run_lacks_still_show_it() -> None:
    test = page_test("overview", SAMPLES / "tpu_two_hosts", steps="900:901", devices="TPU:77")
    assert problems(test) == []
    assert "The whole run is shown" in texts(test)
    assert "Step p50" in texts(test)
    test = page_test("overview", SAMPLES / "tpu_two_hosts", steps="]]<b>", devices="*[")
    assert problems(test) == []
    assert "Step p50" in texts(test)
