"""A small run that names people and machines wherever a trace can."""

from __future__ import annotations

import json
from pathlib import Path

from tpuprof.testing import Program, TraceBuilder

HOST = "zeus-04.lab.example"
SHORT = "zeus-04"
USER = "agnes"
SECRETS = (HOST, SHORT, USER, "atelier", "hunter2", "agnes@example.com", "10.20.30.40", "/home/", "topdir", "hera-05")
"""None of these may be left after redaction."""
SOURCE = f"/home/{USER}/atelier/model.py"

HLO = f"""HloModule jit_step, is_scheduled=true

ENTRY %main (p: f32[8,8]) -> f32[8,8] {{
  %p = f32[8,8]{{1,0}} parameter(0)
  %dot.1 = f32[8,8]{{1,0}} dot(%p, %p), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, metadata={{op_name="jit(step)/layer/dot_general" source_file="{SOURCE}" source_line=12}}
  ROOT %add.2 = f32[8,8]{{1,0}} add(%dot.1, %p), metadata={{op_name="jit(step)/layer/add" source_file="{SOURCE}" source_line=13}}
}}
"""  # noqa: E501
PROGRAM = Program("jit_step", 77, HLO)


def people_trace() -> TraceBuilder:
    """Two hosts, three steps of two ops each, names of people all over."""
    trace = TraceBuilder()
    for name in (HOST, "worker-b"):
        host = trace.add_host(name)
        tpu = host.add_tpu(0, "TPU v5 lite")
        steps, ops, modules = tpu.add_line("Steps"), tpu.add_line("XLA Ops"), tpu.add_line("XLA Modules")
        for step in range(3):
            at = 100 * step
            steps.event(str(step), at, 100)
            modules.module(PROGRAM, at, 90)
            facts = {"source": f"{SOURCE}:12", "source_stack": f"{SOURCE}:12:3\n/opt/topdir/run.py:1",
                     "tf_op": "jit(step)/layer/dot_general:"}  # fmt: skip
            ops.op("dot.1", at, 60, PROGRAM, "convolution fusion", meta=facts)
            ops.op("add.2", at + 60, 30, PROGRAM, "loop fusion", stats={"note": f"made by {USER} on {HOST}"})
        host.add_program(PROGRAM)
        thread = host.add_thread(f"main of {USER}/{SHORT}")
        thread.event(f"$/home/{USER}/atelier/train.py:5 run", 0, 290)
        thread.event("python /home/agnes/atelier/train.py --password hunter2", 10, 20)
        thread.event("mail agnes@example.com from 10.20.30.40", 40, 20, stats={"options": b"\x08\x01/home/agnes\xff"})
        host.add_plane("/device:CUSTOM:Log", stats={"path": f"/home/{USER}/topdir/log", "raw": b"\x00\xffagnes"})
        host.add_task_environment(1_700_000_000_000_000_000, 1_700_000_001_000_000_000)
    return trace


def write_people(directory: Path) -> Path:
    """The run with a sidecar; returns the session's directory."""
    session = people_trace().write(directory)
    sidecar = {
        "host": HOST,
        "command": [f"/home/{USER}/atelier/train.py", "--password", "hunter2"],
        "environment": {"XLA_FLAGS": "--xla_dump_to=/home/agnes/topdir/dump --api_key=hunter2"},
        "versions": {"jax": "0.10.2"},
        "file": f"{HOST}.xplane.pb",
        "process_index": 0,
        "run": {"expected_processes": [0, 5], "seen": {"0": HOST, "5": "hera-05"}},  # the last one's trace is missing
    }
    (session / "tpuprof.json").write_text(json.dumps(sidecar))
    return session
