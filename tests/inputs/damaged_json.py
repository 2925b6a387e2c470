"""F07: F00 as a trace.json, damaged in seven ways."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

from tests.inputs.clean import f00_trace


def _replace(text: str, old: str, new: str) -> bytes:
    assert old in text
    return text.replace(old, new, 1).encode("latin-1")


# F00's JSON ends with an empty object as a real one does, so that the first variant is F00's JSON itself.
DAMAGES: dict[str, Callable[[str], bytes]] = {
    "trailing_empty_object": lambda text: _replace(text, ",{}]", ",{}]"),
    "extra_top_level_key": lambda text: _replace(text, '"metadata":{', '"metadata":{"clock-domain":"unknown",'),
    "control_byte_in_name": lambda text: _replace(text, '"name":"train_step"', '"name":"train\x01_step"'),
    "bare_na_in_args": lambda text: _replace(text, '"hlo_category":"copy"', '"hlo_category":"copy","bytes":N/A'),
    "integer_above_int64": lambda text: _replace(
        text, '"hlo_category":"copy"', '"hlo_category":"copy","id":9223372036854775809'
    ),
    "missing_end": lambda text: _replace(text, ",{}]}", ",{}"),
}


def f07(directory: Path, damage: str) -> Path:
    """A damaged JSON alone in its session; returns the log root."""
    trace = f00_trace()
    data = DAMAGES[damage](trace.to_json())
    (trace.session_dir(directory) / "hostA.trace.json.gz").write_bytes(gzip.compress(data, mtime=0))
    return directory


def f07_cut_gzip(directory: Path) -> tuple[Path, int]:
    """The gzip stream cut in the middle; returns the log root and how many events precede the cut."""
    import zlib

    trace = f00_trace()
    whole = gzip.compress(trace.to_json().encode(), mtime=0)
    half = whole[: len(whole) // 2]
    (trace.session_dir(directory) / "hostA.trace.json.gz").write_bytes(half)
    readable = zlib.decompressobj(wbits=31).decompress(half).decode()
    return directory, _complete_events(readable)


def _complete_events(text: str) -> int:
    """The objects with phase X that are closed before the text ends; braces inside names are balanced."""
    starts = [at for at in range(len(text)) if text.startswith('{"ph":"X"', at)]
    return sum(_closes(text[at:]) for at in starts)


def _closes(text: str) -> bool:
    depth = 0
    for char in text:
        depth += {"{": 1, "}": -1}.get(char, 0)
        if depth == 0:
            return True
    return False
