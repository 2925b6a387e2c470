"""Step times from CSV and JSON lines: what is read, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuprof.compare import step_files
from tpuprof.compare.verdict import Samples, read_samples
from tpuprof.errors import InputError, InputTooLargeError, TraceNotFoundError, UsageError


def written(folder: Path, text: str | bytes, name: str = "steps.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("step_time_s\n0.4\n0.5\n", (0.4e12, 0.5e12)),
        ("step_time_ms\n400\n", (0.4e12,)),
        ("STEP_TIME_us\n4\n", (4e6,)),
        ("step_time_ns\n4\n", (4e3,)),
        ("step_time_ps\n4\n", (4.0,)),
        ("step,step_time_ms,loss\n0,400,nan\n1,500,2.5\n", (0.4e12, 0.5e12)),
        ("0.4\n0.5\n", (0.4e12, 0.5e12)),
        ("seconds\n0.4\n", (0.4e12,)),
        ("duration_ms\n400\n", (0.4e12,)),
        ("\ufeffstep_time_s\r\n\r\n 0.4 \r\n", (0.4e12,)),
        ('"step_time_s"\n"4e-1"\n', (0.4e12,)),
        ("loss,step_time_s\n,0.4\n", (0.4e12,)),
    ],
)
def test_csv(tmp_path: Path, text: str, expected: tuple[float, ...]) -> None:
    samples = read_samples(written(tmp_path, text))
    assert samples.step_ps == pytest.approx(expected)
    assert samples.label == "steps.csv"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"step_time_s": 0.4}\n{"step": 1, "step_time_ms": 500}\n', (0.4e12, 0.5e12)),
        ("0.4\n\n0.5", (0.4e12, 0.5e12)),
        ('{"step_time_s": "0.4"}\n', (0.4e12,)),
    ],
)
def test_json_lines(tmp_path: Path, text: str, expected: tuple[float, ...]) -> None:
    assert read_samples(written(tmp_path, text, "steps.jsonl")).step_ps == pytest.approx(expected)


def test_json_lines_are_known_without_their_name(tmp_path: Path) -> None:
    assert read_samples(written(tmp_path, '{"step_time_s": 0.4}\n', "steps.log")).step_ps == pytest.approx((0.4e12,))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "step_time_s\n0.4\nnan\n", "a.csv, line 3: 'nan' is not the time of a step. Step times are positive"),
        ("a.csv", "step_time_s\n-0.4\n", "a.csv, line 2: '-0.4' is not the time of a step."),
        ("a.csv", "step_time_s\n0\n", "a.csv, line 2: '0' is not the time of a step."),
        ("a.csv", "step_time_s\ninf\n", "a.csv, line 2: 'inf' is not the time of a step."),
        ("a.csv", "step_time_s\n1e300\n", "a.csv, line 2: '1e300' is not the time of a step."),
        ("a.csv", "step,step_time_s\n1,\n", "a.csv, line 2: '' is not the time of a step."),
        ("a.csv", "step_time_s\n0.4\nabc\n", "a.csv, line 3: 'abc' is not the time of a step."),
        ("a.csv", f"step_time_s\n{'x' * 500}\n", f"a.csv, line 2: '{'x' * 59}… is not the time of a step."),
        ("a.csv", "step_time_s,b\n0.4\n", "a.csv, line 2: This row has 1 columns; the first one has 2."),
        ("a.csv", "a,b\n1,2\n", "a.csv, line 1: None of the 2 columns is the step time. Call it step_time_s, _ms,"),
        ("a.csv", "1,2\n", "a.csv, line 1: None of the 2 columns is the step time."),
        (
            "a.csv",
            "step_time_s,step_time_ms\n1,2\n",
            "a.csv, line 1: The step time is given more than once: step_time_s, step_time_ms. Keep one",
        ),
        ("a.csv", "tokens_per_s\n9000\n", "a.csv, line 1: 'tokens_per_s' is no step time in a unit known here. Write"),
        ("a.csv", "steps/s\n2.5\n", "a.csv, line 1: 'steps/s' is no step time in a unit known here."),
        ("a.csv", "Throughput\n2.5\n", "a.csv, line 1: 'Throughput' is no step time in a unit known here."),
        ("a.csv", "step_time_min\n2\n", "a.csv, line 1: 'step_time_min' is no step time in a unit known here."),
        ("a.csv", 'step_time_s\n"0.4\n', "This is not CSV (unexpected end of data)."),
        ("a.csv", "", "a.csv: The file holds no step time. Write one column step_time_s."),
        ("a.csv", "step_time_s\n", "a.csv: The file holds no step time."),
        ("a.csv", b"\xff\xfe\x00", "a.csv: The file is not text in UTF-8. Give step times as CSV or JSON lines."),
        ("a.jsonl", '{"step_time_s": null}\n', "a.jsonl, line 1: None is not the time of a step."),
        ("a.jsonl", '{"step_time_s": true}\n', "a.jsonl, line 1: True is not the time of a step."),
        ("a.jsonl", '{"step_time_s": NaN}\n', "a.jsonl, line 1: nan is not the time of a step."),
        ("a.jsonl", "[0.4]\n", "a.jsonl, line 1: [0.4] is not the time of a step."),
        (
            "a.jsonl",
            '{"loss": 1}\n',
            "a.jsonl, line 1: This line has no step time. Every line needs one of step_time_s",
        ),
        ("a.jsonl", '{"step_time_s": 1, "step_time_ms": 1}\n', "line 1: The step time is given more than once."),
        ("a.jsonl", '0.4\n{"step', "a.jsonl, line 2: This is not a line of JSON."),
        ("a.jsonl", "[" * 100_000, "a.jsonl, line 1: This is not a line of JSON."),
        ("a.jsonl", f'{{"step_time_s": {"9" * 400}}}\n', "is not the time of a step."),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_samples(written(tmp_path, text, name))
    assert message in str(error.value)
    assert error.value.exit_code == 3


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "0.4\n0.4\n0.4\n")
    monkeypatch.setattr(step_files, "MAX_STEPS", 2)
    with pytest.raises(InputTooLargeError, match=r"line 3: The file has more than 2 steps\."):
        read_samples(path)
    monkeypatch.setattr(step_files, "MAX_BYTES", 11)
    with pytest.raises(InputTooLargeError, match=r"The file has 12 bytes; the limit is 11\."):
        read_samples(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(TraceNotFoundError):
        read_samples(tmp_path / "none.csv")


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80), st.sampled_from(["a.csv", "a.jsonl"]))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str, name: str) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(text.encode())
    try:
        samples = read_samples(path)
    except InputError:
        return
    assert samples.step_ps
    assert min(samples.step_ps) > 0


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 1e25])
def test_samples_hold_times_only(value: float) -> None:
    with pytest.raises(UsageError) as error:
        Samples((1.0, value), "run 7")
    assert (
        str(error.value)
        == f"run 7, step 1: {value!r} is not the time of a step. Leave out steps whose time is unknown."
    )
