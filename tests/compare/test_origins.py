"""Causes with known answers: rows that changed for one reason are one cause, and what the program shows leads."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tpuprof
from tests.compare.models import NS, Op, built, layers, loaded, program, renumbered, run
from tpuprof.compare import Origin, explain
from tpuprof.compare.origins import FACTS
from tpuprof.compare.verdict import judge, samples_of
from tpuprof.testing import Ps, TraceBuilder

HEAD = Op("fusion.90", 40 * NS, "head/norm/mul", "f32[64,32]", "fusion")


def causes(base: tpuprof.Trace, new: tpuprof.Trace) -> tuple[Origin, ...]:
    """The causes, after it was checked that they are all of the difference and that every row is in one."""
    found = explain(base, new)
    told = found.causes
    assert found.step_delta_ps is not None
    assert float(sum(cause.delta for cause in told)) == found.step_delta_ps
    assert found.residual_ps == 0
    inside = [row for cause in told for row in cause.rows]
    assert len(inside) == len(found.changed)
    assert set(map(id, inside)) == set(map(id, found.changed))
    back = explain(new, base).causes
    assert sorted(-cause.delta_ps for cause in back) == sorted(cause.delta_ps for cause in told)
    assert sorted(cause.what for cause in back) == sorted(cause.what for cause in told)
    return told


def words(cause: Origin) -> tuple[str, str | None, str | None, str | None]:
    return cause.what, cause.where, cause.base, cause.new


def test_one_layer_more_is_one_cause_with_what_it_needs_elsewhere() -> None:
    def model(count: int) -> list[Op]:
        update = [Op(f"fusion.{70 + n}", 5 * NS, "optimizer/sub", "f32[64,64]", "fusion") for n in range(count)]
        return [*layers(count), HEAD, *update]

    (cause,) = causes(run(model(4)), run(renumbered(model(5))))
    assert words(cause) == ("repeats", "layers_*", "4", "5")
    assert len(cause.rows) == 3
    assert cause.delta_ps == cause.count_effect_ps == cause.sure_ps == 45 * NS


def test_inside_a_numbered_scope_that_stays_a_new_op_is_no_layer() -> None:
    more = Op("fusion.60", 5 * NS, "layers_1/mlp/exp", "f32[8,8]", "fusion")
    (cause,) = causes(run(layers(3)), run([*layers(3), more]))
    assert words(cause) == ("ops", "layers_*/mlp", None, None)


def test_numbered_scopes_inside_others_count_if_each_has_as_many() -> None:
    def model(*, each: int, last: int) -> list[Op]:
        return [
            Op(f"fusion.{10 * n + d}", 10 * NS, f"layers_{n}/Dense_{d}/mul", "f32[64,16]", "fusion")
            for n in range(3)
            for d in range(last if n == 2 else each)
        ]

    (cause,) = causes(run(model(each=2, last=2)), run(model(each=3, last=3)))
    assert words(cause) == ("repeats", "layers_*/Dense_*", "6", "9")
    (cause,) = causes(run(model(each=2, last=2)), run(model(each=2, last=1)))
    assert words(cause)[:2] == ("ops", "layers_*/Dense_*")


def test_a_scan_of_more_turns_has_no_numbers_but_counts() -> None:
    def scan(turns: int) -> list[Op]:
        body = [
            Op("fusion.1", 10 * NS, "while/body/attn/dot_general", "f32[64,16]", "fusion"),
            Op("fusion.2", 30 * NS, "while/body/mlp/mul", "f32[64,64]", "fusion"),
        ]
        return [*body * turns, HEAD]

    (cause,) = causes(run(scan(3)), run(scan(5)))
    assert words(cause) == ("repeats", None, "3", "5")
    assert cause.delta_ps == 80 * NS


def test_gathers_in_every_layer_are_one_cause() -> None:
    def gather(layer: int) -> Op:
        return Op(f"all-gather.{layer}", 9 * NS, f"layers_{layer}/mlp/all_gather", "f32[128,32]", "all-gather")

    (cause,) = causes(run(layers(2)), run([*layers(2), gather(0), gather(1)]))
    assert words(cause) == ("collective", "all-gather", "0", "2")
    assert cause.delta_ps == 18 * NS


def test_one_large_collective_that_became_many_small_ones_is_no_more_than_they_take() -> None:
    def reduces(count: int, ps: int) -> list[Op]:
        every = [Op(f"all-reduce.{n}", ps, "optimizer/psum", "f32[64,32]", "all-reduce") for n in range(count)]
        return [*layers(2), *every]

    (cause,) = causes(run(reduces(1, 80 * NS)), run(reduces(10, 9 * NS)))
    assert words(cause) == ("collective", "all-reduce", "1", "10")
    assert cause.delta_ps == 10 * NS
    assert cause.count_effect_ps == 90 * NS


def test_another_type_brings_its_conversions_along() -> None:
    ops = layers(3)
    changed = [replace(op, shape="f64[64,64]", ps=70 * NS) if op.scope == "layers_1/mlp/mul" else op for op in ops]
    changed += [
        Op("convert_fusion.3", 4 * NS, None, "f64[8]", "fusion"),
        Op("convert.4", 3 * NS, None, "f32[8]", "convert"),
        Op("broadcast.5", 2 * NS, "head/broadcast", "f64[16]", "broadcast"),  # nothing else makes f64
        Op("exp.6", 1 * NS, "head/exp", "f32[16]", "exponential"),
    ]
    first, second = causes(run(ops), run(changed))
    assert words(first) == ("types", "layers_1/mlp", "f32", "f64")
    assert first.delta_ps == 49 * NS
    assert words(second)[:2] == ("ops", "head")


@pytest.mark.parametrize("outer", ["", "model/"])
def test_recomputation_is_one_cause_though_jax_repeats_the_scopes(outer: str) -> None:
    def model(*, remat: bool) -> list[Op]:
        found: list[Op] = []
        for n in range(2):
            place = f"jvp({outer}layers_{n})" if not outer else f"jvp(model)/layers_{n}"
            back = f"transpose({place})" if not outer else f"transpose(jvp(model))/layers_{n}"
            inside = f"{back}/{place}/checkpoint" if remat else back
            found += [
                Op(f"fusion.{n}", 20 * NS, f"{place}/mlp/dot_general", "f32[64,16]", "fusion"),
                Op(f"fusion.{10 + n}", 30 * NS, f"{inside}/mlp/dot_general", "f32[64,16]", "fusion"),
            ]
            if remat:
                again = f"{inside}/rematted_computation/mlp"
                found += [
                    Op(f"fusion.{20 + n}", 20 * NS, f"{again}/dot_general", "f32[64,16]", "fusion"),
                    Op(f"tanh.{n}", 2 * NS, f"{again}/tanh", "f32[64,16]", "tanh"),
                ]
        return found

    base, new = run(model(remat=False)), run(model(remat=True))
    (cause,) = causes(base, new)
    assert words(cause) == ("recomputation", "jit_step", "0", "4")
    assert cause.delta_ps == cause.sure_ps == 44 * NS
    assert {row.scope for row in cause.rows} == {f"{outer}layers_*/mlp/dot_general", f"{outer}layers_*/mlp/tanh"}
    assert explain(base, new).matched_time_fraction == pytest.approx(200 / 244)


def test_a_combined_collective_stays_itself_when_one_part_leaves_it() -> None:
    def reduce(number: int, scopes: list[str], shape: str, ps: int) -> Op:
        return Op(f"all-reduce.{number}", ps, f"({':'.join(scopes)})", shape, "all-reduce")

    parts = [f"layers_{n}/{part}/dot" for n in range(3) for part in ("mlp", "mlp", "attn")]
    base = [*layers(3), reduce(3, parts, "(f32[64,64], f32[64,16])", 50 * NS)]
    new = [
        *layers(3),
        reduce(3, [p for p in parts if p != "layers_1/mlp/dot"], "(f32[64,64], f32[64,16], f32[8])", 45 * NS),
        reduce(4, ["layers_1/mlp/dot", "layers_1/mlp/dot"], "(f64[64,64], f64[8])", 20 * NS),
    ]
    rows = {row.change: row for row in explain(run(base), run(new)).changed}
    assert rows["new"].delta_ps == 20 * NS
    assert rows["duration"].delta_ps == -5 * NS


def test_a_fusion_cut_anew_and_what_is_new_beside_it_are_one_cause() -> None:
    pieces = [
        Op("fusion.3", 25 * NS, "head/norm/mul", "f32[64,32]", "fusion"),
        Op("add_fusion.4", 21 * NS, "head/norm/add", "f32[64]", "fusion"),
    ]
    (cause,) = causes(run([*layers(1), HEAD]), run([*renumbered(layers(1)), *pieces]))
    assert words(cause)[:2] == ("fusion", "head/norm")
    assert cause.delta_ps == 6 * NS


def test_a_fusion_that_holds_something_else_is_cut_anew() -> None:
    def with_more(ops: list[Op], inside: str) -> tpuprof.Trace:
        trace, made = TraceBuilder(), program(ops)
        made = replace(made, text=made.text.replace("ROOT %multiply", f"{inside}\n  ROOT %multiply"))
        host = trace.add_host("h")
        plane = host.add_tpu(0, "TPU v5 lite")
        line, steps = plane.add_line("XLA Ops", line_id=3), plane.add_line("Steps", line_id=1)
        at = 1_000 * NS
        for step in range(3):
            begin = at
            for op in ops:
                line.op(op.name, Ps(at), Ps(op.ps), made, op.category, meta={"tf_op": made.scope(op.name)})
                at += op.ps
            steps.event(str(step), Ps(begin), Ps(at - begin))
        host.add_program(made)
        return loaded(trace)

    slower = replace(HEAD, ps=44 * NS)
    other = "  %t = f32[64,32]{1,0} tanh(f32[64,32]{1,0} %p)"
    same = "  %t = f32[64,32]{1,0} bitcast(f32[64,32]{1,0} %p)"
    (cause,) = causes(with_more([HEAD], same), with_more([slower], other))
    assert words(cause)[:2] == ("fusion", "head/norm")
    (cause,) = causes(with_more([HEAD], same), with_more([slower], same))
    assert words(cause)[:2] == ("time", "head/norm/mul")


def test_other_sizes_are_one_cause() -> None:
    wider = [replace(op, shape=op.shape.replace("64,", "128,"), ps=2 * op.ps) for op in layers(2)]
    (cause,) = causes(run(layers(2)), run(wider))
    assert words(cause)[:2] == ("sizes", "jit_step")
    assert cause.delta_ps == 80 * NS


def jittered(*more: Op, times: tuple[int, ...]) -> tpuprof.Trace:
    """Steps that differ by the time of one op; what follows it comes later."""
    trace = built([*layers(1), *more], steps=len(times))
    plane = trace["h"]["/device:TPU:0"]
    varied = zip(plane["XLA Ops"].named("fusion.11"), times, strict=True)
    extra = [(event.start_ps, ps - event.duration_ps) for event, ps in varied]
    for line in ("Steps", "XLA Modules", "XLA Ops"):
        for event in plane[line].events:
            begin, end = event.start_ps, event.start_ps + event.duration_ps
            event.start_ps += sum(ps for at, ps in extra if at < begin)
            event.duration_ps += sum(ps for at, ps in extra if begin <= at < end)
    return loaded(trace)


def test_what_a_restless_machine_makes_is_not_sure() -> None:
    """Twice as long in one capture, as single steps are, too: captures may differ by as much."""
    base = jittered(times=(100 * NS, 200 * NS, 100 * NS, 190 * NS) * 5)
    new = jittered(Op("sort.1", 3 * NS, "sample/sort", "f32[64,32]", "sort"), times=(210 * NS, 205 * NS) * 10)
    first, *others = causes(base, new)
    assert words(first)[:2] == ("ops", "sample")
    assert first.sure_ps == 3 * NS
    assert max(cause.delta_ps for cause in others) > 50 * NS
    assert {cause.sure_ps for cause in others} == {0.0}


def test_a_tiny_new_op_is_no_reason() -> None:
    tiny = Op("copy.1", 100, "sample/copy", "s32[]", "copy")
    split = [
        Op("fusion.3", 25 * NS, "head/norm/mul", "f32[64,32]", "fusion"),
        Op("add_fusion.4", 14 * NS, "head/norm/add", "f32[64]", "fusion"),
    ]
    times = (100 * NS, 200 * NS, 100 * NS, 190 * NS)
    first, *_ = causes(jittered(HEAD, times=times), jittered(*split, tiny, times=times[::-1]))
    assert words(first)[:2] == ("fusion", "head/norm")


def test_one_step_of_different_programs_is_explained_and_not_judged() -> None:
    """As other tools' trace.json files hold them: one step, poorer names, another number of ops."""
    base = loaded(built(layers(4), steps=1), json=True)
    new = loaded(built([*renumbered(layers(5)), HEAD], steps=1), json=True)
    assert base.n_steps == new.n_steps == 1
    told = causes(base, new)
    assert sum(cause.delta_ps for cause in told) == 80 * NS
    assert {cause.what for cause in told} <= set(FACTS)
    assert {cause.error_ps for cause in told} == {None}
    verdict = judge([samples_of(base)], [samples_of(new)])
    assert verdict.verdict == "cannot_tell"
    assert verdict.reason.startswith("one step per side")


def test_an_op_that_falls_out_of_one_step_is_not_another_number_of_ops() -> None:
    base, new = built([*layers(1), HEAD], steps=4), built([*layers(1), HEAD], steps=4)
    new["h"]["/device:TPU:0"]["Steps"].events[-1].duration_ps -= 46 * NS  # its last op begins when it is over
    found = explain(loaded(base), loaded(new))
    head = next(row for row in found.rows if row.scope == "head/norm/mul")
    assert head.count_base == 1
    assert 0.5 < (head.count_new or 0) < 1
    assert head.count_effect_ps < 0
    assert not head.recounted
    assert {cause.what for cause in found.causes} <= {"time", "idle"}
    assert all(cause.count_effect_ps == 0 for cause in found.causes)


def test_causes_as_json() -> None:
    found = explain(run(layers(4)), run(layers(5))).to_json()
    (cause,) = found["causes"]
    assert cause["what"] == "repeats"
    assert (cause["where"], cause["base"], cause["new"]) == ("layers_*", "4", "5")
    assert cause["delta_ps"] == cause["sure_ps"] == 40 * NS
    assert set(cause["groups"]) == {row["group"] for row in found["explanation"] if row["change"] != "same"}
