"""The trace.json reader against known answers, a plain JSON parser, and the XPlane of the same session."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.formats.f00_json import EPOCH_PS, OPS, document, f00_events, f00_json, f00_json_gz, name_event, span_event
from tpuprof.errors import NotATraceError
from tpuprof.formats.trace_json import read_trace_json
from tpuprof.formats.xspace import Line, Plane, Space, StatKind

MICRO = 1_000_000
Row = tuple[str, str, str, int, int]


def rows(space: Space) -> Counter[Row]:
    """Every event as (plane, line, label, start in ps, duration in ps)."""
    return Counter(
        (plane.name, line.name, plane.event_meta[meta].label, line.timestamp_ns * 1000 + offset, duration)
        for plane, line in space.lines()
        for meta, offset, duration in zip(
            line.events.meta.tolist(),
            line.events.offset_ps.tolist(),
            line.events.duration_ps.tolist(),
            strict=True,
        )
    )


def f00_rows() -> Counter[Row]:
    found: list[Row] = []
    for step in range(3):
        start = EPOCH_PS + step * 1000 * MICRO
        found.append(("/device:TPU:0", "Steps", str(step), start, 1000 * MICRO))
        found.append(("/device:TPU:0", "XLA Modules", "jit_train_step(1234567890)", start, 950 * MICRO))
        found += [
            ("/device:TPU:0", "XLA Ops", name, start + offset * MICRO, duration * MICRO)
            for name, _, offset, duration in OPS
        ]
        host = EPOCH_PS + (step * 1000 - 100) * MICRO
        found.append(("/host:CPU", "python", "train_step", host, 80 * MICRO))
    return Counter(found)


def ops_line(space: Space) -> tuple[Plane, Line]:
    plane = space.plane("/device:TPU:0")
    assert plane is not None
    line = plane.line("XLA Ops")
    assert line is not None
    return plane, line


def damage(result: Any) -> list[str]:
    return [entry.id for entry in result.quality if entry.id != "json_source"]


@pytest.mark.parametrize("data", [f00_json(), f00_json_gz()], ids=["plain", "gzip"])
def test_f00_has_its_21_events_and_nothing_to_report_but_the_source(data: bytes) -> None:
    result = read_trace_json(data, where="hostA.trace.json")
    assert rows(result.space) == f00_rows()
    assert [(q.id, q.severity) for q in result.quality] == [("json_source", "info")]
    assert "asynchronous rows" in result.quality[0].message
    assert not result.partial
    plane = result.space.plane("/device:TPU:0")
    assert plane is not None
    assert plane.id == 3
    assert [(line.id, line.name, len(line.events)) for line in plane.lines] == [
        (1, "Steps", 3),
        (2, "XLA Modules", 3),
        (3, "XLA Ops", 12),
        (4, "Async XLA Ops", 0),
    ]


def test_op_facts_are_on_the_metadata_and_the_rest_on_the_events() -> None:
    args = {
        "long_name": "%fusion.1 = f32[8]{0} fusion(%p)",
        "hlo_category": "loop fusion",
        "bytes_accessed": "4294967296",
        "model_flops": "0",
        "memory_access_breakdown": "<opaque bytes>",
        "tf_op": "jit(f)/mlp/mul",
        "source": "a.py:3",
    }
    own = [
        {"device_offset_ps": "11", "device_duration_ps": "7", "run_id": "18446744073709551615"},
        {"device_offset_ps": "12", "group_id": "-3", "note": "7", "kind": "slow", "zeros": "007"},
    ]
    events = [span_event(3, 3, 10 * k, 5, "fusion.1", {**args, **own[k]}) for k in range(2)]
    other = span_event(3, 3, 40, 5, "fusion.1", {**args, "source": "b.py:4"})
    result = read_trace_json(document([name_event(3, None, "/device:TPU:0"), *events, other]))
    (plane,) = result.space.planes
    (line,) = plane.lines
    assert line.events.meta.tolist() == [0, 0, 1]
    first, second = plane.event_meta
    assert (first.name, first.display_name) == ("%fusion.1 = f32[8]{0} fusion(%p)", "fusion.1")
    assert first.stats == {
        "hlo_category": "loop fusion",
        "bytes_accessed": 4294967296,
        "model_flops": 0,
        "tf_op": "jit(f)/mlp/mul",
        "source": "a.py:3",
    }
    assert second.stats["source"] == "b.py:4"
    assert plane.event_stats(line.events, 0) == {
        "device_offset_ps": 11,
        "device_duration_ps": 7,
        "run_id": 2**64 - 1,
    }
    assert plane.event_stats(line.events, 1) == {
        "device_offset_ps": 12,
        "group_id": -3,
        "note": 7,
        "kind": "slow",
        "zeros": "007",
    }
    assert plane.event_stats(line.events, 2) == {}
    kinds = {plane.stat_names[k]: StatKind(v) for k, v in zip(line.events.stat_key, line.events.stat_kind, strict=True)}
    assert kinds["run_id"] == StatKind.UINT64
    assert kinds["group_id"] == kinds["device_offset_ps"] == StatKind.INT64
    assert kinds["kind"] == StatKind.REF


def test_events_that_are_no_ops_keep_all_arguments() -> None:
    args = {"hlo_op": "dot.1", "hlo_module": "jit_f", "program_id": "5", "tf_op": "x"}
    result = read_trace_json(document([span_event(9, 1, 0, 1, "gemm", args)]))
    (plane,) = result.space.planes
    assert plane.name == "process 9"
    assert plane.event_meta[0].stats == {}
    assert (plane.event_meta[0].name, plane.event_meta[0].display_name) == ("gemm", "")
    assert plane.event_stats(plane.lines[0].events, 0) == {**args, "program_id": 5}


def test_numbers_words_and_nested_values_in_args() -> None:
    span = (
        '{"ph":"X","pid":1,"tid":"stream 7","ts":"3.5","dur":2,"name":"x","args":'
        '{"i":5,"d":-2.5e1,"t":true,"n":null,"l":[1,{"a":"]}"}],"big":99999999999999999999}}'
    )
    result = read_trace_json(document([span]))
    assert damage(result) == []
    (plane,) = result.space.planes
    assert plane.lines[0].id < 0
    assert rows(result.space) == Counter([("process 1", "", "x", 3_500_000, 2_000_000)])
    assert plane.event_stats(plane.lines[0].events, 0) == {
        "i": 5,
        "d": -25.0,
        "t": "true",
        "l": '[1,{"a":"]}"}]',
        "big": 99999999999999999999.0,
    }


def test_text_escapes() -> None:
    texts = ['a"b', "tab\tnew\nline", "\\", "é\u4e2d\U0001f600", "ends with \\", "<b>"]
    events = [span_event(1, 1, k, 1, text, {"t": text, "u": "x"}) for k, text in enumerate(texts)]
    events.append('{"ph":"X","pid":1,"tid":1,"ts":9,"dur":1,"name":"\\u003cb\\u003e","args":{"t":"\\ud800"}}')
    result = read_trace_json(document(events))
    assert damage(result) == []
    (plane,) = result.space.planes
    line = plane.lines[0]
    labels = [plane.event_meta[m].label for m in line.events.meta.tolist()]
    assert labels == [*texts, "<b>"]
    assert plane.text_stat(line.events, "t") == [*texts, "\ufffd"]
    assert len(set(plane.stat_names)) == len(plane.stat_names)


times = st.integers(-(10**9), 4 * 10**18)
durations = st.integers(0, 10**15)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 3), times, durations, st.text(max_size=5)),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([0, EPOCH_PS]),
    st.booleans(),
)
def test_times_and_names_survive_to_the_picosecond(
    events: list[tuple[int, int, int, int, str]], epoch: int, compress: bool
) -> None:
    texts = [
        span_event(pid, tid, epoch + (start % 10**15 if epoch else start), duration, name, {})
        for pid, tid, start, duration, name in events
    ]
    names = [name_event(pid, None, f"p{pid}") for pid in range(3)]
    names += [name_event(pid, tid, f"t{tid}") for pid in range(3) for tid in range(4)]
    data = document(names + texts)
    result = read_trace_json(gzip.compress(data) if compress else data)
    expected = Counter(
        (f"p{pid}", f"t{tid}", name, epoch + (start % 10**15 if epoch else start), duration)
        for pid, tid, start, duration, name in events
    )
    assert rows(result.space) == expected
    assert damage(result) == []


@pytest.mark.parametrize(
    ("text", "ps"),
    [
        ("66976.312124999997", 66_976_312_125),
        ("9.9999999999999995e-07", 1),
        ("1.5E+3", 1_500_000_000),
        ("0.0000004999", 0),
        ("0.0000005", 1),
        ("-1", -1_000_000),
        ("0", 0),
        ("00012.5", 12_500_000),
        ("4599999999999.999999", 4_599_999_999_999_999_999),
        ("4600000000000", -1),
        ("1e400", -1),
        ("1e-400", 0),
        ("NaN", -1),
        ("-Infinity", -1),
        ('"7.25"', 7_250_000),
        ('"seven"', -1),
        ("null", -1),
        ("1.2.3", -1),
        ("0x10", -1),
    ],
)
def test_durations_as_decimal_text(text: str, ps: int) -> None:
    span = f'{{"ph":"X","pid":1,"tid":1,"ts":0,"dur":{text},"name":"x"}}'
    result = read_trace_json(document([span]))
    assert result.space.planes[0].lines[0].events.duration_ps.tolist() == [ps]


@given(st.decimals(min_value=0, max_value=10**12, allow_nan=False, allow_infinity=False, places=9))
def test_rounding_agrees_with_decimal_arithmetic(value: Decimal) -> None:
    span = f'{{"ph":"X","pid":1,"tid":1,"ts":0,"dur":{value},"name":"x"}}'
    result = read_trace_json(document([span]))
    expected = int((value * 10**6).to_integral_value(ROUND_HALF_UP))
    assert result.space.planes[0].lines[0].events.duration_ps.tolist() == [expected]


@given(st.floats(0, 1e9))
def test_doubles_with_17_digits_mean_the_nearest_picosecond(value: float) -> None:
    span = f'{{"ph":"X","pid":1,"tid":1,"ts":{value:.17g},"dur":1,"name":"x"}}'
    result = read_trace_json(document([span]))
    expected = int((Decimal(f"{value:.17g}") * 10**6).to_integral_value(ROUND_HALF_UP))
    assert result.space.planes[0].lines[0].events.offset_ps.tolist() == [expected]


def test_f17_a_duration_of_minus_one_is_kept_negative() -> None:
    events = f00_events()
    at = next(k for k, event in enumerate(events) if '"copy.4"' in event)
    events[at] = events[at].replace('"dur":50,', '"dur":-1,')
    result = read_trace_json(document(events))
    _, line = ops_line(result.space)
    assert int(line.events.duration_ps.min()) == -MICRO
    assert int((line.events.duration_ps < 0).sum()) == 1
    assert damage(result) == []


def test_an_event_without_a_usable_start_is_left_out_and_counted() -> None:
    events = f00_events()
    extra = [
        '{"ph":"X","pid":3,"tid":3,"dur":1,"name":"no start"}',
        '{"ph":"X","pid":3,"tid":3,"ts":"NaN","dur":1,"name":"no number"}',
        '{"ph":"X","pid":3,"tid":3,"ts":1,"dur":1,"name":"fifty years before the others"}',
    ]
    result = read_trace_json(document(events + extra))
    assert rows(result.space) == f00_rows()
    (entry,) = [q for q in result.quality if q.id == "json_repaired"]
    assert entry.scope["kinds"] == {"event_without_time": 3}
    assert result.partial


# F07: each variant loads all complete events, with at most one entry.


def test_f07_1_and_2_trailing_object_and_extra_keys_are_normal() -> None:
    plain = f00_json()
    assert plain.endswith(b",{}]}")
    for data in (
        plain,
        plain.replace(b',"traceEvents"', b',"metadata2":{"traceEvents":"no","x":[1,{"y":"]"}]},"traceEvents"'),
        plain[:-1] + b',"metadata":{"a":[1,2]}}',
        b"\xef\xbb\xbf" + plain + b"\n",
        json.dumps(json.loads(plain), indent=2).encode(),
    ):
        result = read_trace_json(data)
        assert rows(result.space) == f00_rows()
        assert damage(result) == []
        assert not result.partial


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (b'"name":"copy.4"', b'"name":"copy\x01.4"', "control_byte"),
        (b'"run_id":"2"', b'"run_id":N/A', "bare_word"),
        (b'"run_id":"2"', b'"run_id":not available ', "bare_word"),
        (b'"run_id":"2"', b'"run_id":"a "quoted" word"', "unescaped_quote"),
        (b'"train_step","args"', b'"train\xff\xfe_step","args"', "invalid_utf8"),
    ],
)
def test_f07_3_and_4_damage_within_an_event_is_repaired(before: bytes, after: bytes, kind: str) -> None:
    data = f00_json()
    assert before in data
    result = read_trace_json(data.replace(before, after, 1))
    assert sum(rows(result.space).values()) == 21
    times = Counter((row[0], row[1], row[3], row[4]) for row in rows(result.space).elements())
    assert times == Counter((row[0], row[1], row[3], row[4]) for row in f00_rows().elements())
    (entry,) = [q for q in result.quality if q.id != "json_source"]
    assert (entry.id, entry.severity, entry.scope["kind"]) == ("json_repaired", "warning", kind)
    assert entry.count == entry.scope["n"] >= 1
    assert not result.partial


def test_f07_4_the_word_is_kept_as_text() -> None:
    result = read_trace_json(f00_json().replace(b'"run_id":"2"', b'"run_id":N/A'))
    plane = result.space.plane("/device:TPU:0")
    assert plane is not None
    line = plane.line("XLA Modules")
    assert line is not None
    assert plane.text_stat(line.events, "run_id") == ["1", "N/A", "3"]


@pytest.mark.parametrize("number", [2**63 + 5, 2**64 - 1, 2**64, 2**70])
def test_f07_5_integers_above_2_to_the_63(number: int) -> None:
    result = read_trace_json(f00_json().replace(b'"run_id":"2"', f'"run_id":{number}'.encode()))
    assert rows(result.space) == f00_rows()
    assert damage(result) == []
    plane = result.space.plane("/device:TPU:0")
    assert plane is not None
    line = plane.line("XLA Modules")
    assert line is not None
    value = plane.event_stats(line.events, 1)["run_id"]
    assert value == (number if number < 2**64 else float(number))


def test_f07_6_missing_end() -> None:
    data = f00_json()
    for cut in (data[:-2], data[: -len(b",{}]}")]):
        result = read_trace_json(cut)
        assert rows(result.space) == f00_rows()
        assert damage(result) == ["truncated"]
        assert result.partial
    assert damage(read_trace_json(data[:-1] + b" \n")) == []


def test_f07_7_gzip_cut_anywhere_keeps_every_complete_event() -> None:
    packed, whole = f00_json_gz(), f00_json().decode()
    ends = {event: whole.index(event) + len(event) for event in f00_events()}
    loaded: list[int] = []
    for size in range(40, len(packed) - 8, 7):
        text = zlib.decompressobj(31).decompress(packed[:size])
        complete = [event for event, end in ends.items() if end <= len(text)]
        if not complete:
            with pytest.raises(NotATraceError, match="holds no complete trace event"):
                read_trace_json(packed[:size])
            continue
        result = read_trace_json(packed[:size])
        assert rows(result.space) == rows(read_trace_json(document(complete)).space)
        assert result.partial
        assert damage(result) == ["truncated"]
        loaded.append(result.space.count_events())
    assert loaded == sorted(loaded)
    assert loaded[0] == 0
    assert loaded[-1] == 21


def test_a_damaged_gzip_stream_gives_what_lies_before() -> None:
    packed = bytearray(gzip.compress(f00_json(), mtime=0))
    packed[len(packed) * 3 // 4] ^= 0xFF
    result = read_trace_json(bytes(packed))
    assert result.partial
    assert 0 < result.space.count_events() <= 21


def test_a_broken_event_is_dropped_and_the_others_stay() -> None:
    events = f00_events()
    at = next(k for k, event in enumerate(events) if '"copy.4"' in event)
    for broken in ('{"ph":"X","pid":3,"tid":3,:}', '{"ph":"X" "pid":3}', "garbage", '{"ph":"X","pid":[1,2}'):
        damaged = [*events[:at], broken, *events[at + 1 :]]
        result = read_trace_json(document(damaged))
        (entry,) = [q for q in result.quality if q.id != "json_source"]
        assert entry.id == "json_repaired"
        assert "broken_event" in entry.scope["kinds"]
        assert sum(rows(result.space).values()) >= 19
        assert result.partial


def test_duplicate_and_unknown_fields() -> None:
    span = '{"cat":"k","ph":"B","ph":"X","id":"0x1","pid":1,"tid":1,"ts":1,"ts":2,"dur":3,"name":"a","name":"b","x":{}}'
    result = read_trace_json(document([span]))
    assert rows(result.space) == Counter([("process 1", "", "b", 2 * MICRO, 3 * MICRO)])


def test_other_phases_are_counted_but_no_damage() -> None:
    extra = ['{"ph":"C","pid":3,"tid":0,"ts":1,"name":"hbm","args":{"v":1}}', '{"name":"no phase"}']
    result = read_trace_json(document(f00_events() + extra))
    assert rows(result.space) == f00_rows()
    (entry,) = result.quality
    assert entry.scope["other_phases"] == 2
    assert "2 events that are neither" in entry.message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   ",
        b"hello",
        b"\x00" * 100,
        b"{}",
        b"[]",
        b"[1,2]",
        b'{"traceEvents":[]}',
        b'{"traceEvents":[{}]}',
        b'{"traceEvents":7}',
        b"\x1f\x8b",
        b"\x1f\x8bgarbage that is no gzip stream",
        gzip.compress(b"not json", mtime=0),
        b'{"traceEvents":[{"ph":"X","pid":1',
        b"<html>" * 50,
    ],
)
def test_what_is_no_trace_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(NotATraceError, match=r"x\.trace\.json\.gz"):
        read_trace_json(data, where="x.trace.json.gz")


def test_a_bare_list_is_a_trace_too() -> None:
    data = f"[{','.join(f00_events())}]".encode()
    result = read_trace_json(data)
    assert rows(result.space) == f00_rows()
    assert damage(result) == []


@pytest.mark.parametrize("cap", [21, 1000])
def test_the_cap_is_noticed_only_when_it_is_hit_exactly(cap: int) -> None:
    result = read_trace_json(f00_json(), event_cap=cap)
    assert (damage(result) == ["events_capped"]) is (cap == 21)
    assert result.partial is (cap == 21)


def test_f06_json_alone() -> None:
    cap = 1000
    host = [
        span_event(701, 7, EPOCH_PS + (2998 if k == cap - 7 else 3 * k) * MICRO, 2 * MICRO, f"py_{k}", {})
        for k in range(cap - 6)
    ]
    device = [event for event in f00_events() if '"pid":3' in event]
    first = [event for event in device if '"M"' in event or json.loads(event)["ts"] < EPOCH_PS / MICRO + 1000]
    spans = [e for e in first if '"X"' in e]
    assert len(spans) == 6
    result = read_trace_json(document([*first, name_event(701, None, "/host:CPU"), *host]), event_cap=cap)
    (entry,) = [q for q in result.quality if q.id == "events_capped"]
    assert entry.count == cap
    assert (entry.scope["device_ps"], entry.scope["window_ps"]) == (1000 * MICRO, 3000 * MICRO)
    assert "33 % of the window" in entry.message
    assert result.partial


def test_many_events_threads_and_distinct_texts_cross_every_buffer() -> None:
    count = 70_000
    events = [
        span_event(k % 3, k % 11, k * MICRO, k, f"name {k % 20_011}", {f"k{k % 5}": f"v{k}", "n": str(k)})
        for k in range(count)
    ]
    wide = span_event(0, 0, 5, 1, "wide", {f"arg{k}": f"text {k}" for k in range(300_000)})
    result = read_trace_json(document([*events, wide]))
    assert damage(result) == []
    assert result.space.count_events() == count + 1
    seen = np.zeros(count, np.bool_)
    for plane, line in result.space.lines():
        numbers, present = line.events.int_stat(plane.stat_row("n"))
        chosen = numbers[present]
        assert not seen[chosen].any()
        seen[chosen] = True
        assert (line.events.offset_ps[present] == chosen * MICRO).all()
        assert (line.events.duration_ps[present] == chosen).all()
        labels = [plane.event_meta[m].label for m in line.events.meta[present].tolist()]
        assert labels == [f"name {k % 20_011}" for k in chosen.tolist()]
        assert (chosen % 3 == plane.id).all()
        assert (chosen % 11 == line.id).all()
        k0 = plane.text_stat(line.events, "k0")
        assert [text for text in k0 if text] == [f"v{k}" for k in chosen.tolist() if k % 5 == 0]
    assert seen.all()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_hostile_bytes_never_crash(data: st.DataObject) -> None:
    text = bytearray(document(f00_events()[:12]))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        match data.draw(st.integers(0, 2)):
            case 0:
                text[at] = data.draw(st.sampled_from(list(b'"\\{}[],:\x00\xff9-.e ')))
            case 1:
                del text[at : at + data.draw(st.integers(1, 30))]
            case _:
                text[at:at] = data.draw(st.binary(max_size=8))
        if not text:
            break
    try:
        result = read_trace_json(bytes(text), where="fuzz")
    except NotATraceError:
        return
    for plane, line in result.space.lines():
        for index in range(len(line.events)):
            plane.event_stats(line.events, index)
        assert ((line.events.meta >= 0) & (line.events.meta < len(plane.event_meta))).all()
    assert len(damage(result)) <= 1


def test_valid_json_reads_like_the_standard_parser() -> None:
    texts = st.text(max_size=8)
    values = st.one_of(texts, st.integers(-(2**70), 2**70).map(str))

    @settings(max_examples=100, deadline=None)
    @given(st.lists(st.tuples(texts, st.dictionaries(texts, values, max_size=5)), max_size=10), st.booleans())
    def check(events: list[tuple[str, dict[str, str]]], ascii_only: bool) -> None:
        objects = [
            {"ph": "X", "pid": 1, "tid": 1, "ts": k, "dur": 1, "name": n, "args": a} for k, (n, a) in enumerate(events)
        ]
        objects.append({"ph": "X", "pid": 1, "tid": 1, "ts": len(events), "dur": 1, "name": "last"})
        data = json.dumps({"traceEvents": objects}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        result = read_trace_json(data)
        assert damage(result) == []
        plane = result.space.planes[0]
        line = plane.lines[0]
        for k, (name, args) in enumerate(events):
            facts = plane.event_meta[int(line.events.meta[k])]
            assert facts.label == name
            found = {**facts.stats, **plane.event_stats(line.events, k)}
            assert {key: str(value) for key, value in found.items()} == args

    check()


@pytest.mark.real
def test_v5e_agrees_with_the_xplane_of_the_same_session(real_traces: Path) -> None:
    from tpuprof.formats.xplane_schema import full_messages

    (base,) = (real_traces / "v5e-1-matmul").glob("plugins/profile/*/*.xplane.pb")
    xspace = full_messages().XSpace()
    xspace.ParseFromString(base.read_bytes())
    data = base.with_name(base.name.replace(".xplane.pb", ".trace.json.gz")).read_bytes()
    result = read_trace_json(data)
    lost = 0
    for xplane in xspace.planes:
        names = {entry.key: entry.value.name.decode() for entry in xplane.stat_metadata}
        metas = {entry.key: entry.value for entry in xplane.event_metadata}

        def text(stat: Any, names: dict[int, str] = names) -> str:
            value = getattr(stat, stat.WhichOneof("value"))
            if stat.WhichOneof("value") == "ref_value":
                return names[value]
            return value.decode() if isinstance(value, bytes) else str(value)

        for xline in xplane.lines:
            plane = result.space.plane(xplane.name.decode())
            if plane is None:
                assert not xline.events
                continue
            line = next(line for line in plane.lines if line.id == xline.id % 2**32)
            if xline.name == b"Async XLA Ops":
                lost += len(xline.events)
                assert len(line.events) == 0
                continue
            ours = sorted(range(len(line.events)), key=lambda k: _order(plane, line, k))
            theirs = sorted(
                xline.events,
                key=lambda e: (
                    xline.timestamp_ns * 1000 + e.offset_ps,
                    e.duration_ps,
                    (metas[e.metadata_id].display_name or metas[e.metadata_id].name).decode(),
                ),
            )
            assert len(ours) == len(theirs)
            for k, event in zip(ours, theirs, strict=True):
                meta = metas[event.metadata_id]
                facts = plane.event_meta[int(line.events.meta[k])]
                label = (meta.display_name or meta.name).decode()
                start = xline.timestamp_ns * 1000 + event.offset_ps
                assert _order(plane, line, k) == (start, event.duration_ps, label)
                assert facts.name == meta.name.decode()
                assert facts.display_name == meta.display_name.decode()
                stats = plane.event_stats(line.events, k)
                expected = {names[s.metadata_id]: text(s) for s in event.stats}
                assert {key: str(value) for key, value in stats.items()}.items() <= expected.items()
                assert not {"run_id", "device_offset_ps", "device_duration_ps"} & (expected.keys() - stats.keys())
                static = {names[s.metadata_id]: text(s) for s in meta.stats if s.WhichOneof("value") != "bytes_value"}
                assert {key: str(value) for key, value in facts.stats.items()}.items() <= static.items()
                assert static.keys() - facts.stats.keys() <= {"program_id", "symbol_id", "flops"}
    assert lost == 20


def _order(plane: Plane, line: Line, k: int) -> tuple[int, int, str]:
    start = line.timestamp_ns * 1000 + int(line.events.offset_ps[k])
    return start, int(line.events.duration_ps[k]), plane.event_meta[int(line.events.meta[k])].label


@pytest.mark.real
def test_v7x_golden_numbers(real_traces: Path) -> None:
    (path,) = (real_traces / "v7x-2-prefill").glob("*.trace.json.gz")
    result = read_trace_json(path.read_bytes())
    assert [q.id for q in result.quality] == ["json_source"]
    plane, ops = ops_line(result.space)
    assert len(ops.events) == 3454
    totals: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    on_device_clock, present = ops.events.int_stat(plane.stat_row("device_duration_ps"))
    assert present.all()
    for meta, duration in zip(ops.events.meta.tolist(), on_device_clock.tolist(), strict=True):
        category = str(plane.event_meta[meta].stats["hlo_category"])
        totals[category] += duration
        counts[category] += 1
    golden = {
        "convolution fusion": (257, 42_308.737),
        "custom-call": (190, 17_013.486),
        "all-reduce": (129, 3_433.750),
        "loop fusion": (654, 2_636.516),
        "data formatting": (450, 1_461.677),
    }
    for category, (count, microseconds) in golden.items():
        assert counts[category] == count
        assert totals[category] == pytest.approx(microseconds * MICRO, abs=500)
    for name, microseconds in (("/device:TPU:0", 66_914.493), ("/device:TPU:1", 66_976.312)):
        core = result.space.plane(name)
        assert core is not None
        modules = core.line("XLA Modules")
        assert modules is not None
        steps = [
            duration
            for meta, duration in zip(modules.events.meta.tolist(), modules.events.duration_ps.tolist(), strict=True)
            if core.event_meta[meta].label.startswith("jit_step_fun(")
        ]
        assert steps == [pytest.approx(microseconds * MICRO, abs=500)]
