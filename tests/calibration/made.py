"""A training run whose ops take what the plan's formulas say for planted constants, so that a fit must find them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tpuprof.hardware import chip, parse_slice
from tpuprof.perfmodel.collective_time import collective_time
from tpuprof.perfmodel.matmul import Matmul
from tpuprof.testing import Program, TraceBuilder
from tpuprof.testing.values import Ps
from tpuprof.trace import Trace, load

PS = 1e12
LAUNCH = 1e-6
CORES = 8
V6E = chip("v6e")
PEAK = V6E.device_peak("bf16").value  # type: ignore[union-attr]
BANDWIDTH = V6E.device_hbm_bandwidth.value  # type: ignore[union-attr]
MXU = 256
ROWS, WIDTH, HIDDEN = 8192, 4000, 14336
"""4000 is not a multiple of the matrix unit: padding counts."""
GATHERED, SUMMED = 16384 * 8192, 16384 * 4096
Q = "bf16[2,8,4096,128]{3,2,1,0}"
BLOCKS = json.dumps({"xprof_metadata": json.dumps({"block_q": 1024, "block_kv": 1024})})
QUOTED = BLOCKS.replace("\\", "\\\\").replace('"', '\\"')

TEXT = """\
HloModule jit_train, is_scheduled=true, num_partitions=8, \
frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["AXIS1"=4, "AXIS2"=2]>}}

%sum (x: bf16[], y: bf16[]) -> bf16[] {
  %x = bf16[] parameter(0)
  %y = bf16[] parameter(1)
  ROOT %add = bf16[] add(bf16[] %x, bf16[] %y)
}

%loop (p0: bf16[268435456], p1: bf16[268435456]) -> bf16[268435456] {
  %p0 = bf16[268435456]{0} parameter(0)
  %p1 = bf16[268435456]{0} parameter(1)
  ROOT %add.9 = bf16[268435456]{0} add(bf16[268435456]{0} %p0, bf16[268435456]{0} %p1)
}

ENTRY %main (a: bf16[8192,4000], w: bf16[4000,14336], u: bf16[14336,4000], b: bf16[268435456], \
q: bf16[2,8,4096,128], m: s8[10], s: bf16[33554432], t: bf16[33554432], r: bf16[67108864]) -> bf16[8192,4000] {
  %a = bf16[8192,4000]{1,0} parameter(0)
  %w = bf16[4000,14336]{1,0} parameter(1)
  %u = bf16[14336,4000]{1,0} parameter(2)
  %b = bf16[268435456]{0} parameter(3)
  %q = bf16[2,8,4096,128]{3,2,1,0} parameter(4)
  %m = s8[10]{0} parameter(5)
  %s = bf16[33554432]{0} parameter(6)
  %t = bf16[33554432]{0} parameter(7)
  %r = bf16[67108864]{0} parameter(8)
  %all-gather.1 = bf16[134217728]{0} all-gather(%s), dimensions={0}, channel_id=1, \
replica_groups=mesh['AXIS1'=4,'AXIS2'=2] {'AXIS1'}, use_global_device_ids=true
  %all-gather-start.2 = (bf16[33554432]{0}, bf16[134217728]{0}) all-gather-start(%t), dimensions={0}, channel_id=2, \
replica_groups=mesh['AXIS1'=4,'AXIS2'=2] {'AXIS1'}, use_global_device_ids=true
  %dot.1 = bf16[8192,14336]{1,0} dot(%a, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %all-gather-done.2 = bf16[134217728]{0} all-gather-done(%all-gather-start.2)
  %splash_mha_fwd.1 = bf16[2,8,4096,128]{3,2,1,0} custom-call(%m, %q, %q, %q), custom_call_target="tpu_custom_call", \
operand_layout_constraints={s8[10]{0}, bf16[2,8,4096,128]{3,2,1,0}, bf16[2,8,4096,128]{3,2,1,0}, \
bf16[2,8,4096,128]{3,2,1,0}}, frontend_attributes={kernel_metadata="METADATA"}
  %fusion.3 = bf16[268435456]{0} fusion(%b, %b), kind=kLoop, calls=%loop
  %all-reduce.4 = bf16[67108864]{0} all-reduce(%r), channel_id=3, \
replica_groups=mesh['AXIS1'=4,'AXIS2'=2] {'AXIS2'}, use_global_device_ids=true, to_apply=%sum
  ROOT %dot.2 = bf16[8192,4000]{1,0} dot(%dot.1, %u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


@dataclass(frozen=True)
class Planted:
    """Constants of a run.

    Args:
        matmul: of the two matmuls, one each.
        reached: expected over measured time by kind.
        exposed_s: of the asynchronous gather, in each step.
        idle_s: at the end of each step.
        late_s: by which core 0 comes late to the synchronous gather, so that the others wait.
        stall_s: by which the second step's first matmul is held up.
        only_first: nothing is computed but the first matmul.
    """

    matmul: tuple[float, float] = (0.7, 0.7)
    attention: float = 0.6
    memory: float = 0.72
    reached: Mapping[str, float] = field(default_factory=lambda: {"all_gather": 0.9, "all_reduce": 0.8})
    exposed_s: float = 1e-3
    idle_s: float = 2e-3
    late_s: float = 0.0
    stall_s: float = 0.0
    axes: tuple[str, str] = ("fsdp", "tensor")
    steps: int = 3
    kind: str = "TPU v6 lite"
    only_first: bool = False


def expected(kind: str, size: float, axis: int) -> float:
    """Seconds that are expected of a collective of the run, along its first or its second axis."""
    groups = [(0, 2, 4, 6), (1, 3, 5, 7)] if axis == 1 else [(0, 1), (2, 3), (4, 5), (6, 7)]
    found = collective_time(kind, size, parse_slice("v6e:2x4"), groups=groups).expected_s
    assert found is not None
    return found


def gather_s(planted: Planted) -> float:
    """Of the synchronous gather."""
    return expected("all_gather", 2 * GATHERED, 1) / planted.reached["all_gather"]


def reduce_s(planted: Planted) -> float:
    """Of the sum."""
    return expected("all_reduce", 2 * SUMMED, 2) / planted.reached["all_reduce"]


def dot_s(which: int, planted: Planted) -> float:
    """Of a matmul."""
    m, n, k = (ROWS, HIDDEN, WIDTH) if which == 0 else (ROWS, WIDTH, HIDDEN)
    return LAUNCH + Matmul(m, n, k).padded_flops(MXU) / (PEAK * planted.matmul[which])


def attention_s(planted: Planted) -> float:
    """Of the kernel: 10 of 16 blocks, heads of 128 padded to 256."""
    flops = 4 * 2 * 8 * 4096 * 4096 * 128 * 10 / 16
    return LAUNCH + 2 * flops / (PEAK * planted.attention)


def loop_s(planted: Planted) -> float:
    """Of the addition, which reads one operand and writes as much."""
    return LAUNCH + 2 * 2 * 268_435_456 / (BANDWIDTH * planted.memory)


def builder_of(planted: Planted) -> TraceBuilder:
    """The run as a trace that is not written yet."""
    text = TEXT.replace("METADATA", QUOTED).replace("AXIS1", planted.axes[0]).replace("AXIS2", planted.axes[1])
    program = Program("jit_train", 5, text)
    trace = TraceBuilder()
    host = trace.add_host("h")
    host.add_program(program)
    for core in range(CORES):
        tpu = host.add_tpu(core, planted.kind)
        marks, line = tpu.add_line("Steps"), tpu.add_line("XLA Ops")
        at = 0
        for step in range(planted.steps):
            start = at
            late = round(planted.late_s * PS)
            # Those of its group wait for core 0 in the gather, the others for these in the sum.
            mine, gather, total = (late if who else 0 for who in (core == 0, core in (2, 4, 6), core % 2))
            lengths = [
                ("all-gather.1", round(gather_s(planted) * PS) + gather, "all-gather"),
                ("all-gather-start.2", 1, "all-gather"),
                ("dot.1", round(dot_s(0, planted) * PS), "convolution"),
                ("all-gather-done.2", round(planted.exposed_s * PS), "all-gather"),
                ("splash_mha_fwd.1", round(attention_s(planted) * PS), "custom-call"),
                ("fusion.3", round(loop_s(planted) * PS), "loop fusion"),
                ("all-reduce.4", round(reduce_s(planted) * PS) + total, "all-reduce"),
                ("dot.2", round(dot_s(1, planted) * PS), "convolution"),
            ]
            at += mine
            if planted.only_first:
                lengths = [op for op in lengths if op[0] == "dot.1" or op[2].startswith("all-")]
            for name, length, category in lengths:
                stall = round(planted.stall_s * PS) if name == "dot.1" and step == 1 else 0
                line.op(name, Ps(at), Ps(length + stall), program, category)
                at += length + stall
            at += round(planted.idle_s * PS)
            marks.event(str(step), Ps(start), Ps(at - start))
    return trace


def run_of(directory: Path, planted: Planted | None = None) -> Trace:
    """The run, written and read."""
    return load(builder_of(planted or Planted()).write(directory))


JOB = """\
HloModule jit_train, is_scheduled=true, num_partitions=8, \
frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["AXIS1"=4, "AXIS2"=2]>}}

ENTRY %main (a: bf16[ROWS,4096], w: bf16[4096,COLUMNS], s: bf16[33554432]) -> bf16[ROWS,COLUMNS] {
  %a = bf16[ROWS,4096]{1,0} parameter(0)
  %w = bf16[4096,COLUMNS]{1,0} parameter(1)
  %s = bf16[33554432]{0} parameter(2)
  %all-gather.1 = bf16[134217728]{0} all-gather(%s), dimensions={0}, channel_id=1, \
replica_groups=mesh['AXIS1'=4,'AXIS2'=2] {'AXIS1'}, use_global_device_ids=true
  ROOT %dot.1 = bf16[ROWS,COLUMNS]{1,0} dot(%a, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def job_of(
    directory: Path, flops: float, compute_s: float, exposed_s: float, *, idle_s: float = 0.0,
    axes: tuple[str, str] = ("fsdp", "tensor"), command: list[str] | None = None,
) -> Path:  # fmt: skip
    """A run whose step is one matmul of so many FLOPs per device and one gather; its session directory."""
    rows = 262_144
    text = JOB.replace("ROWS", str(rows)).replace("COLUMNS", str(round(flops / (2 * rows * 4096))))
    program = Program("jit_train", 5, text.replace("AXIS1", axes[0]).replace("AXIS2", axes[1]))
    trace = TraceBuilder()
    host = trace.add_host("h")
    host.add_program(program)
    parts = [round(seconds * PS) for seconds in (exposed_s, compute_s, idle_s)]
    for core in range(CORES):
        tpu = host.add_tpu(core, "TPU v6 lite")
        marks, line = tpu.add_line("Steps"), tpu.add_line("XLA Ops")
        for step in range(3):
            at = step * sum(parts)
            line.op("all-gather.1", Ps(at), Ps(parts[0]), program, "all-gather")
            line.op("dot.1", Ps(at + parts[0]), Ps(parts[1]), program, "convolution")
            marks.event(str(step), Ps(at), Ps(sum(parts)))
    session = Path(trace.write(directory))
    if command is not None:
        sidecar = {"schema_version": 1, "tool": "tpuprof", "complete": True, "file": "h.xplane.pb", "command": command}
        (session / "tpuprof.json").write_text(json.dumps(sidecar))
    return session
