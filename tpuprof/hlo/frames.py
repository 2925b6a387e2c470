"""Metadata of instructions, and the tables of stack frames that compiled modules share between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tpuprof.errors import HloError
from tpuprof.hlo.scan import integer

_MAX_STACK = 1000


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a source file; ids count from 1 into the name tables, 0 is unknown."""

    file_name_id: int = 0
    function_name_id: int = 0
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a stack, with its names."""

    file: str
    function: str
    line: int
    column: int = 0


@dataclass(frozen=True, slots=True)
class StackFrames:
    """The tables. All ids count from 1.

    Args:
        files, functions: the names.
        locations: places in files.
        frames: (location id, id of the parent frame or 0).
    """

    files: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    locations: tuple[Location, ...] = ()
    frames: tuple[tuple[int, int], ...] = ()

    def location(self, frame_id: int) -> Location | None:
        """The place of a frame, null if the id points nowhere."""
        if not 1 <= frame_id <= len(self.frames):
            return None
        location_id = self.frames[frame_id - 1][0]
        return self.locations[location_id - 1] if 1 <= location_id <= len(self.locations) else None

    def file(self, location: Location) -> str:
        """The file name of a place, empty if unknown."""
        return self.files[location.file_name_id - 1] if 1 <= location.file_name_id <= len(self.files) else ""

    def stack(self, frame_id: int) -> tuple[Frame, ...]:
        """The frames from this one outwards; stops at an id that points nowhere or comes again."""
        found: list[Frame] = []
        seen: set[int] = set()
        while frame_id not in seen and len(found) < _MAX_STACK:
            location = self.location(frame_id)
            if location is None:
                break
            seen.add(frame_id)
            known = 1 <= location.function_name_id <= len(self.functions)
            function = self.functions[location.function_name_id - 1] if known else ""
            found.append(Frame(self.file(location), function, location.line, location.column))
            frame_id = self.frames[frame_id - 1][1]
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where an instruction comes from.

    Args:
        op_type: the framework's name of the operation.
        op_name: the scope path, e.g. ``jit(f)/mlp/dot_general``.
        source_file, source_line, source_column, source_end_line, source_end_column: the place in the source,
            0 or empty if unknown.
        deduplicated_name: the instruction that this one is a copy of.
        scheduling_name: the name the instruction had when it was scheduled.
        stack_frame_id: into the tables of the module; numbering is the source's own.
        other: fields without a place here, as written.
    """

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_column: int = 0
    source_end_line: int = 0
    source_end_column: int = 0
    deduplicated_name: str = ""
    scheduling_name: str = ""
    stack_frame_id: int = field(default=0, compare=False)
    other: tuple[tuple[str, str], ...] = ()


TEXT_FIELDS = ("op_type", "op_name", "source_file", "deduplicated_name", "scheduling_name")
NUMBER_FIELDS = (
    "source_line",
    "source_column",
    "source_end_line",
    "source_end_column",
    "stack_frame_id",
)


def resolve_metadata(fields: Mapping[str, str], frames: StackFrames) -> Metadata:
    """The metadata with source file and line taken from the stack frame where they are not given directly.

    Raises:
        HloError: a number is none.
    """
    if not fields:
        return Metadata()
    texts = {key: fields[key] for key in TEXT_FIELDS if key in fields}
    numbers = {key: integer(fields[key], key) for key in NUMBER_FIELDS if key in fields}
    known = (*TEXT_FIELDS, *NUMBER_FIELDS)
    other = tuple(sorted((key, value) for key, value in fields.items() if key not in known))
    place = frames.location(numbers.get("stack_frame_id", 0))
    if place is not None and not texts.get("source_file"):
        texts["source_file"] = frames.file(place)
        numbers["source_line"] = place.line
        numbers["source_column"] = place.column
        numbers["source_end_line"] = place.end_line
        numbers["source_end_column"] = place.end_column
    return Metadata(**texts, **numbers, other=other)  # pyright: ignore[reportArgumentType]


def parent_ids(written: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Frames with true parent ids, from the (location, parent) pairs of HLO text.

    Recent XLA writes parents one too high in text (a root has 1, older text has 0). Root frames always exist,
    so a table in which no frame has parent 0 is of the recent kind.

    Raises:
        HloError: an id is negative.
    """
    if any(location < 0 or parent < 0 for location, parent in written):
        raise HloError("A stack frame has a negative id.")
    shift = 0 if any(parent == 0 for _, parent in written) else 1
    return tuple((location, parent - shift) for location, parent in written)
