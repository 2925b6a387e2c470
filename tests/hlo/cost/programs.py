"""Small programs that several tests take as they are."""

from __future__ import annotations

from tpuprof.hlo.cost import ProgramCost, program_cost
from tpuprof.hlo.text import parse_text


def cost(text: str) -> ProgramCost:
    return program_cost(parse_text(text))


def recomputed(name: str, scope: str) -> str:
    return f"""HloModule m

%fused (x: f32[8,8]) -> f32[8,8] {{
  %x = f32[8,8] parameter(0)
  %dot.1 = f32[8,8] dot(%x, %x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, metadata={{op_name="{scope}"}}
  ROOT %dot.2 = f32[8,8] dot(%dot.1, %x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}

ENTRY %main (a: f32[8,8]) -> f32[8,8] {{
  %a = f32[8,8] parameter(0)
  ROOT %{name} = f32[8,8] fusion(%a), kind=kOutput, calls=%fused
}}
"""


ASYNC = """HloModule m, num_partitions=8

%add (l: f32[], r: f32[]) -> f32[] {
  %l = f32[] parameter(0)
  %r = f32[] parameter(1)
  ROOT %s = f32[] add(%l, %r)
}

%gather (g: bf16[16,128]) -> bf16[128,128] {
  %g = bf16[16,128]{1,0:T(8,128)(2,1)} parameter(0)
  ROOT %all-gather = bf16[128,128]{1,0:T(8,128)(2,1)} all-gather(%g), channel_id=1, replica_groups=[1,8]<=[8], \
dimensions={0}, use_global_device_ids=true
}, execution_thread="sparsecore"

ENTRY %main (a: bf16[16,128], b: f32[64,128]) -> bf16[128,128] {
  %a = bf16[16,128]{1,0:T(8,128)(2,1)} parameter(0)
  %b = f32[64,128]{1,0:T(8,128)} parameter(1)
  %start = ((bf16[16,128]{1,0:T(8,128)(2,1)}), bf16[128,128]{1,0:T(8,128)(2,1)}, u32[]) async-start(%a), \
calls=%gather, async_execution_thread="sparsecore"
  %copy-start = (f32[64,128]{1,0:T(8,128)S(1)}, f32[64,128]{1,0:T(8,128)}, u32[]) copy-start(%b)
  %copy-done = f32[64,128]{1,0:T(8,128)S(1)} copy-done(%copy-start)
  %slice-start = ((f32[64,128]{1,0:T(8,128)}), f32[8,128]{1,0:T(8,128)S(1)}, u32[]) slice-start(%b), \
slice={[8:16], [0:128]}
  %slice-done = f32[8,128]{1,0:T(8,128)S(1)} slice-done(%slice-start)
  %all-reduce = f32[64,128]{1,0:T(8,128)} all-reduce(%b), channel_id=2, replica_groups={{0,1,2,3},{4,5,6,7}}, \
to_apply=%add
  ROOT %done = bf16[128,128]{1,0:T(8,128)(2,1)} async-done(%start)
}
"""
