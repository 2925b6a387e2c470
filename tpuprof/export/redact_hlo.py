"""HLO protos without paths and other texts that name people; what tpuprof does not know of them is left out."""

from __future__ import annotations

from typing import Any

from tpuprof.hlo.proto_schema import messages
from tpuprof.redact import Redactor

# Bytes fields that hold no text: numbers, shapes, and messages that are taken apart here.
_OPAQUE = frozenset(
    {"hlo_module", "buffer_assignment", "instructions", "shape", "literal", "parameters", "result", "outfeed_shape"}
    | {"operand_shapes_with_layout", "named_sharding"}
    | {"u8s", "f16s", "bf16s", "s8s", "u16s", "s16s", "s4s", "u4s"}
)
_PATHS = frozenset({"source_file", "file_names"})


def redact_hlo(data: bytes, redactor: Redactor) -> bytes | None:
    """The serialised HloProto or HloModuleProto with redacted texts; null if it cannot be read.

    Instructions, shapes and the buffer assignment stay, so that ops, costs and memory are the same.
    """
    outer = _parse(messages().HloProto, data)
    inner = _parse(messages().HloModuleProto, outer.hlo_module) if outer is not None and outer.hlo_module else None
    if outer is not None and inner is not None and inner.computations:
        module = _module(inner, redactor)
        if module is None:
            return None
        buffers = outer.buffer_assignment
        return (
            messages()
            .HloProto(hlo_module=module, buffer_assignment=b"" if redactor.knows(buffers) else buffers)
            .SerializeToString()
        )
    bare = _parse(messages().HloModuleProto, data)
    return _module(bare, redactor) if bare is not None and bare.computations else None


def _module(message: Any, redactor: Redactor) -> bytes | None:
    for computation in message.computations:
        for row, data in enumerate(computation.instructions):
            instruction = _parse(messages().HloInstructionProto, data)
            if instruction is None:
                return None
            _redact(instruction, redactor)
            computation.instructions[row] = instruction.SerializeToString()
    _redact(message, redactor)
    return message.SerializeToString()


def _redact(message: Any, redactor: Redactor) -> None:
    """Redacts every text of a message and of the messages in it."""
    message.DiscardUnknownFields()
    for descriptor, value in message.ListFields():
        name = descriptor.name
        several = isinstance(value, bytes | bool | int | float) is False and not hasattr(value, "ListFields")
        if descriptor.type == descriptor.TYPE_MESSAGE:
            for item in value if several else (value,):
                _redact(item, redactor)
        elif descriptor.type == descriptor.TYPE_BYTES and name not in _OPAQUE:
            key = "source_file" if name in _PATHS else ""
            if several:
                for row, item in enumerate(value):
                    value[row] = redactor.bytes_(item, key)
            else:
                setattr(message, name, redactor.bytes_(value, key))


def _parse(message_class: Any, data: bytes) -> Any:
    from google.protobuf.message import DecodeError

    try:
        return message_class.FromString(data)
    except DecodeError:
        return None
