"""Commands from end to end: what goes to stdout and stderr, and the exit codes."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Run
from tests.report.fake import US
from tpuprof.cli.output import Output
from tpuprof.errors import InputError, TpuprofError

TABLES = ("steps", "ops", "gaps", "collectives")


@pytest.mark.parametrize("command", ["report", "info", *TABLES])
@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv", "md"])
def test_every_command_has_every_format(run: Run, command: str, form: str) -> None:
    code, out, err = run(command, "clean", "--format", form)
    assert code == 0
    assert out.endswith("\n")
    assert err.startswith(
        "tpuprof: reading the newest run, 2026_01_01_00_00_00; others, for --run: 2025_12_31_00_00_00,"
    )
    if form == "json":
        assert json.loads(out)["command"] == command
    if form == "jsonl":
        assert all(isinstance(json.loads(line), dict) for line in out.splitlines())
    if form == "csv":
        assert len({len(row) for row in csv.reader(io.StringIO(out))}) == 1


def test_stdout_holds_the_result_only(run: Run) -> None:
    code, out, err = run("ops", "poor", "--json", "-v")
    assert code == 0
    assert json.loads(out)["total"] == 8
    assert "tpuprof: warning: cores_missing: 4 of 8 cores were recorded." in err
    assert "tpuprof: error: over_peak: 105 % of the peak." in err
    assert "tpuprof: read /logs/" in err
    assert run("ops", "poor", "--json", "--quiet")[2] == ""


def test_run_named_silences_the_list_of_others(run: Run) -> None:
    assert run("info", "clean", "--run", "2026_01_01_00_00_00")[2] == ""


@pytest.mark.parametrize(
    ("fail_on", "path", "code"),
    [
        ("never", "poor", 0), ("error", "poor", 1), ("warning", "poor", 1), ("info", "poor", 1), ("info", "clean", 0),
        ("error", "hostile", 0), ("warning", "hostile", 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["report", "info", *TABLES])
def test_fail_on(run: Run, command: str, fail_on: str, path: str, code: int) -> None:
    got, out, _ = run(command, path, "--fail-on", fail_on, "--json")
    assert got == code
    assert json.loads(out)["command"] == command  # the result is written all the same


def test_fail_on_says_how_many(run: Run) -> None:
    assert "2 entries are at or above --fail-on warning" in run("report", "poor", "--fail-on", "warning")[2]
    assert "1 entry is at or above --fail-on error" in run("report", "poor", "--fail-on", "error")[2]


def test_an_error_of_tpuprof_says_what_where_why_and_next(run: Run) -> None:
    code, out, err = run("report", "nothing/here")
    assert code == 3
    assert out == ""
    assert err == (
        "tpuprof: error: There is no run here.\n"
        "tpuprof: where: nothing/here\n"
        "tpuprof: why: The directory holds no trace files.\n"
        "tpuprof: next: Look with: tpuprof runs .\n"
    )


def test_an_internal_error_is_one_line_without_traceback(run: Run) -> None:
    code, out, err = run("report", "broken")
    assert code == 4
    assert out == ""
    assert err == (
        "tpuprof: error: internal error: RuntimeError: the cat sat on it\n"
        "tpuprof: next: Run the same command with --debug and report what it prints.\n"
    )


@pytest.mark.parametrize("words", [("--debug", "report", "broken"), ("report", "broken", "--debug")])
def test_debug_shows_the_traceback(run: Run, words: tuple[str, ...]) -> None:
    code, _, err = run(*words)
    assert code == 4
    assert "Traceback (most recent call last)" in err
    assert run("report", "nothing", "--debug")[2].count("Traceback") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("reprot",), "There is no command 'reprot'. Did you mean report"),
        (("zzzz",), "There is no command 'zzzz'. Commands: capture, grab, runs, info"),
        (("report",), "Missing argument 'RUN'."),
        (("report", "clean", "--nope"), "No such option"),
        (("report", "clean", "--format", "xml"), "'xml' is not one of 'table', 'json'"),
        (("ops", "clean", "--by", "colour"), "'colour' is not one of 'op', 'kind'"),
        (("ops", "clean", "--top", "0"), "0 is not in the range x>=1"),
        (("ops", "clean", "--json", "--format", "csv"), "--json and --format csv contradict each other."),
        (("ops", "clean", "--steps", "x"), "--steps 'x' is no range of steps."),
        (("ops", "clean", "--steps", ":"), "--steps ':' is no range of steps."),
        (("ops", "clean", "--steps", "5:5"), "--steps '5:5' holds no step."),
        (("ops", "clean", "--steps", "90:"), "No step of the run lies in --steps."),
        (("ops", "clean", "--devices", "TPU:9"), "--devices: no core is called 'TPU:9'."),
        (("ops", "clean", "--devices", ","), "--devices names no core."),
    ],
)
def test_usage_errors(run: Run, words: tuple[str, ...], message: str) -> None:
    code, out, err = run(*words)
    assert code == 2
    assert out == ""
    assert message in err
    assert "tpuprof: next: " in err
    assert err.startswith(("tpuprof: error: ", "tpuprof: reading the newest run"))


def test_no_command_shows_the_help(run: Run) -> None:
    code, out, err = run()
    assert (code, out) == (2, "")
    assert err.startswith("Usage: tpuprof")


def test_interrupt(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.cli import with_fake

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(with_fake, "load", stop)
    with_fake.install()
    assert run("report", "clean")[0] == 130


@pytest.mark.parametrize("code", [0, 7, 130])
def test_a_commands_own_exit_code_passes_through(run: Run, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    import sys
    import types

    from tpuprof.cli.commands import COMMANDS

    @click.command("child")
    def child() -> None:
        sys.exit(code)

    module = types.ModuleType("child")
    module.command = child  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "child", module)
    monkeypatch.setitem(COMMANDS, "child", ("child", ""))
    assert run("child")[0] == code


def test_every_error_class_has_an_exit_code_of_the_contract() -> None:
    def below(cls: type[TpuprofError]) -> list[type[TpuprofError]]:
        return [cls, *(leaf for sub in cls.__subclasses__() for leaf in below(sub))]

    assert {cls.exit_code for cls in below(TpuprofError)} <= {2, 3, 4, 5}
    assert {cls.exit_code for cls in below(InputError)} == {3}


def test_the_help_tells_the_exit_codes(run: Run) -> None:
    text = " ".join(run("--help")[1].split())
    for told in ("0 done", "1 something as severe", "2 wrong use", "3 the input", "4 a capture", "130 interrupted"):
        assert told in text


# -- filters ------------------------------------------------------------------------------------------------------


def test_devices_are_named_by_id_last_part_number_or_pattern(run: Run) -> None:
    def devices(text: str) -> list[str]:
        rows = json.loads(run("steps", "clean", "--json", "--devices", text)[1])["steps"]
        return sorted({row["device"] for row in rows})

    assert devices("hostA/TPU:2") == devices("TPU:2") == devices("2") == ["hostA/TPU:2"]
    assert devices("3, TPU:0") == ["hostA/TPU:0", "hostA/TPU:3"]
    assert len(devices("hostA/*")) == 4


def test_steps_are_a_half_open_range(run: Run) -> None:
    from tpuprof.selection import match_steps, parse_steps

    assert parse_steps("10:13") == (10, 13)
    assert parse_steps("7") == (7, 8)
    assert parse_steps("10:") == (10, None)
    assert parse_steps(" :3 ") == (None, 3)
    assert match_steps((2, 4), [0, 1, 2, 3, 4]) == [2, 3]
    assert match_steps((None, 1), [0, 1]) == [0]
    rows = json.loads(run("steps", "clean", "--json", "--steps", "0:2")[1])["steps"]
    assert {row["step"] for row in rows} == {0, 1}


# -- tables -------------------------------------------------------------------------------------------------------


def test_top_holds_for_every_format(run: Run) -> None:
    assert len(json.loads(run("ops", "clean", "--json")[1])["ops"]) == 8
    assert len(json.loads(run("ops", "clean", "--json", "--top", "3")[1])["ops"]) == 3
    assert "3 of 8 ops" in run("ops", "clean", "--top", "3")[1]
    assert "24 gaps" in run("gaps", "clean", "--format", "md")[1]


def test_steps_document(run: Run) -> None:
    document = json.loads(run("steps", "clean", "--json")[1])
    assert document["statistics"]["count"] == 6
    assert document["steps"][0]["parts"]["matmul_ps"] == 400 * US


# -- output -------------------------------------------------------------------------------------------------------


def test_output_file_is_written_and_named(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    code, out, err = run("report", "poor", "-o", str(target))
    assert (code, out) == (0, "")
    assert err == f"tpuprof: wrote {target}\n"
    assert json.loads(target.read_text())["command"] == "report"
    assert os.listdir(tmp_path) == ["report.json"]
    assert run("report", "poor", "-o", str(tmp_path / "again.json"), "--quiet")[2] == ""


def test_output_is_not_overwritten_without_force(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "old.csv"
    target.write_text("precious")
    code, out, err = run("ops", "clean", "-o", str(target))
    assert (code, out) == (2, "")
    assert err == (
        "tpuprof: error: The output file exists.\n"
        f"tpuprof: where: {target}\n"
        "tpuprof: next: Give --force to replace it, or another -o.\n"
    )
    assert target.read_text() == "precious"
    assert run("ops", "clean", "-o", str(target), "--force", "-q")[0] == 0
    assert target.read_text().startswith("name,kind,")


def test_a_failure_leaves_no_file(run: Run, tmp_path: Path) -> None:
    assert run("report", "broken", "-o", str(tmp_path / "x.json"))[0] == 4
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("place", "message"),
    [(".", "The output is a directory."), ("no/such/x.md", "The directory of the output file does not exist.")],
)
def test_impossible_outputs(run: Run, tmp_path: Path, place: str, message: str) -> None:
    code, _, err = run("ops", "clean", "-o", str(tmp_path / place))
    assert code == 2
    assert message in err


def test_a_write_that_fails_is_said_and_leaves_the_old_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "old.md"
    target.write_text("precious")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tpuprof.cli.output.os.fsync", full)
    code, _, err = run("ops", "clean", "-o", str(target), "--force")
    assert code == 2
    assert "The output file cannot be written: No space left on device." in err
    assert target.read_text() == "precious"
    assert os.listdir(tmp_path) == ["old.md"]


def test_a_symbolic_link_stays_one(run: Run, tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("{}")
    link.symlink_to(real)
    assert run("report", "clean", "-o", str(link), "--force")[0] == 0
    assert link.is_symlink()
    assert json.loads(real.read_text())["command"] == "report"


def test_devices_and_pipes_are_written_not_replaced(run: Run, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run("gaps", "clean", "-o", str(pipe), "--format", "csv", "--top", "2")[0] == 0
        assert os.read(reader, 65536).startswith(b"device,step,")
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert run("gaps", "clean", "-o", os.devnull)[0] == 0
    assert Path(os.devnull).is_char_device()


def test_permissions_of_a_replaced_file_remain(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "shared.csv"
    target.write_text("old")
    target.chmod(0o664)
    assert run("ops", "clean", "-o", str(target), "--force")[0] == 0
    assert target.stat().st_mode & 0o777 == 0o664


def test_runs_lists_what_the_log_directory_holds(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    from tpuprof.formats.recording import HostFile, RunFiles

    found = [RunFiles("2026_01_02", "/l/2026_01_02", (HostFile("h", xplane="h.xplane.pb", xplane_size=7),))]
    module = types.ModuleType("tpuprof.formats.discover")
    module.list_runs = lambda path: found if path == "/l" else []  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tpuprof.formats.discover", module)
    document = json.loads(run("runs", "/l", "--json")[1])
    assert (document["command"], document["logdir"], document["total"]) == ("runs", "/l", 1)
    assert document["runs"][0]["size_bytes"] == 7
    assert "2026_01_02" in run("runs", "/l")[1]


@pytest.mark.parametrize(
    ("name", "starts"),
    [("a.json", "{"), ("a.html", "<!doctype html>"), ("a.md", "## "), ("a.csv", "device,"), ("a.txt", "tpuprof report"),
     ("a.sarif", "{"), ("A.HTML", "<!doctype")],
)  # fmt: skip
def test_the_suffix_chooses_the_format(run: Run, tmp_path: Path, name: str, starts: str) -> None:
    run("report", "clean", "-o", str(tmp_path / name))
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(starts)


def test_an_explicit_format_wins_over_the_suffix(run: Run, tmp_path: Path) -> None:
    run("ops", "clean", "-o", str(tmp_path / "a.md"), "--json")
    assert json.loads((tmp_path / "a.md").read_text())["command"] == "ops"
    run("ops", "clean", "-o", str(tmp_path / "a.html"))  # ops has no HTML
    assert (tmp_path / "a.html").read_text(encoding="utf-8").startswith("Ops")


def test_dash_is_stdout(run: Run) -> None:
    assert run("ops", "clean", "-o", "-", "--json")[1].startswith("{")


# -- GitHub -------------------------------------------------------------------------------------------------------


def test_github_appends_the_summary_where_github_wants_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    code, out, err = run("report", "poor", "--format", "github")
    assert code == 0
    assert [line.split(" ")[0] for line in out.splitlines()] == ["::error", "::warning"]
    assert summary.read_text(encoding="utf-8").startswith("before\n## tpuprof report")
    assert f"appended the summary to {summary}" in err
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    code, _, err = run("report", "poor", "--format", "github")
    assert code == 2
    assert "The step summary cannot be written" in err


def test_github_without_a_summary_file_prints_it(run: Run) -> None:
    assert "\n## tpuprof report" in run("report", "poor", "--format", "github")[1]


# -- terminals ----------------------------------------------------------------------------------------------------


def test_columns_sets_the_width(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = run("report", "clean")[1]
    assert 50 < max(map(len, text.splitlines())) <= 60
    monkeypatch.setenv("COLUMNS", "nonsense")
    assert max(map(len, run("report", "clean")[1].splitlines())) <= 100


def test_color_follows_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in run("report", "clean")[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("COLORTERM", raising=False)
    assert "\x1b[" in run("report", "clean")[1]
    assert Output("table").screen().color == "256"
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert Output("table").screen().color == "truecolor"
    monkeypatch.delenv("COLORTERM")
    monkeypatch.setenv("TERM", "linux")
    assert Output("table").screen().color == "standard"
    assert Output("table", path=Path("x")).screen().color is None
    assert "\x1b" not in run("report", "clean", "--no-color")[1]
    assert "\x1b" not in run("report", "clean", "--json")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("report", "clean")[1]


def test_hostile_names_do_not_reach_the_terminal(run: Run) -> None:
    for command in ("report", "info", *TABLES):
        _, out, err = run(command, "hostile")
        assert "\x1b" not in out + err
        assert not [line for line in (out + err).splitlines() if line.startswith("::")]
