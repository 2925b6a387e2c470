"""The XPlane schema, written from the public description of the format.

``XPlane.lines`` is declared as ``bytes``, which is the same on the wire: lines stay opaque when a file is parsed, and
a compiled loop decodes their events. ``messages()`` gives that form; ``full_messages()`` gives the plain schema with
lines and events as messages, for writing and for the slow reference reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from tpuprof.protos import ProtoSpec, build_messages

_SHARED: ProtoSpec = {
    "XSpace": {
        1: ("planes", "repeated XPlane"),
        2: ("errors", "repeated bytes"),
        3: ("warnings", "repeated bytes"),
        4: ("hostnames", "repeated bytes"),
    },
    "XEventMetadataEntry": {1: ("key", "int64"), 2: ("value", "XEventMetadata")},
    "XStatMetadataEntry": {1: ("key", "int64"), 2: ("value", "XStatMetadata")},
    "XStat": {
        1: ("metadata_id", "int64"),
        2: ("double_value", "double oneof value"),
        3: ("uint64_value", "uint64 oneof value"),
        4: ("int64_value", "int64 oneof value"),
        5: ("str_value", "bytes oneof value"),
        6: ("bytes_value", "bytes oneof value"),
        7: ("ref_value", "uint64 oneof value"),
    },
    "XEventMetadata": {
        1: ("id", "int64"),
        2: ("name", "bytes"),
        3: ("metadata", "bytes"),
        4: ("display_name", "bytes"),
        5: ("stats", "repeated XStat"),
        6: ("child_id", "repeated packed int64"),
    },
    "XStatMetadata": {1: ("id", "int64"), 2: ("name", "bytes"), 3: ("description", "bytes")},
}
_LINES: ProtoSpec = {
    "XLine": {
        1: ("id", "int64"),
        2: ("name", "bytes"),
        3: ("timestamp_ns", "int64"),
        4: ("events", "repeated XEvent"),
        9: ("duration_ps", "int64"),
        10: ("display_id", "int64"),
        11: ("display_name", "bytes"),
    },
    "XEvent": {
        1: ("metadata_id", "int64"),
        2: ("offset_ps", "int64 oneof data"),
        5: ("num_occurrences", "int64 oneof data"),
        3: ("duration_ps", "int64"),
        4: ("stats", "repeated XStat"),
    },
}


def _plane(lines_type: str) -> Mapping[int, tuple[str, str]]:
    return {
        1: ("id", "int64"),
        2: ("name", "bytes"),
        3: ("lines", f"repeated {lines_type}"),
        4: ("event_metadata", "repeated XEventMetadataEntry"),
        5: ("stat_metadata", "repeated XStatMetadataEntry"),
        6: ("stats", "repeated XStat"),
    }


@cache
def messages() -> Any:
    """Message classes in which lines are opaque bytes: ``XSpace``, ``XPlane``, ``XStat``, ``XEventMetadata`` …"""
    return SimpleNamespace(**build_messages("tpuprof.xplane", {**_SHARED, "XPlane": _plane("bytes")}))


@cache
def full_messages() -> Any:
    """Message classes of the whole schema, ``XLine`` and ``XEvent`` included."""
    spec: ProtoSpec = {**_SHARED, **_LINES, "XPlane": _plane("XLine")}
    return SimpleNamespace(**build_messages("tpuprof.xplane.full", spec))
