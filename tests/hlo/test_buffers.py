"""Buffer assignments and liveness: known answers, jax's own figures, brute force, and the real traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hlo.buffer_helper import PADDED, assignment, compiled_module, module_with
from tests.hlo.buffer_oracle import bytes_over_time
from tpuprof.hlo import HloModule
from tpuprof.hlo.buffer_schema import messages
from tpuprof.hlo.buffers import Allocation, Buffer, BufferAssignment, Totals, parse_buffers, space_name
from tpuprof.hlo.live_ranges import live_ranges, schedule
from tpuprof.hlo.liveness import MemoryUse, covered_peak, memory_use

PROGRAMS = (
    "auto", "auto_grad", "batch_dot", "callback", "collectives", "cond", "constants", "convs", "cumulative",
    "custom_derivative", "donated", "dynamic", "fft", "gather_scatter", "integers", "linear", "nested", "precision",
    "remat", "ring", "rng", "scan", "scoped", "shapes", "sort", "switch", "topk", "tuples", "while", "windows",
)  # fmt: skip
LOOPS_OR_MERGED = ("collectives", "cond", "cumulative", "linear", "nested", "remat", "ring", "rng", "scan", "switch")


def used(module: HloModule) -> MemoryUse:
    buffers = parse_buffers(module)
    assert buffers is not None
    use = memory_use(module, buffers)
    assert use is not None
    return use


def test_a_program_with_known_memory() -> None:
    module = module_with(assignment())
    buffers = parse_buffers(module)
    assert buffers is not None
    totals = Totals(arguments=2 * PADDED, output=PADDED, temp=3 * PADDED)
    assert buffers.totals() == totals
    assert totals.total == 6 * PADDED
    ranges = live_ranges(module, buffers, schedule(module))
    assert ranges == {0: (0, 2), 1: (1, 5), 2: (5, 5), 3: (2, 4), 4: (3, 4), 5: (4, 5)}
    (space,) = used(module).spaces
    assert space.memory_space == 0
    # a and b stand all the time; x from 2, y from 3, z from 4, all three at 4; r and z at 5.
    assert space.timeline == ((0, 2 * PADDED), (2, 3 * PADDED), (3, 4 * PADDED), (4, 5 * PADDED), (5, 4 * PADDED))
    assert (space.peak, space.peak_position, space.peak_instruction.name) == (5 * PADDED, 4, "z")
    assert space.working_peak == 3 * PADDED
    assert [(b.buffer.instruction.name, b.size, b.unpadded_size) for b in space.live] == [  # type: ignore[union-attr]
        (name, PADDED, 128) for name in ("a", "b", "x", "z", "y")
    ]


def test_values_that_share_memory_count_once() -> None:
    message = assignment()
    message.buffer_allocations[3].assigned[1].offset = PADDED  # y where z lies: z is made from y in place
    (space,) = used(module_with(message)).spaces
    assert space.peak == 4 * PADDED
    assert space.peak_instruction.name == "y"
    at_z = [at for at, _ in space.timeline]
    assert at_z == [0, 2, 3]  # x and y/z until 4, then z and r: the same


def test_memory_spaces_are_kept_apart() -> None:
    (device, host) = used(module_with(assignment(color=5))).spaces
    assert (device.memory_space, host.memory_space) == (0, 5)
    assert (device.peak, host.peak) == (4 * PADDED, PADDED)
    assert host.totals == Totals(arguments=PADDED)


@pytest.mark.parametrize(
    ("number", "platform", "name"),
    [(0, "tpu", "hbm"), (1, "tpu", "vmem"), (5, "tpu", "host"), (0, "gpu", "hbm"), (1, "gpu", "collective"),
     (0, "cpu", "main"), (6, "tpu", "space_6"), (0, "", "space_0")],
)  # fmt: skip
def test_memory_spaces_have_the_names_of_their_platform(number: int, platform: str, name: str) -> None:
    assert space_name(number, platform) == name


def test_donated_arguments_need_no_memory_of_their_own() -> None:
    for live_out, stated in ((True, True), (True, False), (False, True)):  # newer writers have a field of its own
        message = assignment()
        message.buffer_allocations[0].maybe_live_out = live_out
        message.buffer_allocations[0].is_parameter_aliased_with_output = stated
        buffers = parse_buffers(module_with(message))
        assert buffers is not None
        assert buffers.totals() == Totals(2 * PADDED, 2 * PADDED, PADDED, 3 * PADDED)
        assert buffers.totals().total == 6 * PADDED


def test_without_an_assignment_or_a_schedule_nothing_is_claimed() -> None:
    assert parse_buffers(module_with(messages().BufferAssignmentProto())) is None
    module = module_with(assignment())
    unscheduled = HloModule(
        module.name, module.computations, module.entry_name, buffer_assignment=module.buffer_assignment
    )
    buffers = parse_buffers(unscheduled)
    assert buffers is not None
    assert memory_use(unscheduled, buffers) is None


@pytest.mark.parametrize("name", PROGRAMS)
def test_totals_are_those_of_jax(compiled: Path, name: str) -> None:
    """`memory_analysis` counts no working memory into its peak on CPU, since the heap traces are missing there."""
    sizes = json.loads((compiled / f"{name}.memory.json").read_text())
    buffers = parse_buffers(compiled_module(compiled, name))
    assert buffers is not None
    totals = buffers.totals()
    assert totals.arguments == sizes["argument_size_in_bytes"]
    assert totals.output == sizes["output_size_in_bytes"]
    assert totals.temp == sizes["temp_size_in_bytes"]
    assert totals.aliased == sizes["alias_size_in_bytes"]
    assert totals.total - totals.temp == sizes["peak_memory_in_bytes"]
    assert not any(trace.events for trace in buffers.heap_traces)
    assert all(buffer.instruction is not None for buffer in buffers.buffers)


def test_donation_is_seen(compiled: Path) -> None:
    buffers = parse_buffers(compiled_module(compiled, "donated"))
    assert buffers is not None
    assert buffers.totals().aliased == 512


@pytest.mark.parametrize("name", PROGRAMS)
def test_bytes_over_time_are_those_of_brute_force(compiled: Path, name: str) -> None:
    module = compiled_module(compiled, name)
    buffers = parse_buffers(module)
    assert buffers is not None
    use = used(module)
    for space in use.spaces:
        expected = bytes_over_time(module, buffers, space.memory_space)
        assert len(expected) == use.positions
        assert values(space.timeline, use.positions) == expected
        assert space.peak == max(expected)
        assert space.peak_position == expected.index(space.peak)
        assert sum(each.size for each in space.live) == space.peak
        assert space.peak <= space.totals.total
        assert space.working_peak <= space.totals.temp


def values(timeline: tuple[tuple[int, int], ...], length: int) -> list[int]:
    known = dict(timeline)
    result: list[int] = []
    for at in range(length):
        result.append(known.get(at, result[-1] if result else 0))
    return result


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in LOOPS_OR_MERGED])
def test_straight_programs_agree_with_the_compilers_own_peak(compiled: Path, name: str) -> None:
    """XLA lists the buffers live where an allocation is fullest; not a moment that exists where it merged heaps."""
    module = compiled_module(compiled, name)
    buffers = parse_buffers(module)
    assert buffers is not None
    sizes = {buffer.id: buffer.size for buffer in buffers.buffers}
    ranges = live_ranges(module, buffers, schedule(module))
    message = messages().BufferAssignmentProto.FromString(module.buffer_assignment)
    checked = 0
    for peak in message.peak_buffers:
        allocation = buffers.by_index[peak.allocation_index]
        if allocation.kind in ("output", "temp"):
            held = [(b, *ranges[b.id]) for b in buffers.buffers if b.allocation == allocation.index and b.id in ranges]
            assert covered_peak(allocation, held) == sum(sizes[each] for each in peak.buffer_ids)
            checked += 1
    assert checked


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 24), st.integers(0, 12), st.integers(0, 6)),
        min_size=1,
        max_size=30,
    )
)
def test_the_most_covered_bytes_are_those_of_painting(items: list[tuple[int, int, int, int]]) -> None:
    allocation = Allocation(0, 64, 0, "temp")
    held = [(Buffer(n, None, (), 0, at, size), t, t + len_) for n, (at, size, t, len_) in enumerate(items)]
    painted = [
        len({byte for b, first, last in held if first <= now <= last for byte in range(b.offset, b.offset + b.size)})
        for now in range(20)
    ]
    assert covered_peak(allocation, held) == max(painted)


def replay(buffers: BufferAssignment, trace: Any) -> int:
    """The peak of the compiler's own simulation."""
    sizes = {buffer.id: buffer.size for buffer in buffers.buffers}
    owner: dict[int, int] = {}
    holders: dict[int, int] = {}
    now = most = 0
    for event in trace.events:
        root = owner.setdefault(event.buffer, owner.get(event.shared_with, event.buffer))
        before = holders.get(root, 0)
        holders[root] = before + (-1 if event.kind == "free" else 1)
        if (before == 0) != (holders[root] == 0):
            now += sizes[root] if before == 0 else -sizes[root]
        most = max(most, now)
    return most


@pytest.mark.real
def test_host_offload_keeps_host_memory_apart(real_traces: Path) -> None:
    import tpuprof

    trace = tpuprof.load(real_traces / "v6e-4-host-offload")
    (module,) = [trace.programs[key] for key in trace.programs if trace.programs[key].name == "jit_f"]
    buffers = parse_buffers(module)
    assert buffers is not None
    assert all(buffer.instruction is not None for buffer in buffers.buffers)
    spaces = {space_name(space.memory_space, "tpu"): space for space in used(module).spaces}
    array = 5 * 1024 * 1024 * 256 * 4
    assert set(spaces) == {"hbm", "host", "sync_flags"}
    assert spaces["host"].totals == Totals(arguments=3 * array, output=3 * array, aliased=3 * array)
    assert spaces["host"].peak == 3 * array
    hbm = spaces["hbm"]
    assert [each.size for each in hbm.live][:5] == [array] * 4 + [32]
    assert hbm.peak_instruction.name == "broadcast_add_fusion.2"
    assert hbm.totals.temp == 21_474_934_784
    (trace_of_temp,) = [t for t in buffers.heap_traces if t.whole_module and t.allocation == 5]
    simulated = replay(buffers, trace_of_temp)
    assert simulated <= hbm.totals.temp
    assert simulated == pytest.approx(hbm.working_peak, abs=256)


@pytest.mark.real
def test_vmem_is_no_hbm(real_traces: Path) -> None:
    import tpuprof

    trace = tpuprof.load(real_traces / "v5e-1-matmul")
    (module,) = [trace.programs[key] for key in trace.programs if trace.programs[key].name == "jit_matmul"]
    spaces = {space_name(space.memory_space, "tpu"): space for space in used(module).spaces}
    array = 512 * 512 * 2
    assert spaces["hbm"].totals == Totals(arguments=2 * array, output=array, temp=512)
    assert spaces["vmem"].totals == Totals(temp=array)
    assert (spaces["hbm"].peak, spaces["vmem"].peak, spaces["sync_flags"].peak) == (3 * array, array, 4)
    (copied,) = spaces["vmem"].live
    assert copied.buffer is not None
    assert copied.buffer.shape_index == (0,)


@pytest.mark.real
def test_gpu_programs_agree_with_the_compilers_simulation(real_traces: Path) -> None:
    import tpuprof

    trace = tpuprof.load(real_traces / "mi300-gemm" / "tw003.xplane.pb")
    simulated = 0
    for key in trace.programs:
        module = trace.programs[key]
        buffers = parse_buffers(module)
        assert buffers is not None
        (space,) = used(module).spaces
        for heap in buffers.heap_traces:
            if heap.events:
                simulated += 1
                assert space.working_peak - 16 <= replay(buffers, heap) <= space.totals.temp
    assert simulated >= 4
