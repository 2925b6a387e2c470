"""Whatever leaves with ``--redact`` names nobody, and is worth as much as before."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest

import tpuprof
from tests.export.people import HOST, SECRETS, write_people
from tpuprof.cli import main
from tpuprof.export.redact_hlo import redact_hlo
from tpuprof.export.redaction import redactor_for
from tpuprof.hlo import HloModule, Instruction, parse_proto
from tpuprof.redact import make_redactor
from tpuprof.report.build import build_report


def text_of(path: Path) -> str:
    """All that a file says, unpacked."""
    if path.suffix == ".parquet":
        return pd.read_parquet(path).to_csv() + repr(pd.read_parquet(path).columns)
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace")


def files_of(path: Path) -> list[Path]:
    return sorted(path.iterdir()) if path.is_dir() else [path]


@pytest.mark.parametrize("form", ["perfetto", "speedscope", "parquet", "csv", "xplane"])
def test_exports_name_nobody(tmp_path: Path, form: str) -> None:
    session = write_people(tmp_path / "logs")
    plain, shared = tmp_path / "plain", tmp_path / "shared"
    assert main(["export", str(session), "--to", form, "-o", str(plain)]) == 0
    assert main(["export", str(session), "--to", form, "-o", str(shared), "--redact"]) == 0
    said = "".join(text_of(file) for file in files_of(plain))
    left = "".join(text_of(file) + file.name for file in files_of(shared))
    assert "agnes" in said or form == "speedscope"
    assert [secret for secret in SECRETS if secret in left] == []
    assert "model.py" in left
    assert "host-1" in left or form == "csv"
    assert "layer" in left


@pytest.mark.parametrize("form", ["json", "html", "table", "md", "sarif", "junit"])
def test_reports_name_nobody(tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    session = write_people(tmp_path / "logs")
    assert main(["report", str(session), "--redact", "--format", form]) == 0
    out = capsys.readouterr().out
    assert [secret for secret in SECRETS if secret in out] == []
    if form == "json":
        plain = build_report(tpuprof.load(session))
        report = json.loads(out)
        assert report["run"]["hosts"] == ["host-1", "host-2"]
        assert [device["id"] for device in report["run"]["devices"]] == ["host-1/TPU:0", "host-2/TPU:0"]
        assert report["command"] == "report"
        assert list(report) == list(plain)
        assert report["breakdown"]["parts"] == plain["breakdown"]["parts"]
        assert {op["source"] for op in report["ops"]} == {"model.py:12", "model.py:13"}


def test_a_redacted_run_loads_to_the_same_numbers(tmp_path: Path) -> None:
    session, shared = write_people(tmp_path / "logs"), tmp_path / "shared"
    assert main(["export", str(session), "--to", "xplane", "-o", str(shared), "--redact"]) == 0
    before, after = tpuprof.load(session), tpuprof.load(shared)
    assert [device.id.rpartition("/")[2] for device in after.devices] == ["TPU:0", "TPU:0"]
    assert sorted(after.hosts) == ["host-1", "host-2"]
    order = [redactor_for(before).text(host) for host in before.hosts]
    for name in ("partition", "steps"):
        one, two = getattr(before, name), getattr(after, name)
        names = [f"{order[before.hosts.index(str(device).partition('/')[0])]}/TPU:0" for device in one["device"]]
        one = one.assign(device=names).sort_values(["device", "step"]).reset_index(drop=True)
        two = two.assign(device=two["device"].astype("str"))
        pd.testing.assert_frame_equal(one, two, check_dtype=False)
    assert before.ops["kind"].astype("str").tolist() == after.ops["kind"].astype("str").tolist()
    assert before.ops["scope"].astype("str").tolist() == after.ops["scope"].astype("str").tolist()
    assert after.metadata["versions"] == {"jax": "0.10.2"}
    assert after.metadata["exported"]["redacted"] is True
    assert after.metadata["command"] == ["train.py", "[arguments removed]"]
    assert all(after.programs[key].name == "jit_step" for key in after.programs)
    sources = {
        i.metadata.source_file for p in after.programs.values() for i in _instructions(p) if i.metadata.source_file
    }
    assert sources == {"model.py"}


def _instructions(module: HloModule) -> list[Instruction]:
    return [instruction for computation in module.computations for instruction in computation.instructions]


def test_hlo_that_cannot_be_read_is_left_out() -> None:
    assert redact_hlo(b"\x0a\x05hello", make_redactor([])) is None
    assert redact_hlo(b"", make_redactor([])) is None


def test_hlo_keeps_its_computations() -> None:
    from tests.export.people import PROGRAM

    data = PROGRAM.to_proto()
    redacted = redact_hlo(data, make_redactor([HOST], ["/home/agnes/x"]))
    assert redacted is not None
    before, after = parse_proto(data), parse_proto(redacted)
    assert [(i.name, i.opcode, str(i.shape), i.operands) for i in _instructions(before)] == [
        (i.name, i.opcode, str(i.shape), i.operands) for i in _instructions(after)
    ]


@pytest.mark.real
@pytest.mark.parametrize("name", ["v5e-1-matmul", "v6e-4-host-offload", "mi300-gemm", "v7x-2-prefill"])
def test_real_traces_name_nobody(real_traces: Path, tmp_path: Path, name: str) -> None:
    trace = tpuprof.load(real_traces / name)
    redactor = redactor_for(trace)
    assert main(["export", str(real_traces / name), "--to", "xplane", "-o", str(tmp_path / "x"), "--redact", "-q"]) == 0
    data = b"".join(file.read_bytes() for file in (tmp_path / "x").iterdir())
    assert not [word for word, _ in redactor.names if word.encode() in data]
    assert b"/home/" not in data
    assert b"/users/" not in data
    after = tpuprof.load(tmp_path / "x")
    parts = [column for column in trace.partition.columns if column != "device"]
    pd.testing.assert_frame_equal(trace.partition[parts], after.partition[parts])
    assert trace.ops["kind"].astype("str").tolist() == after.ops["kind"].astype("str").tolist()
