"""Opening compressed JSON text: limits, damage, and what is not compressed at all."""

from __future__ import annotations

import gzip
import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.f00_json import document, f00_events, f00_json
from tpuprof.errors import InputTooLargeError
from tpuprof.formats.trace_json import read_trace_json
from tpuprof.formats.trace_json_gzip import plain_text


@given(st.binary(max_size=400), st.integers(1, 9), st.integers(0, 9))
def test_gzip_round_trip_with_members_and_padding(data: bytes, level: int, padding: int) -> None:
    packed = gzip.compress(data, level) + gzip.compress(data[::-1]) + bytes(padding)
    text = plain_text(packed)
    assert bytes(text.data) == data + data[::-1]
    assert not text.cut


def test_plain_text_is_passed_through() -> None:
    data = b'{"traceEvents":[]}'
    text = plain_text(data)
    assert text.data is data
    assert not text.cut


def test_a_cut_stream_gives_a_prefix() -> None:
    data = bytes(range(256)) * 500
    packed = gzip.compress(data)
    for size in range(2, len(packed), 97):
        text = plain_text(packed[:size])
        assert text.cut
        assert bytes(text.data) == data[: len(text.data)]
        assert len(text.data) >= len(zlib.decompressobj(31).decompress(packed[:size]))


def test_damage_keeps_what_lies_before_it() -> None:
    data = b"".join(b"%d," % (k * k) for k in range(60_000))
    packed = bytearray(gzip.compress(data))
    at = len(packed) // 2
    packed[at : at + 40] = bytes(40)
    text = plain_text(bytes(packed))
    assert text.cut
    assert data.startswith(bytes(text.data[: len(data) // 3]))
    assert len(text.data) > len(data) // 3


def test_a_wrong_checksum_is_damage_after_the_last_byte() -> None:
    packed = bytearray(gzip.compress(b"x" * 1000))
    packed[-6] ^= 1
    text = plain_text(bytes(packed))
    assert text.cut
    assert bytes(text.data) == b"x" * 1000


def test_a_decompression_bomb_is_refused_before_it_unfolds() -> None:
    bomb = gzip.compress(bytes(200 << 20))
    with pytest.raises(InputTooLargeError, match=r"bomb\.json\.gz: .* decompression bomb"):
        read_trace_json(bomb, where="bomb.json.gz")


def test_absolute_limits() -> None:
    packed = gzip.compress(f00_json())
    with pytest.raises(InputTooLargeError, match="expand to more than"):
        plain_text(packed, max_bytes=1000)
    with pytest.raises(InputTooLargeError, match="the limit is 1000"):
        plain_text(f00_json(), max_bytes=1000)
    with pytest.raises(InputTooLargeError):
        read_trace_json(packed, max_bytes=1000)


@pytest.mark.parametrize("unit", ['{"ph":"X', '{"ph":[', '{"ph":{"a":', '{"name":"\\"', '{"args":{"k":"v'])
def test_hostile_text_takes_linear_time(unit: str) -> None:
    head = document(f00_events())[:-5]
    read_trace_json(head)
    start = time.process_time()
    result = read_trace_json(head + ("," + unit).encode() * 200_000)
    assert result.space.count_events() == 21
    assert result.partial
    assert time.process_time() - start < 20


def test_deep_nesting_is_walked_without_recursion() -> None:
    events = f00_events()
    deep = '{"ph":"X","pid":1,"tid":1,"ts":1700000000000000,"dur":1,"name":"d","args":{"x":' + "[" * 10**6
    result = read_trace_json(document([*events, deep + "]" * 10**6 + "}}"]))
    assert result.space.count_events() == 22
    result = read_trace_json(document([*events, deep]))
    assert result.space.count_events() == 21
