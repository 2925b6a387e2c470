"""The commands ``export`` and ``scopes`` from end to end."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import tpuprof
from tests.inputs.clean import f00
from tpuprof.cli import folder, main

SAMPLES = Path(__file__).parents[2] / "sample_traces"
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return f00(tmp_path / "logs")


@pytest.mark.parametrize("form", ["perfetto", "speedscope"])
def test_json_can_go_to_stdout(call: Call, clean: Path, form: str) -> None:
    code, out, err = call("export", clean, "--to", form)
    assert (code, err) == (0, "")
    assert json.loads(out)


@pytest.mark.parametrize("form", ["parquet", "csv", "xplane"])
def test_the_others_need_an_output(call: Call, clean: Path, form: str) -> None:
    code, out, err = call("export", clean, "--to", form)
    assert (code, out) == (2, "")
    assert err == (f"tpuprof: error: --to {form} needs an output.\ntpuprof: next: Name a file or directory with -o.\n")


def test_perfetto_is_gzipped_unless_the_name_says_otherwise(call: Call, clean: Path, tmp_path: Path) -> None:
    assert call("export", clean, "--to", "perfetto", "-o", tmp_path / "a.json.gz")[0] == 0
    assert call("export", clean, "--to", "perfetto", "-o", tmp_path / "a.json")[0] == 0
    plain = (tmp_path / "a.json").read_bytes()
    assert json.loads(plain)["displayTimeUnit"] == "ns"
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == plain


def test_files_are_not_replaced_without_force(call: Call, clean: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("mine")
    code, _, err = call("export", clean, "--to", "perfetto", "-o", target)
    assert (code, target.read_text()) == (2, "mine")
    assert "The output file exists." in err
    assert call("export", clean, "--to", "perfetto", "-o", target, "--force")[0] == 0
    assert target.read_text() != "mine"


@pytest.mark.parametrize("form", ["csv", "xplane"])
def test_directories_are_replaced_with_force_if_they_are_exports(
    call: Call, clean: Path, tmp_path: Path, form: str
) -> None:
    target = tmp_path / "out"
    code, out, err = call("export", clean, "--to", form, "-o", target)
    assert (code, out) == (0, "")
    names = sorted(file.name for file in target.iterdir())
    assert err == f"tpuprof: wrote {len(names)} files to {target}\n"
    assert sorted(json.loads((target / folder.MARK).read_text())["files"]) == [n for n in names if n != folder.MARK]
    code, _, err = call("export", clean, "--to", form, "-o", target)
    assert code == 2
    assert "The output directory exists and is not empty." in err
    (target / "old.csv").write_text("stale")
    assert call("export", clean, "--to", form, "-o", target, "--force")[0] == 0
    assert sorted(file.name for file in target.iterdir()) == names
    assert sorted(file.name for file in tmp_path.iterdir()) == ["logs", "out"]


def test_a_foreign_directory_is_never_replaced(call: Call, clean: Path, tmp_path: Path) -> None:
    target = tmp_path / "home"
    target.mkdir()
    (target / "thesis.tex").write_text("years of work")
    code, _, err = call("export", clean, "--to", "csv", "-o", target, "--force")
    assert code == 2
    assert "is no earlier export, so it is not replaced" in err
    assert (target / "thesis.tex").read_text() == "years of work"
    file = tmp_path / "file"
    file.write_text("x")
    assert "The output is a file" in call("export", clean, "--to", "csv", "-o", file, "--force")[2]
    assert "directory around the output" in call("export", clean, "--to", "csv", "-o", tmp_path / "no/where")[2]


def test_an_error_leaves_nothing_behind(call: Call, clean: Path, tmp_path: Path) -> None:
    code, _, err = call("export", clean, "--to", "parquet", "-o", tmp_path / "out", "--max-events", 3)
    assert code == 2
    assert "more than --max-events 3" in err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["logs"]
    code, _, err = call("export", clean, "--to", "xplane", "-o", tmp_path / "out", "--max-events", 3)
    assert code == 2
    assert "events, more than --max-events 3" in err


def test_one_host_can_be_one_file(call: Call, clean: Path, tmp_path: Path) -> None:
    target = tmp_path / "part.xplane.pb"
    assert call("export", clean, "--to", "xplane", "-o", target, "--steps", "1:3")[0] == 0
    assert sorted(set(tpuprof.load(target).steps["step"])) == [1, 2]
    code, _, err = call("export", SAMPLES / "tpu_two_hosts", "--to", "xplane", "-o", tmp_path / "two.xplane.pb")
    assert code == 2
    assert "The run has 2 hosts, and each has a file of its own." in err
    one = tmp_path / "one.xplane.pb"
    assert call("export", SAMPLES / "tpu_two_hosts", "--to", "xplane", "-o", one, "--devices", "worker-1/*")[0] == 0
    assert tpuprof.load(one).hosts == ("worker-1",)


def test_left_out_host_events_are_said(call: Call, clean: Path, tmp_path: Path) -> None:
    _, _, err = call("export", clean, "--to", "perfetto", "-o", tmp_path / "a.gz", "--max-events", 25)
    assert "left out the 2 shortest host events to stay within --max-events 25" in err


def test_redaction_says_what_it_does_not_do(call: Call, clean: Path) -> None:
    assert "look before you share" in call("export", clean, "--to", "perfetto", "--redact")[2]


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv", "md"])
def test_scopes_in_every_format(call: Call, form: str) -> None:
    code, out, err = call("scopes", SAMPLES / "tpu_loop_async", "--format", form)
    assert (code, err) == (0, "")
    if form == "json":
        document = json.loads(out)
        (layer,) = [scope for scope in document["scopes"] if scope["name"] == "layer"]
        assert layer["self_ps"] + sum(scope["total_ps"] for scope in layer["scopes"]) == layer["total_ps"]
        assert document["total_ps"] == sum(scope["total_ps"] for scope in document["scopes"])
        assert sum(layer["kinds"].values()) == layer["total_ps"]
        assert [scope["path"] for scope in layer["scopes"][0]["scopes"]] == ["layer/up/dot_general"]
    elif form == "jsonl":
        rows = [json.loads(line) for line in out.splitlines()]
        assert (rows[0]["path"], rows[1]["path"]) == ("", "layer")
    elif form == "csv":
        rows = list(csv.DictReader(io.StringIO(out)))
        assert rows[1]["total_ps"] == "4577600000"
    else:
        lines = [line.strip("| ") for line in out.splitlines()]
        names = [line.split("  ")[0].split(" |")[0] for line in lines if line.startswith(("layer", ". "))]
        assert names[:3] == ["layer", ". up", ". . dot_general"]


def test_scopes_to_a_depth(call: Call) -> None:
    rows = [
        json.loads(line)
        for line in call("scopes", SAMPLES / "tpu_loop_async", "--format", "jsonl", "--depth", 1)[1].splitlines()
    ]
    assert {row["depth"] for row in rows} == {0, 1}
    assert rows[0]["total_ps"] == sum(row["total_ps"] for row in rows[1:])
    out = call("scopes", SAMPLES / "tpu_loop_async", "--depth", 1)[1]
    assert ". up" not in out
    assert " of 21 scopes" in out
