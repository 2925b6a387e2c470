"""HloProto and HloModuleProto bytes, read into the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpuprof.errors import HloError
from tpuprof.hlo.attributes import attributes_of
from tpuprof.hlo.frames import Location, StackFrames
from tpuprof.hlo.instruction import Details, Instruction
from tpuprof.hlo.literals import Number, decode_literal
from tpuprof.hlo.module import Computation, HloModule, check_module
from tpuprof.hlo.proto_schema import messages
from tpuprof.hlo.scan import integer
from tpuprof.hlo.shape_proto import shape_from_bytes
from tpuprof.hlo.shapes import Shape

_MASK = (1 << 64) - 1
_TO_APPLY = frozenset({
    "call", "map", "reduce", "reduce-window", "all-reduce", "all-reduce-start", "reduce-scatter", "scatter",
    "sort", "scan", "topk",
})  # fmt: skip
_METADATA_TEXTS = ("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name")
_METADATA_NUMBERS = ("source_line", "source_column", "source_end_line", "source_end_column", "stack_frame_id")
_ALIAS_KINDS = {1: "may-alias", 2: "must-alias"}


@dataclass(frozen=True, slots=True)
class _ProtoDetails:
    """The serialised instruction, to be read later."""

    data: bytes

    def decode(self, shape: Shape) -> Details:
        message = _parse(messages().HloInstructionProto, self.data, "An instruction")
        opcode = text_of(message.opcode)
        attributes = attributes_of(message, opcode)
        metadata: dict[str, str] = {}
        if message.HasField("metadata"):
            source = message.metadata
            for key in _METADATA_TEXTS:
                value = getattr(source, key)
                if value:
                    metadata[key] = text_of(value)
            for key in _METADATA_NUMBERS:
                number = getattr(source, key)
                if number:
                    metadata[key] = str(number)
            if source.profile_type:
                metadata["profile_type"] = "{" + ",".join(map(str, source.profile_type)) + "}"
        for key in [key for key in attributes if key.startswith("metadata.")]:
            metadata[key.removeprefix("metadata.")] = attributes.pop(key)
        frontend = _string_map(message.frontend_attributes) if message.HasField("frontend_attributes") else {}
        values = _literal_values(message.literal, shape) if opcode == "constant" else None
        return Details(attributes, metadata, frontend, text_of(message.backend_config), values, message.literal)


def parse_proto(data: bytes, program_id: int | None = None) -> HloModule:
    """The module in serialised HloProto (as traces embed it) or HloModuleProto bytes.

    Args:
        data: the bytes; which of the two messages they are is detected.
        program_id: the id under which the trace knows the program, which on TPU is not the id in the module.

    Raises:
        HloError: the bytes are neither, or the module in them is not well formed.
    """
    message, buffers = _module_message(data)
    frames = _stack_frames(message.stack_frame_index) if message.HasField("stack_frame_index") else StackFrames()
    names = {computation.id: text_of(computation.name) for computation in message.computations}
    if len(names) != len(message.computations):
        raise HloError("Two computations of the module have one id.")
    schedule = {entry.key: entry.value.instruction_ids for entry in message.schedule.sequences}
    computations = tuple(
        _computation(computation, names, schedule.get(computation.id), frames) for computation in message.computations
    )
    entry = text_of(message.entry_computation_name) or names.get(message.entry_computation_id, "")
    if entry not in names.values():
        entry = names.get(message.entry_computation_id, entry)
    assignment = message.device_assignment if message.HasField("device_assignment") else None
    extras = {text_of(extra.name): text_of(extra.text) for extra in message.extra_attributes}
    partitions = assignment.computation_count if assignment else integer(extras.pop("num_partitions", "1"), "count")
    replicas = assignment.replica_count if assignment else integer(extras.pop("replica_count", "1"), "count")
    module = HloModule(
        name=text_of(message.name),
        computations=computations,
        entry_name=entry,
        id=(message.id if program_id is None else program_id) & _MASK,
        is_scheduled=bool(schedule),
        num_partitions=max(1, partitions),
        replica_count=max(1, replicas),
        input_output_alias=_alias_text(message.input_output_alias),
        buffer_donor=_donor_text(message.buffer_donor),
        entry_layout=_layout_text(message.host_program_shape) if message.HasField("host_program_shape") else "",
        attributes=extras,
        frontend_attributes=_string_map(message.frontend_attributes),
        stack_frames=frames,
        device_assignment=_device_ids(assignment),
        buffer_assignment=buffers,
    )
    return check_module(module)


def text_of(data: bytes) -> str:
    """The text of a bytes field; invalid UTF-8 becomes replacement marks."""
    return data.decode("utf-8", "replace")


def _module_message(data: bytes) -> tuple[Any, bytes]:
    outer = _try(messages().HloProto, data)
    if outer is not None and outer.hlo_module:
        inner = _try(messages().HloModuleProto, outer.hlo_module)
        if inner is not None and inner.computations:
            return inner, outer.buffer_assignment
    bare = _try(messages().HloModuleProto, data)
    if bare is not None and bare.computations:
        return bare, b""
    raise HloError(
        f"These {len(data)} bytes are neither an HloProto nor an HloModuleProto.",
        why="They are cut, damaged, or another message.",
    )


def _computation(message: Any, names: Mapping[int, str], order: Any, frames: StackFrames) -> Computation:
    name = text_of(message.name)
    light = messages().LightInstruction
    rows = [(_parse(light, data, "An instruction"), data) for data in message.instructions]
    by_id = {row.id: (row, data) for row, data in rows}
    if len(by_id) != len(rows):
        raise HloError(f"Two instructions of computation {name!r} have one id.")
    if order:
        if sorted(order) != sorted(by_id):
            raise HloError(f"The schedule of computation {name!r} does not hold its instructions.")
        rows = [by_id[id_] for id_ in order]
    ids = {row.id: text_of(row.name) for row, _ in rows}
    if len(set(ids.values())) != len(ids):
        raise HloError(f"Two instructions of computation {name!r} have one name.")
    if message.root_id not in ids:
        raise HloError(f"The root of computation {name!r} is missing.")
    seen: set[int] = set()
    instructions: list[Instruction] = []
    for row, data in rows:
        if not seen.issuperset(row.operand_ids) or not ids.keys() >= set(row.control_predecessor_ids):
            raise HloError(f"{ids[row.id]!r} in computation {name!r} uses an instruction that is not before it.")
        seen.add(row.id)
        opcode = text_of(row.opcode)
        instructions.append(
            Instruction(
                name=ids[row.id],
                opcode=opcode,
                shape=shape_from_bytes(row.shape),
                operands=tuple([ids[i] for i in row.operand_ids]),
                called=_called(opcode, row.called_computation_ids, names) if row.called_computation_ids else (),
                control_predecessors=tuple(ids[i] for i in row.control_predecessor_ids),
                computation=name,
                source=_ProtoDetails(data),
                frames=frames,
                id=row.id,
            )
        )
    thread = text_of(message.execution_thread)
    return Computation(name, tuple(instructions), ids[message.root_id], "" if thread == "main" else thread, message.id)


def _called(opcode: str, ids: Any, names: Mapping[int, str]) -> tuple[tuple[str, str], ...]:
    try:
        called = [names[id_] for id_ in ids]
    except KeyError as error:
        raise HloError(f"A {opcode!r} calls computation {error}, which the module lacks.") from error
    if opcode in ("async-update", "async-done"):
        return ()  # it repeats what the start half calls
    if opcode == "while" and len(called) == 2:
        return (("condition", called[1]), ("body", called[0]))
    if opcode == "select-and-scatter" and len(called) == 2:
        return (("select", called[0]), ("scatter", called[1]))
    if opcode in ("fusion", "async-start"):
        role = "calls"
    elif opcode == "conditional":
        role = "branch"
    else:
        role = "to_apply" if opcode in _TO_APPLY else "called"
    return tuple((role, name) for name in called)


def _literal_values(data: bytes, shape: Shape) -> tuple[Number, ...] | None:
    if not data:
        return None
    message = _parse(messages().LiteralProto, data, "A literal")
    order = tuple(message.shape.layout.minor_to_major) if message.HasField("shape") else ()
    if sorted(order) != list(range(len(shape.dims))):
        order = ()
    return decode_literal(message, shape, order)


def _stack_frames(message: Any) -> StackFrames:
    return StackFrames(
        tuple(map(text_of, message.file_names)),
        tuple(map(text_of, message.function_names)),
        tuple(
            Location(
                place.file_name_id,
                place.function_name_id,
                place.line,
                place.column,
                place.end_line,
                place.end_column,
            )
            for place in message.file_locations
        ),
        tuple((frame.file_location_id, frame.parent_frame_id) for frame in message.stack_frames),
    )


def _alias_text(message: Any) -> str:
    items = [
        f"{_index(e.output_shape_index)}: ({e.parameter_number}, {_index(e.parameter_shape_index)}, "
        f"{_ALIAS_KINDS.get(e.kind, 'undefined-alias')})"
        for e in message.entries
    ]
    return "{ " + ", ".join(items) + " }" if items else ""


def _donor_text(message: Any) -> str:
    items = [f"({e.parameter_number}, {_index(e.parameter_shape_index)})" for e in message.entries]
    return "{ " + ", ".join(items) + " }" if items else ""


def _layout_text(message: Any) -> str:
    parameters = ", ".join(str(shape_from_bytes(each)) for each in message.parameters)
    return "{(" + parameters + ")->" + str(shape_from_bytes(message.result)) + "}"


def _device_ids(assignment: Any) -> tuple[tuple[int, ...], ...] | None:
    if assignment is None or not assignment.computation_devices:
        return None
    return tuple(tuple(each.replica_device_ids) for each in assignment.computation_devices)


def _string_map(message: Any) -> dict[str, str]:
    return {text_of(entry.key): text_of(entry.value) for entry in message.map}


def _index(values: Any) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _try(message_class: Any, data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return message_class.FromString(data)
    except DecodeError:
        return None


def _parse(message_class: Any, data: bytes, what: str) -> Any:
    message = _try(message_class, data)
    if message is None:
        raise HloError(f"{what} of the module is no valid protobuf.", why="The bytes are damaged.")
    return message
