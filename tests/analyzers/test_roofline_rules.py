"""Rules that set a run against its hardware: which fires, for exactly how much, and what stays silent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuprof_analyzers.costed import free_size, matmul_of_shape

from tests.analyzers.builtin import builtin
from tests.inputs import changes, clean
from tests.roofline.made import MATMUL, MATMUL_FLOPS, US, Op, matmul_run, run_of
from tpuprof.analysis import Context, Finding
from tpuprof.hlo.cost import MatmulShape
from tpuprof.perfmodel.matmul import Matmul
from tpuprof.registry import Analysis, analyze_context
from tpuprof.roofline import HardwareOptions
from tpuprof.testing.values import Ref
from tpuprof.trace import Trace, load

PEAK, HBM = 197e12, 819e9  # of a v5e
OURS = ("matmul_shapes", "remat", "roofline")


def analysis_of(trace: Trace, **hardware: Any) -> Analysis:
    context = Context(trace, hardware=HardwareOptions(**hardware))
    return analyze_context(context, [found for found in builtin() if found.name in OURS])


def found(trace: Trace, **hardware: Any) -> dict[str, Finding]:
    analysis = analysis_of(trace, **hardware)
    assert {outcome.status for outcome in analysis.outcomes} == {"ran"}
    return {finding.rule: finding for finding in analysis.findings}


def evidence(finding: Finding) -> dict[str, Any]:
    return {item.name: item.value for item in finding.evidence}


def product(m: int, k: int, n: int, dtype: str = "bf16", more: str = "") -> str:
    return f"""HloModule jit_f, is_scheduled=true, num_partitions=1

ENTRY %main (a: {dtype}[{m},{k}], w: {dtype}[{k},{n}]) -> {dtype}[{m},{n}] {{
  %a = {dtype}[{m},{k}]{{1,0}} parameter(0)
  %w = {dtype}[{k},{n}]{{1,0}} parameter(1)
  ROOT %dot.1 = {dtype}[{m},{n}]{{1,0}} dot(%a, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}{more}
}}
"""


def one(directory: Path, text: str, us: float, step_us: float, op: str = "dot.1", category: str = "") -> Trace:
    """One op per step of so many microseconds."""
    ops: list[Op] = [(op, 0, round(us * US), category or "convolution")]
    return run_of(directory, text, ops, round(step_us * US))


def test_padding_costs_what_the_bound_loses_by_it(tmp_path: Path) -> None:
    # k = 320 is padded to 384: a sixth of the work of an op that arithmetic bounds with or without it.
    rules = found(one(tmp_path, product(4096, 320, 4096), 120, 200))
    assert set(rules) == {"TPU211"}
    finding = rules["TPU211"]
    assert finding.impact_ps == pytest.approx(20 * US)
    assert (finding.severity, finding.confidence) == ("warning", "medium")
    (row,) = evidence(finding)["matmuls"]
    assert (row["shape"], row["free_size"]) == ("4096 x 320 x 4096 bf16", "4096 x 384 x 4096")
    assert row["padding_waste"] == pytest.approx(1 / 6)
    assert evidence(finding)["mxu_size"] == 128
    assert "4096 x 320 x 4096 bf16, 17 % padding" in finding.message
    assert finding.scope["op"] == "dot.1"


@pytest.mark.parametrize("k", [384, 64])
def test_padding_that_costs_nothing_is_silent(k: int, tmp_path: Path) -> None:
    """384 is a multiple; with 64 half of the unit is idle, but memory bounds the op anyway."""
    assert "TPU211" not in found(one(tmp_path, product(4096, k, 4096), 100, 200))


def test_padding_below_the_floor_is_silent(tmp_path: Path) -> None:
    # 1/6 of 120 us in a step of 1100 us are 1.8 %.
    assert found(one(tmp_path, product(4096, 320, 4096), 120, 1100)) == {}


def test_few_rows_per_copy_of_the_weights(tmp_path: Path) -> None:
    rules = found(one(tmp_path, product(16, 4096, 4096), 50, 100))
    assert set(rules) == {"TPU212"}
    compute, memory = 2 * 16 * 4096**2 / PEAK, 2 * (2 * 16 * 4096 + 4096**2) / HBM
    assert rules["TPU212"].impact_ps == pytest.approx(50 * US * (1 - compute / memory))
    (row,) = evidence(rules["TPU212"])["matmuls"]
    assert row["rows"] == 16
    # From here on both times are the same.
    rows = row["critical_rows"]
    assert rows == pytest.approx(272.6, abs=0.1)
    assert 2 * rows * 4096**2 / PEAK == pytest.approx(2 * (2 * rows * 4096 + 4096**2) / HBM)
    assert "16 rows, v5e needs 273" in rules["TPU212"].message


def test_weights_on_the_left_are_the_same(tmp_path: Path) -> None:
    rules = found(one(tmp_path, product(4096, 4096, 16), 50, 100))
    assert evidence(rules["TPU212"])["matmuls"][0]["rows"] == 16


def test_enough_rows_are_silent(tmp_path: Path) -> None:
    assert found(one(tmp_path, product(512, 4096, 4096), 100, 100)) == {}


def test_a_product_that_no_batch_helps_is_memory_bound(tmp_path: Path) -> None:
    memory = 2 * (2 * 4096 * 64 + 4096**2) / HBM * 1e12
    rules = found(one(tmp_path, product(4096, 64, 4096), 60, 100))
    assert set(rules) == {"TPU222"}
    assert rules["TPU222"].impact_ps == 60 * US
    slow = found(one(tmp_path / "slow", product(4096, 64, 4096), 100, 100))
    assert slow["TPU221"].impact_ps == pytest.approx(100 * US - memory)
    assert slow["TPU222"].impact_ps == pytest.approx(memory)


def test_a_product_far_below_its_compute_bound(tmp_path: Path) -> None:
    bound = MATMUL_FLOPS / PEAK * 1e12
    rules = found(matmul_run(tmp_path, MATMUL_FLOPS / 400e-6))
    assert set(rules) == {"TPU213"}
    assert rules["TPU213"].impact_ps == pytest.approx(400 * US - bound)
    (row,) = evidence(rules["TPU213"])["matmuls"]
    assert row["efficiency"] == pytest.approx(bound / (400 * US))
    assert row["achieved_flops"] == pytest.approx(MATMUL_FLOPS / 400e-6)
    assert found(matmul_run(tmp_path / "half", MATMUL_FLOPS / 300e-6)) == {}


def test_padding_is_no_slowness(tmp_path: Path) -> None:
    # 48 % of the bound without padding, 57 % with it.
    compute = 2 * 4096 * 320 * 4096 / PEAK * 1e6
    rules = found(one(tmp_path, product(4096, 320, 4096), compute / 0.48, compute / 0.48))
    assert set(rules) == {"TPU211"}


HIGHEST = ", operand_precision={highest,highest}"


def test_float32_at_highest_precision(tmp_path: Path) -> None:
    rules = found(one(tmp_path, product(4096, 1024, 3584, "f32", HIGHEST), 1000, 1000))
    assert set(rules) == {"TPU214"}
    # Six passes or one.
    assert rules["TPU214"].impact_ps == pytest.approx(1000 * US * 5 / 6)
    assert evidence(rules["TPU214"])["matmuls"][0]["shape"] == "4096 x 1024 x 3584 f32@highest"


def test_float32_weights_that_memory_bounds(tmp_path: Path) -> None:
    rules = found(one(tmp_path, product(16, 4096, 4096, "f32"), 100, 100))
    assert set(rules) == {"TPU212", "TPU214"}
    # Both inputs lose half of their bytes, the output keeps its own.
    inputs, output = 4 * (16 * 4096 + 4096**2), 4 * 16 * 4096
    assert rules["TPU214"].impact_ps == pytest.approx(100 * US * (inputs / 2) / (inputs + output))


@pytest.mark.parametrize("more", ["", ", algorithm=dot_bf16_bf16_f32"])
def test_float32_in_one_pass_is_silent(more: str, tmp_path: Path) -> None:
    assert found(one(tmp_path, product(4096, 1024, 3584, "f32", more), 200, 200)) == {}


def test_bf16_at_highest_is_silent(tmp_path: Path) -> None:
    assert found(one(tmp_path, product(4096, 1024, 3584, "bf16", HIGHEST), 200, 200)) == {}


LOOP = """HloModule jit_f, is_scheduled=true, num_partitions=1

%fused (p: FROM[4096,1024]) -> TO[4096,1024] {
  %p = FROM[4096,1024]{1,0} parameter(0)
BODY
}

ENTRY %main (a: FROM[4096,1024]) -> TO[4096,1024] {
  %a = FROM[4096,1024]{1,0} parameter(0)
  ROOT %fusion.1 = TO[4096,1024]{1,0SPACE} fusion(%a), kind=kLoop, calls=%fused
}
"""


def loop(body: str, narrow: str = "bf16", wide: str = "bf16", space: str = "") -> str:
    text = LOOP.replace("BODY", body).replace("FROM", narrow).replace("TO", wide)
    return text.replace("SPACE", space)


SQUARE = loop("  ROOT %m = bf16[4096,1024]{1,0} multiply(%p, %p)")
SQUARE_PS = 2 * 2 * 4096 * 1024 / HBM * 1e12


def test_an_elementwise_op_far_from_the_bandwidth(tmp_path: Path) -> None:
    rules = found(one(tmp_path, SQUARE, 400, 1000, "fusion.1", "loop fusion"))
    assert set(rules) == {"TPU221", "TPU222"}
    assert rules["TPU221"].impact_ps == pytest.approx(400 * US - SQUARE_PS)
    assert rules["TPU222"].impact_ps == pytest.approx(SQUARE_PS), "the rest is the other rule's"
    (row,) = evidence(rules["TPU221"])["ops"]
    assert row["achieved_hbm"] == pytest.approx(2 * 2 * 4096 * 1024 / 400e-6)
    assert row["efficiency"] == pytest.approx(SQUARE_PS / (400 * US))


def test_an_elementwise_op_at_the_bandwidth(tmp_path: Path) -> None:
    rules = found(one(tmp_path, SQUARE, 25, 100, "fusion.1", "loop fusion"))
    assert set(rules) == {"TPU222"}
    assert rules["TPU222"].impact_ps == 25 * US
    assert evidence(rules["TPU222"])["hbm_bytes_per_step"] == 2 * 2 * 4096 * 1024
    assert found(one(tmp_path / "little", SQUARE, 25, 1300, "fusion.1", "loop fusion")) == {}


def test_a_cast_alone_counts_whole(tmp_path: Path) -> None:
    text = loop("  ROOT %c = f32[4096,1024]{1,0} convert(%p)", wide="f32")
    rules = found(one(tmp_path, text, 40, 100, "fusion.1", "loop fusion"))
    assert set(rules) == {"TPU222", "TPU223"}
    assert rules["TPU223"].impact_ps == 40 * US
    (row,) = evidence(rules["TPU223"])["ops"]
    assert (row["from"], row["to"], row["extra_bytes"]) == ("bf16", "f32", 2 * 4096 * 1024)


def test_a_cast_at_the_end_of_work_counts_its_bytes(tmp_path: Path) -> None:
    body = "  %m = bf16[4096,1024]{1,0} multiply(%p, %p)\n  ROOT %c = f32[4096,1024]{1,0} convert(%m)"
    rules = found(one(tmp_path, loop(body, wide="f32"), 42, 100, "fusion.1", "loop fusion"))
    # 2 bytes in and 4 out, of which 2 are too many.
    assert rules["TPU223"].impact_ps == pytest.approx(42 * US / 3)


@pytest.mark.parametrize(
    "text",
    [
        loop("  ROOT %c = bf16[4096,1024]{1,0} convert(%p)", narrow="f32"),
        loop("  %c = f32[4096,1024]{1,0} convert(%p)\n  ROOT %m = f32[4096,1024]{1,0} multiply(%c, %c)", wide="f32"),
        loop("  ROOT %c = f32[4096,1024]{1,0} convert(%p)", wide="f32", space=":S(1)"),
        loop("  ROOT %c = f32[4096,1024]{1,0} convert(%p)", narrow="s8", wide="f32"),
        loop("  ROOT %c = f32[4096,1024]{1,0} convert(%p)", wide="f32").replace("4096,1024", "512,1023"),
    ],
    ids=["narrower", "computed wide", "to VMEM", "integers", "below 1 MiB"],
)
def test_what_is_no_widening(text: str, tmp_path: Path) -> None:
    assert "TPU223" not in found(one(tmp_path, text, 42, 42, "fusion.1", "loop fusion"))


def test_a_cast_that_stands_alone_in_a_program(tmp_path: Path) -> None:
    text = """HloModule jit_f, is_scheduled=true, num_partitions=1

ENTRY %main (a: bf16[4096,1024]) -> f32[4096,1024] {
  %a = bf16[4096,1024]{1,0} parameter(0)
  ROOT %convert.1 = f32[4096,1024]{1,0} convert(%a)
}
"""
    rules = found(one(tmp_path, text, 40, 100, "convert.1", "convert"))
    assert rules["TPU223"].impact_ps == 40 * US


def test_a_kernel_without_a_cost_model_has_no_impact(tmp_path: Path) -> None:
    rules = found(load(changes.f21(tmp_path, "no_cost")))
    finding = rules["TPU224"]
    assert (finding.impact_ps, finding.impact_fraction, finding.severity) == (None, None, "info")
    assert evidence(finding)["fraction"] == pytest.approx(0.3)
    (row,) = evidence(finding)["kernels"]
    assert (row["op"], row["per_step_ps"]) == ("fusion.2", 300 * US)
    assert "300 us of a step of 1 ms (30.00 %)" in finding.message
    assert "register_formula" in finding.suggestion
    assert "TPU224" not in found(load(changes.f21(tmp_path / "estimate", "estimate")))


REMAT = MATMUL.replace(
    "rhs_contracting_dims={0}",
    'rhs_contracting_dims={0}, metadata={op_name="jit(f)/checkpoint/rematted_computation/dot_general"}',
)


def test_recomputation(tmp_path: Path) -> None:
    text = REMAT.replace("ROOT %dot.1", "%dot.1").replace(
        "\n}",
        "\n  ROOT %dot.2 = bf16[4096,3584]{1,0} dot(%a, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}",
    )
    ops: list[Op] = [("dot.1", 0, 200 * US, "convolution"), ("dot.2", 200 * US, 200 * US, "convolution")]
    rules = found(run_of(tmp_path, text, ops, 500 * US))
    assert set(rules) == {"TPU231"}
    finding = rules["TPU231"]
    assert (finding.impact_ps, finding.severity) == (200 * US, "info")
    assert evidence(finding)["remat_flops_fraction"] == pytest.approx(0.5)
    assert evidence(finding)["scopes"][0]["per_step_ps"] == 200 * US
    assert "50.00 % of the FLOPs" in finding.message
    assert "TPU231" not in found(matmul_run(tmp_path / "none", 150e12))


def test_recomputation_needs_no_hardware(tmp_path: Path) -> None:
    trace = run_of(tmp_path, REMAT, [("dot.1", 0, 200 * US, "convolution")], 500 * US, kind="TPU v9x")
    analysis = analysis_of(trace)
    assert [finding.rule for finding in analysis.findings] == ["TPU231"]
    reasons = {outcome.name: outcome.reasons for outcome in analysis.outcomes}
    assert reasons["remat"] == ()
    for name in ("matmul_shapes", "roofline"):
        assert "TPU v9x is not a known device" in reasons[name][0]


def test_hardware_that_the_user_names_counts(tmp_path: Path) -> None:
    trace = run_of(tmp_path, MATMUL, [("dot.1", 0, 400 * US, "convolution")], 400 * US, kind="TPU v9x")
    assert set(found(trace, chip="v5e")) == {"TPU213"}
    assert found(trace, peaks=("bf16=100T",)) == {}


def test_rates_above_the_peak_make_findings_doubtful(tmp_path: Path) -> None:
    rules = found(load(clean.f00(tmp_path)))
    assert rules["TPU221"].impact_ps == pytest.approx(400 * US - SQUARE_PS)
    assert {finding.confidence for finding in rules.values()} == {"low"}, "the copy is faster than the memory"


def test_ops_faster_than_their_bound_give_no_findings(tmp_path: Path) -> None:
    # Padded and float32 at once, but measured at ten times the peak.
    trace = one(tmp_path, product(4096, 320, 4096, "f32", HIGHEST), 5, 100)
    assert found(trace) == {}


def test_impacts_of_one_op_stay_below_its_time(tmp_path: Path) -> None:
    trace = one(tmp_path, product(8, 320, 4000, "f32", HIGHEST), 100, 100)
    for finding in found(trace).values():
        assert finding.impact_ps is not None
        assert 0 < finding.impact_ps <= 100 * US


def test_ops_of_two_streams_share_the_time_of_the_step(tmp_path: Path) -> None:
    """Two kernels of 400 us at the same time take 400 us of a step, so that none can gain more than its half."""
    builder = clean.f00_trace()
    host = builder["hostA"].drop_plane(clean.TPU)
    gpu = host.add_gpu(0)
    for stream, name in enumerate(("fusion.1", "fusion.2")):
        line = gpu.add_line(f"Stream #{stream}(compute)", timestamp_ns=clean.DEVICE_NS)
        facts = {
            "hlo_op": Ref(name),
            "hlo_module": Ref(clean.TRAIN_STEP.name),
            "program_id": clean.TRAIN_STEP.id,
        }
        for step in clean.STEPS:
            line.event(name, step * clean.STEP_US, 400, stats=facts)
    trace = load(builder.write(tmp_path))
    assert trace.breakdown()["parts"]["matmul_ps"] == 400 * US
    rules = found(trace, peaks=("bf16=200T,hbm=1e12",))
    bytes_ps, flops_ps = 2 * 2 * 4096 * 1024 / 1e12 * 1e12, MATMUL_FLOPS / 200e12 * 1e12
    assert rules["TPU221"].impact_ps == pytest.approx(200 * US * (1 - bytes_ps / (400 * US)))
    assert rules["TPU213"].impact_ps == pytest.approx(200 * US * (1 - flops_ps / (400 * US)))


sizes = st.integers(1, 5000)


@given(sizes, sizes, sizes, st.integers(1, 64), st.sampled_from([128, 256]))
def test_the_free_size_costs_the_same_and_wastes_nothing(m: int, k: int, n: int, batch: int, edge: int) -> None:
    shape = MatmulShape(batch, m, n, k, "bf16", "bf16", "bf16")
    free = free_size(shape, edge)
    bigger = Matmul(free[0], free[2], free[1], batch)
    assert all(new >= old for new, old in zip(free, (m, k, n), strict=True))
    assert bigger.padding_waste(edge) == 0
    assert bigger.flops == Matmul(m, n, k, batch).padded_flops(edge)


@given(sizes, sizes, sizes)
def test_the_rows_of_a_product_are_its_smaller_side(m: int, k: int, n: int) -> None:
    turned = matmul_of_shape(MatmulShape(1, m, n, k, "bf16", "f32", "bf16"))
    assert turned is not None
    assert (turned.m, turned.n, turned.k) == (min(m, n), max(m, n), k)
    assert turned.lhs_dtype == ("bf16" if m <= n else "f32")
    assert turned.flops == 2 * m * n * k


def test_a_product_without_a_size_has_no_rows() -> None:
    assert matmul_of_shape(MatmulShape(1, 0, 4, 4, "bf16", "bf16", "bf16")) is None
    assert matmul_of_shape(MatmulShape(1, 4, 4, 4, "token", "bf16", "bf16")) is None


@pytest.mark.real
def test_findings_of_real_traces(real_traces: Path) -> None:
    offload = found(load(real_traces / "v6e-4-host-offload"))
    assert set(offload) == {"TPU222"}, "at 80 % of the bandwidth the fusions can only move fewer bytes"
    assert offload["TPU222"].impact_fraction == pytest.approx(0.0307, abs=0.0001)
    assert offload["TPU222"].confidence == "high"
    assert found(load(real_traces / "v5e-1-matmul")) == {}, "the device works for 0.1 % of the step"
    prefill = found(load(real_traces / "v7x-2-prefill"), chip="tpu7x")
    assert set(prefill) == {"TPU221", "TPU224"}
    assert prefill["TPU221"].impact_fraction == pytest.approx(0.0209, abs=0.0001)
    assert evidence(prefill["TPU224"])["fraction"] == pytest.approx(0.254, abs=0.0005)
    assert "What 64 kernel(s) compute" in prefill["TPU224"].message
    gemms = found(load(real_traces / "mi300-gemm"), chip="MI300X")
    assert set(gemms) == {"TPU213"}
    assert [row["shape"] for row in evidence(gemms["TPU213"])["matmuls"]] == [
        "2048 x 8192 x 2048 bf16",
        "1024 x 1024 x 1024 bf16",
    ]


@pytest.mark.real
def test_a_real_trace_without_a_known_chip_says_so(real_traces: Path) -> None:
    outcomes = {outcome.name: outcome for outcome in analysis_of(load(real_traces / "v7x-2-prefill")).outcomes}
    assert "--chip" in outcomes["roofline"].reasons[0]
    assert outcomes["matmul_shapes"].reasons == outcomes["roofline"].reasons
