"""The text of a single instruction, as trace events carry it in their names; it may be cut off."""

from __future__ import annotations

import re

from tpuprof.errors import HloError
from tpuprof.hlo.frames import StackFrames
from tpuprof.hlo.instruction import Instruction
from tpuprof.hlo.scan import closing, end_of_item, fail
from tpuprof.hlo.shapes import Shape, parse_shape, shape_text_end
from tpuprof.hlo.text import INSTRUCTION, OPCODE, build_instruction, instruction_at

_NEXT_ATTRIBUTE = re.compile(r"\s*,\s*([A-Za-z_][\w\-]*)=")


def parse_instruction_text(text: str) -> Instruction:
    """The single instruction that an event name holds, operands with shapes and all.

    Traces cut long names off. What stands before the cut is read: name, and as far as they are complete
    shape, opcode, operands and attributes; ``truncated`` is then set, and a shape that was cut has dtype
    ``unknown``.

    Raises:
        HloError: the text does not begin with ``NAME =``.
    """
    position = len(text) - len(text.lstrip())
    match = INSTRUCTION.match(text, position)
    if match is None:
        raise fail(text, position, "expected 'NAME = SHAPE OPCODE(…)'", where="instruction text")
    try:
        instruction, _, end = instruction_at(text, position, "", StackFrames())
    except HloError:
        return _cut_off(text, match)
    if text[end:].strip():
        return _cut_off(text, match)
    return instruction


def _cut_off(text: str, match: re.Match[str]) -> Instruction:
    name = match[2]
    unknown = Instruction(name, "", Shape("unknown"), truncated=True)
    try:
        shape_end = shape_text_end(text, match.end())
        shape = parse_shape(text[match.end() : shape_end])
    except HloError:
        return unknown
    opcode = OPCODE.match(text, shape_end)
    if opcode is None:
        return Instruction(name, "", shape, truncated=True)
    start = opcode.end()
    try:
        close = closing(text, start - 1)
    except HloError:
        return _cut_in_operands(name, opcode[1], shape, text[start:])
    attributes: dict[str, str] = {}
    position = close + 1
    try:
        while (item := _NEXT_ATTRIBUTE.match(text, position)) is not None:
            position = end_of_item(text, item.end(), len(text))
            if position >= len(text):
                break  # the last one may be cut
            attributes.setdefault(item[1], text[item.end() : position].strip())
    except HloError:
        pass
    try:
        return build_instruction(name, opcode[1], shape, text[start:close], attributes, truncated=True)
    except HloError:
        return Instruction(name, opcode[1], shape, truncated=True)


def _cut_in_operands(name: str, opcode: str, shape: Shape, argument: str) -> Instruction:
    whole: list[str] = []
    position = 0
    try:
        while (end := end_of_item(argument, position, len(argument))) < len(argument) and argument[end] == ",":
            whole.append(argument[position:end])
            position = end + 1
    except HloError:
        pass
    try:
        return build_instruction(name, opcode, shape, ",".join(whole), {}, truncated=True)
    except HloError:
        return Instruction(name, opcode, shape, truncated=True)
