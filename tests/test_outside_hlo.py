"""HLO from outside, joined to a run that has none."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner

import tpuprof
from tests.inputs import changes, clean
from tpuprof.cli import group
from tpuprof.errors import TpuprofError

TEXT = (Path(__file__).parent / "inputs" / "f00.hlo.txt").read_text(encoding="utf-8")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    changes.f30(tmp_path / "log")
    return tmp_path / "log"


@pytest.mark.parametrize("form", ["text", "gzip", "folder"])
def test_a_dump_fills_what_the_trace_lacks(run: Path, tmp_path: Path, form: str) -> None:
    dump = tmp_path / "dump"
    dump.mkdir()
    path = dump / "module_0001.jit_train_step.after_optimizations.txt"
    if form == "gzip":
        path = path.with_suffix(".txt.gz")
        path.write_bytes(gzip.compress(TEXT.encode()))
    else:
        path.write_text(TEXT)
    trace = tpuprof.load(run, hlo=dump if form == "folder" else path)
    assert [entry.id for entry in trace.quality] == []
    assert set(trace.ops["kind_source"]) == {"hlo"}
    scopes = trace.op_stats().set_index("name")["scope"]
    assert scopes["fusion.2"] == "jit(train_step)/jit(main)/mlp/dot_general"


def test_a_dump_of_another_program_changes_nothing(run: Path, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text(TEXT.replace("jit_train_step", "jit_other"))
    trace = tpuprof.load(run, hlo=tmp_path / "other.txt")
    assert [entry.id for entry in trace.quality] == ["hlo_missing", "hlo_not_joined"]
    assert "which ops belong to jit_other." in trace.quality[1].message


def test_a_trace_that_does_not_tell_programs_apart_says_that_the_dump_was_of_no_use(tmp_path: Path) -> None:
    trace = clean.f00_trace()
    clean.tpu_of(trace).drop_line("XLA Modules")
    session = trace.write_json(tmp_path / "log")
    (tmp_path / "step.txt").write_text(TEXT)
    ids = [entry.id for entry in tpuprof.load(session, hlo=tmp_path / "step.txt").quality]
    assert "hlo_not_joined" in ids
    assert "hlo_not_joined" not in [entry.id for entry in tpuprof.load(session).quality]


def test_the_programs_of_the_trace_win(tmp_path: Path) -> None:
    run = clean.f00(tmp_path / "log")
    (tmp_path / "old.txt").write_text(TEXT.replace("mlp/dot_general", "old/dot_general"))
    scopes = tpuprof.load(run, hlo=tmp_path / "old.txt").op_stats().set_index("name")["scope"]
    assert scopes["fusion.2"] == "jit(train_step)/jit(main)/mlp/dot_general"


def test_a_dump_that_is_none_is_named(run: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("HloModule nothing\nENTRY {")
    with pytest.raises(TpuprofError, match=r"bad\.txt"):
        tpuprof.load(run, hlo=tmp_path / "bad.txt")
    with pytest.raises(TpuprofError, match="nowhere"):
        tpuprof.load(run, hlo=tmp_path / "nowhere")


def test_the_command_line_takes_it_too(run: Path, tmp_path: Path) -> None:
    (tmp_path / "step.txt").write_text(TEXT)
    result = CliRunner().invoke(group, ["ops", str(run), "--hlo", str(tmp_path / "step.txt"), "--format", "csv"])
    assert result.exit_code == 0, result.output
    assert "jit(train_step)/jit(main)/mlp/dot_general" in result.stdout


def test_ops_of_a_json_belong_to_the_programs_of_its_module_rows(tmp_path: Path) -> None:
    clean.f00_trace().write_json(tmp_path / "log")
    (tmp_path / "step.txt").write_text(TEXT)
    bare = tpuprof.load(tmp_path / "log")
    joined = tpuprof.load(tmp_path / "log", hlo=tmp_path / "step.txt")
    for trace in (bare, joined):
        assert set(trace.ops["module"]) == {"jit_train_step(1234567890)"}
    assert set(joined.ops["kind_source"]) == {"hlo"}
    assert joined.op_stats().set_index("name")["scope"]["fusion.2"] == "jit(train_step)/jit(main)/mlp/dot_general"
    assert joined.partition.equals(bare.partition)


def test_a_dump_of_another_compilation_is_refused(run: Path, tmp_path: Path) -> None:
    renumbered = TEXT
    for name in ("fusion.1", "fusion.2", "all-reduce.3", "copy.4"):
        renumbered = (
            renumbered.replace(f"%{name} ", f"%{name}7 ")
            .replace(f"%{name},", f"%{name}7,")
            .replace(f"%{name})", f"%{name}7)")
        )
    (tmp_path / "other.txt").write_text(renumbered)
    trace = tpuprof.load(run, hlo=tmp_path / "other.txt")
    entries = {entry.id: entry for entry in trace.quality}
    assert set(entries) == {"hlo_mismatch", "hlo_missing"}
    assert entries["hlo_mismatch"].count == 4
    assert "holds 0 of the 4 ops" in entries["hlo_mismatch"].message
