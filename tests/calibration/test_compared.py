"""A run against a plan: the layout in use, what others should gain, and when nothing can be said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.calibration.made import job_of, run_of
from tpuprof.calibration import ShownLayout, ShownRun, compared, shown_by
from tpuprof.calibration.compared import Comparison, groups_of, uncertainty
from tpuprof.calibration.shown import GROUPS
from tpuprof.errors import UsageError
from tpuprof.hardware import parse_slice
from tpuprof.plan import load_model, model_flops, remat_policy
from tpuprof.plan.train_layout import Job, Layout
from tpuprof.plan.train_profile import efficiency
from tpuprof.plan.train_search import POLICIES, Candidate, Plan, search
from tpuprof.plan.train_step import StepEstimate, estimate
from tpuprof.testing import TraceBuilder
from tpuprof.trace import load

WHERE = parse_slice("v6e:2x4")
POLICY = remat_policy("block-inputs")
JOB = Job(load_model("llama3-8b"), 16, 8192, POLICY)
USED = Layout(fsdp=4, tensor=2)
FLOPS = model_flops(JOB.model, JOB.sequences, JOB.sequence).training / WHERE.n_devices
COMMAND = ["python", "-m", "trainer", "model_name=llama3-8b", "per_device_batch_size=2", "--max-seq-len", "8192"]


@pytest.fixture(scope="module")
def step() -> StepEstimate:
    return estimate(JOB, USED, WHERE)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return search(JOB, WHERE, policies=[POLICY])


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, step: StepEstimate) -> ShownRun:
    """A run whose computation is 1.2 times the predicted one, and its communication as predicted."""
    parts = groups_of(step)
    session = job_of(
        tmp_path_factory.mktemp("job"), FLOPS, 1.2 * parts["compute"], parts["communication"], idle_s=0.05,
        command=COMMAND,
    )  # fmt: skip
    return shown_by(load(str(session)))


def test_what_a_run_shows(shown: ShownRun, step: StepEstimate) -> None:
    assert (shown.chip.name, shown.where.shape) == ("v6e", (2, 4))  # type: ignore[union-attr]
    assert shown.layout.layout == USED
    assert shown.layout.source == "the mesh that the program names"
    assert shown.layout.axes == {"fsdp": 4, "tensor": 2}
    assert tuple(shown.parts_s) == GROUPS
    assert sum(shown.parts_s.values()) == pytest.approx(shown.step_s)
    assert shown.parts_s["compute"] == pytest.approx(1.2 * groups_of(step)["compute"])
    assert shown.parts_s["idle"] == pytest.approx(0.05)
    assert shown.flops_per_device == pytest.approx(FLOPS, rel=1e-3)
    assert shown.remat_share == 0
    assert (shown.command.model.name, shown.command.sequence, shown.command.sequences) == (  # type: ignore[union-attr]
        "llama3-8b", 8192, 16,
    )  # fmt: skip


def test_the_layout_in_use_is_expected_to_take_what_was_measured(shown: ShownRun, plan: Plan) -> None:
    found = compared(shown, replace(plan, candidates=(_of(plan, USED),)), USED, policy=POLICY)
    (one,) = found.changes
    assert one.expected_s == pytest.approx(shown.step_s)
    assert (one.low_s, one.high_s) == (pytest.approx(shown.step_s), pytest.approx(shown.step_s))
    assert one.gain == pytest.approx(0, abs=1e-9)
    assert not one.sure
    assert one.why == "the layout in use"
    assert found.in_use.error == pytest.approx(estimate(JOB, USED, WHERE).seconds / shown.step_s - 1)
    assert found.flops_ratio == pytest.approx(1, rel=1e-3)


def test_gains_start_from_the_measured_parts(shown: ShownRun, plan: Plan, step: StepEstimate) -> None:
    found = compared(shown, plan, USED, policy=POLICY)
    one = found.changes[0]
    before, after = groups_of(step), groups_of(plan.candidates[0].step)
    # What the run would take: 1.2 times the computation of the other layout, its communication, and as much idle time.
    truth = 1.2 * after["compute"] + after["communication"] + 0.05
    assert one.expected_s == pytest.approx(truth)
    assert one.gain == pytest.approx(1 - truth / shown.step_s)
    assert one.low_s < truth < one.high_s
    assert one.parts_s == pytest.approx(
        {"compute": 1.2 * after["compute"], "communication": after["communication"], "waiting": 0, "copies": 0,
         "idle": 0.05}
    )  # fmt: skip
    assert after["communication"] < before["communication"]
    assert "communication -" in one.why
    assert "most of it tensor_gather" in one.why
    assert one.candidate.step.layout.text() in found.verdict
    assert all(change.sure == (change.high_s < shown.step_s) for change in found.changes)


def test_the_policy_in_use_is_told_by_repeated_flops(shown: ShownRun, plan: Plan) -> None:
    told = compared(shown, plan, USED).in_use.policy  # nothing is repeated: the first that repeats nothing
    assert told.startswith(f"{POLICIES[0]}, whose share of repeated FLOPs")
    repeated = model_flops(JOB.model, 16, 8192, masking="causal", remat=POLICY)
    share = 1 - repeated.training / repeated.hardware
    found = compared(replace(shown, remat_share=share), plan, USED)
    assert found.in_use.candidate.job.policy.name == "block-inputs"  # type: ignore[union-attr]
    assert "is assumed" in compared(replace(shown, remat_share=None), plan, USED).in_use.policy


def test_an_unknown_layout_leaves_predictions_by_themselves(shown: ShownRun, plan: Plan) -> None:
    found = compared(shown, plan, None)
    assert found.in_use.candidate is None
    one = found.changes[0]
    assert one.parts_s is None
    assert one.expected_s == plan.candidates[0].seconds
    assert (one.low_s, one.high_s) == (plan.candidates[0].step.low, plan.candidates[0].step.high)
    assert "layout in use is not known" in one.why


def test_an_impossible_layout_in_use_says_why(shown: ShownRun, plan: Plan) -> None:
    found = compared(shown, plan, Layout(fsdp=3))
    assert "it needs 3 devices, not 8" in found.in_use.reason


def test_no_gain_is_given_for_a_plan_of_another_job(shown: ShownRun, plan: Plan) -> None:
    for wrong in (replace(shown, flops_per_device=FLOPS / 3), replace(shown, flops_per_device=3 * FLOPS)):
        found = compared(wrong, plan, USED, policy=POLICY)
        assert not found.changes
        assert "it is another job" in found.withheld
    parts = {**shown.parts_s, "compute": shown.parts_s["compute"] / 5}
    slow = compared(replace(shown, parts_s=parts, flops_per_device=None), plan, USED, policy=POLICY)
    assert not slow.changes
    assert "no plan of what ran" in slow.verdict
    near = compared(replace(shown, flops_per_device=1.5 * FLOPS), plan, USED, policy=POLICY)
    assert near.changes
    assert any("1.5 times the FLOPs" in warning for warning in near.warnings)


def test_what_no_layout_changes_is_said(shown: ShownRun, plan: Plan) -> None:
    parts = {**shown.parts_s, "idle": shown.step_s}
    found = compared(replace(shown, parts_s=parts, step_s=2 * shown.step_s), plan, USED, policy=POLICY)
    assert any("idle time and waiting" in warning for warning in found.warnings)
    assert "10%" in uncertainty(efficiency("v6e"))


def test_verdicts_without_a_gain(shown: ShownRun, plan: Plan) -> None:
    empty = compared(shown, replace(plan, candidates=()), USED, policy=POLICY)
    assert "nothing to change to" in empty.verdict
    slower = [one for one in plan.candidates if one.seconds > 1.2 * plan.candidates[0].seconds]
    worse = compared(shown, replace(plan, candidates=tuple(slower[-2:])), USED, policy=POLICY)
    assert "None of the first 2" in worse.verdict


def test_a_layout_that_ran_and_should_not_fit_is_a_warning(shown: ShownRun, plan: Plan) -> None:
    found: Comparison = compared(shown, plan, USED, policy=remat_policy("everything"))
    assert found.in_use.candidate.step.fits is False  # type: ignore[union-attr]
    assert any("predicted not to fit" in warning for warning in found.warnings)


def test_axes_of_a_mesh_become_a_layout(tmp_path: Path) -> None:
    def layout(axes: tuple[str, str], roles: dict[str, str] | None = None) -> ShownLayout:
        where = tmp_path / "-".join(axes) / str(len(roles or {}))
        where.mkdir(parents=True)
        return shown_by(load(str(job_of(where, FLOPS, 1.0, 0.1, axes=axes))), axes=roles).layout

    # Something is gathered along the first axis, so that "data" is no axis of plain replicas.
    assert layout(("data", "model")).layout == USED
    assert layout(("fsdp", "expert")).layout == Layout(fsdp=8, expert=2)
    assert layout(("fsdp", "stage")).layout == Layout(fsdp=4, pipeline=2, accumulation=2)
    unknown = layout(("left", "right"))
    assert unknown.layout is None
    assert "'left' of 4" in unknown.reason
    assert "--axis left=" in unknown.reason
    named = layout(("left", "right"), {"left": "data", "right": "context"})
    assert named.layout == Layout(data=4, context=2)


def test_a_mesh_of_the_sidecar_serves_where_no_program_names_one(tmp_path: Path) -> None:
    trace = run_of(tmp_path)
    nameless = replace(
        trace, metadata={"meshes": [{"axes": {"tp": 8}, "bytes": 5}, {"axes": {"fsdp": 8}, "bytes": 9}, {"axes": 3}]},
        built=replace(trace.built, infos=tuple(replace(info, program=None) for info in trace.built.infos)),
    )  # fmt: skip
    assert shown_by(nameless).layout.layout == Layout(fsdp=8)
    assert "sidecar" in shown_by(nameless).layout.source
    alone = replace(nameless, metadata={"meshes": "nonsense"})
    assert "neither the programs nor the sidecar" in shown_by(alone).layout.reason
    other = replace(nameless, metadata={"meshes": [{"axes": {"fsdp": 4}}]})
    assert "meshes of 4 devices" in shown_by(other).layout.reason


def test_a_run_without_a_step_is_no_start(tmp_path: Path) -> None:
    trace = TraceBuilder()
    tpu = trace.add_host("h").add_tpu(0, "TPU v6 lite")
    tpu.add_line("XLA Ops").event("fusion.1", 0, 90, meta={"hlo_category": "loop fusion"})
    with pytest.raises(UsageError, match="no step that counts"):
        shown_by(load(trace.write(tmp_path)))


def _of(plan: Plan, layout: Layout) -> Candidate:
    return next(one for one in plan.candidates if one.step.layout == layout)
