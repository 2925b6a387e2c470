"""Programs of a built trace: HLO text, its instructions as the profiler prints them, and its protobuf."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from tpuprof.hlo import parse_text, to_proto

_ATTRIBUTES_NOT_IN_NAMES = ("metadata", "backend_config", "frontend_attributes", "sharding")


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled program.

    Args:
        name: the module's name, such as ``jit_train_step``.
        id: the program id, 0 to 2^64 - 1.
        text: the optimised HLO module as text; empty if the trace shall not hold it.
    """

    name: str
    id: int
    text: str = ""

    @property
    def label(self) -> str:
        """The name of its rows on the line ``XLA Modules``: ``jit_train_step(1234567890)``."""
        return f"{self.name}({self.id})"

    def with_text(self, old: str, new: str) -> Program:
        """The same program with every ``old`` in its text replaced.

        Raises:
            ValueError: the text does not hold ``old``, so nothing would change.
        """
        if old not in self.text:
            raise ValueError(f"the text of {self.label} does not hold {old!r}")
        return replace(self, text=self.text.replace(old, new))

    def instruction(self, name: str) -> str:
        """The instruction as the profiler writes it into an event's name: one line, without metadata and the
        like.

        Empty if the program's text has no such instruction.
        """
        line = self._line(name)
        for attribute in _ATTRIBUTES_NOT_IN_NAMES:
            line = _without_attribute(line, attribute)
        return line

    def scope(self, name: str) -> str:
        """The instruction's ``op_name`` with a colon behind it, as TPUs write it; empty if it has none."""
        match = re.search(r'op_name="([^"]*)"', self._line(name))
        return f"{match[1]}:" if match else ""

    def shape(self, name: str) -> str:
        """The instruction's shape with layout; empty if the text has no such instruction."""
        match = re.match(r"\S+ = (\([^=]*?\)|\S+) [a-z][\w-]*\(", self.instruction(name))
        return match[1] if match else ""

    def to_proto(self) -> bytes:
        """A serialised ``HloProto`` that holds the module."""
        return hlo_proto_from_text(self.text)

    def _line(self, name: str) -> str:
        match = re.search(rf"^\s*(?:ROOT )?(%{re.escape(name)} = .*)$", self.text, re.MULTILINE)
        return match[1] if match else ""


@lru_cache(maxsize=64)
def hlo_proto_from_text(text: str) -> bytes:
    """A serialised ``HloProto`` made from the text of an HLO module; equal texts give equal bytes.

    Raises:
        HloError: the text is no HLO module.
    """
    return to_proto(parse_text(text))


def _without_attribute(line: str, attribute: str) -> str:
    """The line without ``, attribute={...}``, braces inside it and quoted text included."""
    start = line.find(f", {attribute}={{")
    if start < 0:
        return line
    depth, quoted, at = 0, False, start + len(attribute) + 3
    while at < len(line):
        char = line[at]
        if char == '"' and line[at - 1] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += {"{": 1, "}": -1}.get(char, 0)
            if depth == 0:
                break
        at += 1
    return line[:start] + line[at + 1 :]
