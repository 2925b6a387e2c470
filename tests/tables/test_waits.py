"""Waits for peers and clocks of hosts: random traces against brute force, and the cases that have a name."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tpuprof
from tpuprof.testing import PlaneBuilder, Program, Ps, Ref, Stat, TraceBuilder

few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

STEP = 1_000_000_000  # 1 ms
SPACING = 200_000_000  # between groups of one occurrence, so that their barriers never look like one
SKEW = 50_000_000
EPOCH = 1_700_000_000_000_000_000


def program(groups: str, devices: int) -> Program:
    return Program(
        "jit_step",
        5,
        f"""\
HloModule jit_step, is_scheduled=true, num_partitions={devices}

%sum (x: f32[], y: f32[]) -> f32[] {{
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add = f32[] add(f32[] %x, f32[] %y)
}}

ENTRY %main (a: f32[64]) -> f32[64] {{
  %a = f32[64]{{0}} parameter(0)
  %negate.1 = f32[64]{{0}} negate(f32[64]{{0}} %a)
  ROOT %all-reduce.2 = f32[64]{{0}} all-reduce(f32[64]{{0}} %negate.1), channel_id=1, replica_groups={groups}, \
use_global_device_ids=true, to_apply=%sum
}}
""",
    )


@dataclass(frozen=True)
class Arrival:
    """One core at one occurrence, on the true clock."""

    device: str
    core: int
    step: int
    arrived: int
    end: int
    begin: int  # start of the op: of the barrier's end where there is one

    @property
    def has_barrier(self) -> bool:
        return self.begin > self.arrived


@dataclass
class Case:
    trace: TraceBuilder
    arrivals: list[Arrival]
    group_of: dict[int, tuple[int, ...]]
    traced: set[int]
    clock: dict[str, int]  # how far each host's clock is ahead, in ns


def details(core: int) -> bytes:
    """The plane stat that holds the global id: field 5 the chip, field 6 the core, zeros left out."""
    return bytes((5 << 3, core, 6 << 3, core)) if core else b""


def write_core(plane: PlaneBuilder, hlo: Program, rows: list[Arrival], clock_ns: int) -> None:
    stamp = EPOCH + clock_ns
    steps, ops = plane.add_line("Steps", timestamp_ns=stamp), plane.add_line("XLA Ops", timestamp_ns=stamp)
    barriers = plane.add_line("XLA TraceMe", timestamp_ns=stamp)
    for row in rows:
        steps.event(str(row.step), Ps(row.step * STEP), Ps(STEP))
        ops.op("negate.1", Ps(row.step * STEP), Ps(row.arrived - row.step * STEP), hlo, "non-fusion elementwise")
        if row.has_barrier:
            barriers.event("barrier-cores", Ps(row.arrived), Ps(row.begin - row.arrived))
        ops.op("all-reduce.2", Ps(row.begin), Ps(row.end - row.begin), hlo, "all-reduce")


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """1-3 hosts with 1-2 cores each, of a program on up to two more; groups of all, or of equal parts."""
    hosts = draw(st.integers(1, 3))
    per_host = draw(st.integers(1, 2))
    devices = hosts * per_host + draw(st.integers(0, 2))
    shape = draw(st.sampled_from(["all", "neighbours", "strided"]))
    size = devices if shape == "all" or devices % 2 else 2
    if shape == "strided" and size == 2:
        groups = [tuple(range(first, devices, devices // 2)) for first in range(devices // 2)]
    else:
        groups = [tuple(range(first, first + size)) for first in range(0, devices, size)]
    text = "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups) + "}"
    hlo = program(text, devices)
    group_of = {core: group for group in groups for core in group}
    with_barriers = draw(st.booleans())
    arrivals: list[Arrival] = []
    for step in range(draw(st.integers(1, 3))):
        for number, group in enumerate(groups):
            base = step * STEP + 10_000_000 + number * SPACING
            arrived = {core: base + draw(st.integers(0, SKEW)) for core in group}
            last = max(arrived.values())
            end = last + draw(st.integers(1, SKEW))
            for core, at in arrived.items():
                begin = last if with_barriers else at
                device = f"h{core // per_host}/TPU:{core % per_host}"
                arrivals.append(Arrival(device, core, step, at, end, begin))
    trace = TraceBuilder()
    traced = set(range(hosts * per_host))
    clock = {f"h{number}": draw(st.integers(-(10**9), 10**9)) if number else 0 for number in range(hosts)}
    for number in range(hosts):
        host = trace.add_host(f"h{number}")
        for ordinal in range(per_host):
            core = number * per_host + ordinal
            plane = host.add_tpu(ordinal, stats={"core_details": details(core)})
            write_core(plane, hlo, [row for row in arrivals if row.core == core], clock[host.name])
        host.add_program(hlo)
    return Case(trace, arrivals, group_of, traced, clock)


def load(trace: TraceBuilder) -> Any:
    with tempfile.TemporaryDirectory() as directory:
        loaded: Any = tpuprof.load(trace.write(Path(directory)))
        _ = loaded.collectives, loaded.arrivals
        return loaded


def expected_of(case: Case) -> dict[tuple[str, int], tuple[int | None, int | None, int | None]]:
    """(wait, transfer, late) per device and step; slow, and read off the definition."""
    found: dict[tuple[str, int], tuple[int | None, int | None, int | None]] = {}
    for row in case.arrivals:
        if row.core not in case.traced:
            continue
        group = case.group_of[row.core]
        peers = [r for r in case.arrivals if r.step == row.step and r.core in group and r.core in case.traced]
        others = [r.arrived for r in peers if r is not row]
        last = max(r.arrived for r in peers)
        wait: int | None = last - row.arrived
        if len(peers) < len(group):  # at least what it spent in the barrier, which held the others too
            wait = max(last, row.begin) - row.arrived
            if not others and not row.has_barrier:
                wait = None
        transfer = None if wait is None else row.end - max(row.begin, row.arrived + wait)
        found[row.device, row.step] = (wait, transfer, max(row.arrived - max(others), 0) if others else None)
    return found


@few
@given(cases())
def test_waits_equal_brute_force(case: Case) -> None:
    trace = load(case.trace)
    table = trace.collectives
    late = {(row["device"], row["step"]): row["late_ps"] for row in trace.arrivals.to_dict("records")}
    found = {
        (row["device"], row["step"]): (
            None if row["wait_reason"] == row["wait_reason"] else row["wait_ps"],
            None if row["wait_reason"] == row["wait_reason"] else row["transfer_ps"],
            late.get((row["device"], row["step"])),
        )
        for row in table.to_dict("records")
    }
    assert found == expected_of(case)
    complete = {d: set(case.group_of[c]) <= case.traced for d, c in {(r.device, r.core) for r in case.arrivals}}
    for row in table.to_dict("records"):
        if row["wait_reason"] != row["wait_reason"]:
            assert row["wait_is_lower_bound"] != complete[row["device"]]
        else:
            assert row["wait_reason"] == "peers_not_traced"


@few
@given(cases())
def test_the_clock_of_every_host_that_shares_a_collective_is_found(case: Case) -> None:
    clocks = load(case.trace).built.host_clocks
    cores_of = {host: {r.core for r in case.arrivals if r.device.startswith(f"{host}/")} for host in case.clock}
    joined = {host: {host} for host in case.clock}
    for _ in case.clock:  # hosts that share a group, directly or through others
        for a in case.clock:
            for b in case.clock:
                shared = any(set(g) & cores_of[a] and set(g) & cores_of[b] for g in case.group_of.values())
                if shared:
                    joined[a] |= joined[b]
    for a in case.clock:
        for b in case.clock:
            assert (clocks.component[a] == clocks.component[b]) == (b in joined[a])
            if b in joined[a]:
                found = clocks.offset_ps[b] - clocks.offset_ps[a]
                assert found == (case.clock[b] - case.clock[a]) * 1000
    assert set(clocks.residual_ps.values()) == {0}
    told = {entry.id for entry in clocks.quality}
    assert ("clocks_not_comparable" in told) == (not clocks.comparable)
    assert ("host_clock_offset" in told) == any(clocks.offset_ps.values())


def two_cores(ends: tuple[list[int], list[int]], groups: str = "{{0,1}}", *, same_host: bool = False) -> TraceBuilder:
    """Two cores that arrive at 100 us of each step and leave at these times (us from the step's begin)."""
    hlo = program(groups, 2)
    trace = TraceBuilder()
    for core, of_steps in enumerate(ends):
        name = "h0" if same_host else f"h{core}"
        host = trace[name] if name in trace else trace.add_host(name)
        plane = host.add_tpu(core if same_host else 0, stats={"core_details": details(core)})
        rows = [
            Arrival("", core, k, k * STEP + 10**8, k * STEP + end * 10**6, k * STEP + 10**8)
            for k, end in enumerate(of_steps)
        ]
        write_core(plane, hlo, rows, 0)
        if "/host:metadata" not in host:
            host.add_program(hlo)
    return trace


def test_the_offset_is_the_median_and_the_rest_its_uncertainty() -> None:
    trace = load(two_cores(([200] * 5, [200, 201, 203, 204, 190])))
    (entry,) = trace.quality
    assert entry.id == "host_clock_offset"
    assert entry.scope["offset_ps"] == {"h1": 10**6}
    assert entry.scope["residual_ps"] == {"h1": 11 * 10**6}
    assert "from that of h0: h1 1 us ahead (within 11 us, from 5 collectives). Times" in entry.message


def test_a_clock_that_is_behind_is_called_so() -> None:
    (entry,) = load(two_cores(([205] * 2, [200] * 2))).quality
    assert "h1 5 us behind" in entry.message


def test_ends_that_do_not_agree_give_no_common_clock() -> None:
    trace = load(two_cores(([150, 600, 130, 700], [650, 120, 720, 110])))
    assert [entry.id for entry in trace.quality] == ["clocks_not_comparable"]
    table = trace.collectives
    assert set(table["wait_reason"]) == {"no_common_clock"}
    assert table["wait_ps"].isna().all()
    assert table["transfer_ps"].isna().all()
    assert table["wait_is_lower_bound"].isna().all()
    assert trace.window_ps is None
    assert trace.arrivals.empty


def test_cores_of_unknown_id_have_no_groups() -> None:
    trace = two_cores(([200], [200]), "{{0},{1}}")
    for host in trace:
        del host["/device:TPU:0"].stats["core_details"]
    table = load(trace).collectives
    assert set(table["wait_reason"]) == {"groups_unknown"}


def test_rows_that_cannot_be_one_collective_are_not_compared() -> None:
    trace = two_cores(([200], [200]), same_host=True)
    for event in trace["h0"]["/device:TPU:1"]["XLA Ops"]:
        event.start_ps += 400 * 10**6  # it begins long after the other has ended
    table = load(trace).collectives
    assert set(table["wait_reason"]) == {"not_matched"}


def test_a_step_with_fewer_collectives_on_one_core_is_not_matched_by_counting() -> None:
    trace = two_cores(([200, 200], [200, 200]), same_host=True)
    ops = trace["h0"]["/device:TPU:1"]["XLA Ops"]
    ops.op("all-reduce.2", 400, 50, program("{{0,1}}", 2), "all-reduce")
    ops.events.sort(key=lambda event: event.start_ps)
    table = load(trace).collectives
    whole = table[table["step"] == 1]
    assert (whole["wait_ps"] == 0).all()
    assert not whole["wait_is_lower_bound"].any()
    assert set(table.loc[table["step"] == 0, "wait_reason"]) == {"peers_not_traced"}


def barrier_case(release: tuple[int, int]) -> Any:
    """Two groups of one core each; both in barriers from 100 and 300 us on, until ``release``."""
    hlo = program("{{0},{1}}", 2)
    trace = TraceBuilder()
    host = trace.add_host("h0")
    for core, (arrived, begin) in enumerate(zip((100, 300), release, strict=True)):
        plane = host.add_tpu(core, stats={"core_details": details(core)})
        write_core(plane, hlo, [Arrival("", core, 0, arrived * 10**6, 500 * 10**6, begin * 10**6)], 0)
    host.add_program(hlo)
    return load(trace).collectives


def test_a_barrier_that_holds_several_groups_makes_them_wait_for_each_other() -> None:
    assert list(barrier_case((301, 302))["wait_ps"]) == [201 * 10**6, 2 * 10**6]
    # Groups that go when they are complete do not.
    assert list(barrier_case((110, 310))["wait_ps"]) == [0, 0]


def test_only_the_barrier_directly_before_it_belongs_to_a_collective() -> None:
    trace = two_cores(([200], [200]), same_host=True)
    plane = trace["h0"]["/device:TPU:0"]
    plane["XLA TraceMe"].event("barrier-cores", 10, 20)
    plane["XLA Ops"].events[0].start_ps = 40 * 10**6  # an op begins between the barrier and the collective
    plane["XLA Ops"].events[0].duration_ps = 60 * 10**6
    table = load(trace).collectives
    assert list(table["wait_ps"]) == [0, 0]


def test_fewer_devices_in_view_do_not_change_a_wait() -> None:
    trace = load(two_cores(([200, 200], [200, 200]), same_host=True))
    for device in ("h0/TPU:0", "h0/TPU:1"):
        whole = trace.collectives[trace.collectives["device"] == device].reset_index(drop=True)
        part = trace.select(devices=[device]).collectives
        assert list(part["wait_ps"]) == list(whole["wait_ps"])
        assert not part["wait_is_lower_bound"].any()


def test_the_rendezvous_inside_a_cpu_op_is_its_wait() -> None:
    hlo = program("{{0,1}}", 2)
    trace = TraceBuilder()
    host = trace.add_host("h0")
    for ordinal, (start, length, wait) in enumerate(((100, 100, 70), (160, 40, 5))):
        thread = host.add_thread(f"tf_XLAEigen/{ordinal}", timestamp_ns=EPOCH)
        facts: dict[str, Stat] = {"hlo_op": Ref("all-reduce.2"), "hlo_module": Ref("jit_step")}
        thread.cpu_op("all-reduce.2", start, length, hlo, run_id=1, device_ordinal=ordinal, stats=facts)
        thread.event("Rendezvous", start + 2, wait)
        thread.event("InvokeRendezvous", start + 3, 1)
    other = host.add_thread("tf_XLAEigen/9", timestamp_ns=EPOCH)
    other.event("Rendezvous", 90, 200)  # of another thread: not inside this op
    host.add_program(hlo)
    loaded = load(trace)
    table = loaded.collectives
    assert list(table["wait_ps"]) == [70 * 10**6, 5 * 10**6]
    assert list(table["transfer_ps"]) == [30 * 10**6, 35 * 10**6]
    assert list(loaded.arrivals["late_ps"]) == [0, 60 * 10**6]
    assert set(table["participants"]) == {2}
    assert (loaded.partition["collective_exposed_ps"] > 0).all()  # the rendezvous stays collective time
    assert (loaded.partition["barrier_wait_ps"] == 0).all()


@pytest.mark.parametrize(("steps", "transient"), [(2, [False, False]), (3, [True, False, False])])
def test_the_start_of_a_capture_is_marked(steps: int, transient: list[bool]) -> None:
    trace = load(two_cores(([200] * steps, [200] * steps), same_host=True))
    rows = trace.arrivals[trace.arrivals["device"] == "h0/TPU:1"]
    assert list(rows["transient"]) == transient


SEVERAL = Program(
    "jit_several",
    6,
    """\
HloModule jit_several, is_scheduled=true, num_partitions=3

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add = f32[] add(f32[] %x, f32[] %y)
}

ENTRY %main (a: f32[64]) -> f32[64] {
  %a = f32[64]{0} parameter(0)
  %all-reduce.1 = f32[64]{0} all-reduce(f32[64]{0} %a), channel_id=1, replica_groups={{0,2},{1}}, \
use_global_device_ids=true, to_apply=%sum
  %all-reduce.2 = f32[64]{0} all-reduce(f32[64]{0} %a), channel_id=2, replica_groups={{1,2},{0}}, \
use_global_device_ids=true, to_apply=%sum
  %all-gather-start.3 = (f32[64]{0}, f32[192]{0}) all-gather-start(f32[64]{0} %a), channel_id=3, \
replica_groups={{0,1,2}}, use_global_device_ids=true, dimensions={0}
  %all-gather-done.3 = f32[192]{0} all-gather-done((f32[64]{0}, f32[192]{0}) %all-gather-start.3)
  ROOT %negate.4 = f32[64]{0} negate(f32[64]{0} %a)
}
""",
)


def three_hosts(ops: tuple[str, ...]) -> TraceBuilder:
    """Hosts whose clocks are 0, 7 and 30 us ahead; of the asynchronous collective each host hears at another time."""
    trace = TraceBuilder()
    for core, clock_ns in enumerate((0, 7_000, 30_000)):
        host = trace.add_host(f"h{core}")
        plane = host.add_tpu(0, stats={"core_details": details(core)})
        stamp = EPOCH + clock_ns
        plane.add_line("Steps", timestamp_ns=stamp).event("0", 0, 1000)
        line = plane.add_line("XLA Ops", timestamp_ns=stamp)
        for name, start, duration in (
            ("all-reduce.1", 100, 50),
            ("all-reduce.2", 200, 50),
            ("all-gather-start.3", 300, 1),
            ("negate.4", 310, 100 + 40 * core),
            ("all-gather-done.3", 410 + 40 * core, 10),
        ):
            if name in ops:
                line.op(name, start, duration, SEVERAL, name.rpartition(".")[0])
        host.add_program(SEVERAL)
    return trace


SYNC, ASYNC = ("all-reduce.1", "all-reduce.2"), ("all-gather-start.3", "negate.4", "all-gather-done.3")


def test_hosts_are_compared_through_others() -> None:
    clocks = load(three_hosts(SYNC)).built.host_clocks
    assert clocks.offset_ps == {"h0": 0, "h1": 7_000_000, "h2": 30_000_000}
    assert clocks.comparable


def test_ends_of_synchronous_collectives_are_trusted_before_those_of_done_halves() -> None:
    assert load(three_hosts((*SYNC, *ASYNC))).built.host_clocks.offset_ps == {
        "h0": 0,
        "h1": 7_000_000,
        "h2": 30_000_000,
    }
    trace = load(three_hosts(("all-reduce.1", *ASYNC)))
    offset = trace.built.host_clocks.offset_ps
    assert offset["h2"] == 30_000_000  # by the all-reduce that h0 and h2 share
    assert offset["h1"] == 47_000_000  # by a done half alone, which came 40 us late there


def test_a_rendezvous_tells_the_wait_where_no_group_is_known() -> None:
    hlo = program("{{0},{1}}", 2)
    trace = TraceBuilder()
    for number in range(2):
        host = trace.add_host(f"h{number}")
        thread = host.add_thread("tf_XLAEigen/1", timestamp_ns=EPOCH)
        facts: dict[str, Stat] = {"hlo_op": Ref("all-reduce.2"), "hlo_module": Ref("jit_step")}
        thread.cpu_op("all-reduce.2", 100, 50, hlo, run_id=1, stats=facts)
        thread.event("Rendezvous", 110, 30)
        host.add_program(hlo)
    table = load(trace).collectives
    assert list(table["wait_ps"]) == [30 * 10**6] * 2
    assert table["wait_reason"].isna().all()


def test_kernels_of_gpus_wait_for_each_other() -> None:
    hlo = program("{{0,1}}", 2)
    trace = TraceBuilder()
    host = trace.add_host("h0")
    for ordinal, start in enumerate((100, 130)):
        stream = host.add_gpu(ordinal).add_line("Stream #1(nccl)", timestamp_ns=EPOCH)
        facts: dict[str, Stat] = {"hlo_op": Ref("all-reduce.2"), "hlo_module": Ref("jit_step"), "program_id": hlo.id}
        stream.event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, 200 - start, stats=facts)
    host.add_program(hlo)
    table = load(trace).collectives
    assert list(table["wait_ps"]) == [30 * 10**6, 0]
    assert list(table["transfer_ps"]) == [70 * 10**6] * 2
    assert list(table["bytes"]) == [256] * 2
    assert list(table["form"]) == ["sync"] * 2
