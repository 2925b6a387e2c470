"""Steps that the start of the capture held up are left out of statistics; others are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tpuprof
from tpuprof.tables.steps import CoreSteps, Steps
from tpuprof.tables.transients import without_start
from tpuprof.testing import Program, TraceBuilder

US = 1_000_000
HOSTS = ("hostA", "hostB", "hostC", "hostD")
PROGRAM = Program(
    "jit_step",
    5,
    """\
HloModule jit_step, is_scheduled=true, num_partitions=4

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add = f32[] add(f32[] %x, f32[] %y)
}

ENTRY %main (a: f32[64]) -> f32[64] {
  %a = f32[64]{0} parameter(0)
  %add.1 = f32[64]{0} add(f32[64]{0} %a, f32[64]{0} %a)
  ROOT %all-reduce.2 = f32[64]{0} all-reduce(f32[64]{0} %add.1), channel_id=1, replica_groups={}, to_apply=%sum
}
""",
)


def pod(late_us: dict[tuple[int, int], int], n_steps: int = 8, jitter: int = 7) -> TraceBuilder:
    """A loop over four hosts: 400 us of compute, then an all-reduce of 100 us that begins when all are there.

    Args:
        late_us: by (step, host) how much later than the others the host begins the step.
    """
    trace = TraceBuilder()
    hosts = [trace.add_host(name) for name in HOSTS]
    lines = []
    for ordinal, host in enumerate(hosts):
        host.add_program(PROGRAM)
        host.add_task_environment(1_700_000_000_000_000_000, 1_700_000_001_000_000_000)
        tpu = host.add_tpu(ordinal)
        lines.append((tpu.add_line("Steps"), tpu.add_line("XLA Ops")))
    ready = 1000
    for step in range(n_steps):
        begin = [ready + jitter * at + late_us.get((step, at), 0) for at in range(4)]
        together = max(begin) + 400
        for (steps, ops), start in zip(lines, begin, strict=True):
            steps.event(str(step), start, together + 100 - start)
            ops.op("add.1", start, 400, PROGRAM, "loop fusion")
            ops.op("all-reduce.2", start + 400, together + 100 - start - 400, PROGRAM, "all-reduce")
        ready = together + 100
    return trace


def test_a_step_that_waits_for_a_late_profiler_is_left_out(tmp_path: Path) -> None:
    trace = tpuprof.load(pod({(0, 2): 15_700}).write(tmp_path))
    assert trace.n_steps == 8
    assert trace.step_statistics()["count"] == 7
    assert trace.step_statistics()["max_ps"] == 521 * US + 7 * US * 0
    steps = trace.steps
    assert set(steps.loc[steps["transient"], "step"]) == {0}
    assert set(steps.loc[~steps["counted"], "step"]) == {0}
    mean = trace.breakdown()
    assert mean is not None
    assert mean["step_ps"] < 600 * US
    (entry,) = [q for q in trace.quality if q.id == "capture_start_transient"]
    assert (entry.severity, entry.count) == ("info", 1)
    assert entry.scope == {
        "steps": [0], "devices": ["hostC/TPU:2"], "spread_ps": 15_714 * US, "duration_ps": 16_214 * US,
    }  # fmt: skip
    assert "Step 0 is left out of statistics: at the start of the capture hostC/TPU:2 began 15.71 ms" in entry.message
    assert "Step 0 took 16.21 ms; the median of the later ones is 521 us." in entry.message


def test_two_steps_can_be_held_up(tmp_path: Path) -> None:
    trace = tpuprof.load(pod({(0, 2): 15_700, (1, 1): 4_000}).write(tmp_path))
    (entry,) = [q for q in trace.quality if q.id == "capture_start_transient"]
    assert entry.scope["steps"] == [0, 1]
    assert entry.scope["devices"] == ["hostC/TPU:2", "hostB/TPU:1"]
    assert "Steps 0 to 1 are left out" in entry.message
    assert trace.step_statistics()["count"] == 6


@pytest.mark.parametrize(
    ("late", "n_steps"),
    [
        ({}, 8),
        ({(0, 2): 10}, 8),  # within 5 % of the median
        ({(3, 2): 15_700}, 8),  # not at the start: a straggler
        ({(step, 2): 300 for step in range(8)}, 8),  # late in every step: a chronic one
        ({(0, 2): 15_700, (5, 1): 9_000}, 8),  # as far apart again later: this is how the program runs
        ({(0, 2): 15_700}, 3),  # too few steps behind it
    ],
)
def test_what_is_no_transient_counts(late: dict[tuple[int, int], int], n_steps: int, tmp_path: Path) -> None:
    trace = tpuprof.load(pod(late, n_steps).write(tmp_path))
    assert "capture_start_transient" not in {q.id for q in trace.quality}
    assert trace.step_statistics()["count"] == n_steps
    assert not trace.steps["transient"].any()


def test_a_first_step_that_is_long_on_all_cores_counts(tmp_path: Path) -> None:
    trace = pod({(0, at): 5_000 for at in range(4)})
    for host in trace:
        for plane in host:
            if plane.name.startswith("/device"):
                plane["Steps"].events[0].start_ps -= 5_000 * US
                plane["Steps"].events[0].duration_ps += 5_000 * US
    assert tpuprof.load(trace.write(tmp_path)).step_statistics()["count"] == 8


def test_a_single_core_has_no_one_to_wait_for() -> None:
    steps = made([[0, 9_000, 10_000, 11_000, 12_000, 13_000]])
    assert without_start(steps, ["a"], [0]) is steps


def test_cores_without_a_common_clock_are_not_compared() -> None:
    steps = made([[0, 9_000, 10_000, 11_000, 12_000], [8_000, 9_000, 10_000, 11_000, 12_000]])
    assert without_start(steps, ["a", "b"], [0, 0]).transient == (0,)
    assert without_start(steps, ["a", "b"], [0, 1]).transient == ()


def test_cores_that_have_no_step_in_common() -> None:
    steps = made([[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]])
    other = steps.cores[1]
    apart = Steps("steps_line", (steps.cores[0], replace(other, number=other.number + 10)), 0, None, ())
    assert without_start(apart, ["a", "b"], [0, 0]) is apart


def made(bounds: list[list[int]]) -> Steps:
    """Steps of cores from the starts of each, and the end of the last one."""
    cores: list[CoreSteps] = []
    for core in bounds:
        times, n = np.array(core, np.int64), len(core) - 1
        yes = np.ones(n, np.bool_)
        cores.append(CoreSteps(np.arange(n), times[:-1], times[1:], yes, yes, np.zeros(n, np.int64), yes, yes))
    return Steps("steps_line", tuple(cores), len(bounds[0]) - 1, None, ())


@given(data=st.data())
def test_only_leading_steps_are_left_out_and_enough_remain(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 8))
    bounds = [
        sorted(data.draw(st.lists(st.integers(0, 10**6), min_size=n + 1, max_size=n + 1, unique=True)))
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    steps = made(bounds)
    found = without_start(steps, [str(at) for at in range(len(bounds))], [0] * len(bounds))
    assert found.transient == tuple(range(len(found.transient)))
    assert len(found.transient) <= max(min(3, n - 3), 0)
    assert len(found.quality) == bool(found.transient)
    for core in found.cores:
        assert core.counted.tolist() == [number not in found.transient for number in range(n)]
