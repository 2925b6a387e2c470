"""Names of the program's parts: on host rows, and as scopes of ops."""

import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import pytest

from tests.capture.recorded import events_of
from tests.capture.support import child_environment
from tpuprof.capture import annotate, capture, step
from tpuprof.errors import UsageError


def test_what_is_traced_inside_has_the_name_as_scope_and_the_host_shows_it(tmp_path):
    @annotate("mlp")
    def mlp(x):
        return jnp.tanh(x @ x)

    @jax.jit
    def train_step(x):
        with annotate("attention"):
            x = jnp.sin(x @ x)
        return mlp(x)

    x = jnp.ones((128, 128))
    train_step(x)
    with capture(tmp_path) as made, step(1), annotate("feed", layer=3, ratio=0.5, kind="warm"):
        train_step(x).block_until_ready()
    assert made.error is None
    (path,) = made.path.glob("*.xplane.pb")
    (event,) = [event for event in events_of(path) if event.name == "feed"]
    assert {key: event.stats[key] for key in ("layer", "ratio", "kind")} == {"layer": 3, "ratio": 0.5, "kind": "warm"}
    assert "feed" in set(made.trace.host_events["name"])
    scopes = " ".join(made.trace.op_stats(by="scope")["scope"].astype(str))
    assert "attention" in scopes
    assert "mlp" in scopes


def test_annotating_a_call_does_not_trace_it_again():
    traced = []

    @jax.jit
    def f(x):
        traced.append(1)
        return x + 1

    f(1.0)
    with annotate("outside", n=1):
        f(1.0)
        with annotate("inside"):
            f(1.0)
    assert traced == [1]


def test_exceptions_pass_and_leave_nothing_open(monkeypatch):
    note = annotate("a")
    with pytest.raises(KeyError), note, note:
        raise KeyError
    assert note._open == []


def test_calls_overlap_in_threads():
    barrier = threading.Barrier(4)

    @annotate("work")
    def work(n):
        """Doc."""
        barrier.wait(10)
        return n

    results = []
    threads = [threading.Thread(target=lambda n=n: results.append(work(n))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 1, 2, 3]
    assert (work.__name__, work.__doc__) == ("work", "Doc.")


@pytest.mark.parametrize(
    ("name", "facts", "message"),
    [
        ("", {}, "An annotation needs a name"),
        (3, {}, "name=3 is not of type str"),
        ("a", {"x": [1]}, r"x=\[1\] cannot be a fact of an annotation. Use texts and numbers"),
    ],
)
def test_what_is_no_annotation(name, facts, message):
    with pytest.raises(UsageError, match=message):
        annotate(name, **facts)


def test_without_jax_nothing_happens():
    code = (
        "import sys, tpuprof\nwith tpuprof.annotate('a', n=1): pass\n"
        "assert tpuprof.annotate('a')(lambda: 3)() == 3 and 'jax' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], env=child_environment(), check=True)
