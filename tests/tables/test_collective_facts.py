"""What the HLO says of collectives in all their forms: kind, groups, bytes; and which core is which device."""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tpuprof.hlo import parse_text
from tpuprof.tables.classify import classify_instruction
from tpuprof.tables.collective_facts import CollectiveFacts, collective_facts
from tpuprof.tables.core_ids import global_ids
from tpuprof.tables.pairing import pair_groups
from tpuprof.tables.rows import Device, OpInfo

SUM = """\
%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add = f32[] add(%x, %y)
}
"""


def facts(
    body: str, name: str, *, head: str = "num_partitions=4", others: str = "", **change: object
) -> CollectiveFacts:
    """The facts of an instruction of an entry computation with %a (f32[64]) and %b (f32[16])."""
    module = parse_text(
        f"HloModule m, is_scheduled=true, {head}\n\n{SUM}\n{others}\n"
        "ENTRY %main (a: f32[64], b: f32[16]) -> f32[64] {\n  %a = f32[64]{0} parameter(0)\n"
        f"  %b = f32[16]{{0}} parameter(1)\n{body}\n  ROOT %r = f32[64]{{0}} copy(%a)\n}}\n"
    )
    module = replace(module, **change)
    instruction = module.instruction(name)
    return collective_facts(
        OpInfo(name, classify_instruction(instruction, module), instruction=instruction, program=module)
    )


ALL = ((0, 1, 2, 3),)
RING = "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"
FLAT = "use_global_device_ids=true"


@pytest.mark.parametrize(
    ("text", "kind", "full", "shard"),
    [
        ("f32[64]{0} all-reduce(%a), replica_groups={}, to_apply=%sum", "all_reduce", 256, 64),
        ("f32[64]{0} all-gather(%b), replica_groups={}, dimensions={0}", "all_gather", 256, 64),
        ("f32[16]{0} reduce-scatter(%a), replica_groups={}, dimensions={0}, to_apply=%sum", "reduce_scatter", 256, 64),
        ("f32[16]{0} all-to-all(%b), replica_groups={}, dimensions={0}", "all_to_all", 256, 64),
        ("f32[64]{0} collective-broadcast(%a), replica_groups={{0,1,2,3}}", "collective_broadcast", 256, 256),
        (f"f32[64]{{0}} collective-permute(%a), {RING}", "collective_permute", 256, 256),
    ],
)  # fmt: skip
def test_bytes_of_every_kind(text: str, kind: str, full: int, shard: int) -> None:
    found = facts(f"  %c = {text}", "c")
    pairs = ((0, 1), (1, 2), (2, 3), (3, 0)) if kind == "collective_permute" else None
    assert found == CollectiveFacts(kind, ALL, 4, full, shard, pairs=pairs)


STARTS = {
    "all-gather": (
        "  %s = (f32[16]{0}, f32[64]{0}) all-gather-start(%b), replica_groups={}, dimensions={0}\n"
        "  %d = f32[64]{0} all-gather-done(%s)",
        256,
        64,
    ),
    "all-reduce": (
        "  %s = f32[64]{0} all-reduce-start(%a), replica_groups={}, to_apply=%sum\n"
        "  %d = f32[64]{0} all-reduce-done(%s)",
        256,
        64,
    ),
    "collective-permute": (
        f"  %s = (f32[64]{{0}}, f32[64]{{0}}, u32[], u32[]) collective-permute-start(%a), {RING}\n"
        "  %d = f32[64]{0} collective-permute-done(%s)",
        256,
        256,
    ),
}


@pytest.mark.parametrize("opcode", list(STARTS))
@pytest.mark.parametrize("half", ["s", "d"])
def test_both_halves_have_the_facts_of_the_whole(opcode: str, half: str) -> None:
    text, full, shard = STARTS[opcode]
    found = facts(text, half)
    assert (found.kind, found.groups, found.bytes, found.shard_bytes) == (opcode.replace("-", "_"), ALL, full, shard)


SPARSECORE = """\
%called (p: f32[16], q: s32[8]) -> f32[64] {
  %p = f32[16]{0} parameter(0)
  %q = s32[8]{0} parameter(1)
  ROOT %g = f32[64]{0} all-gather(%p), channel_id=3, replica_groups=[1,4]<=[4], dimensions={0}, \
use_global_device_ids=true
}

%async_computation (p1: f32[16], q1: s32[8]) -> f32[64] {
  %p1 = f32[16]{0} parameter(0)
  %q1 = s32[8]{0} parameter(1)
  ROOT %call = f32[64]{0} call(%p1, %q1), to_apply=%called
}, execution_thread="sparsecore"
"""


@pytest.mark.parametrize("half", ["s", "d"])
def test_a_collective_on_the_sparse_core(half: str) -> None:
    body = (
        "  %flags = s32[8]{0} iota(), iota_dimension=0\n"
        "  %s = ((f32[16]{0}, s32[8]{0}), f32[64]{0}) async-start(%b, %flags), "
        'async_execution_thread="sparsecore", calls=%async_computation\n'
        "  %d = f32[64]{0} async-done(%s)"
    )
    assert facts(body, half, others=SPARSECORE) == CollectiveFacts("all_gather", ALL, 4, 256, 64)


FUSED = """\
%begin_inner (p: f32[16]) -> f32[16] {
  ROOT %p = f32[16]{0} parameter(0)
}

%begin (p0: f32[16]) -> f32[16] {
  %p0 = f32[16]{0} parameter(0)
  ROOT %cc = f32[16]{0} custom-call(%p0), custom_call_target="AsyncCollectiveStart"
}

%between (p1: f32[16]) -> f32[64] {
  %p1 = f32[16]{0} parameter(0)
  ROOT %g1 = f32[64]{0} all-gather(%p1), replica_groups={{0,2},{1,3}}, channel_id=1, use_global_device_ids=true, \
dimensions={0}
}

%end (p2: f32[64]) -> f32[64] {
  %p2 = f32[64]{0} parameter(0)
  ROOT %cd = f32[64]{0} custom-call(%p2), custom_call_target="AsyncCollectiveDone"
}
"""


@pytest.mark.parametrize("half", ["async-collective-start.1", "async-collective-done.1"])
def test_fused_halves_find_their_collective_and_no_other(half: str) -> None:
    body = (
        # A collective before it and one after it, which are others.
        "  %before = f32[16]{0} reduce-scatter(%a), replica_groups={}, dimensions={0}, to_apply=%sum\n"
        "  %async-collective-start.1 = f32[16]{0} fusion(%before), kind=kCustom, calls=%begin\n"
        "  %fusion.2 = f32[64]{0} fusion(%async-collective-start.1), kind=kCustom, calls=%between\n"
        "  %async-collective-done.1 = f32[64]{0} fusion(%fusion.2), kind=kCustom, calls=%end\n"
        "  %after = f32[64]{0} all-reduce(%async-collective-done.1), replica_groups={}, to_apply=%sum"
    )
    found = facts(body, half, others=FUSED)
    assert (found.kind, found.groups, found.participants) == ("all_gather", ((0, 2), (1, 3)), 2)
    assert found.bytes == 256


SCATTER_FUSION = """\
%scattered (p: f32[64]) -> f32[16] {
  %p = f32[64]{0} parameter(0)
  %ar = f32[64]{0} all-reduce(%p), replica_groups={}, to_apply=%sum
  %zero = s32[] constant(0)
  ROOT %cut = f32[16]{0} dynamic-slice(%ar, %zero), dynamic_slice_sizes={16}
}
"""


def test_a_reduce_scatter_written_as_an_all_reduce_and_a_slice() -> None:
    found = facts("  %f = f32[16]{0} fusion(%a), kind=kCustom, calls=%scattered", "f", others=SCATTER_FUSION)
    assert found == CollectiveFacts("reduce_scatter", ALL, 4, 256, 64)


TWO_BY_TWO = "num_partitions=2, replica_count=2"
REDUCE = "  %c = f32[64]{{0}} all-reduce(%a), {}, to_apply=%sum"


@pytest.mark.parametrize(
    ("attributes", "head", "groups"),
    [
        # Channel and global ids: flat ids, replica by replica.
        (f"channel_id=1, replica_groups={{{{0,3}},{{1,2}}}}, {FLAT}", TWO_BY_TWO, ((0, 3), (1, 2))),
        (f"channel_id=1, replica_groups=[3,2]<=[2,3]T(1,0), {FLAT}", "num_partitions=6", ((0, 3), (1, 4), (2, 5))),
        # No channel: replicas, each partition by itself.
        ("replica_groups={{0,1}}", TWO_BY_TWO, ((0, 2), (1, 3))),
        # A channel without global ids: all partitions of these replicas.
        ("channel_id=1, replica_groups={{0},{1}}", TWO_BY_TWO, ((0, 1), (2, 3))),
        # Ids that cannot be replicas are partitions.
        ("replica_groups={{0,1},{2,3}}", "num_partitions=4", ((0, 1), (2, 3))),
        ("replica_groups={}", TWO_BY_TWO, ((0, 1, 2, 3),)),
    ],
)  # fmt: skip
def test_groups_are_device_ids(attributes: str, head: str, groups: tuple[tuple[int, ...], ...]) -> None:
    assert facts(REDUCE.format(attributes), "c", head=head).groups == groups


def test_the_device_assignment_is_applied() -> None:
    text = REDUCE.format("channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true")
    found = facts(text, "c", device_assignment=((7,), (5,), (4,), (6,)))
    assert found.groups == ((7, 5), (4, 6))


def test_who_sends_to_whom_is_one_group() -> None:
    text = "  %c = f32[64]{0} collective-permute(%a), channel_id=1, source_target_pairs={{0,2},{1,3},{3,1}}"
    assert facts(text, "c").groups == ((0, 2), (1, 3))


def test_what_the_hlo_does_not_tell_is_null() -> None:
    text = "  %c = f32[64]{0} all-reduce(%a), replica_groups=[3,5]<=[4], to_apply=%sum"
    assert facts(text, "c") == CollectiveFacts("all_reduce")
    unknown = OpInfo("ncclDevKernel", replace(_KERNEL.cls, collective=None))
    assert collective_facts(unknown) == CollectiveFacts(None)


_KERNEL = OpInfo("all-reduce.1", classify_instruction(parse_text(
    f"HloModule m\n\n{SUM}\nENTRY %e (a: f32[4]) -> f32[4] {{\n  %a = f32[4]{{0}} parameter(0)\n"
    "  ROOT %all-reduce.1 = f32[4]{0} all-reduce(%a), replica_groups={}, to_apply=%sum\n}\n"
).entry.root, None))  # fmt: skip


@pytest.mark.real
def test_all_collectives_of_a_large_program(real_traces: Path) -> None:
    path = real_traces / "llama3-8b-fsdp8-v6e-hlo/jit_train_step.after_optimizations.hlo.txt.gz"
    module = parse_text(gzip.decompress(path.read_bytes()).decode())
    instructions = [each for computation in module.reachable for each in computation.instructions]
    infos = [OpInfo(i.name, classify_instruction(i, module), instruction=i, program=module) for i in instructions]
    starts = [collective_facts(info) for info in infos if info.cls.kind == "collective" and info.cls.phase == "start"]
    # All of the SparseCore's are inside generic pairs, two calls deep.
    assert Counter(each.kind for each in starts) == {"all_gather": 21, "reduce_scatter": 8, "all_reduce": 1}
    for each in starts:
        assert each.groups == (tuple(range(8)),)
        assert each.bytes is not None
        assert each.shard_bytes == each.bytes // 8
    groups = pair_groups(range(len(infos)), infos)
    assert {(len(group.starts), len(group.dones)) for group in groups} == {(1, 1)}
    assert len(groups) == sum(info.cls.phase == "done" for info in infos) == 159


def device(ordinal: int, details: bytes | None, *, host: str = "h", megacore: int = 0) -> Device:
    stats = {} if details is None else {"core_details": details, "has_megacore": megacore}
    return Device(f"{host}/TPU:{ordinal}", host, f"/device:TPU:{ordinal}", "tpu", ordinal, stats=stats)


def test_tpus_state_their_global_ids() -> None:
    # Of a v6e: ordinal, chip of the host, chip and core of all; zeros are left out.
    stated = [b"(\x040\x04", b"\x10\x01 \x01(\x050\x05"]
    assert global_ids([device(n, each) for n, each in enumerate(stated)]) == [4, 5]
    assert global_ids([device(0, b"")]) == [0]
    # With megacore two cores are one device, which has the chip's id.
    assert global_ids([device(0, b"(\x030\x06", megacore=1)]) == [3]


@pytest.mark.parametrize("details", [b"(\x84", b"(" + b"\xff" * 11, b"\x0a\x01x", b"(\x04" * 3000])
def test_details_that_cannot_be_read_say_nothing(details: bytes) -> None:
    assert global_ids([device(0, details), device(0, details, host="other")]) == [None, None]


def test_ordinals_are_ids_on_one_host_only() -> None:
    assert global_ids([device(2, None), device(3, None)]) == [2, 3]
    assert global_ids([device(0, None), device(0, None, host="other")]) == [None, None]
    assert global_ids([device(0, b"0\x05"), device(1, b"0\x05")]) == [None, None]  # one id twice
