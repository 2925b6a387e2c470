"""How long it takes to read and cost a large program:

    python tests/benchmarks/hlo_cost.py [HLO FILE] [--megabytes N]

The program is a small one repeated, each time under other names, until its HloProto has the size that was asked for.
Without a file it is a layer of a transformer, written here. The numbers are CPU seconds of this process.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import time
from collections.abc import Callable
from typing import TypeVar

from tpuprof.hlo import Computation, HloModule, Instruction, load_hlo, parse_proto, to_proto
from tpuprof.hlo.cost import program_cost
from tpuprof.hlo.text import parse_text

Result = TypeVar("Result")
META = ', metadata={{op_name="jit(step)/while/body/closed_call/{}" source_file="/model/layer.py" source_line={}}}'


def layer() -> str:
    """A scanned layer: matmul fusions with elementwise work around them, slices of stacked weights, copies."""
    blocks: list[str] = []
    body: list[str] = []
    for n in range(24):
        blocks.append(
            f"%fused.{n} (p.{n}.0: f32[32,512,512], p.{n}.1: f32[64,512], p.{n}.2: s32[]) -> f32[64,512] {{\n"
            f"  %p.{n}.0 = f32[32,512,512]{{2,1,0:T(8,128)}} parameter(0)\n"
            f"  %p.{n}.1 = f32[64,512]{{1,0:T(8,128)}} parameter(1)\n"
            f"  %p.{n}.2 = s32[]{{:T(128)}} parameter(2)\n"
            f"  %zero.{n} = s32[]{{:T(128)}} constant(0)\n"
            f"  %slice.{n} = f32[1,512,512]{{2,1,0:T(8,128)}} dynamic-slice(%p.{n}.0, %p.{n}.2, %zero.{n}, %zero.{n}), "
            f"dynamic_slice_sizes={{1,512,512}}\n"
            f"  %weights.{n} = f32[512,512]{{1,0:T(8,128)}} bitcast(%slice.{n})\n"
            f"  %tanh.{n} = f32[64,512]{{1,0:T(8,128)}} tanh(%p.{n}.1){META.format('tanh', n)}\n"
            f"  %twice.{n} = f32[64,512]{{1,0:T(8,128)}} multiply(%tanh.{n}, %tanh.{n}){META.format('mul', n)}\n"
            f"  ROOT %dot.{n} = f32[64,512]{{1,0:T(8,128)}} convolution(%twice.{n}, %weights.{n}), "
            f"dim_labels=bf_io->bf{META.format('dot_general', n)}\n}}\n"
        )
        source = "%x" if n == 0 else f"%out.{n - 1}"
        body.append(
            f"  %out.{n} = f32[64,512]{{1,0:T(8,128)}} fusion(%w, {source}, %i), kind=kOutput, calls=%fused.{n}"
            f"{META.format('dot_general', n)}\n"
        )
    state = "(s32[], f32[64,512]{1,0:T(8,128)}, f32[32,512,512]{2,1,0:T(8,128)})"
    return (
        "HloModule layer, is_scheduled=true\n\n"
        + "\n".join(blocks)
        + f"\n%body (s: {state}) -> {state} {{\n  %s = {state} parameter(0)\n"
        "  %i = s32[] get-tuple-element(%s), index=0\n"
        "  %x = f32[64,512]{1,0:T(8,128)} get-tuple-element(%s), index=1\n"
        "  %w = f32[32,512,512]{2,1,0:T(8,128)} get-tuple-element(%s), index=2\n"
        "  %one = s32[] constant(1)\n  %next = s32[] add(%i, %one)\n"
        + "".join(body)
        + f"  ROOT %state = {state} tuple(%next, %out.23, %w)\n}}\n\n"
        f"%condition (c: {state}) -> pred[] {{\n  %c = {state} parameter(0)\n"
        "  %ci = s32[] get-tuple-element(%c), index=0\n  %limit = s32[] constant(32)\n"
        "  ROOT %less = pred[] compare(%ci, %limit), direction=LT\n}\n\n"
        "ENTRY %main (a: f32[64,512], b: f32[32,512,512]) -> f32[64,512] {\n"
        "  %a = f32[64,512]{1,0:T(8,128)} parameter(0)\n  %b = f32[32,512,512]{2,1,0:T(8,128)} parameter(1)\n"
        f"  %start = s32[] constant(0)\n  %init = {state} tuple(%start, %a, %b)\n"
        f"  %loop = {state} while(%init), condition=%condition, body=%body\n"
        "  ROOT %result = f32[64,512]{1,0:T(8,128)} get-tuple-element(%loop), index=1\n}\n"
    )


def repeated(module: HloModule, times: int) -> HloModule:
    """A program that calls a program several times, each copy under names of its own."""
    parameters = tuple(
        dataclasses.replace(each, computation="repeated", operands=()) for each in module.entry.parameters
    )
    calls = tuple(
        Instruction(
            f"call.{n}", "call", module.entry.root.shape, tuple(each.name for each in parameters),
            (("to_apply", f"{module.entry_name}.r{n}"),), computation="repeated",
        )
        for n in range(times)
    )  # fmt: skip
    entry = Computation("repeated", (*parameters, *calls), calls[-1].name)
    copies = [_renamed(each, n) for n in range(times) for each in module.reachable]
    return dataclasses.replace(
        module, computations=(*copies, entry), entry_name="repeated", entry_layout="", input_output_alias="",
        buffer_donor="", buffer_assignment=b"",
    )  # fmt: skip


def _renamed(computation: Computation, n: int) -> Computation:
    instructions = tuple(
        dataclasses.replace(
            each,
            name=f"{each.name}.r{n}",
            operands=tuple(f"{name}.r{n}" for name in each.operands),
            called=tuple((role, f"{name}.r{n}") for role, name in each.called),
            control_predecessors=tuple(f"{name}.r{n}" for name in each.control_predecessors),
            computation=f"{computation.name}.r{n}",
        )
        for each in computation.instructions
    )
    return Computation(
        f"{computation.name}.r{n}", instructions, f"{computation.root_name}.r{n}", computation.execution_thread
    )


def timed(call: Callable[[], Result]) -> tuple[Result, float]:
    """The result of a call and the CPU seconds that it took."""
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def main() -> None:
    """Prints size, times and memory."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", nargs="?", help="an HLO text or HloProto; a synthetic layer without it")
    parser.add_argument("--megabytes", type=float, default=30.0)
    given = parser.parse_args()
    module = parse_text(layer()) if given.file is None else load_hlo(given.file)[0]
    times = max(1, round(given.megabytes * 1e6 / len(to_proto(module))))
    data = to_proto(repeated(module, times))
    large, reading = timed(lambda: parse_proto(data))
    cost, costing = timed(lambda: program_cost(large))
    instructions = sum(len(each.instructions) for each in large.computations)
    single = program_cost(module).totals.flops
    assert abs(cost.totals.flops - times * single) <= 1e-9 * cost.totals.flops, (cost.totals.flops, times * single)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{len(data) / 1e6:.1f} MB, {instructions} instructions, {times} copies: read in {reading:.2f} s, costed in "
          f"{costing:.2f} s, {cost.totals.flops:.4g} FLOP, peak memory {memory:.0f} MB")  # fmt: skip


if __name__ == "__main__":
    main()
