"""What is stored beside a trace: readable, without secrets."""

import json
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tpuprof.capture.sidecar import read_sidecars, write_sidecar
from tpuprof.masking import MASK, mask_arguments, mask_text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--api-key=s3cret"], ["--api-key=***"]),
        (["--api_key=s3cret"], ["--api_key=***"]),
        (["TOKEN=s3cret"], ["TOKEN=***"]),
        (["HF_TOKEN=s3cret"], ["HF_TOKEN=***"]),
        (["--password", "s3cret", "next"], ["--password", "***", "next"]),
        (["--password", "-s3cret"], ["--password", "***"]),
        (["--use-auth", "--lr", "3"], ["--use-auth", "--lr", "3"]),
        (["db.password=a b"], ["db.password=***"]),
        (["dbPassword: s3cret"], ["dbPassword: ***"]),
        (["Authorization: Bearer s3cret"], ["Authorization: ***"]),
        (["gs://user:s3cret@host/x"], ["gs://user:***@host/x"]),
        (["https://h/x?sig=1&access_key=s3cret&z=2"], ["https://h/x?sig=1&access_key=***&z=2"]),
        (['--config={"api_key": "s3cret", "lr": 3}'], ['--config={"api_key": "***", "lr": 3}']),
        (["--set", "a=1,secret=s3cret,b=2"], ["--set", "a=1,secret=***,b=2"]),
        (["sk-abcdefghijklmnopqrstuv"], ["***"]),
        (["hf_abcdefghijklmnopqrstuv"], ["***"]),
        (["--note=ghp_abcdefghijklmnopqrstuv"], ["--note=***"]),
        (["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc"], ["***"]),
    ],
)
def test_secrets_are_masked(arguments, expected):
    masked = mask_arguments(arguments)
    assert masked == expected
    assert "s3cret" not in " ".join(masked)


@pytest.mark.parametrize(
    "argument",
    [
        "--max-tokens=100",
        "--tokenizer=gpt2",
        "--num_tokens",
        "--author=me",
        "--lr=1e-3",
        "train.py",
        "key=3",
        "monkey=1",
        "--sort-key=loss",
        "gs://bucket/path",
        "skip-connections",
        "12:34:56",
    ],
)
def test_ordinary_arguments_stay(argument):
    assert mask_arguments([argument, "value"]) == [argument, "value"]


@given(
    st.sampled_from(["--api-key=", "TOKEN=", "x.password=", "--hf-token="]),
    st.text(alphabet=st.characters(exclude_characters="*"), min_size=12),
)
def test_no_part_of_a_secret_survives(name, secret):
    assume(secret.strip())
    (masked,) = mask_arguments([name + secret])
    assert masked.startswith(name)
    assert masked.endswith(MASK)
    assert masked.removeprefix(name).removesuffix(MASK).strip() == ""


@pytest.mark.parametrize("text", ["a" * 1_000_000, "a." * 500_000, "--" + "x-" * 500_000, "a=b:" * 250_000])
def test_long_arguments_are_masked_in_no_time(text):
    begin = time.perf_counter()
    mask_arguments([text])
    assert time.perf_counter() - begin < 5.0


def test_flag_texts_are_masked_word_by_word():
    assert mask_text("--xla_a=1  --token=x --b") == "--xla_a=1 --token=*** --b"


def test_the_second_sidecar_takes_the_name_of_its_trace(tmp_path):
    paths = [write_sidecar(tmp_path / f"h{n}.xplane.pb", {"file": f"h{n}.xplane.pb", "n": n}) for n in range(2)]
    assert [path.name for path in paths] == ["tpuprof.json", "h1.tpuprof.json"]
    with pytest.raises(FileExistsError, match=r"h1.tpuprof.json exists"):
        write_sidecar(tmp_path / "h1.xplane.pb", {})
    assert {name: content["n"] for name, content in read_sidecars(tmp_path).items()} == {
        "h0.xplane.pb": 0,
        "h1.xplane.pb": 1,
    }


def test_broken_sidecars_are_left_out(tmp_path):
    bad = [b"", b"[1]", b"{", b'{"file": 3}', b"[" * 100_000, b"\xff", b'"' + b"x" * (1 << 20) + b'"']
    for n, content in enumerate(bad):
        (tmp_path / f"h{n}.tpuprof.json").write_bytes(content)
    (tmp_path / "dir.tpuprof.json").mkdir()
    (tmp_path / "good.tpuprof.json").write_text(json.dumps({"file": "good.xplane.pb"}))
    assert list(read_sidecars(tmp_path)) == ["good.xplane.pb"]
