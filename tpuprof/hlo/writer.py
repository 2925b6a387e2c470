"""The model, written as HloProto bytes.

Attributes of HLO text that the public schema has no field for go into a private field, so that nothing is
lost; other readers skip it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tpuprof.errors import HloError
from tpuprof.hlo.attribute_writer import write_attributes
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.literals import encode_literal
from tpuprof.hlo.module import Computation, HloModule
from tpuprof.hlo.proto_schema import messages
from tpuprof.hlo.scan import integers, split_top_level
from tpuprof.hlo.shape_proto import shape_bytes, shape_to_message
from tpuprof.hlo.shapes import parse_shape

_ALIAS = re.compile(r"(\{[\d, ]*\}): \((\d{1,18}), (\{[\d, ]*\}), (may|must)-alias\)\Z")
_DONOR = re.compile(r"\((\d{1,18}), (\{[\d, ]*\})\)\Z")
_METADATA_TEXTS = ("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name")
_METADATA_NUMBERS = ("source_line", "source_column", "source_end_line", "source_end_column", "stack_frame_id")


def to_proto(module: HloModule) -> bytes:
    """The module as serialised HloProto, which `parse_proto` reads back to an equal module.

    Ids are kept where the module has them (buffer assignments refer to them), else counted from 1.

    Raises:
        HloError: a part of the module cannot be written.
    """
    message = messages().HloModuleProto()
    message.name = _bytes(module.name)
    message.id = _signed(module.id)
    message.entry_computation_name = _bytes(module.entry_name)
    computation_ids, instruction_ids = _ids(module)
    message.entry_computation_id = computation_ids[module.entry_name]
    for computation in module.computations:
        target = message.computations.add()
        _write_computation(target, computation, computation_ids, instruction_ids)
        if module.is_scheduled:
            entry = message.schedule.sequences.add(key=target.id)
            entry.value.instruction_ids.extend(
                instruction_ids[computation.name, i.name] for i in computation.instructions
            )
    _write_module(message, module)
    outer = messages().HloProto(hlo_module=message.SerializeToString(), buffer_assignment=module.buffer_assignment)
    return outer.SerializeToString()


def _ids(module: HloModule) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    kept = [i.id for c in module.computations for i in c.instructions]
    if len(set(kept)) == len(kept) and len({c.id for c in module.computations}) == len(module.computations):
        instructions = {(c.name, i.name): i.id for c in module.computations for i in c.instructions}
        return {c.name: c.id for c in module.computations}, instructions
    computations = {c.name: number for number, c in enumerate(module.computations, 1)}
    pairs = [(c.name, i.name) for c in module.computations for i in c.instructions]
    return computations, {pair: number for number, pair in enumerate(pairs, 1)}


def _write_computation(
    message: Any,
    computation: Computation,
    computation_ids: Mapping[str, int],
    ids: Mapping[tuple[str, str], int],
) -> None:
    message.name = _bytes(computation.name)
    message.id = computation_ids[computation.name]
    message.root_id = ids[computation.name, computation.root_name]
    message.execution_thread = _bytes(computation.execution_thread)
    message.program_shape.result = shape_bytes(computation.root.shape)
    for parameter in computation.parameters:
        message.program_shape.parameters.append(shape_bytes(parameter.shape))
        message.program_shape.parameter_names.append(_bytes(parameter.name))
    for instruction in computation.instructions:
        target = messages().HloInstructionProto()
        target.id = ids[computation.name, instruction.name]
        target.operand_ids.extend(ids[computation.name, name] for name in instruction.operands)
        target.control_predecessor_ids.extend(ids[computation.name, name] for name in instruction.control_predecessors)
        target.called_computation_ids.extend(computation_ids[name] for name in _call_order(instruction))
        _write_instruction(target, instruction)
        message.instructions.append(target.SerializeToString())


def _call_order(instruction: Instruction) -> list[str]:
    names = [name for _, name in instruction.called]
    # The message holds a loop's body before its condition.
    return names[::-1] if instruction.opcode == "while" else names


def _write_instruction(message: Any, instruction: Instruction) -> None:
    message.name = _bytes(instruction.name)
    message.opcode = _bytes(instruction.opcode)
    message.shape = shape_bytes(instruction.shape)
    details = instruction.details
    extras = write_attributes(message, instruction.opcode, details.attributes)
    for key, value in details.metadata.items():
        if key in _METADATA_TEXTS:
            setattr(message.metadata, key, _bytes(value))
        elif key in _METADATA_NUMBERS:
            setattr(message.metadata, key, integers(value, key)[0])
        elif key == "profile_type":
            message.metadata.profile_type.extend(integers(value, key))
        else:
            extras[f"metadata.{key}"] = value
    _write_map(message.frontend_attributes, details.frontend_attributes)
    message.backend_config = _bytes(details.backend_config)
    if details.literal:
        message.literal = details.literal
    elif details.values is not None:
        literal = messages().LiteralProto()
        shape_to_message(instruction.shape, literal.shape)
        encode_literal(literal, details.values, instruction.shape)
        message.literal = literal.SerializeToString()
    for key, value in extras.items():
        message.extra_attributes.add(name=_bytes(key), text=_bytes(value))


def _write_module(message: Any, module: HloModule) -> None:
    _write_devices(message, module)
    frames = module.stack_frames
    if frames.files or frames.frames:
        index = message.stack_frame_index
        index.file_names.extend(map(_bytes, frames.files))
        index.function_names.extend(map(_bytes, frames.functions))
        for place in frames.locations:
            index.file_locations.add(**{key: getattr(place, key) for key in place.__dataclass_fields__})
        for location, parent in frames.frames:
            index.stack_frames.add(file_location_id=location, parent_frame_id=parent)
    _write_map(message.frontend_attributes, module.frontend_attributes)
    for item in split_top_level(module.input_output_alias.strip()[1:-1]):
        match = _ALIAS.match(item)
        if match is None:
            raise HloError(f"The input-output alias {item[:60]!r} cannot be written.")
        message.input_output_alias.entries.add(
            output_shape_index=integers(match[1], "alias"),
            parameter_number=int(match[2]),
            parameter_shape_index=integers(match[3], "alias"),
            kind=1 if match[4] == "may" else 2,
        )
    for item in split_top_level(module.buffer_donor.strip()[1:-1]):
        match = _DONOR.match(item)
        if match is None:
            raise HloError(f"The buffer donor {item[:60]!r} cannot be written.")
        message.buffer_donor.entries.add(
            parameter_number=int(match[1]), parameter_shape_index=integers(match[2], "donor")
        )
    if module.entry_layout:
        _write_layout(message.host_program_shape, module.entry_layout)
        names = [_bytes(parameter.name) for parameter in module.entry.parameters]
        if len(names) == len(message.host_program_shape.parameters):  # readers want all names or none
            message.host_program_shape.parameter_names.extend(names)
    for key, value in module.attributes.items():
        message.extra_attributes.add(name=_bytes(key), text=_bytes(value))


def _write_devices(message: Any, module: HloModule) -> None:
    if module.device_assignment is not None:
        assignment = message.device_assignment
        assignment.computation_count, assignment.replica_count = module.num_partitions, module.replica_count
        for devices in module.device_assignment:
            assignment.computation_devices.add(replica_device_ids=devices)
        return
    # The schema has the two counts in the device assignment only, and readers refuse one without devices.
    for key in ("num_partitions", "replica_count"):
        if getattr(module, key) != 1:
            message.extra_attributes.add(name=_bytes(key), text=_bytes(str(getattr(module, key))))


def _write_layout(message: Any, text: str) -> None:
    arguments, arrow, result = text.strip()[1:-1].rpartition("->")
    if not arrow:
        raise HloError(f"The entry computation layout {text[:60]!r} cannot be written.")
    for part in split_top_level(arguments.strip()[1:-1]):
        message.parameters.append(shape_bytes(parse_shape(part)))
    message.result = shape_bytes(parse_shape(result))


def _write_map(message: Any, values: Mapping[str, str]) -> None:
    for key, value in values.items():
        message.map.add(key=_bytes(key), value=_bytes(value))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
