"""Protobuf message classes from schemas written in Python, without ``protoc`` and without clashes.

Each schema lives in a descriptor pool of its own, so that names never collide with those of other packages in the
process, and works with every protobuf runtime from 5 on. Text fields are declared as ``bytes`` where writers are
known to put invalid UTF-8 into them: the wire format is the same, and parsing cannot fail on a name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SCALARS = {
    "double": 1,
    "float": 2,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "fixed64": 6,
    "fixed32": 7,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "uint32": 13,
    "sint64": 18,
}
_FIELD = re.compile(r"(?P<repeated>repeated )?(?P<packed>packed )?(?P<type>\w+)(?: oneof (?P<oneof>\w+))?\Z")

# Message name -> field number -> (field name, "[repeated ][packed ]<scalar or message>[ oneof <group>]")
ProtoSpec = Mapping[str, Mapping[int, tuple[str, str]]]


def build_messages(package: str, spec: ProtoSpec) -> dict[str, Any]:
    """Message classes for a schema, by message name.

    Args:
        package: a package name, unique for the schema within its own pool.
        spec: the messages. Unknown fields survive parsing and writing, so a schema may name only what is used.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for message_name, fields in spec.items():
        message = file.message_type.add(name=message_name)
        oneofs: dict[str, int] = {}
        for number, (field_name, type_text) in fields.items():
            match = _FIELD.match(type_text)
            if match is None:
                raise ValueError(f"{message_name}.{field_name}: cannot read the field type {type_text!r}")
            field: Any = message.field.add(name=field_name, number=number, label=3 if match["repeated"] else 1)
            scalar = _SCALARS.get(match["type"])
            if scalar is None:
                field.type = 11
                field.type_name = f".{package}.{match['type']}"
            else:
                field.type = scalar
            if match["oneof"]:
                if match["oneof"] not in oneofs:
                    oneofs[match["oneof"]] = len(oneofs)
                    message.oneof_decl.add(name=match["oneof"])
                field.oneof_index = oneofs[match["oneof"]]
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in spec}
