"""``tpuprof history`` from end to end: what goes to stdout and stderr, and the exit codes."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from tests.history import made
from tests.history.conftest import Command
from tpuprof.history import Store

FORMATS = ["table", "json", "jsonl", "csv", "md"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a step of 10 % from the 13th of 20 runs on, and a baseline."""
    path = tmp_path_factory.mktemp("history") / "filled.db"
    store = made.changed_store(path)
    store.set_baseline("good", store.runs()[:12])
    return path


@pytest.fixture
def filled(template: Path, tmp_path: Path) -> str:
    """A copy of the template, to be changed at will."""
    return str(shutil.copy(template, tmp_path))


def test_a_run_is_added_once(command: Command, tmp_path: Path) -> None:
    store, logs = str(tmp_path / "s.db"), str(made.write(tmp_path / "logs"))
    code, out, err = command("add", logs, "--store", store, "--branch", "main", "--tag", "note=x", "--json")
    assert code == 0
    document = json.loads(out)
    assert (document["command"], document["added"], document["store"]) == ("history add", True, store)
    assert document["runs"][0]["tags"] == {"branch": "main", "note": "x"}
    assert document["runs"][0]["step_p50_ps"] == 115e6
    assert f"tpuprof: made a new run store: {store}\n" in err
    code, out, err = command("add", logs, "--store", store, "--branch", "dev", "--commit", "abc", "--json")
    assert code == 0
    assert json.loads(out)["added"] is False
    assert "tpuprof: the run is in the store already, as number 1, now with commit\n" in err
    assert "tpuprof: its tag branch stays 'main', not 'dev'" in err
    assert json.loads(command("list", "--store", store, "--json")[1])["total"] == 1


def test_part_of_a_run_can_be_added(command: Command, tmp_path: Path) -> None:
    store, logs = str(tmp_path / "s.db"), str(made.write(tmp_path / "logs"))
    out = command("add", logs, "--store", store, "--steps", "1:3", "--json", "-q")[1]
    assert json.loads(out)["runs"][0]["step_p50_ps"] == 115e6
    times = json.loads(command("show", "1", "--store", store, "--json")[1])["step_times_ps"]
    assert times == [110_000_000, 120_000_000]


def test_what_cannot_be_added(command: Command, tmp_path: Path) -> None:
    store, logs = str(tmp_path / "s.db"), str(made.write(tmp_path / "logs"))
    assert command("add", str(tmp_path / "none"), "--store", store)[0] == 3
    code, _, err = command("add", logs, "--store", store, "--tag", "branch")
    assert (code, "'branch' is no tag." in err) == (2, True)
    code, _, err = command("add", logs, "--store", store, "--branch", "a", "--tag", "branch=b")
    assert (code, "Tag 'branch' is given twice" in err) == (2, True)
    code, _, err = command("add", logs, "--store", "mysql://me:hunter2@h/d")
    assert (code, "hunter2" in err) == (2, False)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "words", [("list",), ("show", "3"), ("trend",), ("baseline", "list"), ("baseline", "set", "x", "1", "2")]
)
def test_every_command_has_every_format(command: Command, filled: str, words: tuple[str, ...], form: str) -> None:
    code, out, err = command(*words, "--store", filled, "--format", form)
    assert (code, err) == (0, "")
    assert out.endswith("\n")
    if form == "json":
        document = json.loads(out)
        assert document["command"].startswith("history ")
        assert (document["schema_version"], document["store"]) == (1, filled)
    if form == "jsonl":
        assert all(isinstance(json.loads(line), dict) for line in out.splitlines())
    if form == "csv":
        assert len({len(row) for row in csv.reader(io.StringIO(out))}) == 1


def test_list(command: Command, filled: str) -> None:
    document = json.loads(command("list", "--store", filled, "--json", "--last", "3")[1])
    assert [run["name"] for run in document["runs"]] == ["run19", "run18", "run17"]
    assert json.loads(command("list", "--store", filled, "--json", "--tag", "commit=c7")[1])["total"] == 1
    out = command("list", "--store", filled)[1]
    assert "Runs of the store, newest first" in out
    assert "run19" in out
    assert "110.2 us" in out


def test_trend_names_the_first_bad_run(command: Command, filled: str) -> None:
    out = command("trend", "--store", filled)[1]
    assert "regressed +10.00 % from run 13 on (run12, commit c12)" in " ".join(out.split())
    assert "Since run 12: tag commit c11 → c12." in " ".join(out.split())
    document = json.loads(command("trend", "--store", filled, "--json")[1])
    (series,) = document["series"]
    (change,) = series["changes"]
    assert (series["verdict"], change["first_run"], change["last_before_run"]) == ("regressed", 13, 12)
    assert (change["first_commit"], change["last_before_commit"]) == ("c12", "c11")
    assert [level["n_runs"] for level in series["levels"]] == [12, 8]
    rows = list(csv.DictReader(io.StringIO(command("trend", "--store", filled, "--format", "csv")[1])))
    assert [(row["direction"], row["first_run"]) for row in rows] == [("regressed", "13")]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 0), (("--fail-on", "error"), 1), (("--fail-on", "warning"), 1),
        (("--fail-on", "error", "--min-effect", "20"), 0), (("--fail-on", "error", "--last", "8"), 0),
        (("--fail-on", "error", "--metric", "mfu"), 0),
    ],
)  # fmt: skip
def test_trend_as_a_gate(command: Command, filled: str, words: tuple[str, ...], code: int) -> None:
    assert command("trend", "--store", filled, *words)[0] == code


@pytest.mark.parametrize(
    "words",
    [
        ("--metric", "x"), ("--min-effect", "nan"), ("--min-effect", "inf"), ("--alpha", "0"), ("--tag", "x"),
        ("--last", "0"),
    ],
)  # fmt: skip
def test_trend_refuses_what_makes_no_sense(command: Command, filled: str, words: tuple[str, ...]) -> None:
    assert command("trend", "--store", filled, *words)[0] == 2


def test_trend_of_an_empty_store(command: Command, file_store: Store) -> None:
    code, out, _ = command("trend", "--store", file_store.place)
    assert (code, "No runs." in out) == (0, True)
    file_store.add_facts(made.facts(0, hardware=None))
    code, out, err = command("trend", "--store", file_store.place)
    assert (code, "No runs." in out) == (0, True)
    assert err == "tpuprof: runs that belong to no series because their program or hardware is unknown: 1\n"


def test_show(command: Command, filled: str) -> None:
    out = command("show", "1", "--store", filled)[1]
    for text in ("8 × TPU v5 lite, 1 host", "jit_f(f32[8]) -> f32[8]", "0.10.2", "tag commit", "step_p50_ps", "layer"):
        assert text in out
    document = json.loads(command("show", "run0", "--store", filled, "--json")[1])
    assert document["run"]["facts"]["versions"] == {"jax": "0.10.2"}
    assert {"name": "mfu", "value": None, "reason": "The chip is not known."} in document["metrics"]
    assert document["step_times_ps"] == [100_000_000, 101_000_000]
    code, _, err = command("show", "nothing", "--store", filled)
    assert (code, "next: See them with: tpuprof history list" in err) == (2, True)


def test_baselines(command: Command, filled: str) -> None:
    document = json.loads(command("baseline", "set", "new", "--last", "2", "--store", filled, "--json")[1])
    assert document["baselines"][0]["runs"] == [19, 20]
    assert "good" in command("baseline", "list", "--store", filled)[1]
    code, out, err = command("baseline", "remove", "new", "--store", filled)
    assert (code, out, err) == (0, "", "tpuprof: removed baseline new\n")
    code, _, err = command("baseline", "remove", "new", "--store", filled)
    assert (code, "There is no baseline 'new'." in err) == (2, True)
    for words in ((), ("1", "--last", "2"), ("1", "--tag", "branch=main"), ("--last", "2", "--tag", "branch=none")):
        assert command("baseline", "set", "new", *words, "--store", filled)[0] == 2


def test_a_baseline_of_unlike_runs_is_refused(command: Command, filled: str) -> None:
    Store.open(filled).add_facts(made.facts(50, hardware="z" * 32))
    code, out, err = command("baseline", "set", "new", "1", "21", "--store", filled)
    assert (code, out) == (5, "")
    assert "The runs 1 and 21 are of different hardware and cannot be one baseline." in err


def test_remove(command: Command, filled: str) -> None:
    code, out, err = command("remove", "1", "run1", "--store", filled)
    assert (code, out, err) == (0, "", "tpuprof: removed run 1 (run0)\ntpuprof: removed run 2 (run1)\n")
    assert json.loads(command("list", "--store", filled, "--json")[1])["total"] == 18
    assert command("remove", "3", "nothing", "--store", filled)[0] == 2
    assert json.loads(command("list", "--store", filled, "--json")[1])["total"] == 18


@pytest.mark.parametrize("words", [("list",), ("show", "1"), ("trend",), ("remove", "1"), ("baseline", "list"),
                                   ("baseline", "set", "x", "1"), ("baseline", "remove", "x")])  # fmt: skip
def test_reading_makes_no_store(command: Command, tmp_path: Path, words: tuple[str, ...]) -> None:
    code, out, err = command(*words, "--store", str(tmp_path / "none.db"))
    assert (code, out) == (3, "")
    assert "There is no run store here." in err
    assert list(tmp_path.iterdir()) == []


def test_reading_brings_an_older_store_up_to_date_and_says_so(command: Command, tmp_path: Path) -> None:
    from tests.history.test_upgrade import make_old

    path = str(tmp_path / "old.db")
    make_old(path)
    code, out, err = command("list", "--store", path, "--json")
    assert (code, json.loads(out)["total"]) == (0, 1)
    assert err == f"tpuprof: brought the run store up to date: {path}\n"
    assert command("list", "--store", path)[2] == ""


def test_every_command_and_option_is_documented() -> None:
    import click

    from tpuprof.cli.history import command as group

    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")

    def check(command: click.Command, name: str, shared: str = "") -> int:
        section = page.partition(f"# {name}\n")[2].partition("\n#")[0]
        options = [option for option in command.params if isinstance(option, click.Option)]
        assert all(option.help and option.opts[-1] in section + shared for option in options), name
        parts = command.commands if isinstance(command, click.Group) else {}
        common = shared + section.partition("Options of all subcommands:")[2]
        return 1 + sum(check(part, f"{name} {word}", common) for word, part in parts.items())

    assert check(group, "tpuprof history") == 11


def test_the_store_of_the_environment(command: Command, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPUPROF_STORE", filled)
    assert json.loads(command("list", "--json")[1])["total"] == 20


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_export(command: Command, filled: str, tmp_path: Path, form: str) -> None:
    folder = tmp_path / "out"
    code, out, err = command("export", "--store", filled, "--to", form, "-o", str(folder), "--last", "4")
    assert (code, out, err) == (0, "", f"tpuprof: wrote 7 files to {folder}\n")
    read = pd.read_parquet if form == "parquet" else pd.read_csv
    tables = {name: read(folder / f"{name}.{form}") for name in ("runs", "steps", "metrics", "op_groups", "tags")}
    assert {name: len(table) for name, table in tables.items()} == {
        "runs": 4, "steps": 8, "metrics": 8, "op_groups": 4, "tags": 8,
    }  # fmt: skip
    assert tables["runs"]["name"].tolist() == ["run16", "run17", "run18", "run19"]
    assert tables["metrics"]["value"].isna().sum() == 4
    assert json.loads(tables["runs"]["facts"][0])["versions"] == {"jax": "0.10.2"}
    described = json.loads((folder / "tables.json").read_text())["tables"]
    assert {name: [c["name"] for c in about["columns"]] for name, about in described.items()} == {
        name: list(table.columns) for name, table in tables.items()
    }
    assert command("export", "--store", filled, "--to", form, "-o", str(folder))[0] == 2
    assert command("export", "--store", filled, "--to", form, "-o", str(folder), "--force")[0] == 0
    assert command("export", "--store", filled, "--to", form)[0] == 2


def test_an_export_of_nothing_has_empty_tables(command: Command, file_store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    assert command("export", "--store", file_store.place, "--to", "parquet", "-o", str(folder))[0] == 0
    assert len(pd.read_parquet(folder / "steps.parquet")) == 0


def test_a_servers_password_is_never_shown(command: Command, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    server = request.getfixturevalue("postgres")
    name = server.new_database()
    url, logs = server.url(name), str(made.write(tmp_path / "logs"))
    shown = url.replace(server.password, "***")
    heard = [command("add", logs, "--store", url, "--json"), command("list", "--store", url, "--json"),
             command("show", "9", "--store", url), command("list", "--store", server.url("nowhere"))]  # fmt: skip
    assert [code for code, _, _ in heard] == [0, 0, 2, 3]
    assert json.loads(heard[1][1])["store"] == shown
    assert shown in heard[0][2]
    assert not any(server.password in text for _, out, err in heard for text in (out, err))
