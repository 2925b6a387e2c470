"""Which runs are alike: the same program however it was compiled and numbered, on the same kind of devices."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tpuprof
from tests.history import made
from tpuprof.history.fingerprints import (
    hardware_fingerprint,
    plain_name,
    program_fingerprint,
    signature_of,
    structure_of,
)
from tpuprof.hlo import parse_text
from tpuprof.testing import Program


def renumbered(text: str, shift: int) -> str:
    """Every numbered instruction gets another number."""
    return re.sub(r"(%[a-z][a-z-]*)\.(\d+)", lambda m: f"{m[1]}.{int(m[2]) + shift}", text)


FUSED = """\
HloModule jit_train_step, is_scheduled=true, num_partitions=2

%body (p: f32[64,64], q: f32[8,64]) -> f32[8,64] {
  %p = f32[64,64]{1,0} parameter(0)
  %q = f32[8,64]{1,0} parameter(1)
  ROOT %dot.9 = f32[8,64]{1,0} dot(f32[8,64]{1,0} %q, f32[64,64]{1,0} %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY %main (w: f32[64,64], a: f32[8,64]) -> f32[8,64] {
  %w = f32[64,64]{0,1} parameter(0)
  %a = f32[8,64]{1,0} parameter(1)
  ROOT %fusion.1 = f32[8,64]{1,0} fusion(f32[64,64]{0,1} %w, f32[8,64]{1,0} %a), kind=kOutput, calls=%body
}
"""  # noqa: E501


@given(st.integers(1, 10**6))
def test_numbers_of_instructions_change_nothing(shift: int) -> None:
    one, two = parse_text(made.HLO), parse_text(renumbered(made.HLO, shift))
    assert one != two
    assert signature_of(one) == signature_of(two)
    assert structure_of(one) == structure_of(two)


def test_another_compilation_is_the_same_program_with_another_structure() -> None:
    one, two = parse_text(made.HLO), parse_text(FUSED)
    assert signature_of(one) == signature_of(two)
    assert structure_of(one) != structure_of(two)


@pytest.mark.parametrize(
    ("old", "new", "same_program"),
    [
        ("f32[8,64]", "f32[16,64]", False),  # another batch
        ("f32[64,64]", "bf16[64,64]", False),  # another dtype of the weights
        ("num_partitions=2", "num_partitions=4", False),
        ("jit_train_step", "jit_eval_step", False),
        ("replica_groups={{0,1}}", "replica_groups={{0},{1}}", True),
        ("all-reduce(", "all-gather(", True),
        ("ROOT %sum = f32[] add(", "ROOT %sum = f32[] multiply(", True),  # inside a called computation
        ("ENTRY %main (w: f32[64,64], a: f32[8,64])", "ENTRY %main (w: f32[64,64], a: f32[8,64])", None),
    ],
)
def test_what_changes_which_fingerprint(old: str, new: str, same_program: bool | None) -> None:
    one, two = parse_text(made.HLO), parse_text(made.HLO.replace(old, new))
    if same_program is None:
        assert structure_of(one) == structure_of(two)
        return
    assert (signature_of(one) == signature_of(two)) is same_program
    if old not in ("num_partitions=2", "jit_train_step"):
        assert structure_of(one) != structure_of(two)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("fusion.12", "fusion"), ("fusion.12.clone.3", "fusion"), ("copy.1.remat2", "copy"), ("dot", "dot"),
        ("jit_layer_2", "jit_layer_2"), ("all-reduce.5", "all-reduce"), (".5", ".5"), ("", ""),
    ],
)  # fmt: skip
def test_plain_names(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def load(tmp_path: Path, name: str, **changes: Any) -> Any:
    return tpuprof.load(made.write(tmp_path / name, **changes))


def test_two_recordings_of_one_program_are_alike(tmp_path: Path) -> None:
    a = load(tmp_path, "a")
    b = load(tmp_path, "b", steps_us=(90, 300), host="other", start_ns=5 * made.START_NS // 4,
             program=Program("jit_train_step", 12345, made.HLO))  # fmt: skip
    assert program_fingerprint(a) == program_fingerprint(b)
    assert hardware_fingerprint(a) == hardware_fingerprint(b)
    assert hardware_fingerprint(a).text == "2 × TPU v5 lite, 1 host"
    assert program_fingerprint(a).fingerprint.source == "hlo"


def test_other_devices_are_other_hardware(tmp_path: Path) -> None:
    base = hardware_fingerprint(load(tmp_path, "a")).value
    assert hardware_fingerprint(load(tmp_path, "b", kind="TPU v6 lite")).value != base
    assert hardware_fingerprint(load(tmp_path, "d", kind="TPU v5 Lite")).value == base
    assert hardware_fingerprint(load(tmp_path, "c", cores=4)).value != base
    assert hardware_fingerprint(load(tmp_path, "a"), "with new cooling").value != base


def test_a_predicted_run_is_like_no_measured_one(tmp_path: Path) -> None:
    measured = load(tmp_path, "a")
    predicted = replace(measured, metadata={"predicted": True})
    assert hardware_fingerprint(predicted).text == "2 × TPU v5 lite, 1 host, predicted"
    assert hardware_fingerprint(predicted).value != hardware_fingerprint(measured).value


def test_the_same_program_on_more_hosts_is_other_hardware(tmp_path: Path) -> None:
    builder = made.trace(cores=1)
    builder.hosts += made.trace(cores=1, host="hostB").hosts
    builder.write(tmp_path)
    two = hardware_fingerprint(tpuprof.load(tmp_path))
    assert two.text == "2 × TPU v5 lite, 2 hosts"
    assert two.value != hardware_fingerprint(load(tmp_path / "x", "a")).value


def test_processors_without_a_name_are_alike_on_the_same_host_or_by_declaration(tmp_path: Path) -> None:
    def cpu(name: str, host: str) -> Any:
        from tpuprof.testing import TraceBuilder

        builder = TraceBuilder()
        thread = builder.add_host(host).add_thread("worker")
        for number in range(3):
            thread.cpu_op("dot.1", 10 + 100 * number, 60, made.PROGRAM, run_id=number)
        builder.write(tmp_path / name)
        return tpuprof.load(tmp_path / name)

    a, b = cpu("a", "laptop"), cpu("b", "server")
    assert hardware_fingerprint(a).source == "hosts"
    assert hardware_fingerprint(a).value == hardware_fingerprint(cpu("c", "laptop")).value
    assert hardware_fingerprint(a).value != hardware_fingerprint(b).value
    assert hardware_fingerprint(a, "runner-xl").value == hardware_fingerprint(b, "runner-xl").value
    assert hardware_fingerprint(a, "runner-xl").value != hardware_fingerprint(a, "runner-s").value


def test_without_hlo_the_ops_themselves_are_compared(tmp_path: Path) -> None:
    bare = load(tmp_path, "a", with_hlo=False)
    found = program_fingerprint(bare)
    assert (found.fingerprint.source, found.structure) == ("ops", None)
    other = Program("jit_train_step", 9, renumbered(made.HLO, 40))
    builder = made.trace(with_hlo=False, program=other)
    for plane in builder["hostA"].planes:
        for line in plane:
            for event in line:
                if isinstance(event.name, str):
                    event.name = event.name.replace("dot.1", "dot.41").replace("all-reduce.2", "all-reduce.42")
    builder.write(tmp_path / "b")
    assert program_fingerprint(tpuprof.load(tmp_path / "b")).fingerprint.value == found.fingerprint.value
    assert found.fingerprint.value != program_fingerprint(load(tmp_path, "c")).fingerprint.value


def test_a_declared_program_is_the_same_whatever_ran(tmp_path: Path) -> None:
    a = program_fingerprint(load(tmp_path, "a"), "nightly")
    b = program_fingerprint(load(tmp_path, "b", with_hlo=False), "nightly")
    assert a.fingerprint == b.fingerprint
    assert a.fingerprint.value != program_fingerprint(load(tmp_path, "a"), "weekly").fingerprint.value


def test_the_main_program_is_the_one_with_most_time(tmp_path: Path) -> None:
    builder = made.trace(steps_us=(200, 200, 200))
    small = Program("jit_eval", 5, made.HLO.replace("jit_train_step", "jit_eval"))
    builder["hostA"].add_program(small)
    for core in range(2):
        plane = builder["hostA"][f"/device:TPU:{core}"]
        plane["XLA Modules"].module(small, 110, 50)
        plane["XLA Ops"].op("dot.1", 110, 50, small, "convolution fusion")
    builder.write(tmp_path)
    assert program_fingerprint(tpuprof.load(tmp_path)).name == "jit_train_step"


def test_a_run_without_devices_is_like_no_other(tmp_path: Path) -> None:
    from tpuprof.testing import TraceBuilder

    builder = TraceBuilder()
    builder.add_host("a").add_thread("main").event("work", 0, 10)
    builder.write(tmp_path)
    trace = tpuprof.load(tmp_path)
    assert program_fingerprint(trace).fingerprint.value is None
    assert hardware_fingerprint(trace).value is None
