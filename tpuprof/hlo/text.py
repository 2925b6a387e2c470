"""HLO text, read into the model.

Accepts what XLA prints with its usual options: with or without ``%``, operand shapes, layouts,
``/*index=5*/`` marks, program shapes and metadata. One pass over the text; errors name line and column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tpuprof.errors import HloError
from tpuprof.hlo.async_ops import spell_out
from tpuprof.hlo.attributes import canonical
from tpuprof.hlo.frames import Location, StackFrames, parent_ids
from tpuprof.hlo.instruction import Details, Instruction
from tpuprof.hlo.literals import parse_literal_text
from tpuprof.hlo.module import Computation, HloModule, check_module
from tpuprof.hlo.scan import (
    closing,
    end_of_item,
    fail,
    integer,
    key_values,
    split_top_level,
    unquote,
    without_comments,
)
from tpuprof.hlo.shapes import Shape, parse_shape, shape_text_end

_SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\n]*)+")
_HEADER = re.compile(r"HloModule[ \t]+([^\s,]+)")
_SECTION = re.compile(r"(FileNames|FunctionNames|FileLocations|StackFrames)[ \t]*(?=\n|\Z)")
_ROW = re.compile(r"[ \t]*(\d{1,9})[ \t]+([^\n]*)(?:\n|\Z)")
_COMPUTATION = re.compile(r"(ENTRY[ \t]+)?%?([^\s=,(){}%\[\]]+)[ \t]*(?=[({])")
INSTRUCTION = re.compile(r"(ROOT[ \t]+)?%?([^\s=,(){}%\[\]]+)[ \t]*=[ \t]*")
OPCODE = re.compile(r"\s*([a-z][a-z0-9\-]*)\(")
_ATTRIBUTE = re.compile(r"\s*([A-Za-z_][\w\-]*)=")
_NAME = re.compile(r"%?([^\s=,(){}%\[\]]+)\Z")
_ROLES = {
    "calls": "calls",
    "to_apply": "to_apply",
    "condition": "condition",
    "body": "body",
    "branch_computations": "branch",
    "true_computation": "branch",
    "false_computation": "branch",
    "called_computations": "called",
    "select": "select",
    "scatter": "scatter",
}
_WRITTEN_OUT = ("all-gather", "all-reduce", "collective-permute", "copy", "async", "send", "recv")
_ASYNC_SUFFIX = re.compile(r"(.+)-(start|update|done)\Z")


@dataclass(frozen=True, slots=True)
class _TextDetails:
    """The attribute texts of an instruction, to be read later."""

    opcode: str
    attributes: Mapping[str, str]
    argument: str = ""  # what stands in the parentheses of a constant or parameter

    def decode(self, shape: Shape) -> Details:
        texts = dict(self.attributes)
        metadata = {key: unquote(value) for key, value in key_values(_braces(texts.pop("metadata", "")))}
        frontend = {key: unquote(value) for key, value in key_values(_braces(texts.pop("frontend_attributes", "")))}
        backend_config = unquote(texts.pop("backend_config", ""))
        values = None
        if self.opcode == "constant":
            values = parse_literal_text(self.argument, shape)
        elif self.opcode == "parameter":
            texts["parameter_number"] = str(integer(self.argument, "parameter"))
        return Details(canonical(self.opcode, texts), metadata, frontend, backend_config, values)


@dataclass(slots=True)
class _Sections:
    names: dict[str, list[str]] = field(default_factory=lambda: {"FileNames": [], "FunctionNames": []})
    locations: list[Location] = field(default_factory=list[Location])
    frames: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def tables(self) -> StackFrames:
        return StackFrames(
            tuple(self.names["FileNames"]),
            tuple(self.names["FunctionNames"]),
            tuple(self.locations),
            parent_ids(self.frames),
        )


def parse_text(text: str) -> HloModule:
    """The module that the text describes. Text carries neither ids, a device assignment nor buffers.

    Raises:
        HloError: the text is no HLO module; names line and column where it can.
    """
    position = _skip(text, 0)
    header = _HEADER.match(text, position)
    if header is None:
        raise fail(text, position, "expected 'HloModule NAME'")
    attributes, position = _attributes(text, header.end())
    sections = _Sections()
    position = _skip(text, position)
    while (match := _SECTION.match(text, position)) is not None:
        position = _skip(text, _section(text, match, sections))
    frames = sections.tables()
    computations: list[Computation] = []
    entry = ""
    while position < len(text):
        computation, is_entry, position = _computation(text, position, frames)
        computation, wrapped = spell_out(computation)
        computations.extend((*wrapped, computation))
        if is_entry or not entry:
            entry = computation.name if is_entry else entry
        position = _skip(text, position)
    if not computations:
        raise fail(text, position, "the module has no computations")
    return _module(header[1], attributes, frames, computations, entry or computations[-1].name)


def _module(
    name: str, attributes: dict[str, str], frames: StackFrames, computations: list[Computation], entry: str
) -> HloModule:
    frontend = {k: unquote(v) for k, v in key_values(_braces(attributes.pop("frontend_attributes", "")))}
    module = HloModule(
        name=name,
        computations=tuple(computations),
        entry_name=entry,
        is_scheduled=attributes.pop("is_scheduled", "") == "true",
        num_partitions=integer(attributes.pop("num_partitions", "1"), "num_partitions"),
        replica_count=integer(attributes.pop("replica_count", "1"), "replica_count"),
        input_output_alias=without_comments(attributes.pop("input_output_alias", "")),
        buffer_donor=without_comments(attributes.pop("buffer_donor", "")),
        entry_layout=without_comments(attributes.pop("entry_computation_layout", "")),
        attributes=attributes,
        frontend_attributes=frontend,
        stack_frames=frames,
    )
    return check_module(module)


def _section(text: str, match: re.Match[str], sections: _Sections) -> int:
    kind = match[1]
    position = match.end() + 1
    while (row := _ROW.match(text, position)) is not None:
        body = row[2].strip()
        if kind in sections.names:
            rows: list[str] = sections.names[kind]
            count = len(rows) + 1
            rows.append(unquote(body))
        else:
            numbers = {key: integer(value, key) for key, value in key_values(_braces(body))}
            if kind == "FileLocations":
                count = len(sections.locations) + 1
                known = {key: numbers.get(key, 0) for key in Location.__dataclass_fields__}
                sections.locations.append(Location(**known))
            else:
                count = len(sections.frames) + 1
                sections.frames.append((numbers.get("file_location_id", 0), numbers.get("parent_frame_id", 0)))
        if int(row[1]) != count:
            raise fail(text, position, f"row {row[1]} of {kind} stands at place {count}")
        position = row.end()
    return position


def _computation(text: str, start: int, frames: StackFrames) -> tuple[Computation, bool, int]:
    match = _COMPUTATION.match(text, start)
    if match is None:
        raise fail(text, start, f"expected a computation, found {text[start : start + 30]!r}")
    position = match.end()
    if text[position] == "(":
        position = _skip(text, closing(text, position) + 1)
        if not text.startswith("->", position):
            raise fail(text, position, "expected '->' and the result shape of the computation")
        position = _skip(text, shape_text_end(text, position + 2))
    if not text.startswith("{", position):
        raise fail(text, position, "expected '{'")
    name = match[2]
    position = _skip(text, position + 1)
    instructions: list[Instruction] = []
    seen: set[str] = set()
    root = ""
    while not text.startswith("}", position):
        instruction, is_root, end = instruction_at(text, position, name, frames)
        if instruction.name in seen:
            raise fail(text, position, f"instruction {instruction.name!r} is defined twice")
        missing = [operand for operand in instruction.operands if operand not in seen]
        if missing:
            raise fail(text, position, f"{instruction.name!r} uses {missing[0]!r} before it is defined")
        if is_root and root:
            raise fail(text, position, f"computation {name!r} has two roots")
        root = instruction.name if is_root else root
        seen.add(instruction.name)
        instructions.append(instruction)
        position = _skip(text, end)
    if not instructions:
        raise fail(text, position, f"computation {name!r} has no instructions")
    for instruction in instructions:
        if any(each not in seen for each in instruction.control_predecessors):
            raise fail(text, start, f"{instruction.name!r} has a control predecessor that does not exist")
    attributes, position = _attributes(text, position + 1)
    thread = unquote(attributes.get("execution_thread", ""))
    computation = Computation(name, tuple(instructions), root or instructions[-1].name, thread)
    return computation, match[1] is not None, position


def instruction_at(text: str, start: int, computation: str, frames: StackFrames) -> tuple[Instruction, bool, int]:
    """The instruction that begins at a position, whether it is a root, and the position after it."""
    match = INSTRUCTION.match(text, start)
    if match is None:
        raise fail(text, start, f"expected an instruction, found {text[start : start + 30]!r}")
    shape_end = shape_text_end(text, match.end())
    try:
        shape = parse_shape(text[match.end() : shape_end])
    except HloError as error:
        raise fail(text, match.end(), error.what.rstrip(".")) from error
    opcode_match = OPCODE.match(text, shape_end)
    if opcode_match is None:
        raise fail(text, shape_end, "expected an opcode and '('")
    close = closing(text, opcode_match.end() - 1)
    argument = text[opcode_match.end() : close]
    attributes, position = _attributes(text, close + 1)
    instruction = build_instruction(match[2], opcode_match[1], shape, argument, attributes, computation, frames)
    return instruction, match[1] is not None, position


def build_instruction(
    name: str,
    opcode: str,
    shape: Shape,
    argument: str,
    attributes: dict[str, str],
    computation: str = "",
    frames: StackFrames | None = None,
    *,
    truncated: bool = False,
) -> Instruction:
    """The instruction of its parts: the text between its parentheses, and its attributes by name."""
    operands: list[str] = []
    shapes: list[Shape | None] = []
    if opcode not in ("constant", "parameter"):
        for item in split_top_level(argument):
            operand, operand_shape = _operand(item)
            operands.append(operand)
            shapes.append(operand_shape)
        argument = ""
    wrapped = ""
    suffix = _ASYNC_SUFFIX.match(opcode)
    if suffix and suffix[1] not in _WRITTEN_OUT:
        opcode = f"async-{suffix[2]}"
        wrapped = suffix[1]
    called: list[tuple[str, str]] = []
    for key, role in _ROLES.items():
        if key in attributes and not (role in ("select", "scatter") and opcode != "select-and-scatter"):
            called.extend((role, name_of(item)) for item in split_top_level(_braces(attributes.pop(key))))
    if opcode in ("async-update", "async-done"):
        called.clear()  # it repeats what the start half calls
    control = split_top_level(_braces(attributes.pop("control-predecessors", "")))
    return Instruction(
        name=name,
        opcode=opcode,
        shape=shape,
        operands=tuple(operands),
        called=tuple(called),
        control_predecessors=tuple(map(name_of, control)),
        computation=computation,
        source=_TextDetails(opcode, attributes, argument),
        frames=frames or StackFrames(),
        operand_shapes=tuple(shapes) if any(shapes) else (),
        truncated=truncated,
        wrapped_opcode=wrapped,
    )


def _operand(item: str) -> tuple[str, Shape | None]:
    item = without_comments(item).strip()
    match = _NAME.match(item)
    if match is not None:
        return match[1], None
    end = shape_text_end(item, 0)
    return name_of(item[end:]), parse_shape(item[:end])


def name_of(text: str) -> str:
    """The name in a reference such as ``%fusion.3``.

    Raises:
        HloError: the text is no name.
    """
    match = _NAME.match(without_comments(text).strip())
    if match is None:
        raise HloError(f"{text[:60]!r} is no name of an instruction or computation.", where="HLO text")
    return match[1]


def _attributes(text: str, position: int) -> tuple[dict[str, str], int]:
    """Reads ``, key=value`` items up to the end of the line; the position after them."""
    found: dict[str, str] = {}
    end = len(text)
    while True:
        while position < end and text[position] in " \t\r":
            position += 1
        if position >= end or text[position] == "\n":
            return found, position
        if text[position] != ",":
            raise fail(
                text,
                position,
                f"expected ',' or the end of the line, found {text[position : position + 20]!r}",
            )
        match = _ATTRIBUTE.match(text, position + 1)
        if match is None:
            raise fail(text, position + 1, f"expected key=value, found {text[position + 1 : position + 30]!r}")
        stop = end_of_item(text, match.end(), end)
        value = text[match.end() : stop].strip()
        if match[1] == "device_ids" and found.get("replica_groups", "").startswith("mesh["):
            # The mesh form of replica groups is the one value with a comma outside brackets.
            found["replica_groups"] += f", device_ids={value}"
        elif match[1] in found:
            raise fail(text, position + 1, f"attribute {match[1]!r} is given twice")
        else:
            found[match[1]] = value
        position = stop


def _braces(text: str) -> str:
    text = text.strip()
    return text[1:-1] if text.startswith("{") and text.endswith("}") and len(text) >= 2 else text


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position
