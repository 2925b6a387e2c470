"""What host events stand for, and when a device's idle time may be blamed on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tpuprof
from tpuprof.tables.hostwork import HOST_CAUSES, cause_of
from tpuprof.testing import TraceBuilder

US = 1_000_000


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("TfrtTpuCompiler::Compile", "compile"),
        ("$compiler.py:327 backend_compile", "compile"),
        ("PythonRefManager::CollectGarbage", "garbage_collection"),
        ("save_checkpoint step 3", "checkpoint"),
        ("tpu::System::TransferFromDevice=>IssueEvent", "host_sync"),
        ("$array.py:630 _value", "host_sync"),
        ("hipMemcpyDtoHAsync", "host_sync"),
        ("tpu::System::TransferToDevice", "input"),
        ("cuMemcpyHtoDAsync_v2", "input"),
        ("$pipeline.py:10 next_batch", "input"),
        ("PjitFunction(train_step)", "dispatch"),
        ("CommonPjRtLoadedExecutable::Execute (jit_step)", "dispatch"),
        ("DoEnqueueProgram", "dispatch"),
        ("hipModuleLaunchKernel", "dispatch"),
        ("$train.py:12 main", "host_python"),
        ("ThunkExecutor::Execute", None),
        ("Rendezvous", None),
        ("train", None),
        ("", None),
    ],
)
def test_names_of_host_events(name: str, cause: str | None) -> None:
    row = cause_of(name)
    assert (HOST_CAUSES[row] if row >= 0 else None) == cause


START = 10_000  # us
AHEAD = 5_000  # us by which the host's clock is ahead of the device's


def run(
    tmp_path: Path, *, ahead: Callable[[int], int] | int = AHEAD * US, host_late: int = 0, linked: bool = True
) -> Any:
    """Four steps of 1000 us of which the device works for 400; the host loads data, then dispatches.

    The gap is [400, 1000); the host is in the input pipeline in [450, 750) and dispatches in [700, 950).
    """
    trace = TraceBuilder()
    host = trace.add_host("h").add_task_environment(1_700_000_000_000_000_000, 1_700_000_001_000_000_000)
    tpu = host.add_tpu(0)
    tpu.host_minus_device_ps = ahead
    steps = tpu.add_line("Steps", clock="mapped")
    ops = tpu.add_line("XLA Ops", clock="device")
    python = host.add_thread("python")
    for k in range(4):
        begin = START + 1000 * k
        steps.event(str(k), begin, 1000)
        for part in range(4):
            ops.event(f"copy.{part}", begin + 100 * part, 100, meta={"hlo_category": "copy"})
        on_host = begin + AHEAD + host_late
        python.step(k if linked else 100 + k, on_host - 20, 990)
        python.event("next_batch", on_host + 450, 300)
        python.event("PjitFunction(f)", on_host + 700, 250)
    trace.write(tmp_path)
    return tpuprof.load(tmp_path)


def causes(trace: Any) -> dict[str, float | None]:
    return {name: ps and ps / US for name, ps in trace.breakdown()["idle_causes"].items() if ps != 0}


def test_a_gap_is_divided_over_everything_the_host_did(tmp_path: Path) -> None:
    trace = run(tmp_path)
    assert causes(trace) == {"input_ps": 300, "dispatch_ps": 200, "unexplained_ps": 100}
    assert [entry.id for entry in trace.quality] == ["lead_in"]  # a second was recorded


def test_device_work_before_its_launch_shows_the_offset(tmp_path: Path) -> None:
    # The host's events lie 3 ms late: the device seems to work 2.98 ms before it was told to.
    trace = run(tmp_path, host_late=3000)
    (note,) = [entry for entry in trace.quality if entry.id != "lead_in"]
    assert (note.id, note.scope["offset_ps"]) == ("host_device_offset", -2980 * US)
    # Moved by that much the host lies 20 us late: its spans are [470, 770) and [720, 970), all in the gap.
    assert causes(trace) == {"input_ps": 300, "dispatch_ps": 200, "unexplained_ps": 100}


def test_without_any_link_nothing_is_blamed_on_the_host(tmp_path: Path) -> None:
    trace = run(tmp_path, linked=False)
    found = causes(trace)
    assert {name for name, ps in found.items() if ps is None} == {
        f"{name}_ps" for name in (*HOST_CAUSES, "unexplained")
    }
    assert "links device work" in trace.breakdown()["idle_causes_reason"]


def test_a_jumping_mapping_between_the_clocks_is_no_basis(tmp_path: Path) -> None:
    trace = run(tmp_path, ahead=lambda ps: AHEAD * US + (ps // (100 * US) % 5) * 100 * US)
    assert causes(trace)["input_ps"] is None
    assert "uncertain by" in trace.breakdown()["idle_causes_reason"]


def test_a_drifting_clock_is_followed(tmp_path: Path) -> None:
    trace = run(tmp_path, ahead=lambda ps: AHEAD * US + ps // 100_000)
    found = causes(trace)
    assert found["input_ps"] == pytest.approx(300, abs=1)
    assert found["dispatch_ps"] == pytest.approx(200, abs=1)


def test_what_the_host_does_while_the_device_works_costs_nothing(tmp_path: Path) -> None:
    # The host is 450 us earlier: it loads in [0, 300) and dispatches in [250, 500) of each step.
    assert causes(run(tmp_path, host_late=-450)) == {"dispatch_ps": 100, "unexplained_ps": 500}
