"""One HLO instruction as data.

Name, opcode, shape, operands and called computations are read at once; everything else is read when it is
first asked for, because a module of a large model has hundreds of thousands of instructions and an analysis
looks at few.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from tpuprof.hlo.dims import (
    ConvDims,
    DotDims,
    WindowDim,
    parse_dim_labels,
    parse_padding,
    parse_pairs,
    parse_slices,
    parse_window,
)
from tpuprof.hlo.frames import Frame, Metadata, StackFrames, resolve_metadata
from tpuprof.hlo.groups import ReplicaGroups, parse_replica_groups
from tpuprof.hlo.literals import Number
from tpuprof.hlo.scan import integer, integers, unquote
from tpuprof.hlo.shapes import Shape

# Attributes for tools that draw graphs or track values through passes; they are not read from protobuf.
_TEXT_ONLY = ("origin", "statistics")


@dataclass(frozen=True, slots=True)
class Details:
    """What is read of an instruction only when it is asked for.

    Args:
        attributes: attribute texts as HLO text writes them, by name; those at their default are left out. A
            parameter's number is ``parameter_number``. Unknown attributes are kept as written.
        metadata: the fields of the metadata by name, unquoted.
        frontend_attributes: attributes that the framework has set, unquoted.
        backend_config: the raw text, empty if there is none.
        values: the elements of a small constant in row-major order; null if elided or not a constant.
        literal: the bytes of the literal message of a constant where the source holds one.
    """

    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    frontend_attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    backend_config: str = ""
    values: tuple[Number, ...] | None = None
    literal: bytes = b""

    def decode(self, shape: Shape) -> Details:
        """Itself: these details are read already."""
        del shape
        return self


class DetailsSource(Protocol):
    """Where the details of an instruction come from."""

    def decode(self, shape: Shape) -> Details:
        """The details of the instruction with this shape."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Instruction:
    """One HLO instruction.

    Args:
        name: without ``%``.
        opcode: as HLO writes it (``dot``, ``all-reduce-start``). The short form ``slice-start`` of a generic
            asynchronous operation is opcode ``async-start``; `HloModule.async_opcode` gives what it wraps.
        shape: the shape of its value; dtype ``unknown`` if its text was cut off before the shape ended.
        operands: names of the operands, in order.
        called: (role, computation name) pairs; a role is ``calls``, ``to_apply``, ``condition``, ``body``,
            ``branch`` (in branch order; of a boolean conditional the true branch first), ``called``,
            ``select`` or ``scatter``.
        control_predecessors: names of instructions that must run before, without data flowing.
        computation: name of the computation that holds it, empty for a single instruction.
        source: where the rest is read from.
        frames: the stack frame tables of the module.
        id: the instruction's id within its module, 0 if unknown.
        operand_shapes: shapes that were written next to the operands, null each where there was none.
        truncated: the text it was read from was cut off.
        wrapped_opcode: what a generic asynchronous operation that was written in the short form wraps.

    Two instructions are equal if all that both sources can carry is equal: ids, shapes repeated next to
    operands and values of constants that one side elides do not count.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...] = ()
    called: tuple[tuple[str, str], ...] = ()
    control_predecessors: tuple[str, ...] = ()
    computation: str = ""
    source: DetailsSource = field(default_factory=Details)
    frames: StackFrames = field(default_factory=StackFrames)
    id: int = 0
    operand_shapes: tuple[Shape | None, ...] = ()
    truncated: bool = False
    wrapped_opcode: str = ""

    def __repr__(self) -> str:
        return f"<Instruction {self.name} = {self.shape} {self.opcode}({', '.join(self.operands)})>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instruction) and not differences(self, other)

    def __hash__(self) -> int:
        return hash((self.computation, self.name, self.opcode))

    @cached_property
    def details(self) -> Details:
        """All that is read late.

        Raises:
            HloError: an attribute cannot be read.
        """
        return self.source.decode(self.shape)

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attribute texts by name, see `Details`."""
        return self.details.attributes

    @cached_property
    def metadata(self) -> Metadata:
        """Framework op name, source and so on; source file and line also through the stack frame tables."""
        return resolve_metadata(self.details.metadata, self.frames)

    @property
    def stack(self) -> tuple[Frame, ...]:
        """The Python stack that made the instruction, innermost frame first; empty if not recorded."""
        return self.frames.stack(self.metadata.stack_frame_id)

    @property
    def frontend_attributes(self) -> Mapping[str, str]:
        """Attributes set by the framework."""
        return self.details.frontend_attributes

    @property
    def backend_config(self) -> str:
        """The backend's own configuration, raw; empty if there is none."""
        return self.details.backend_config

    @cached_property
    def backend_config_json(self) -> Any:
        """The backend configuration as parsed JSON, null if there is none or it is no JSON."""
        if not self.backend_config.lstrip().startswith(("{", "[")):
            return None
        try:
            return json.loads(self.backend_config)
        except (ValueError, RecursionError):
            return None

    @property
    def values(self) -> tuple[Number, ...] | None:
        """The elements of a small constant in row-major order, null where they are not known."""
        return self.details.values

    @property
    def constant(self) -> Number | None:
        """The value of a scalar constant, else null."""
        values = self.details.values
        return values[0] if self.opcode == "constant" and values and not self.shape.dims else None

    def called_by_role(self, role: str) -> tuple[str, ...]:
        """Names of the called computations with this role."""
        return tuple(name for each, name in self.called if each == role)

    @property
    def fusion_kind(self) -> str | None:
        """``kLoop``, ``kInput``, ``kOutput`` or ``kCustom`` of a fusion."""
        return self.attributes.get("kind") if self.opcode == "fusion" else None

    @property
    def custom_call_target(self) -> str | None:
        """The target of a custom call."""
        text = self.attributes.get("custom_call_target")
        return None if text is None else unquote(text)

    @property
    def parameter_number(self) -> int | None:
        """Which parameter of the computation this is."""
        return self._integer("parameter_number")

    @property
    def tuple_index(self) -> int | None:
        """Which part of its tuple a get-tuple-element takes."""
        return self._integer("index")

    @property
    def channel_id(self) -> int | None:
        """The channel of a collective, send or recv."""
        return self._integer("channel_id")

    @property
    def use_global_device_ids(self) -> bool:
        """Whether replica groups hold ids of replica x partition rather than of replicas."""
        return self.attributes.get("use_global_device_ids") == "true"

    @property
    def is_host_transfer(self) -> bool:
        """Whether a send or recv talks to the host."""
        return self.attributes.get("is_host_transfer") == "true"

    @property
    def async_execution_thread(self) -> str | None:
        """The thread of an async-start that is not the main one, e.g. ``sparsecore``."""
        text = self.attributes.get("async_execution_thread")
        return None if text is None else unquote(text)

    @property
    def comparison_direction(self) -> str | None:
        """EQ, NE, GE, GT, LE or LT of a compare."""
        return self.attributes.get("direction")

    @property
    def sharding(self) -> str | None:
        """The sharding as text."""
        return self.attributes.get("sharding")

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Dimension numbers of a reduce, broadcast, transpose, sort, all-gather …, and of an iota."""
        if self.opcode == "iota":
            return (self._integer("iota_dimension") or 0,)
        return self._integers("dimensions")

    @property
    def replica_groups(self) -> ReplicaGroups | None:
        """The groups of a collective, null where there are none."""
        text = self.attributes.get("replica_groups")
        return None if text is None else parse_replica_groups(text)

    @property
    def source_target_pairs(self) -> tuple[tuple[int, int], ...] | None:
        """(source, target) device pairs of a collective-permute."""
        text = self.attributes.get("source_target_pairs")
        return None if text is None else parse_pairs(text)

    @property
    def dot_dims(self) -> DotDims | None:
        """Contracting and batch dimensions of a dot."""
        if self.opcode not in ("dot", "ragged-dot", "scaled-dot"):
            return None
        return DotDims(
            self._integers("lhs_contracting_dims"),
            self._integers("rhs_contracting_dims"),
            self._integers("lhs_batch_dims"),
            self._integers("rhs_batch_dims"),
        )

    @property
    def window(self) -> tuple[WindowDim, ...]:
        """The window of a convolution or a reduce-window; empty where there is none."""
        text = self.attributes.get("window")
        return () if text is None else parse_window(text)

    @property
    def conv_dims(self) -> ConvDims | None:
        """Dimension numbers of a convolution."""
        text = self.attributes.get("dim_labels")
        return None if text is None else parse_dim_labels(text)

    @property
    def feature_group_count(self) -> int:
        """Feature groups of a convolution."""
        return self._integer("feature_group_count") or 1

    @property
    def batch_group_count(self) -> int:
        """Batch groups of a convolution."""
        return self._integer("batch_group_count") or 1

    @property
    def slices(self) -> tuple[tuple[int, int, int], ...] | None:
        """(start, limit, stride) per dimension of a slice."""
        text = self.attributes.get("slice")
        return None if text is None else parse_slices(text)

    @property
    def dynamic_slice_sizes(self) -> tuple[int, ...]:
        """Sizes that a dynamic-slice takes."""
        return self._integers("dynamic_slice_sizes")

    @property
    def gather_slice_sizes(self) -> tuple[int, ...]:
        """Sizes of the slices that a gather takes."""
        return self._integers("slice_sizes") if self.opcode == "gather" else ()

    @property
    def padding(self) -> tuple[tuple[int, int, int], ...] | None:
        """(low, high, interior) per dimension of a pad."""
        text = self.attributes.get("padding")
        return None if text is None else parse_padding(text)

    @property
    def fft_length(self) -> tuple[int, ...]:
        """Lengths of an FFT."""
        return self._integers("fft_length")

    def _integer(self, key: str) -> int | None:
        text = self.attributes.get(key)
        return None if text is None else integer(text, key)

    def _integers(self, key: str) -> tuple[int, ...]:
        text = self.attributes.get(key)
        return () if text is None else integers(text, key)


def _carried(attributes: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in attributes.items() if key not in _TEXT_ONLY}


def differences(one: Instruction, two: Instruction) -> list[str]:
    """Names of the parts in which two instructions differ; empty if they are equal."""
    parts = ("name", "opcode", "shape", "operands", "called", "control_predecessors", "computation")
    late = ("attributes", "metadata", "frontend_attributes", "backend_config")
    found = [part for part in (*parts, *late) if getattr(one, part) != getattr(two, part)]
    if "attributes" in found and _carried(one.attributes) == _carried(two.attributes):
        found.remove("attributes")
    if one.values is not None and two.values is not None and repr(one.values) != repr(two.values):
        found.append("values")
    return found
