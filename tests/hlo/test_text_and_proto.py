"""The two readers are compared on programs that jax compiles, and the writer is read by XLA itself."""

# ruff: noqa: E501 (instructions of HLO text stand on one line each)

from __future__ import annotations

import dataclasses
import pickle
from collections import Counter
from pathlib import Path

import pytest

from tpuprof.errors import HloError
from tpuprof.hlo import HloModule, differences, parse_proto, parse_text, to_proto
from tpuprof.hlo.proto_schema import messages

FORMS = (".txt", ".large.txt", ".long.txt", ".short.txt")

# Everything HLO has that CPU programs do not show; XLA reads this text and gives the protobuf form.
BY_HAND = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, must-alias) }, frontend_attributes={a="b",c={"x": "y"}}

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %s = f32[] add(%x, %y)
}

%t (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  ROOT %n = f32[8]{0} negate(%a)
}

%f (b: f32[8]) -> f32[8] {
  ROOT %b = f32[8]{0} parameter(0)
}

%scattered (p0: f32[8]) -> f32[2] {
  %p0 = f32[8]{0} parameter(0)
  %half = f32[8]{0} negate(%p0)
  ROOT %rs = f32[2]{0} reduce-scatter(%half), channel_id=3, replica_groups=[1,4]<=[4], use_global_device_ids=true, dimensions={0}, to_apply=%add
}, execution_thread="sparsecore"

ENTRY %main (p: f32[8], q: pred[], tok: token[]) -> (f32[8], f32[8,4]) {
  %p = f32[8]{0} parameter(0), sharding={devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}, parameter_replication={true}
  %q = pred[] parameter(1), sharding={maximal device=3}
  %tok = token[] parameter(2)
  %c = f32[8]{0} conditional(%q, %p, %p), true_computation=%t, false_computation=%f
  %i = s32[] constant(2)
  %c2 = f32[8]{0} conditional(%i, %p, %p), branch_computations={%f, %t}
  %as = ((f32[8]{0}), f32[2]{0}, u32[]) async-start(%p), async_execution_thread="sparsecore", calls=%scattered
  %au = ((f32[8]{0}), f32[2]{0}, u32[]) async-update(%as)
  %ad = f32[2]{0} async-done(%au), metadata={op_type="x" op_name="a\\"b" source_file="/a b/c.py" source_line=4}
  %ags = (f32[8]{0}, f32[32]{0}) all-gather-start(%c2), channel_id=1, replica_groups=mesh['x'=2,'y'=4] {'y'}, dimensions={0}, use_global_device_ids=true
  %agd = f32[32]{0} all-gather-done(%ags)
  %ag2 = f32[16]{0} all-gather(%p), channel_id=2, replica_groups=mesh['x'=2,'y'=4], device_ids=([2,4]T(1,0)) {'y':(2)2}, dimensions={0}, use_global_device_ids=true
  %ars = f32[8]{0} all-reduce-start(%c), replica_groups={}, to_apply=%add
  %ard = f32[8]{0:T(128)S(5)} all-reduce-done(%ars)
  %cs = (f32[8]{0:S(5)}, f32[8]{0}, u32[]{:S(2)}) copy-start(%c), cross_program_prefetch_index=0
  %cd = f32[8]{0:S(5)} copy-done(%cs)
  %cps = (f32[8]{0}, f32[8]{0}) collective-permute-start(%p), channel_id=5, source_target_pairs={{0,1},{1,0}}
  %cpd = f32[8]{0} collective-permute-done(%cps), control-predecessors={%cd, %ard}
  %send = (f32[8]{0}, u32[], token[]) send(%p, %tok), channel_id=9, is_host_transfer=true, frontend_attributes={_xla_host_transfer_rendezvous="abc"}
  %sd = token[] send-done(%send), channel_id=9, is_host_transfer=true
  %recv = (f32[8]{0}, u32[], token[]) recv(%tok), channel_id=10
  %rd = (f32[8]{0}, token[]) recv-done(%recv), channel_id=10
  %inf = ((f32[8]{0}), token[]) infeed(%tok), infeed_config="abc\\001"
  %out = token[] outfeed(%p, %tok), outfeed_shape=f32[8]{0}, outfeed_config="d"
  %cc = f32[8]{0} custom-call(%p), custom_call_target="my\\"call", operand_layout_constraints={f32[8]{0}}, custom_call_has_side_effect=true, output_to_operand_aliasing={{}: (0, {})}, schedule=SCHEDULE_LATEST, api_version=API_VERSION_TYPED_FFI, backend_config={"a": 3}
  %cc2 = f32[8]{0} custom-call(%p), custom_call_target="x", called_computations={%t}, backend_config="not \\"json"
  %a2a = f32[8]{0} all-to-all(%p), channel_id=11, replica_groups={{0,1,2,3}}, dimensions={0}
  %cb = f32[8]{0} collective-broadcast(%p), channel_id=12, replica_groups={{0,1},{2,3}}
  %io = s32[8,4]{1,0:T(8,128)} iota(), iota_dimension=1
  %dyn = f32[<=8]{0} set-dimension-size(%p, %i), dimensions={0}
  %cmp = pred[8]{0} compare(%p, %p), direction=LT, type=TOTALORDER
  %q4 = s4[8]{0:E(4)} convert(%p)
  %cst = f32[2,3]{0,1} constant({ {1, 2, 3}, {4.5, -inf, nan} })
  %bc = bf16[] constant(0.1001)
  %pd = s64[] constant(-9223372036854775808)
  %cx = c64[2]{0} constant({(1, 2), (3, -4)})
  %prd = pred[3]{0} constant({1, 0, 1})
  %sh = f32[8]{0} copy(%p), sharding={devices=[2,2,2]0,1,2,3,4,5,6,7 last_tile_dims={manual, replicated}}
  %sh2 = (f32[8]{0}, f32[8]{0}) tuple(%p, %p), sharding={{replicated}, {manual}}
  %part = u32[] partition-id()
  %br = f32[8,4]{1,0} broadcast(%p), dimensions={0}
  ROOT %r = (f32[8]{0}, f32[8,4]{1,0}) tuple(%p, %br)
}
"""


def explain(one: HloModule, two: HloModule) -> list[str]:
    """What differs between two modules, for the failure message."""
    found: list[str] = []
    for computation in one.reachable:
        others = {i.name: i for i in two.computation(computation.name).instructions}
        for instruction in computation.instructions:
            found += [f"{instruction}: {part}" for part in differences(instruction, others[instruction.name])]
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.pb"))


def test_enough_programs_of_many_kinds(compiled: Path):
    opcodes: Counter[str] = Counter()
    attributes: Counter[str] = Counter()
    for name in names(compiled):
        module = parse_proto((compiled / f"{name}.pb").read_bytes())
        for computation in module.computations:
            for instruction in computation.instructions:
                opcodes[instruction.opcode] += 1
                attributes.update(instruction.attributes.keys())
    assert len(names(compiled)) >= 25
    assert opcodes.keys() >= {
        "while", "conditional", "convolution", "dot", "sort", "fft", "gather", "scatter", "all-reduce", "all-gather",
        "reduce-scatter", "all-to-all", "collective-permute", "custom-call", "dynamic-slice", "dynamic-update-slice",
        "reduce-window", "pad", "fusion", "call",
    }  # fmt: skip
    assert len(attributes) >= 35


def test_text_and_protobuf_give_equal_modules(compiled: Path):
    for name in names(compiled):
        from_proto = parse_proto((compiled / f"{name}.pb").read_bytes())
        for form in FORMS:
            from_text = parse_text((compiled / f"{name}{form}").read_text())
            assert explain(from_text, from_proto) == [], (name, form)
            assert from_text == from_proto, (name, form)


def test_sources_and_constants_are_the_same(compiled: Path):
    sources = constants = 0
    for name in names(compiled):
        from_proto = parse_proto((compiled / f"{name}.pb").read_bytes())
        from_text = parse_text((compiled / f"{name}.large.txt").read_text())
        for computation in from_text.reachable:
            for one in computation.instructions:
                two = from_proto.computation(computation.name).instruction(one.name)
                assert one.stack == two.stack
                assert one.metadata.source_file == two.metadata.source_file
                sources += one.metadata.source_file.endswith("compile_programs.py") and one.metadata.source_line > 0
                if one.opcode == "constant" and one.shape.elements is not None and one.shape.elements <= 1024:
                    assert repr(one.values) == repr(two.values), (name, one)
                    constants += one.values is not None
    assert sources > 500
    assert constants > 200


def test_the_comparison_sees_a_difference(compiled: Path):
    text = (compiled / "scan.txt").read_text()
    module = parse_text(text)
    for old, new in (
        ("dimensions={0,1}", "dimensions={1,0}"),
        ("direction=LT", "direction=GT"),
        ('op_name="jit', 'op_name="JIT'),
        ("constant(0)", "constant(1)"),
        ("f32[4,8]{1,0}", "f32[4,8]{0,1}"),
        ('"known_trip_count"', '"unknown_trip_count"'),
        ("line=", "line=1"),
    ):
        if old in text:
            assert parse_text(text.replace(old, new)) != module, old
    assert "direction=LT" in text
    assert '"known_trip_count"' in text


def test_writing_and_reading_gives_the_module_back(compiled: Path):
    for name in names(compiled):
        for module in (
            parse_proto((compiled / f"{name}.pb").read_bytes()),
            parse_text((compiled / f"{name}.large.txt").read_text()),
        ):
            data = to_proto(module)
            again = parse_proto(data)
            assert explain(module, again) == [], name
            assert again == module, name
            assert [c.name for c in again.computations] == [c.name for c in module.computations]
            assert to_proto(again) == data


def test_xla_reads_what_is_written(compiled: Path):
    hlo = pytest.importorskip("jaxlib._hlo")
    options = hlo.HloPrintOptions()
    options.print_large_constants = True
    for name in names(compiled):
        module = parse_text((compiled / f"{name}.large.txt").read_text())
        inner = messages().HloProto.FromString(to_proto(module)).hlo_module
        printed = hlo.HloModule.from_serialized_hlo_module_proto(inner).to_string(options)
        again = parse_text(printed)
        assert explain(module, again) == [], name
        # XLA takes the number of partitions from its own configuration, not from the message.
        assert dataclasses.replace(again, num_partitions=module.num_partitions) == module, name


def test_what_cpu_programs_do_not_show():
    hlo = pytest.importorskip("jaxlib._hlo")
    xla = hlo.hlo_module_from_text(BY_HAND)
    from_proto = parse_proto(xla.as_serialized_hlo_module_proto())
    from_text = parse_text(BY_HAND)
    ignored = ("'ad'", "'rs'")
    # XLA's reader fills in a layout of the entry and hands the metadata of a done half to what it wraps.
    found = [line for line in explain(from_text, from_proto) if "rs = " not in line]
    assert found == [], ignored
    assert from_text.input_output_alias == from_proto.input_output_alias
    assert from_text.frontend_attributes == from_proto.frontend_attributes
    printed = parse_text(xla.to_string())
    assert printed.entry_layout == from_proto.entry_layout
    assert [line for line in explain(printed, from_proto) if "rs = " not in line] == []
    for module in (from_text, from_proto):
        again = parse_proto(to_proto(module))
        assert explain(module, again) == []
        assert again == module
    inner = messages().HloProto.FromString(to_proto(from_text)).hlo_module
    reread = parse_proto(hlo.HloModule.from_serialized_hlo_module_proto(inner).as_serialized_hlo_module_proto())
    assert explain(from_text, reread) == []


def test_the_short_async_form_differs_from_the_long_one_in_names_only():
    hlo = pytest.importorskip("jaxlib._hlo")
    text = """HloModule m

%wrapped (a: f32[8,4]) -> f32[2,4] {
  %a = f32[8,4]{1,0} parameter(0)
  ROOT %cut = f32[2,4]{1,0} slice(%a), slice={[1:3], [0:4]}
}, execution_thread="t"

ENTRY %main (p: f32[8,4]) -> f32[2,4] {
  %p = f32[8,4]{1,0} parameter(0)
  %s = ((f32[8,4]{1,0}), f32[2,4]{1,0}, u32[]) async-start(%p), async_execution_thread="t", calls=%wrapped
  ROOT %d = f32[2,4]{1,0} async-done(%s)
}
"""
    printed = hlo.hlo_module_from_text(text).to_string()
    assert "slice-start(" in printed
    short, long = parse_text(printed), parse_text(text)
    one, two = short.instruction("s"), long.instruction("s")
    assert differences(one, two) == ["called"]
    assert short.async_opcode(one) == long.async_opcode(two) == "slice"
    assert set(differences(short.called(one)[0].root, long.called(two)[0].root)) == {"name", "operands", "computation"}
    assert differences(short.instruction("d"), long.instruction("d")) == []


def test_what_no_field_holds_is_kept():
    text = BY_HAND.replace("direction=LT", 'direction=LT, new_thing={a="b"}').replace(
        'op_type="x"', 'op_type="x" new_field=7'
    )
    module = parse_text(text.replace("HloModule m,", "HloModule m, num_partitions=4, replica_count=2, news={1},"))
    again = parse_proto(to_proto(module))
    assert again.instruction("cmp").attributes["new_thing"] == '{a="b"}'
    assert again.instruction("ad").metadata.other == (("new_field", "7"),)
    assert again.attributes["news"] == "{1}"
    assert (again.num_partitions, again.replica_count) == (4, 2)
    assert again == module


def test_ids_buffers_and_devices_survive(compiled: Path):
    module = parse_proto((compiled / "collectives.pb").read_bytes())
    assert module.id != 0
    assert module.num_partitions == 8
    assert module.device_assignment == tuple((device,) for device in range(8))
    module = dataclasses.replace(module, buffer_assignment=b"buffers", id=(1 << 64) - 5)
    again = parse_proto(to_proto(module))
    assert (again.buffer_assignment, again.id) == (b"buffers", (1 << 64) - 5)
    assert again.device_assignment == module.device_assignment
    assert [i.id for i in again.entry.instructions] == [i.id for i in module.entry.instructions]
    assert all(i.id for i in again.entry.instructions)


def test_the_program_id_of_the_trace_wins_and_is_taken_modulo_2_64(compiled: Path):
    data = (compiled / "scan.pb").read_bytes()
    assert parse_proto(data, program_id=-3).id == (1 << 64) - 3
    assert parse_proto(data, program_id=77).id == 77


def test_a_bare_module_and_one_with_buffers_are_told_apart(compiled: Path):
    bare = (compiled / "scan.pb").read_bytes()
    outer = messages().HloProto(hlo_module=bare, buffer_assignment=b"\x0a\x00").SerializeToString()
    assert parse_proto(outer) == parse_proto(bare)
    assert parse_proto(outer).buffer_assignment == b"\x0a\x00"
    with pytest.raises(HloError, match="neither an HloProto nor an HloModuleProto"):
        parse_proto(b"")


def test_a_module_can_be_sent_to_another_process(compiled: Path):
    for module in (parse_proto((compiled / "remat.pb").read_bytes()), parse_text((compiled / "remat.txt").read_text())):
        again = pickle.loads(pickle.dumps(module))
        assert again == module
        assert again.entry.root.metadata == module.entry.root.metadata


def test_the_schedule_decides_the_order(compiled: Path):
    module = parse_proto((compiled / "remat.pb").read_bytes())
    message = messages().HloModuleProto.FromString((compiled / "remat.pb").read_bytes())
    stored = next(c for c in message.computations if c.name == module.entry_name.encode())
    light = messages().LightInstruction
    kept = [light.FromString(data).name.decode() for data in stored.instructions]
    assert sorted(kept) == sorted(i.name for i in module.entry.instructions)
    message.ClearField("schedule")
    unscheduled = parse_proto(message.SerializeToString())
    assert not unscheduled.is_scheduled
    assert [i.name for i in unscheduled.entry.instructions] == kept
