"""A log directory of runs that are odd, for pages that must say something sensible of each."""

from __future__ import annotations

from pathlib import Path

from tpuprof.testing import Program, TraceBuilder

HOSTILE = "<img src=x onerror=alert(1)>[a](javascript:alert(1)) **b** $x$ `c` :red[d]"
"""What a name from a trace can hold: HTML, Markdown, LaTeX and streamlit's own marks. A host can have it too."""
WILD = f"{HOSTILE} :material/bug: \x1b[31m\u202e"
"""The same with what no file can be called: icons, and what steers terminals and the direction of writing."""
ODD = ("no_devices", "no_steps", "one_step", "hostile")

_HLO = """\
HloModule jit_step, is_scheduled=true, num_partitions=2

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add = f32[] add(f32[] %x, f32[] %y)
}

ENTRY %main (a: f32[64]) -> f32[64] {
  %a = f32[64]{0} parameter(0)
  %negate.1 = f32[64]{0} negate(f32[64]{0} %a)
  ROOT %all-reduce.2 = f32[64]{0} all-reduce(f32[64]{0} %negate.1), channel_id=1, replica_groups={{0,1}}, \
use_global_device_ids=true, to_apply=%sum, metadata={op_name="jit(step)/HOSTILE/psum" source_file="HOSTILE" \
source_line=3}
}
"""


def write_odd_runs(logdir: Path) -> Path:
    """Writes the runs of :data:`ODD` and ``hostile_ops``, and returns the directory."""
    for name, builder in zip(ODD, (_no_devices(), _no_steps(), _one_step(), _hostile()), strict=True):
        builder.session = name
        builder.write(logdir)
    write_hostile_ops(logdir)
    return logdir


def write_hostile_ops(logdir: Path) -> None:
    """Writes run ``hostile_ops``: a core of an unknown kind, without steps or HLO, on which everything has such a name:
    ops, scopes, kinds and source lines."""
    builder = TraceBuilder()
    builder.session = "hostile_ops"
    ops = builder.add_host("hostA").add_tpu(0, WILD).add_line("XLA Ops")
    for at in range(6):
        meta = {"hlo_category": WILD, "tf_op": f"jit(f)/{WILD}/dot", "source": f"{WILD}.py:3"}
        ops.event(f"{WILD}.{at % 3}", at * 100, 80, text=f"%{WILD}", meta=meta)
    builder.write(logdir)


def _no_devices() -> TraceBuilder:
    builder = TraceBuilder()
    builder.add_host("h").add_thread("main").event("work", 0, 5)
    return builder


def _no_steps() -> TraceBuilder:
    builder = TraceBuilder()
    builder.add_host("h").add_tpu(0).add_line("XLA Ops").event("fusion.1", 0, 30).event("fusion.2", 40, 60)
    return builder


def _one_step() -> TraceBuilder:
    builder = TraceBuilder()
    plane = builder.add_host("h").add_tpu(0)
    plane.add_line("Steps").event("5", 0, 100)
    plane.add_line("XLA Ops").event("fusion.1", 0, 30).event("fusion.2", 40, 60)
    return builder


def _hostile() -> TraceBuilder:
    """Two cores of a host with such a name; one comes late to a collective in every step."""
    hlo = Program("jit_step", 5, _HLO.replace("HOSTILE", HOSTILE))
    builder = TraceBuilder()
    host = builder.add_host(HOSTILE)
    for core in range(2):
        plane = host.add_tpu(core, stats={"core_details": bytes((5 << 3, core, 6 << 3, core)) if core else b""})
        steps, ops = plane.add_line("Steps"), plane.add_line("XLA Ops")
        for step in range(6):
            start, own = step * 1000, 300 + 200 * core
            steps.event(str(step), start, 1000)
            ops.op("negate.1", start, own, hlo, "non-fusion elementwise")
            ops.op("all-reduce.2", start + own, 700 - own, hlo, "all-reduce")
    host.add_program(hlo)
    host.add_thread("main").event(f"PjitFunction({HOSTILE})", 700, 200)
    return builder


def many_ops(folder: Path, count: int = 1500) -> Path:
    """Writes a run of one core with more ops than a page sends to the browser."""
    builder = TraceBuilder()
    ops = builder.add_host("hostA").add_tpu(0).add_line("XLA Ops")
    for at in range(count):
        ops.event(f"fusion.{at}", at * 100, 50 + at % 7, meta={"hlo_category": "loop fusion"})
    builder.write(folder)
    return folder
