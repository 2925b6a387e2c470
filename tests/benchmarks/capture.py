"""What capturing costs, on a real program over 8 virtual CPU devices. One command, one table:

    python tests/benchmarks/capture.py [--runs 5] [--steps 8] [--layers 4] [--json]

Everything happens in one child process, so that the measured sessions follow each other as in a training run:

* the cost of a step outside a window, with `tpuprof.step`, `Profiler.step` and the step-time log, over an empty body;
* stop-and-write of a capture against ``jax.profiler.stop_trace`` on the same window, in turns, medians;
* the memory that the process grows by while it is recorded, per event, and a recording that the budget ends.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MARKS = 1000
LOOPS = 100  # the best of many short ones: other programs on the machine cost time, never save any
BAR_STEP_US = 5.0
BAR_STOP = 0.6


def main() -> None:
    """Run the measurements in a child with 8 CPU devices and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="pairs of captures, after one that is thrown away")
    parser.add_argument("--steps", type=int, default=8, help="steps in a window")
    parser.add_argument("--layers", type=int, default=4, help="layers of the program; more make more events")
    parser.add_argument("--json", action="store_true", help="print the measurements as JSON")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        measured = measure(arguments.runs, arguments.steps, arguments.layers, Path(arguments.child))
        print(json.dumps(measured))
        return
    with tempfile.TemporaryDirectory(prefix="tpuprof-bench-") as place:
        command = [sys.executable, __file__, "--child", place]
        command += [f"--{name}={getattr(arguments, name)}" for name in ("runs", "steps", "layers")]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        }
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    measured = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(measured, indent=1) if arguments.json else table(measured))


def measure(runs: int, steps: int, layers: int, place: Path) -> dict[str, Any]:
    """All measurements, in this process."""
    run = program(layers)
    run(2)
    grown = memory(run, steps, place / "memory")  # first: what earlier recordings freed would be used again unseen
    return {
        "step_us": step_costs(place / "marks"),
        "stop": stops(run, runs, steps, place / "stops"),
        "memory": grown,
    }


def program(layers: int) -> Callable[[int], None]:
    """A function that trains the demo's Transformer for so many marked steps."""
    import jax

    import tpuprof
    from tpuprof.capture import demo_program as demo

    config = demo.Config(layers=layers)
    mesh = demo.make_mesh(jax.devices(), 2)
    shardings = jax.tree.map(
        lambda spec: demo.NamedSharding(mesh, spec), demo.PARAM_SPECS, is_leaf=lambda x: isinstance(x, demo.P)
    )
    params = jax.jit(lambda key: demo.init_params(config, key), out_shardings=shardings)(jax.random.key(0))
    momentum = jax.tree.map(jax.numpy.zeros_like, params)
    train_step = demo.make_train_step(config, mesh)
    tokens = jax.random.randint(jax.random.key(1), (config.batch, config.sequence + 1), 0, config.vocabulary)
    tokens = jax.device_put(tokens, demo.NamedSharding(mesh, demo.P("data", None)))
    state = [params, momentum]

    def run(count: int) -> None:
        for _ in range(count):
            with tpuprof.step():
                state[0], state[1], loss = train_step(state[0], state[1], tokens)
                loss.block_until_ready()

    return run


def step_costs(place: Path) -> dict[str, float]:
    """Microseconds of a step that does nothing, outside a window; the best of many short loops."""
    import tpuprof

    def marks() -> None:
        for _ in range(MARKS):
            with tpuprof.step():
                pass

    def best(loop: Callable[[], None]) -> float:
        times = []
        for _ in range(LOOPS):
            begin = time.perf_counter()
            loop()
            times.append(time.perf_counter() - begin)
        return min(times) / MARKS * 1e6

    def bare() -> None:
        for _ in range(MARKS):
            pass

    costs = {"an empty loop": best(bare), "tpuprof.step()": best(marks)}
    late = tpuprof.Schedule(at_steps=[10**9])
    with tpuprof.Profiler(place / "a", late):
        costs["tpuprof.step() inside Profiler, logged"] = best(marks)
    with tpuprof.Profiler(place / "b", late, on_slow=tpuprof.SlowSteps(ratio=1e6), on_request=True) as profiler:
        costs["the same with on_slow and on_request"] = best(marks)

        def by_profiler() -> None:
            for _ in range(MARKS):
                profiler.step()

        costs["Profiler.step()"] = best(by_profiler)
    return costs


def stops(run: Callable[[int], None], runs: int, steps: int, place: Path) -> dict[str, Any]:
    """Seconds from the end of a window until its trace is on disk, ours and jax's in turns."""
    import jax

    import tpuprof
    from tpuprof.capture.eventcount import count_events

    ours, theirs, sizes = [], [], []  # pairs of seconds and, for a machine with other work, of processor seconds
    for number in range(runs + 1):
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # what ours has, too
        jax.profiler.start_trace(str(place / f"jax{number}"), profiler_options=options)
        run(steps)
        theirs.append(timed(jax.profiler.stop_trace))
        captured = tpuprof.capture(place / f"ours{number}", strict=True)
        captured.start()
        run(steps)
        ours.append(timed(captured.stop))
        (file,) = captured.path.glob("*.xplane.pb")  # type: ignore[union-attr]
        sizes.append((file.stat().st_size, count_events(file.read_bytes())[0]))
        shutil.rmtree(place)
    ours, theirs = ours[1:], theirs[1:]  # the first of each pays what only the first pays
    return {
        "steps": steps,
        "bytes": sizes[-1][0],
        "events": sizes[-1][1],
        "ours_s": [seconds for seconds, _ in ours],
        "stop_trace_s": [seconds for seconds, _ in theirs],
        "ratio": ratio(ours, theirs, 0),
        "processor_ratio": ratio(ours, theirs, 1),
    }


def timed(call: Callable[[], None]) -> tuple[float, float]:
    """Seconds that a call takes, and seconds that the processors worked for this process meanwhile."""
    begin = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def ratio(ours: list[tuple[float, float]], theirs: list[tuple[float, float]], which: int) -> float:
    """The quotient of the medians."""
    return statistics.median(pair[which] for pair in ours) / statistics.median(pair[which] for pair in theirs)


def memory(run: Callable[[int], None], steps: int, place: Path) -> dict[str, Any]:
    """What the process grows by during a recording, and how far a budget lets it.

    The growth is the largest until the trace is written: a profiler that hands its trace over needs room for a second
    and a third copy of it.
    """
    import tpuprof
    from tpuprof.capture.budget import resident_bytes
    from tpuprof.capture.eventcount import count_events

    def recorded(count: int, budget: tpuprof.Budget) -> tuple[int, int, str | None]:
        before = resident_bytes() or 0
        captured = tpuprof.capture(place, strict=True, budget=budget)
        grown = 0
        with captured:
            for _ in range(count):
                run(1)
                grown = max(grown, (resident_bytes() or 0) - before)
        (file,) = captured.path.glob("*.xplane.pb")  # type: ignore[union-attr]
        return grown, count_events(file.read_bytes())[0], captured.ended_early

    free = recorded(2 * steps, tpuprof.Budget())
    limit = 160 << 20
    bounded = recorded(8 * steps, tpuprof.Budget(max_memory_bytes=limit))
    return {
        "grown_bytes": free[0],
        "events": free[1],
        "bytes_per_event": free[0] / free[1],
        "limit_bytes": limit,
        "bounded_grown_bytes": bounded[0],
        "bounded_events": bounded[1],
        "bounded_reason": bounded[2],
    }


def table(measured: dict[str, Any]) -> str:
    """The measurements for people, with the bars that they are held against."""
    stop, grown = measured["stop"], measured["memory"]
    lines = [f"{'per step outside a window':<44} us"]
    lines += [f"  {name:<42} {us:.2f}" for name, us in measured["step_us"].items()]
    lines += [
        f"  bar: {BAR_STEP_US:g} us",
        "",
        f"stop and write, {stop['steps']} steps, {stop['events']:,} events, {stop['bytes']:,} bytes",
        f"  tpuprof     {statistics.median(stop['ours_s']):.4f} s   {rounded(stop['ours_s'])}",
        f"  stop_trace  {statistics.median(stop['stop_trace_s']):.4f} s   {rounded(stop['stop_trace_s'])}",
        f"  ratio       {stop['ratio']:.3f}   bar: {BAR_STOP:g}   in processor time: {stop['processor_ratio']:.3f}",
        "",
        f"memory while recording: +{grown['grown_bytes'] / 1e6:.1f} MB for {grown['events']:,} events, "
        f"{grown['bytes_per_event']:.0f} bytes each",
        f"  with max_memory_bytes = {grown['limit_bytes'] / 1e6:.1f} MB: +{grown['bounded_grown_bytes'] / 1e6:.1f} MB "
        f"for {grown['bounded_events']:,} events",
        f"  {grown['bounded_reason'] or 'it was not reached'}",
    ]
    return "\n".join(lines)


def rounded(values: list[float]) -> str:
    """Seconds as a short list."""
    return " ".join(f"{value:.3f}" for value in values)


if __name__ == "__main__":
    main()
