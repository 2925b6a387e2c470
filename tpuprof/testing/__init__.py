"""Help for tests: small traces with known truth.

``TraceBuilder`` makes real trace files (XPlane protobuf and the viewer's JSON) of a few events, for tests of
readers, of analyzers, and of anything else that takes a trace.
"""

from tpuprof.testing.builder import (
    Event,
    HostBuilder,
    Layout,
    LineBuilder,
    MetadataEntry,
    PlaneBuilder,
    TraceBuilder,
)
from tpuprof.testing.programs import Program, hlo_proto_from_text
from tpuprof.testing.values import Ps, Ref, Stat, Time, Unsigned, to_ps

__all__ = [
    "Event",
    "HostBuilder",
    "Layout",
    "LineBuilder",
    "MetadataEntry",
    "PlaneBuilder",
    "Program",
    "Ps",
    "Ref",
    "Stat",
    "Time",
    "TraceBuilder",
    "Unsigned",
    "hlo_proto_from_text",
    "to_ps",
]
