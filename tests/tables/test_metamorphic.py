"""What must not change any number, and how the numbers must hang together, on random traces of all device kinds."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tpuprof
from tests.tables.oracle import HOST_CAUSES, Span, idle_by_cause, under_compute
from tests.tables.random_traces import NCCL, ZOO, Truth, cpu_truths, truths
from tpuprof.tables.schemas import IDLE_CAUSES
from tpuprof.testing import Event, HostBuilder, Layout, Program, Ps, Ref, Stat, TraceBuilder, hlo_proto_from_text

few = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
fewer = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
anything = st.one_of(truths(), truths(), cpu_truths())
seeds = st.integers(0, 2**32)

Observed = dict[str, Any]
_RUN_COLUMNS = ("idle_intra_program_ps", "idle_unexplained_ps")


def loaded(trace: TraceBuilder, layout: Layout | None = None) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        return tpuprof.load(trace.write(Path(directory), layout))


def observed(trace: TraceBuilder, layout: Layout | None = None) -> Observed:
    """All numbers of a trace, times counted from the first step of all, and rows in an order of their own."""
    run = loaded(trace, layout)
    first = int(run.partition["start_ps"].min())
    tables = {"partition": run.partition, "collectives": run.collectives.drop(columns="op"), "gaps": run.gaps}
    return {
        **{name: rows_of(table, first) for name, table in tables.items()},
        "quality": sorted({entry.id for entry in run.quality}),
        "steps": (run.step_source, run.n_steps),
    }


def rows_of(table: Any, first: int) -> list[str]:
    frame = table.assign(start_ps=table["start_ps"] - first)
    columns = [name for name in frame.columns if name not in ("before_op", "after_op", "module")]
    return sorted(repr([str(value) for value in row]) for row in frame[columns].itertuples(index=False))


# What may be done to a trace.


def planes_and_lines_shuffled(trace: TraceBuilder, rng: random.Random) -> None:
    for host in trace:
        rng.shuffle(host.planes)
        for plane in host:
            rng.shuffle(plane.lines)


def later(trace: TraceBuilder, rng: random.Random) -> None:
    """The whole session some time later, on another clock origin."""
    ns = rng.randrange(1, 10**15)
    for host in trace:
        stats = host["Task Environment"].stats
        start, stop = (int(getattr(stats[f"profile_{name}_time"], "value")) for name in ("start", "stop"))  # noqa: B009
        host.drop_plane("Task Environment")
        host.add_task_environment(start + ns, stop + ns)


def absolute_timestamps(trace: TraceBuilder, rng: random.Random) -> None:
    """Lines that state the time of day instead of the time since the session began; events count from there."""
    for host in trace:
        begin = int(getattr(host["Task Environment"].stats["profile_start_time"], "value"))  # noqa: B009
        host.shift(begin, lambda plane: plane.name.startswith(("/device:", "/host:CPU")))


def renumbered(trace: TraceBuilder, rng: random.Random) -> None:
    """Every instruction has another number, in the HLO and wherever the trace names it; halves keep no common one."""
    names = sorted(set(re.findall(r"%([\w\-]+\.\d+)", ZOO.text)))
    numbers = rng.sample(range(100, 100 + 10 * len(names)), len(names))
    new = {name: f"{name.rsplit('.', 1)[0]}.{number}" for name, number in zip(names, numbers, strict=True)}
    rewrite_names(trace, new)


def rewrite_names(trace: TraceBuilder, new: dict[str, str]) -> None:
    def text(old: str) -> str:
        return re.sub(r"%([\w\-]+\.\d+)", lambda match: "%" + new.get(match[1], match[1]), old)

    replace_program(trace, Program(ZOO.name, ZOO.id, text(ZOO.text)))
    for plane in (plane for host in trace for plane in host):
        for event in (event for line in plane for event in line):
            name = str(event.name)
            prefix = "end: " if name.startswith("end: ") else ""
            event.name = prefix + new.get(name.removeprefix(prefix), name.removeprefix(prefix))
            event.text = None if event.text is None else text(str(event.text))
            event.stats = {key: _renamed(value, new) for key, value in event.stats.items()}


def _renamed(value: Stat, new: dict[str, str]) -> Stat:
    if isinstance(value, Ref):
        return Ref(new.get(value.text, value.text))
    return new.get(value, value) if isinstance(value, str) else value


def replace_program(trace: TraceBuilder, program: Program) -> None:
    for host in trace:
        if "/host:metadata" in host:
            for entry in host["/host:metadata"].entries:
                entry.stats["Hlo Proto"] = hlo_proto_from_text(program.text)


def unrelated_threads(trace: TraceBuilder, rng: random.Random) -> None:
    """Threads of the host with work that says nothing about the devices."""
    for host in trace:
        for number in range(rng.randint(1, 3)):
            thread = host.add_thread(f"pool/{number}", line_id=9000 + number)
            for _ in range(rng.randint(1, 30)):
                name = rng.choice(["ThreadpoolListener::Record", "SomeThing", "kick", "1", "fusion.1"])
                thread.event(name, Ps(rng.randrange(10**6)), Ps(rng.randrange(10**6)))


def enclosed(trace: TraceBuilder, rng: random.Random) -> None:
    """A stretch of every op line of TPUs inside one more loop."""
    for plane in (plane for host in trace for plane in host):
        if "XLA Ops" not in plane:
            continue
        events = plane["XLA Ops"].events
        times = {time for event in events for time in (event.start_ps, event.end_ps)}
        # Rows must not overlap in parts: a loop begins and ends where no row is under way.
        free = sorted(t for t in times if not any(event.start_ps < t < event.end_ps for event in events))
        begin, end = sorted(rng.sample(free, 2)) if len(free) > 1 else (free[0], free[0])
        meta: dict[str, Stat] = {"program_id": ZOO.id, "hlo_category": "while"}
        at = next((n for n, event in enumerate(events) if event.start_ps >= begin), len(events))
        events.insert(at, Event("while.12", begin, end - begin, ZOO.instruction("while.12"), meta))


CHANGES = (planes_and_lines_shuffled, later, absolute_timestamps, unrelated_threads)


@pytest.mark.parametrize("change", CHANGES)
@fewer
@given(truth=anything, seed=seeds)
def test_what_must_not_change_anything(
    change: Callable[[TraceBuilder, random.Random], None], truth: Truth, seed: int
) -> None:
    changed = truth.trace.copy()
    change(changed, random.Random(seed))
    assert observed(changed) == observed(truth.trace)


@few
@given(truth=anything, seed=seeds)
def test_renumbering_every_instruction_changes_nothing(truth: Truth, seed: int) -> None:
    changed = truth.trace.copy()
    renumbered(changed, random.Random(seed))
    assert observed(changed) == observed(truth.trace)


@few
@given(truth=truths(), seed=seeds)
def test_another_loop_around_ops_changes_nothing_but_what_counts_as_one_run(truth: Truth, seed: int) -> None:
    changed = truth.trace.copy()
    enclosed(changed, random.Random(seed))
    assert observed_without_runs(changed) == observed_without_runs(truth.trace)


def observed_without_runs(trace: TraceBuilder) -> Observed:
    """Without what depends on where one execution ends and the next begins: that is told by ops outside loops."""
    run = loaded(trace)
    first = int(run.partition["start_ps"].min())
    gaps = run.gaps.drop(columns="inside_run")
    # Occurrences on several cores are matched within executions, and with them the waits for peers.
    waits = ["wait_ps", "transfer_ps", "wait_is_lower_bound", "wait_reason"]
    return {
        "partition": rows_of(run.partition.drop(columns=list(_RUN_COLUMNS)), first),
        "collectives": rows_of(run.collectives.drop(columns=["op", *waits]), first),
        "gaps": rows_of(gaps, first),
    }


@fewer
@given(anything, st.integers(1, 1000), st.integers(1, 1000), st.sampled_from([None, 1, 2, 3]))
def test_ids_and_chunks_change_nothing(truth: Truth, first: int, step: int, chunk: int | None) -> None:
    assert observed(truth.trace, Layout(first, step, chunk)) == observed(truth.trace)


@fewer
@given(truths(), truths(), st.booleans())
def test_hosts_in_any_order_give_the_same_and_keep_their_numbers(one: Truth, other: Truth, ordered: bool) -> None:
    alone = {name: loaded(truth.trace).partition for name, truth in (("a", one), ("b", other))}
    hosts = [named(one.trace, "a"), named(other.trace, "b")]
    together = loaded(TraceBuilder(hosts=hosts if ordered else hosts[::-1])).partition
    sources = {name: set(loaded(truth.trace).partition["step"]) for name, truth in (("a", one), ("b", other))}
    for name, table in alone.items():
        mine = together[together["device"].astype(str).str.startswith(f"{name}/")]
        if set(mine["step"]) != sources[name]:
            continue  # two hosts agree on one source of steps: one of them may then have other steps
        assert parts_of(mine) == parts_of(table)


def named(trace: TraceBuilder, name: str) -> HostBuilder:
    host = trace.copy().hosts[0]
    host.name, host.hostnames = name, [name]
    return host


def parts_of(table: Any) -> list[list[int]]:
    columns = [name for name in table.columns if name.endswith("_ps") and not name.startswith(("idle_", "start"))]
    rows: list[list[int]] = [[int(value) for value in row] for row in table[columns].itertuples(index=False)]
    return sorted(rows)


def with_groups(trace: TraceBuilder, groups: str) -> TraceBuilder:
    """The trace with these replica groups on all collectives."""
    changed = trace.copy()
    replace_program(
        changed, Program(ZOO.name, ZOO.id, ZOO.text.replace("replica_groups={}", f"replica_groups={groups}"))
    )
    for event in (event for plane in changed.hosts[0] for line in plane for event in line):
        if event.text is not None:
            event.text = str(event.text).replace("replica_groups={}", f"replica_groups={groups}")
    return changed


@pytest.mark.parametrize(
    ("listed", "iota"),
    [
        ("{{0,1},{2,3}}", "[2,2]<=[4]"),
        ("{{0,2},{1,3}}", "[2,2]<=[2,2]T(1,0)"),
        ("{{0,4,1,5},{2,6,3,7}}", "[2,4]<=[2,2,2]T(1,2,0)"),
    ],
)
@fewer
@given(truth=anything)
def test_groups_as_a_list_and_as_an_iota_are_the_same(listed: str, iota: str, truth: Truth) -> None:
    first, second = (observed(with_groups(truth.trace, groups)) for groups in (listed, iota))
    assert first == second


# How the numbers hang together.


def collective_windows(truth: Truth, device: str) -> list[Span]:
    """The windows of a core's collectives: what is in flight between halves, and ops that are whole collectives."""
    ordinal = int(device.rsplit(":", 1)[1])
    spans = [span for span in truth.cores[device].in_flight if span.what == "collective"]
    for plane in truth.trace.hosts[0]:
        for event in (event for line in plane for event in line):
            mine = plane.name == f"/device:{device.split('/')[1]}" or event.stats.get("device_ordinal") == ordinal
            if mine and event.name in ("all-reduce.10", NCCL):
                spans.append(Span(event.start_ps, event.end_ps, "collective"))
    return spans


@few
@given(anything)
def test_each_collective_is_exposed_where_nothing_computes(truth: Truth) -> None:
    run = loaded(truth.trace)
    first = min(start for windows in truth.windows.values() for start, _ in windows.values())
    origin = int(run.partition["start_ps"].min()) - first
    for device, core in truth.cores.items():
        rows = run.collectives[run.collectives["device"] == device]
        steps = [(start, end, step) for step, (start, end) in truth.windows[device].items()]
        begun = [
            next((step for start, end, step in steps if start <= at - origin < end), None)
            for at in rows["start_ps"].tolist()
        ]
        assert [None if pd.isna(step) else int(step) for step in rows["step"]] == begun
        found = sorted(zip(*(rows[f"{n}_ps"].tolist() for n in ("start", "window", "exposed", "hidden")), strict=True))
        expected: list[tuple[int, int, int, int]] = []
        for span in collective_windows(truth, device):
            length, hidden = span.end - span.start, under_compute(core, span)
            expected.append((span.start + origin, length, length - hidden, hidden))
        assert found == sorted(expected)


@few
@given(anything)
def test_exposed_and_hidden_time_fit_into_the_union_of_windows(truth: Truth) -> None:
    run = loaded(truth.trace)
    for row in run.partition.to_dict("records"):
        start, end = row["start_ps"], row["start_ps"] + row["duration_ps"]
        mine = run.collectives[run.collectives["device"] == row["device"]]
        spans = [(s, s + w) for s, w in zip(mine["start_ps"].tolist(), mine["window_ps"].tolist(), strict=True)]
        union = length_of_union([(max(a, start), min(b, end)) for a, b in spans])
        assert row["collective_exposed_ps"] + row["hidden_collective_ps"] <= union
        assert row["hidden_collective_ps"] <= row["duration_ps"]
        assert row["hidden_dma_ps"] <= row["duration_ps"]


def length_of_union(spans: list[tuple[int, int]]) -> int:
    reach, total = -(1 << 62), 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reach))
        reach = max(reach, end)
    return total


NAMES = {
    "compile": "PjRtClient::Compile",
    "garbage_collection": "gc.collect",
    "checkpoint": "checkpoint.save",
    "host_sync": "np.asarray(jax.Array)",
    "input": "data_loader.get_batch",
    "dispatch": "PjitFunction(f)",
    "host_python": "$train.py:1 f",
}


def work_of_the_host(truth: Truth, rng: random.Random) -> dict[str, tuple[Span, ...]]:
    """Adds host work near the devices' own, linked to it; what it is for each core, on the core's clock."""
    host = truth.trace.hosts[0]
    thread = host.add_thread("main/1", line_id=9100)
    spans: list[Span] = []
    windows = [window for of_core in truth.windows.values() for window in of_core.values()]
    low, high = min(a for a, _ in windows), max(b for _, b in windows)
    shifts = {device: shift_of(host, device) for device in truth.cores}
    for _ in range(rng.randint(1, 8)):
        cause, shift = rng.choice(HOST_CAUSES), rng.choice([*shifts.values()])
        begin = shift + rng.randint(low - 2_000, high)
        spans.append(Span(begin, begin + rng.choice([1, 3_000, 20_000, 80_000]), cause))
        thread.event(NAMES[cause], Ps(begin), Ps(spans[-1].end - begin))
    for number, plane in enumerate(plane for plane in host if "XLA Modules" in plane):
        module = plane["XLA Modules"].events[0]
        module.stats |= {"_ct": 12, "_c": number}
        called = module.start_ps + plane.shift_at(module.start_ps)
        thread.event("DoEnqueueProgram", Ps(called - 7), Ps(5), stats={"_pt": 12, "_p": number})
        spans.append(Span(called - 7, called - 2, "dispatch"))
    thread.events.sort(key=lambda event: event.start_ps)
    return {
        device: tuple(Span(span.start - shift, span.end - shift, span.what) for span in spans)
        for device, shift in shifts.items()
    }


def shift_of(host: HostBuilder, device: str) -> int:
    name = f"/device:{device.split('/')[1]}"
    shift = host[name].host_minus_device_ps if name in host else 0
    assert isinstance(shift, int)
    return shift


@few
@given(truths(), seeds)
def test_idle_time_goes_to_the_first_cause_that_holds_or_to_none_at_all(truth: Truth, seed: int) -> None:
    host = work_of_the_host(truth, random.Random(seed))
    table = loaded(truth.trace).partition
    for row in table.to_dict("records"):
        found = {cause: row[f"idle_{cause}_ps"] for cause in IDLE_CAUSES}
        window = truth.windows[row["device"]][row["step"]]
        if "GPU" in row["device"]:
            continue  # their launch calls come at other times than their work: see the test of sums
        expected = idle_by_cause(truth.cores[row["device"]], *window, host[row["device"]])
        same = (*HOST_CAUSES, "dma_in_flight")
        assert {cause: found[cause] for cause in same} == {cause: expected[cause] for cause in same}
        # The notes say nothing about runs; what is inside one is not unexplained.
        assert found["intra_program"] + found["unexplained"] == expected["unexplained"]


@few
@given(anything, seeds, st.booleans())
def test_causes_sum_to_idle_or_are_unknown(truth: Truth, seed: int, working: bool) -> None:
    if working:
        work_of_the_host(truth, random.Random(seed))
    table = loaded(truth.trace).partition
    causes = table[[f"idle_{cause}_ps" for cause in IDLE_CAUSES]]
    of_host = table[[f"idle_{cause}_ps" for cause in HOST_CAUSES]]
    known = of_host.notna().all(axis=1)
    assert (causes[known].sum(axis=1) == table.loc[known, "idle_ps"]).all()
    assert of_host[~known].isna().all(axis=None)
    assert (causes.fillna(0) >= 0).all(axis=None)


def test_the_changes_do_change_the_file() -> None:
    """A change that leaves the file as it was would prove nothing."""
    trace = TraceBuilder()
    host = trace.add_host("h")
    plane = host.add_tpu(0)
    plane.add_line("XLA Modules", line_id=2).module(ZOO, 1, 9)
    ops = plane.add_line("XLA Ops", line_id=3)
    for name, start in (("fusion.1", 1), ("all-reduce.10", 4), ("fusion.6", 7)):
        ops.op(name, start, 3, ZOO)
    host.add_program(ZOO)
    host.add_task_environment(10**18, 10**18 + 1)
    before = trace.to_bytes()
    for change in (*CHANGES, renumbered, enclosed):
        changed = trace.copy()
        change(changed, random.Random(4))
        assert changed.to_bytes() != before, change.__name__
    assert with_groups(trace, "[2,2]<=[4]").to_bytes() != with_groups(trace, "{{0,1},{2,3}}").to_bytes()
