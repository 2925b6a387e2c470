"""Which start half a done half ends: through fusions, around loops, across steps, and with halves missing."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tpuprof
from tests.tables.random_traces import Truth, truths
from tpuprof.tables.schemas import COMPUTE_KINDS, PARTS
from tpuprof.testing import LineBuilder, Program, TraceBuilder

few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
US = 1_000_000

FUSED = Program(
    "jit_fused",
    11,
    """\
HloModule jit_fused, is_scheduled=true, num_partitions=1

%begin (p0: f32[64]) -> f32[64] {
  %p0 = f32[64]{0} parameter(0)
  ROOT %cc = f32[64]{0} custom-call(f32[64]{0} %p0), custom_call_target="AsyncCollectiveStart"
}

%begin.2 (q0: f32[64]) -> f32[64] {
  %q0 = f32[64]{0} parameter(0)
  ROOT %cc.2 = f32[64]{0} custom-call(f32[64]{0} %q0), custom_call_target="AsyncCollectiveStart"
}

%between (p1: f32[64], m: f32[64,64]) -> f32[64] {
  %p1 = f32[64]{0} parameter(0)
  %m = f32[64,64]{1,0} parameter(1)
  %g1 = f32[64]{0} all-gather(f32[64]{0} %p1), channel_id=1, replica_groups={}, dimensions={0}
  ROOT %dot = f32[64]{0} dot(f32[64]{0} %g1, f32[64,64]{1,0} %m), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}

%middle.2 (q1: f32[64], n: f32[64,64]) -> f32[64] {
  %q1 = f32[64]{0} parameter(0)
  %n = f32[64,64]{1,0} parameter(1)
  %g2 = f32[64]{0} all-gather(f32[64]{0} %q1), channel_id=2, replica_groups={}, dimensions={0}
  ROOT %dot.2 = f32[64]{0} dot(f32[64]{0} %g2, f32[64,64]{1,0} %n), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}

%end (p2: f32[64], other: f32[64]) -> f32[64] {
  %p2 = f32[64]{0} parameter(0)
  %other = f32[64]{0} parameter(1)
  ROOT %cd = f32[64]{0} custom-call(f32[64]{0} %p2, f32[64]{0} %other), custom_call_target="AsyncCollectiveDone"
}

%end.2 (q2: f32[64]) -> f32[64] {
  %q2 = f32[64]{0} parameter(0)
  ROOT %cd.2 = f32[64]{0} custom-call(f32[64]{0} %q2), custom_call_target="AsyncCollectiveDone"
}

ENTRY %main (a: f32[64], w: f32[64,64]) -> f32[64] {
  %a = f32[64]{0} parameter(0)
  %w = f32[64,64]{1,0} parameter(1)
  %async-collective-start.1 = f32[64]{0} fusion(f32[64]{0} %a), kind=kCustom, calls=%begin
  %async-collective-start.2 = f32[64]{0} fusion(f32[64]{0} %a), kind=kCustom, calls=%begin.2
  %fusion.1 = f32[64]{0} fusion(f32[64]{0} %async-collective-start.1, f32[64,64]{1,0} %w), kind=kOutput, calls=%between
  %fusion.2 = f32[64]{0} fusion(f32[64]{0} %async-collective-start.2, f32[64,64]{1,0} %w), kind=kOutput, calls=%middle.2
  %async-collective-done.7 = f32[64]{0} fusion(f32[64]{0} %a, f32[64]{0} %fusion.1), kind=kCustom, calls=%end
  ROOT %async-collective-done.8 = f32[64]{0} fusion(f32[64]{0} %fusion.2), kind=kCustom, calls=%end.2
}
""",
)

LOOP = Program(
    "jit_loop",
    12,
    """\
HloModule jit_loop, is_scheduled=true, num_partitions=1

%condition (c: (s32[], (f32[64], f32[64], u32[], u32[]))) -> pred[] {
  %c = (s32[], (f32[64]{0}, f32[64]{0}, u32[], u32[])) parameter(0)
  %i = s32[] get-tuple-element((s32[], (f32[64]{0}, f32[64]{0}, u32[], u32[])) %c), index=0
  %n = s32[] constant(3)
  ROOT %lt = pred[] compare(s32[] %i, s32[] %n), direction=LT
}

%body (b: (s32[], (f32[64], f32[64], u32[], u32[]))) -> (s32[], (f32[64], f32[64], u32[], u32[])) {
  %b = (s32[], (f32[64]{0}, f32[64]{0}, u32[], u32[])) parameter(0)
  %j = s32[] get-tuple-element((s32[], (f32[64]{0}, f32[64]{0}, u32[], u32[])) %b), index=0
  %flying = (f32[64]{0}, f32[64]{0}, u32[], u32[]) get-tuple-element((s32[], (f32[64]{0}, f32[64]{0}, u32[], u32[])) %b), index=1
  %collective-permute-done.4 = f32[64]{0} collective-permute-done((f32[64]{0}, f32[64]{0}, u32[], u32[]) %flying)
  %negate.5 = f32[64]{0} negate(f32[64]{0} %collective-permute-done.4)
  %collective-permute-start.6 = (f32[64]{0}, f32[64]{0}, u32[], u32[]) collective-permute-start(f32[64]{0} %negate.5), source_target_pairs={{0,0}}
  ROOT %t = (s32[], (f32[64]{0}, f32[64]{0}, u32[], u32[])) tuple(s32[] %j, (f32[64]{0}, f32[64]{0}, u32[], u32[]) %collective-permute-start.6)
}

ENTRY %main (a: f32[64], zero: s32[]) -> f32[64] {
  %a = f32[64]{0} parameter(0)
  %zero = s32[] parameter(1)
  %collective-permute-start.1 = (f32[64]{0}, f32[64]{0}, u32[], u32[]) collective-permute-start(f32[64]{0} %a), source_target_pairs={{0,0}}
  %init = (s32[], (f32[64]{0}, f32[64]{0}, u32[], u32[])) tuple(s32[] %zero, (f32[64]{0}, f32[64]{0}, u32[], u32[]) %collective-permute-start.1)
  %while.2 = (s32[], (f32[64]{0}, f32[64]{0}, u32[], u32[])) while((s32[], (f32[64]{0}, f32[64]{0}, u32[], u32[])) %init), condition=%condition, body=%body
  %last = (f32[64]{0}, f32[64]{0}, u32[], u32[]) get-tuple-element((s32[], (f32[64]{0}, f32[64]{0}, u32[], u32[])) %while.2), index=1
  ROOT %collective-permute-done.3 = f32[64]{0} collective-permute-done((f32[64]{0}, f32[64]{0}, u32[], u32[]) %last)
}
""",  # noqa: E501
)

PAIR = Program(
    "jit_pair",
    13,
    """\
HloModule jit_pair, is_scheduled=true, num_partitions=1

ENTRY %main (a: f32[64]) -> f32[64] {
  %a = f32[64]{0} parameter(0)
  %negate.1 = f32[64]{0} negate(f32[64]{0} %a)
  %all-gather-start.2 = (f32[64]{0}, f32[64]{0}) all-gather-start(f32[64]{0} %negate.1), replica_groups={}, dimensions={0}
  %multiply.3 = f32[64]{0} multiply(f32[64]{0} %negate.1, f32[64]{0} %negate.1)
  ROOT %all-gather-done.9 = f32[64]{0} all-gather-done((f32[64]{0}, f32[64]{0}) %all-gather-start.2)
}
""",  # noqa: E501
)


def core(program: Program, steps: list[tuple[int, int]] | None = None) -> tuple[TraceBuilder, LineBuilder]:
    trace = TraceBuilder()
    host = trace.add_host("h")
    plane = host.add_tpu(0)
    line = plane.add_line("Steps")
    for number, (start, end) in enumerate(steps or [(0, 1000)]):
        line.event(str(number), start, end - start)
    host.add_program(program)
    return trace, plane.add_line("XLA Ops")


def load(trace: TraceBuilder) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        loaded: Any = tpuprof.load(trace.write(Path(directory)))
        _ = loaded.collectives
        return loaded


def windows_of(trace: Any) -> list[tuple[str, str, int, int]]:
    return [
        (row["op"], row["form"], row["start_ps"] // US, row["window_ps"] // US)
        for row in trace.collectives.to_dict("records")
        if row["form"] == "async"
    ]


def write_fused(program: Program) -> Any:
    trace, ops = core(program)
    for name, start, duration in (
        ("async-collective-start.1", 0, 1),
        ("async-collective-start.2", 1, 1),
        ("fusion.2", 10, 300),
        ("fusion.1", 310, 300),
        ("async-collective-done.8", 610, 40),
        ("async-collective-done.7", 650, 30),
    ):
        ops.op(name, start, duration, program, "custom fusion")
    return load(trace)


FUSED_WINDOWS = [("async-collective-start.1", "async", 0, 680), ("async-collective-start.2", "async", 1, 649)]


def test_fused_halves_are_joined_through_what_carries_the_collective() -> None:
    loaded = write_fused(FUSED)
    assert windows_of(loaded) == FUSED_WINDOWS
    assert set(loaded.collectives["kind"]) == {"all_gather"}
    assert list(loaded.collectives["hidden_ps"] // US) == [600, 600]
    assert loaded.quality == ()


def test_fused_halves_of_other_channels_are_not_joined() -> None:
    # One done half is as near to the start half of the other collective as to its own.
    program = FUSED.with_text("(f32[64]{0} %a, f32[64]{0} %fusion.1)", "(f32[64]{0} %fusion.2, f32[64]{0} %fusion.1)")
    for p, channel in (("p0", 1), ("q0", 2), ("p2", 1), ("q2", 2)):
        gather = f"  %{p}.g = f32[64]{{0}} all-gather(f32[64]{{0}} %{p}), channel_id={channel}, replica_groups={{}}, "
        gather += "dimensions={0}\n"
        line = f"  %{p} = f32[64]{{0}} parameter(0)\n"
        program = program.with_text(line, line + gather)
    loaded = write_fused(program)
    assert windows_of(loaded) == FUSED_WINDOWS
    assert loaded.quality == ()


def test_halves_are_joined_around_a_loop() -> None:
    # One start before the loop, one in each of three iterations; each ends in the next one, the last behind the loop.
    trace, ops = core(LOOP)
    at = [("collective-permute-start.1", 0, 1)]
    for k in range(3):
        begin = 100 * (k + 1)
        at += [
            ("collective-permute-done.4", begin, 5),
            ("negate.5", begin + 5, 40),
            ("collective-permute-start.6", begin + 45, 1),
        ]
    at.append(("collective-permute-done.3", 450, 20))
    for name, start, duration in at:
        ops.op(name, start, duration, LOOP, name.rpartition(".")[0])
    loaded = load(trace)
    assert windows_of(loaded) == [
        ("collective-permute-start.1", "async", 0, 105),
        ("collective-permute-start.6", "async", 145, 60),
        ("collective-permute-start.6", "async", 245, 60),
        ("collective-permute-start.6", "async", 345, 125),
    ]
    assert loaded.quality == ()


def write_pairs(ops: LineBuilder, starts: list[int], dones: list[int]) -> None:
    rows = [("negate.1", t - 1, 1) for t in starts]
    rows += [("all-gather-start.2", t, 1) for t in starts] + [("all-gather-done.9", t, 10) for t in dones]
    for name, start, duration in sorted(rows, key=lambda row: row[1]):
        ops.op(name, start, duration, PAIR, name.rpartition(".")[0])


def test_a_pair_may_cross_the_end_of_its_step() -> None:
    trace, ops = core(PAIR, [(0, 100), (100, 200), (200, 300)])
    write_pairs(ops, [50, 150, 250], [120, 220, 280])
    loaded = load(trace)
    assert windows_of(loaded) == [("all-gather-start.2", "async", at, n) for at, n in ((50, 80), (150, 80), (250, 40))]
    assert list(loaded.collectives["step"]) == [0, 1, 2]
    assert list(loaded.partition["collective_exposed_ps"] // US) == [50, 80, 70]  # in flight over the end of the step


def test_halves_that_are_alone_are_reported_and_have_no_window() -> None:
    trace, ops = core(PAIR)
    # The capture began in flight and ended in flight.
    write_pairs(ops, [100, 300], [20, 150])
    loaded = load(trace)
    rows = loaded.collectives.to_dict("records")
    assert [(row["form"], row["op"], row["start_ps"] // US) for row in rows] == [
        ("done_only", "all-gather-done.9", 20),
        ("async", "all-gather-start.2", 100),
        ("start_only", "all-gather-start.2", 300),
    ]
    assert loaded.collectives["window_ps"].isna().tolist() == [True, False, True]
    assert list(
        loaded.collectives["wait_reason"].astype(object).where(loaded.collectives["wait_reason"].notna(), None)
    ) == [
        "half_missing",
        None,
        "half_missing",
    ]
    (entry,) = loaded.quality
    assert (entry.id, entry.severity, entry.count) == ("unmatched_halves", "warning", 2)
    assert entry.scope == {"devices": ["h/TPU:0"]}
    assert "2 asynchronous collective(s)" in entry.message


def test_a_half_that_is_missing_in_one_run_moves_no_pair_of_the_others() -> None:
    trace, ops = core(PAIR, [(0, 1000)])
    modules = trace["h"]["/device:TPU:0"].add_line("XLA Modules")
    for k in range(3):
        modules.module(PAIR, 100 * k, 90)
    write_pairs(ops, [10, 110, 210], [60, 160, 260])
    lost = next(event for event in ops if event.name == "all-gather-done.9" and event.start_ps == 160 * US)
    ops.events.remove(lost)
    loaded = load(trace)
    forms = [(row["form"], row["start_ps"] // US) for row in loaded.collectives.to_dict("records")]
    assert forms == [("async", 10), ("start_only", 110), ("async", 210)]
    assert loaded.quality[0].count == 1


UPDATED = Program(
    "jit_updated",
    14,
    """\
HloModule jit_updated, is_scheduled=true, num_partitions=1

%wrapped (p: f32[64]) -> f32[64] {
  %p = f32[64]{0} parameter(0)
  ROOT %g = f32[64]{0} all-gather(f32[64]{0} %p), replica_groups={}, dimensions={0}
}, execution_thread="sparsecore"

ENTRY %main (a: f32[64]) -> f32[64] {
  %a = f32[64]{0} parameter(0)
  %g.call-start = ((f32[64]{0}), f32[64]{0}, s32[]) async-start(f32[64]{0} %a), async_execution_thread="sparsecore", calls=%wrapped
  %g.call-update = ((f32[64]{0}), f32[64]{0}, s32[]) async-update(((f32[64]{0}), f32[64]{0}, s32[]) %g.call-start)
  ROOT %g.call-done = f32[64]{0} async-done(((f32[64]{0}), f32[64]{0}, s32[]) %g.call-update)
}
""",  # noqa: E501
)


# As newer runtimes write it: the start half has no operands, the update brings them.
CALLED = Program(
    "jit_called",
    15,
    """\
HloModule jit_called, is_scheduled=true, num_partitions=4

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add = f32[] add(f32[] %x, f32[] %y)
}

%called_computation (p: f32[64]) -> f32[64] {
  %p = f32[64]{0} parameter(0)
  ROOT %all-reduce.3 = f32[64]{0} all-reduce(f32[64]{0} %p), channel_id=1, replica_groups={{0,2},{1,3}}, \
use_global_device_ids=true, to_apply=%sum
}

ENTRY %main (a: f32[64]) -> f32[64] {
  %a = f32[64]{0} parameter(0)
  %all-reduce.3.call-start = ((), f32[64]{0}, s32[]) call-start(), to_apply=%called_computation
  %all-reduce.3.call-update = ((f32[64]{0}), f32[64]{0}, s32[]) call-update(((), f32[64]{0}, s32[]) \
%all-reduce.3.call-start, f32[64]{0} %a)
  ROOT %all-reduce.3.call-done = f32[64]{0} call-done(((f32[64]{0}), f32[64]{0}, s32[]) %all-reduce.3.call-update)
}
""",
)


def test_a_call_in_three_parts_is_the_collective_in_it() -> None:
    trace, ops = core(CALLED)
    for name, start, duration in (("start", 0, 1), ("update", 50, 2), ("done", 100, 30)):
        ops.op(f"all-reduce.3.call-{name}", start, duration, CALLED, f"async-{name}")
    loaded = load(trace)
    assert windows_of(loaded) == [("all-reduce.3.call-start", "async", 50, 80)]
    (row,) = loaded.collectives.to_dict("records")
    assert (row["kind"], row["participants"], row["bytes"], row["shard_bytes"]) == ("all_reduce", 2, 256, 128)


def test_with_an_update_the_window_begins_there() -> None:
    trace, ops = core(UPDATED)
    for at in (0, 400):
        for name, start, duration in (("g.call-start", 0, 1), ("g.call-update", 50, 2), ("g.call-done", 100, 30)):
            ops.op(name, at + start, duration, UPDATED, name.replace("g.call", "async"))
    loaded = load(trace)
    assert windows_of(loaded) == [("g.call-start", "async", 50, 80), ("g.call-start", "async", 450, 80)]
    assert set(loaded.collectives["kind"]) == {"all_gather"}
    # What issues it is collective time as well, of which nothing is hidden.
    assert list(loaded.partition["collective_exposed_ps"] // US) == [2 * 81]
    assert loaded.quality == ()


def covered(spans: list[tuple[int, int]], start: int, end: int) -> int:
    """How much of [start, end) the spans cover, piece by piece."""
    bounds = sorted({start, end, *(t for span in spans for t in span if start < t < end)})
    return sum(b - a for a, b in pairwise(bounds) if any(s <= a and b <= e for s, e in spans))


@few
@given(truths())
def test_each_collective_is_exposed_where_nothing_computes(truth: Truth) -> None:
    trace = load(truth.trace)
    table = trace.collectives
    for device, what in truth.cores.items():
        compute = [(op.start, op.end) for op in what.ops if op.what in COMPUTE_KINDS]
        rows = table[table["device"] == device]
        # Rows are placed from the first op on, which is where the truth begins to count too.
        shift = int(trace.ops.loc[trace.ops["device"] == device, "start_ps"].min()) - min(op.start for op in what.ops)
        for row in rows.to_dict("records"):
            start, end = row["start_ps"] - shift, row["start_ps"] - shift + row["window_ps"]
            assert row["hidden_ps"] == covered(compute, start, end)
            assert row["exposed_ps"] + row["hidden_ps"] == row["window_ps"]


@few
@given(truths())
def test_exposed_and_hidden_time_of_a_step_lies_inside_the_windows(truth: Truth) -> None:
    trace = load(truth.trace)
    table = trace.collectives
    for row in trace.partition.to_dict("records"):
        mine = table[table["device"] == row["device"]]
        spans = [(int(s), int(s + n)) for s, n in zip(mine["start_ps"], mine["window_ps"], strict=True)]
        inside = covered(spans, row["start_ps"], row["start_ps"] + row["duration_ps"])
        assert row["collective_exposed_ps"] + row["hidden_collective_ps"] <= inside
        # What is missing is time in which the op line waited for something else.
        waits = sum(row[f"{part}_ps"] for part in PARTS if part in ("host_transfer", "dma_wait"))
        assert inside - row["collective_exposed_ps"] - row["hidden_collective_ps"] <= waits


@few
@given(st.integers(0, 2**32), st.integers(1, 6), st.booleans())
def test_pairs_in_order_of_issue_whatever_overlaps(seed: int, count: int, cut: bool) -> None:
    rng = np.random.default_rng(seed)
    times: list[int] = sorted(rng.choice(np.arange(2, 480, 2), size=2 * count, replace=False).tolist())
    starts: list[int] = []
    dones: list[int] = []
    open_now = 0
    for at in times:  # every done has a start before it
        if open_now and (rng.random() < 0.5 or len(starts) == count):
            dones.append(at)
            open_now -= 1
        else:
            starts.append(at)
            open_now += 1
    if cut and len(starts) == len(dones):
        dones = dones[:-1]  # the capture ended first
    trace, ops = core(PAIR)
    trace["h"]["/device:TPU:0"].add_line("XLA Modules").module(PAIR, 0, 1000)
    write_pairs(ops, [2 * t for t in starts], [2 * t for t in dones])
    for event in ops:
        event.duration_ps = min(event.duration_ps, US)
    assert [(at, at + length) for _, _, at, length in windows_of(load(trace))] == [
        (2 * a, 2 * b + 1) for a, b in zip(starts, dones, strict=False)
    ]
