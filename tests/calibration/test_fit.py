"""Runs with planted constants: the fit must find them, and must say of the others why it does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.calibration import made
from tests.calibration.made import Planted, run_of
from tests.roofline import made as small
from tpuprof.calibration import Calibration, calibrate
from tpuprof.errors import UsageError
from tpuprof.plan.profiles import CHIP, SHARED
from tpuprof.plan.train_profile import efficiency
from tpuprof.roofline import HardwareOptions
from tpuprof.testing import TraceBuilder
from tpuprof.trace import load

MS = 10**9
SAMPLES = Path(__file__).parents[2] / "sample_traces"


def values(found: Calibration) -> dict[str, float]:
    """The fitted values by constant."""
    return {one.constant: one.value for one in found.fitted}


def reasons(found: Calibration) -> dict[str, str]:
    """Why constants are kept."""
    return {one.constant: one.reason for one in found.kept}


@pytest.mark.parametrize(
    "planted",
    [
        Planted(),
        Planted((0.9, 0.9), 0.3, 0.95, {"all_gather": 1.0, "all_reduce": 0.5}, exposed_s=1.5e-3),
        Planted(matmul=(1.0, 1.0), attention=1.0, memory=1.0, exposed_s=1.5e-3),
        Planted(matmul=(0.2, 0.2), attention=0.9, memory=0.3, exposed_s=0.0, idle_s=0.0, steps=1),
    ],
)
def test_what_was_planted_is_found(tmp_path: Path, planted: Planted) -> None:
    found = calibrate([run_of(tmp_path, planted)], "mine")
    known = values(found)
    assert known["chips.v6e.matmul"] == pytest.approx(planted.matmul[0], rel=1e-4)
    assert known["chips.v6e.attention"] == pytest.approx(planted.attention, rel=1e-4)
    assert known["chips.v6e.memory"] == pytest.approx(planted.memory, rel=1e-3)
    assert known["collectives.all_gather"] == pytest.approx(planted.reached["all_gather"], rel=1e-4)
    assert known["collectives.all_reduce"] == pytest.approx(planted.reached["all_reduce"], rel=1e-4)
    assert known["steps.idle_s"] == pytest.approx(planted.idle_s, abs=1e-9)
    paths = {(path.kind, path.axes): path.reached for path in found.paths}
    assert paths == {
        ("all_gather", "fsdp"): pytest.approx(planted.reached["all_gather"], rel=1e-4),
        ("all_reduce", "tensor"): pytest.approx(planted.reached["all_reduce"], rel=1e-4),
    }
    # The second gather runs beside the first matmul; the first one and the sum show as a whole.
    gather = made.gather_s(planted)
    window = min(gather, made.dot_s(0, planted) + planted.exposed_s)
    share = max(0.0, 1 - (gather + planted.exposed_s) / (gather + window))
    assert known["overlap.weights"] == pytest.approx(share, abs=1e-4)
    assert known["overlap.activations"] == 0
    assert "overlap.network" in reasons(found)


def test_every_constant_is_either_fitted_or_kept_with_a_reason(tmp_path: Path) -> None:
    found = calibrate([run_of(tmp_path)])
    both = [*values(found), *reasons(found)]
    wanted = {f"chips.v6e.{key}" for key in CHIP} | {f"{table}.{key}" for table in SHARED for key in SHARED[table]}
    assert sorted(both) == sorted(wanted)
    assert all(reasons(found).values())
    for one in found.fitted:
        assert one.samples >= 1
        assert one.seconds
        assert one.source
        assert (one.low is None) == (one.high is None)
    defaults = {one.constant: one.default for one in found.kept}
    assert defaults["chips.v6e.launch_s"] == efficiency("v6e").launch_s
    assert defaults["overlap.network"] == efficiency("v6e").overlap_network


def test_the_profile_carries_what_was_fitted_and_where_it_comes_from(tmp_path: Path) -> None:
    trace = run_of(tmp_path)
    found = calibrate([trace], "mine", now=datetime(2026, 1, 2, tzinfo=UTC))
    profile = found.profile
    made_of = profile.efficiency("v6e")
    assert (profile.name, profile.created) == ("mine", "2026-01-02T00:00:00Z")
    assert made_of.matmul == pytest.approx(0.7, rel=1e-4)
    assert made_of.reached("all_gather") == pytest.approx(0.9, rel=1e-4)
    assert made_of.reached("reduce_scatter") == 1
    assert made_of.idle_s == pytest.approx(2e-3)
    assert made_of.overlap_network == efficiency("v6e").overlap_network
    assert "median of the steps" in made_of.source_of("overlap.weights")
    (run,) = profile.notes["runs"]
    assert run["chip"] == "v6e"
    assert run["device_kind"] == "TPU v6 lite"
    assert len(run["digest"]) == 64
    # Another chip keeps its built-in efficiencies and gets the shared constants.
    other = profile.efficiency("v5p")
    assert other.matmul == efficiency("v5p").matmul
    assert other.idle_s == made_of.idle_s
    assert "matmul, attention, memory of v5p built in" in other.source


def test_ops_that_differ_count_by_their_time(tmp_path: Path) -> None:
    planted = Planted(matmul=(0.8, 0.4))
    (one,) = [c for c in calibrate([run_of(tmp_path, planted)]).fitted if c.constant == "chips.v6e.matmul"]
    # Nearly equal work: about a third of the time is at 0.8; a tenth of it all is left out at either end.
    fast, slow = (made.dot_s(which, planted) - made.LAUNCH for which in (0, 1))
    inside = fast / (fast + slow) - 0.1
    assert one.value == pytest.approx((inside * 0.8 + (0.8 - inside) * 0.4) / 0.8, rel=1e-3)
    assert (one.low, one.high) == (pytest.approx(0.4, rel=1e-4), pytest.approx(0.8, rel=1e-4))


def test_a_stall_of_one_step_counts_as_no_efficiency(tmp_path: Path) -> None:
    found = calibrate([run_of(tmp_path, Planted(stall_s=0.5))])
    assert values(found)["chips.v6e.matmul"] == pytest.approx(0.7, rel=1e-4)


def test_waiting_for_a_late_core_is_no_communication(tmp_path: Path) -> None:
    found = calibrate([run_of(tmp_path, Planted(late_s=5e-3))])
    known = values(found)
    assert known["collectives.all_gather"] == pytest.approx(0.9, rel=1e-3)
    # Seven of eight cores wait, the eighth is idle as long.
    assert known["steps.idle_s"] == pytest.approx(7e-3, rel=1e-3)


def test_axes_whose_names_tell_nothing(tmp_path: Path) -> None:
    trace = run_of(tmp_path, Planted(axes=("left", "right")))
    found = calibrate([trace])
    assert "overlap.weights" not in values(found)
    assert "name its axes" in reasons(found)["overlap.weights"]
    named = calibrate([trace], axes={"left": "tensor", "right": "slices"})
    assert "overlap.weights" in reasons(named)
    assert values(named)["overlap.network"] == 0
    assert values(named)["overlap.activations"] > 0


def test_runs_count_together_and_only_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = run_of(tmp_path / "a"), run_of(tmp_path / "b", Planted(matmul=(0.5, 0.5), steps=1, kind="TPU v5p"))
    found = calibrate([one, other])
    assert [run.chip for run in found.runs] == ["v6e", "v5p"]
    assert "chips.v5p.matmul" in values(found)
    assert values(found)["chips.v6e.matmul"] == pytest.approx(0.7, rel=1e-4)
    with pytest.raises(UsageError, match="A run is given twice"):
        calibrate([one, one])
    with pytest.raises(UsageError, match="There is no run"):
        calibrate([])


def test_rates_above_the_peak_are_left_out_and_said(tmp_path: Path) -> None:
    planted = replace(Planted(matmul=(0.7, 1.3)), memory=2.5, reached={"all_gather": 8.0, "all_reduce": 0.8})
    found = calibrate([run_of(tmp_path, planted)])
    known = values(found)
    assert known["chips.v6e.matmul"] == pytest.approx(0.7, rel=1e-4)
    assert "faster than the hardware allows" in reasons(found)["chips.v6e.memory"]
    assert "faster than its links" in " ".join(one.reason for one in found.left_out)
    assert any("ran faster than the hardware allows" in note for note in found.notes)
    out = {(one.constant, one.names) for one in found.left_out}
    assert ("matmul", ("dot.2",)) in out
    assert ("memory", ("fusion.3",)) in out


def test_short_ops_tell_of_fixed_times(tmp_path: Path) -> None:
    text = small.MATMUL.replace("4096", "1024").replace("3584", "768")
    found = calibrate([small.run_of(tmp_path, text, [("dot.1", 0, 13 * small.US, "convolution")], 20 * small.US)])
    assert reasons(found)["chips.v5e.matmul"] == "1 op: too short: fixed times decide"


def test_a_chip_that_is_not_known(tmp_path: Path) -> None:
    trace = run_of(tmp_path, Planted(kind="TPU v9x"))
    found = calibrate([trace])
    assert not found.fitted
    assert "TPU v9x" in reasons(found)["chips.*.matmul"]
    assert reasons(found)["collectives.all_gather"] == reasons(found)["chips.*.matmul"]
    named = calibrate([trace], options=HardwareOptions(chip="v6e"))
    assert values(named)["chips.v6e.matmul"] == pytest.approx(0.7, rel=1e-4)


def test_cpus_and_gpus_have_no_training_plan(tmp_path: Path) -> None:
    found = calibrate([load(str(SAMPLES / "cpu_demo"))])
    assert not found.fitted
    assert "CPUs" in reasons(found)["chips.*.matmul"]
    given = calibrate([run_of(tmp_path)], options=HardwareOptions(chip="H100-SXM"))
    assert not given.fitted
    assert "training plans are for TPUs" in reasons(given)["steps.idle_s"]


def test_a_run_without_hlo_tells_little_and_says_so(tmp_path: Path) -> None:
    trace = TraceBuilder()
    tpu = trace.add_host("h").add_tpu(0, "TPU v6 lite")
    marks, line = tpu.add_line("Steps"), tpu.add_line("XLA Ops")
    marks.event("0", 0, 100)
    line.event("fusion.1", 0, 90, meta={"hlo_category": "convolution fusion"})
    found = calibrate([load(trace.write(tmp_path))])
    assert "its cost or the rate is not known" in reasons(found)["chips.v6e.matmul"]
    assert values(found) == {"steps.idle_s": pytest.approx(10e-6)}


def test_a_run_without_steps_or_without_ops(tmp_path: Path) -> None:
    trace = TraceBuilder()
    tpu = trace.add_host("h").add_tpu(0, "TPU v6 lite")
    tpu.add_line("XLA Ops").event("fusion.1", 0, 90, meta={"hlo_category": "loop fusion"})
    found = calibrate([load(trace.write(tmp_path / "a"))])
    assert "the run has no steps" in reasons(found)["steps.idle_s"]
    assert any("without steps all of the run counts" in note for note in found.notes)


def test_a_run_that_waits_has_no_idle_time_to_plan_with(tmp_path: Path) -> None:
    found = calibrate([run_of(tmp_path, Planted(idle_s=1.0))])
    assert "idle time: the run waits for something" in reasons(found)["steps.idle_s"]
    assert values(found)["chips.v6e.matmul"] == pytest.approx(0.7, rel=1e-4)


@pytest.mark.parametrize("name", ["tpu_loop_async", "tpu_two_hosts"])
def test_sample_traces_give_constants_that_can_be(name: str) -> None:
    found = calibrate([load(str(SAMPLES / name))])
    assert values(found)
    for one in found.fitted:
        assert one.value <= 1 or one.constant.startswith("collectives.")
    assert found.runs[0].steps == {"tpu_loop_async": 4, "tpu_two_hosts": 3}[name]


def test_where_all_computation_hides_something_the_share_is_not_told(tmp_path: Path) -> None:
    planted = Planted(matmul=(0.35, 0.7), reached={"all_gather": 0.4, "all_reduce": 0.8}, exposed_s=0.0)
    assert values(calibrate([run_of(tmp_path / "all", planted)]))["overlap.weights"] > 0
    alone = calibrate([run_of(tmp_path / "one", replace(planted, only_first=True))])
    assert "nearly all computation hides some" in reasons(alone)["overlap.weights"]


def test_time_that_two_collectives_show_together_counts_once(tmp_path: Path) -> None:
    pair = made.TEXT[made.TEXT.index("  %all-gather-start.2") : made.TEXT.index("  %dot.1 = ")]
    done = "  %all-gather-done.2 = bf16[134217728]{0} all-gather-done(%all-gather-start.2)\n"
    text = made.TEXT.replace("METADATA", made.QUOTED).replace("AXIS1", "fsdp").replace("AXIS2", "tensor")
    for part in (pair, done):
        part = part.replace("AXIS1", "fsdp").replace("AXIS2", "tensor")
        assert part in text
        text = text.replace(part, part + part.replace(".2", ".5").replace("channel_id=2", "channel_id=5"))
    ops = [
        ("all-gather-start.2", 0, 1, "all-gather"), ("all-gather-start.5", 1, 1, "all-gather"),
        ("dot.1", 2, 2 * MS, "convolution"), ("all-gather-done.2", 2 + 2 * MS, MS, "all-gather"),
        ("all-gather-done.5", 2 + 3 * MS, 1, "all-gather"), ("fusion.3", 3 + 3 * MS, 4 * MS, "loop fusion"),
    ]  # fmt: skip
    trace = small.run_of(tmp_path, text, ops, 8 * MS, kind="TPU v6 lite", cores=8)
    shown = trace.collectives[trace.collectives["step"] == 1]["exposed_ps"].sum() / 8
    assert shown == pytest.approx(2 * MS, rel=1e-3)  # the same millisecond twice
    # Their windows are longer than a gather takes; of both together one millisecond shows.
    both = 2 * made.expected("all_gather", 2 * made.GATHERED, 1)
    assert values(calibrate([trace]))["overlap.weights"] == pytest.approx(1 - 1e-3 / both, rel=1e-3)


def test_peaks_that_were_given_are_said_to_be_the_measure(tmp_path: Path) -> None:
    found = calibrate([run_of(tmp_path)], options=HardwareOptions(peaks=("bf16=1836T",)))
    assert values(found)["chips.v6e.matmul"] == pytest.approx(0.35, rel=1e-4)
    assert any("shares are of the peaks that were given" in note for note in found.notes)
