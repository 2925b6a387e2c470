from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tpuprof.errors import HloError, InputTooLargeError
from tpuprof.hlo import load_hlo, parse_proto, parse_text, to_proto
from tpuprof.hlo.load import choose_files


def module(name: str) -> str:
    return f"HloModule {name}\n\nENTRY %main {{\n  ROOT %p = f32[] parameter(0)\n}}\n"


@pytest.mark.parametrize(
    "suffix", [".txt", ".hlo", ".hlo.txt", ".pb", ".hlo.pb", ".txt.gz", ".pb.gz", ".after_optimizations.hlo.txt.gz"]
)
def test_one_file(tmp_path: Path, suffix: str):
    data = to_proto(parse_text(module("a"))) if ".pb" in suffix else module("a").encode()
    path = tmp_path / f"program{suffix}"
    path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    (found,) = load_hlo(str(path))
    assert found == parse_text(module("a"))
    assert load_hlo(f"file://{path}") == [found]
    assert load_hlo(str(tmp_path)) == [found]


def test_a_dump_directory_gives_each_program_that_ran_once(tmp_path: Path):
    stages = {
        "module_0001.jit_f.before_optimizations.txt": "early",
        "module_0001.jit_f.cpu_after_optimizations.txt": "text",
        "module_0001.jit_f.cpu_after_optimizations-buffer-assignment.txt": "BufferAssignment:",
        "module_0001.jit_f.cpu_after_optimizations-memory-usage-report.txt": "report",
        "module_0001.jit_f.thunk_sequence.txt": "thunks",
        "module_0001.jit_f.debug_options": "options",
        "module_0002.jit_g.0003.some_pass.after_pipeline.txt": "stage3",
        "module_0002.jit_g.0012.last_pass.after_pipeline.txt": "stage12",
        "module_0002.jit_g.before_optimizations.txt": "early",
        "module_0003.jit_h.before_optimizations.txt": "only",
        "module_0004.jit_k.sm_9.0_gpu_after_optimizations.txt": "gpu",
        "notes.md": "notes",
        "other.txt": "loose",
    }
    for name, text in stages.items():
        (tmp_path / name).write_text(module(text))
    proto = to_proto(parse_text(module("proto")))
    (tmp_path / "module_0001.jit_f.cpu_after_optimizations.hlo.pb").write_bytes(proto)
    (tmp_path / "module_0009.a_folder.txt").mkdir()
    assert [found.name for found in load_hlo(str(tmp_path))] == ["proto", "stage12", "only", "gpu", "loose"]


def test_the_choice_does_not_depend_on_the_order():
    names = [
        f"/d/module_0001.f.{stage}.txt" for stage in ("before_optimizations", "x_after_optimizations", "0001.pass")
    ]
    for order in (names, names[::-1]):
        assert choose_files(order) == ["/d/module_0001.f.x_after_optimizations.txt"]


def test_a_message_without_text_marks_is_read_as_protobuf(tmp_path: Path):
    path = tmp_path / "x.txt"  # the content decides, not the name
    path.write_bytes(to_proto(parse_text(module("a"))))
    assert load_hlo(str(path))[0] == parse_proto(path.read_bytes())


def test_errors_name_the_file(tmp_path: Path):
    with pytest.raises(HloError, match=r"nothing\.txt: There is no such file"):
        load_hlo(str(tmp_path / "nothing.txt"))
    with pytest.raises(HloError, match=r"There is no HLO file in this directory.*xla_dump_to"):
        load_hlo(str(tmp_path))
    bad = tmp_path / "bad.txt"
    bad.write_text("HloModule m\nrubbish")
    with pytest.raises(HloError, match=r"bad\.txt: HLO text: Line 2, column 1"):
        load_hlo(str(bad))
    bad.write_text("rubbish")
    with pytest.raises(HloError, match=r"bad\.txt: These 7 bytes are neither"):
        load_hlo(str(bad))


def test_damaged_and_oversized_gzip(tmp_path: Path):
    path = tmp_path / "a.txt.gz"
    whole = gzip.compress(module("a").encode() + b" " * 100_000)
    path.write_bytes(whole[:-20])
    with pytest.raises(HloError, match=r"a\.txt\.gz: The gzip data ends early"):
        load_hlo(str(path))
    path.write_bytes(whole[:20] + b"\xff\xff" + whole[22:])
    with pytest.raises(HloError, match="gzip data"):
        load_hlo(str(path))
    path.write_bytes(whole)
    with pytest.raises(InputTooLargeError, match=r"more than 1000 bytes when expanded.*Raise max_bytes"):
        load_hlo(str(path), max_bytes=1000)
    plain = tmp_path / "b.txt"
    plain.write_text(module("b") + " " * 2000)
    with pytest.raises(InputTooLargeError):
        load_hlo(str(plain), max_bytes=1000)
