"""Redaction of texts: what goes, what stays, and that it is the same everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuprof.redact import ADDRESS, ARGUMENTS, BLOB, EMAIL, URL, make_redactor

HOSTS = ["hostA", "hostA#2", "tpu-vm-0.c.project.internal", "localhost"]
TEXTS = ["/home/alice/x.py", "experimental/users/bob/train.py:15", "/Users/carol-b/a", "jit(f)/users/embed/dot_general"]
REDACTOR = make_redactor(HOSTS, TEXTS)


def test_hosts_in_the_given_order_and_users_in_alphabetical_order() -> None:
    assert dict(REDACTOR.names) == {
        "hostA": "host-1",
        "hostA#2": "host-2",
        "tpu-vm-0.c.project.internal": "host-3",
        "tpu-vm-0": "host-3",
        "alice": "user-1",
        "bob": "user-2",
        "carol-b": "user-3",
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/alice/cloud/x.py:12", "x.py:12"),
        ("experimental/users/bob/train.py:153", "train.py:153"),
        ("external/xla/xla/pjrt/common.cc", "common.cc"),
        ("../secret/project/a.py", "a.py"),
        ("$/usr/lib/python3/threading.py:55 run", "$threading.py:55 run"),
        ("/home/alice/My Documents/model.py:3", "model.py:3"),
        ("/home/alice", "user-1"),
        ("f()/home/alice/secret/data", "f()data"),
        ("PATH=/opt/a/bin:/home/alice/bin", "PATH=bin:bin"),
        ("/home/alice/runs/", "runs"),
        ("~/x/y", "y"),
        ("~alice/foo", "foo"),
        (r"C:\Users\bob\My Docs\m.py", "m.py"),
        (r"see C:\Users\bob\m.py:3 now", "see m.py:3 now"),
        (r"\\server\share\m.py", "m.py"),
        ('op_name="jit(f)/x" source_file="/data/my dir/x.py" line=3', 'op_name="jit(f)/x" source_file="x.py" line=3'),
        ("--xla_dump_to=/mnt/team/dump", "--xla_dump_to=dump"),
        ("gs://bucket/alice/run/", "run"),
        ("gs://bucket", URL),
        ("https://me:secret@example.com/x", "x"),
        ("alice@example.com wrote", f"{EMAIL} wrote"),
        ("me@build-7", EMAIL),
        ("10.0.0.1:8470", f"{ADDRESS}:8470"),
        ("2001:db8::1", ADDRESS),
        ("fe80:0:0:0:1:2:3:4 up", f"{ADDRESS} up"),
        ("worker-3.zone.internal:80", f"{ADDRESS}:80"),
        ("hostA/TPU:0", "host-1/TPU:0"),
        ("hostA#2/TPU:0", "host-2/TPU:0"),
        ("tpu-vm-0 and tpu-vm-0.c.project.internal", "host-3 and host-3"),
        ("run of alice, by ALICE", "run of user-1, by ALICE"),
        ("python /home/alice/t.py --password hunter2 x", f"python t.py {ARGUMENTS}"),
        ("running ./sub/t.py -v 3", f"running t.py {ARGUMENTS}"),
        ("/opt/bin/python3.11 -c 'x'", f"python3.11 {ARGUMENTS}"),
        ("ghp_0123456789abcdefghij", "***"),
        ("body=" + "QUJD" * 100, f"body={BLOB}"),
    ],
)
def test_what_goes(text: str, expected: str) -> None:
    assert REDACTOR.text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "/device:TPU:0",
        "/host:CPU",
        "/host:metadata",
        "/device:TPU:0 SparseCore 1",
        "jit(f)/jit(main)/users/embed/dot_general",
        "jit(step_fun)/jit(_f)/shard_map/RPA-bq_32-bkvp_64-p_64-/pallas_call",
        "jit(compute)/linear/...a,ba->...b/dot_general",
        "jit(f)/transpose(jvp(layer/attn))/while/body/mn,pn->mp/dot_general:",
        "a /*index=5*/f32[3]{0:T(8,128)} b",
        "%f = bf16[2,3]{1,0:T(8,128)S(1)} fusion(%a, %b), kind=kLoop, calls=%c, replica_groups=[4,2]<=[2,4]T(1,0)",
        "jit_train_step(1234567890123456789)",
        "futex-default-SDomainT/14843",
        "<embedded module '_launcher'>:153:2",
        "std::vector<int>::push_back",
        "12:30:45",
        "hostAB alicent",
        "$train.py:5 run - step",
        "a.py - b --c",
        "jaxlib 0.10.2",
    ],
)
def test_what_stays(text: str) -> None:
    assert REDACTOR.text(text) == text


def test_stats_that_hold_paths_keep_the_last_part_of_each_line() -> None:
    assert (
        REDACTOR.value("source_stack", "/home/a b/c.py:3:4\nproject/x/y.py:1\n<unknown>")
        == "c.py:3:4\ny.py:1\n<unknown>"
    )
    assert REDACTOR.value("source", "secret project/model:3") == "model:3"
    assert REDACTOR.text("secret project/model:3") == "secret project/model:3"


def test_json_of_a_sidecar() -> None:
    sidecar = {
        "host": "hostA",
        "command": ["/home/alice/train.py", "--name", "alice"],
        "environment": {"XLA_FLAGS": "--xla_dump_to=/x/y/z --api_key=hunter2 --n=2"},
        "hostA": {"steps": 3, "file": "sub/dir/hostA.xplane.pb"},
        "none": None,
        "numbers": [1, 2.5, True],
    }
    assert REDACTOR.json(sidecar) == {
        "host": "host-1",
        "command": ["train.py", ARGUMENTS],
        "environment": {"XLA_FLAGS": "--xla_dump_to=z --api_key=*** --n=2"},
        "host-1": {"steps": 3, "file": "host-1.xplane.pb"},
        "none": None,
        "numbers": [1, 2.5, True],
    }
    assert REDACTOR.json({"command": "report"}) == {"command": "report"}
    assert REDACTOR.json({"command": "python /home/alice/x.py --user alice"}) == {"command": f"python {ARGUMENTS}"}


def test_nobody_and_nowhere_are_kept() -> None:
    assert make_redactor(["localhost", ""], [f"/home/{name}/src/a.py" for name in ("runner", "root")]).names == ()


def test_long_texts_take_no_long_time() -> None:
    for piece in ("a.", "a/", "a@", "/a", "1.", "a:", "-a", "aA0+", "'/", " -a.py", "~/"):
        assert REDACTOR.text(piece * 20_000) is not None


_words = st.text("abcdefgh", min_size=3, max_size=8)


@given(
    st.lists(_words, min_size=1, max_size=5), _words, st.sampled_from(["{}", "at {} now", "x={}", '"{}"', "({}, 3)"])
)
def test_no_directory_of_a_path_is_left(directories: list[str], base: str, place: str) -> None:
    text = place.format(f"/{'/'.join(directories)}/{base}.py:7")
    assert REDACTOR.text(text) == place.format(f"{base}.py:7")


@given(st.text("/\\ab.:@~(\"' 1hostAlice-", max_size=40))
def test_known_names_never_stay_as_words(text: str) -> None:
    redacted = REDACTOR.text(text)
    assert not any(f" {name} " in f" {redacted} " for name, _ in REDACTOR.names)
    assert make_redactor(HOSTS, TEXTS).text(text) == redacted  # whatever was redacted before


@pytest.mark.parametrize("text", ["/home/alice/a b/x.py:3", "me@b.c on hostA", "at /opt/a/b (10.0.0.1)", "a=/x/y/z.py"])
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = REDACTOR.text(text)
    assert once != text
    assert make_redactor(HOSTS, TEXTS).text(once) == once
