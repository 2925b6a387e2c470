"""What differs between two runs, each difference planted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import tpuprof
from tests.compare.models import NS, Op, built, layers, loaded, program, renumbered, run, streams, without_steps
from tpuprof.compare import Difference, comparability, differences, explain
from tpuprof.compare.circumstances import flags
from tpuprof.testing import TraceBuilder, hlo_proto_from_text


def noted(trace: tpuprof.Trace, **notes: Any) -> tpuprof.Trace:
    return replace(trace, metadata=notes)


def found(base: tpuprof.Trace, new: tpuprof.Trace) -> list[tuple[str, str, str | None, str | None]]:
    return [(each.kind, each.what, each.base, each.new) for each in differences(base, new)]


def test_the_same_run_differs_in_nothing() -> None:
    assert found(run(layers(2)), run(renumbered(layers(2)), number=4)) == []


def test_circumstances() -> None:
    one, other = run(layers(1)), run(layers(1))
    base = noted(
        one,
        versions={"jax": "0.9.0", "jaxlib": "0.9.0", "libtpu": None},
        environment={"XLA_FLAGS": "--xla_a=1 --xla_b=true", "LIBTPU_INIT_ARGS": "--x=2", "JAX_PLATFORMS": "tpu"},
        settings={"jax_enable_x64": False},
        meshes=[{"axes": {"data": 4, "model": 2}}],
        git={"commit": "aaa", "dirty": False},
        command=["train.py", "--steps", "3"],
        device_count=8,
        options={"python_tracer_level": 0},
    )
    new = noted(
        other,
        versions={"jax": "0.9.0", "jaxlib": "0.9.1", "libtpu": None},
        environment={"XLA_FLAGS": "--xla_a=2", "LIBTPU_INIT_ARGS": "--x=2", "JAX_PLATFORMS": ""},
        settings={"jax_enable_x64": True},
        meshes=[{"axes": {"data": 8}}],
        git={"commit": "aaa", "dirty": True},
        command=["train.py", "--steps", "4"],
        device_count=8,
        options={"python_tracer_level": 0},
    )
    assert found(base, new) == [
        ("version", "jaxlib", "0.9.0", "0.9.1"),
        ("flag", "XLA_FLAGS xla_a", "1", "2"),
        ("flag", "XLA_FLAGS xla_b", "true", None),
        ("setting", "jax_enable_x64", "False", "True"),
        ("environment", "JAX_PLATFORMS", "tpu", ""),
        ("code", "commit", "aaa", "aaa with changes"),
        ("mesh", "live arrays", "data=4, model=2", "data=8"),
        ("command", "command", "train.py --steps 3", "train.py --steps 4"),
    ]


def test_what_one_side_did_not_note_is_no_difference() -> None:
    base = noted(run(layers(1)), versions={"jax": "1"}, environment={"XLA_FLAGS": "--a"}, git={"commit": "a"})
    assert found(base, run(layers(1))) == []


@pytest.mark.parametrize("odd", [None, 3, "x", [], ["x", None], {"axes": 3}, [{"axes": "x"}], {"": {"": []}}])
def test_odd_notes_do_no_harm(odd: Any) -> None:
    names = ("versions", "environment", "settings", "meshes", "git", "command", "device_count", "options", "machine")
    base, new = noted(run(layers(1)), **dict.fromkeys(names, odd)), noted(run(layers(1)), versions={"jax": "1"})
    comparability(base, new)
    assert all(isinstance(each, Difference) for each in differences(base, new))


def test_flags() -> None:
    assert flags("--a=1 -b --c=x=y word --a=2") == {"a": "2", "b": "true", "c": "x=y"}
    assert len(flags("--a=" + "v" * 10_000)["a"]) == 300


def test_another_type_of_one_op_names_the_op_and_its_weight() -> None:
    ops = layers(3)
    changed = [*ops[:-1], replace(ops[-1], shape="bf16[64,64]", ps=50 * NS)]
    (one,) = differences(run(ops), run(renumbered(changed)))
    assert (one.kind, one.base, one.new) == ("dtype", "f32[64,64]", "bf16[64,64]")
    assert one.weight_ps == 20 * NS
    assert one.related == ("fusion bf16[64,64]",)
    assert one.to_json()["related"] == ["fusion bf16[64,64]"]


def test_another_layout() -> None:
    op = Op("copy.1", 9 * NS, "prepare/transpose", "f32[64,32]{1,0}", "copy")
    other = replace(op, shape="f32[64,32]{0,1}", ps=19 * NS)
    assert found(run([op]), run([other])) == [
        ("layout", "copy f32[64,32] in prepare/transpose", "f32[64,32]{1,0}", "f32[64,32]{0,1}")
    ]


def test_a_collective_more_and_a_fusion_more() -> None:
    more = [*layers(2), Op("all-gather.5", 9 * NS, "embed/all_gather", "f32[128,32]", "all-gather")]
    more.append(Op("fusion.99", 2 * NS, "head/mul", "f32[5]", "fusion"))
    assert found(run(layers(2)), run(more)) == [
        ("collective", "all-gather of jit_step in groups 1x2", None, "1 per step, 16384 B"),
        ("fusion", "fusions per step of jit_step", "4", "5"),
    ]


def test_a_size_that_changed_without_any_time() -> None:
    ops = layers(1)
    other = [replace(op, shape=op.shape.replace("64,", "32,")) for op in ops]
    assert [(each.kind, each.base, each.new, each.weight_ps) for each in differences(run(ops), run(other))] == [
        ("shape", "f32[64,16]", "f32[32,16]", 0.0),
        ("shape", "f32[64,64]", "f32[32,64]", 0.0),
    ]


def test_what_one_trace_cannot_say_is_no_difference() -> None:
    trace = built([*layers(2), Op("all-gather.5", 9 * NS, None, "f32[128,32]", "all-gather")])
    poor = trace.copy()
    poor["h"].drop_plane("/host:metadata")
    for event in poor["h"]["/device:TPU:0"]["XLA Ops"]:
        event.text = None
    assert found(loaded(trace), loaded(poor)) == []
    assert explain(loaded(trace), loaded(poor)).matched_time_fraction == 1.0
    poor["h"]["/device:TPU:0"]["XLA Ops"].keep(lambda event: event.name != "all-gather.5")
    assert found(loaded(trace), loaded(poor)) == [
        ("collective", "all-gather of jit_step in groups 1x2", "1 per step, 16384 B", None)
    ]


def test_another_algorithm_of_a_collective() -> None:
    def gather(name: str, ps: int) -> Op:
        extra = f', backend_config={{"collective_algorithm_config":{{"emitter":"{name}"}},"id":"{ps}"}}'
        return Op("all-gather.5", ps, "embed/all_gather", "f32[128,32]", "all-gather", extra=extra)

    assert found(run([gather("Ring", 9 * NS)]), run([gather("Pincer", 14 * NS)])) == [
        ("algorithm", "emitter of all-gather f32[128,32] in embed/all_gather", "1 x Ring", "1 x Pincer")
    ]


def test_recomputation() -> None:
    again = Op("dot.7", 8 * NS, "checkpoint/rematted_computation/mlp/dot_general", "f32[64,64]", "dot")
    assert ("recomputation", "jit_step", "0 ops per step", "1 ops per step") in found(
        run(layers(1)), run([*layers(1), again])
    )
    remat = Op("add.1.remat", 8 * NS, "mlp/add", "f32[64,64]", "add")
    assert any(each[0] == "recomputation" for each in found(run(layers(1)), run([*layers(1), remat])))


def test_another_argument_and_partition_count() -> None:
    base, changed = built(layers(1)), built(layers(1))
    text = changed["h"]["/host:metadata"].entries[0].stats
    other = program(layers(1)).text.replace("num_partitions=2", "num_partitions=4")
    text["Hlo Proto"] = hlo_proto_from_text(other.replace("%a = f32[64,32]{1,0} param", "%a = bf16[64,32]{1,0} param"))
    one, two = loaded(base), loaded(changed)
    seen = found(one, two)
    assert ("mesh", "num_partitions of jit_step", "2", "4") in seen
    assert ("dtype", "argument 0 of jit_step", "f32[64,32]{1,0}", "bf16[64,32]{1,0}") in seen
    assert comparability(one, two) == ["The programs ran on 2 and 4 devices."]


def test_unlike_hardware_is_not_comparable() -> None:
    one, other = run(layers(1)), run(layers(1), kind="TPU v6 lite")
    assert comparability(one, other) == ["The devices differ: TPU v5 lite and TPU v6 lite."]
    assert ("hardware", "device kind", "TPU v5 lite", "TPU v6 lite") in found(one, other)
    assert comparability(run(layers(1), cores=2), run(layers(1), cores=2)) == []
    assert comparability(run(layers(1)), run(layers(1), cores=2)) == ["The number of cores differs: 1 and 2."]


def test_steps_against_none_are_not_comparable() -> None:
    with_steps, without = loaded(streams(NS)), loaded(without_steps(streams(NS)))
    assert (with_steps.step_source, without.step_source) == ("host_annotation", "none")
    reason = "One run has no steps, so that its whole time stands against one step of the other."
    assert comparability(with_steps, without) == comparability(without, with_steps) == [reason]
    assert comparability(without, without) == []


def test_runs_without_devices_are_not_comparable() -> None:
    empty = TraceBuilder()
    empty.add_host("h").add_thread("python").event("something", 1, 5)
    none, some = loaded(empty), run(layers(1))
    assert comparability(none, none) == ["Neither run has device work."]
    assert comparability(none, some) == comparability(some, none) == ["One run has no device work."]
    assert found(none, some) == []


def test_a_stated_peak_that_differs_is_told() -> None:
    base, new = built(layers(1)), built(layers(1))
    for trace, peak in ((base, 197.0), (new, 202.7)):
        trace["h"]["/device:TPU:0"].stats["peak_teraflops_per_second"] = peak
    assert found(loaded(base), loaded(new)) == [("hardware", "peak_teraflops_per_second", "197.0", "202.7")]
