"""Pairs of real captures that differ in one thing, what the comparison must say of each, and how they are made."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.capture.support import child_environment
from tpuprof.compare import Difference, Explanation, Origin
from tpuprof.trace import Trace

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("pair_program.py")
DEVICES = 2
STEPS = 24
_OTHER_DIGITS = str.maketrans("123456789", "234567891")


@dataclass(frozen=True)
class Pair:
    """One thing that was changed.

    Args:
        name: what it is.
        base: the change that the base has (see ``pair_program``).
        new: the change that the new side has.
        flag: an XLA flag of the new side.
        what: what the first cause must be, any of these.
        where: a pattern that its place must match.
        difference: kind and pattern of the text of what else differs: one of the entries must match, the first one
            where it is a flag.
    """

    name: str
    new: str = "none"
    base: str = "none"
    flag: str = ""
    what: tuple[str, ...] = ()
    where: str = ""
    difference: tuple[str, str] | None = None

    def named(self, cause: Origin) -> bool:
        """Whether a cause is the planted one."""
        return cause.what in self.what and re.search(self.where, cause.where or "") is not None

    def told(self, differences: Iterable[Difference]) -> bool:
        """Whether the planted change is among what else differs."""
        if self.difference is None:
            return True
        kind, pattern = self.difference
        return any(each.kind == kind and re.search(pattern, each.what) for each in differences)


PAIRS = (
    Pair(
        "f32 to f64 in one layer", "f64", what=("types",), where=r"\Alayers_1/mlp", difference=("dtype", "layers_1/mlp")
    ),
    # The CPU backend computes bf16 matmuls in f32: what ends with them is conversions.
    Pair("bf16 to f32 in one layer", base="bf16", what=("types",)),
    Pair(
        "weights in pieces: an all-gather",
        "gather",
        what=("collective",),
        where=r"\Aall-gather\Z",
        difference=("collective", "all-gather"),
    ),
    Pair("remat on", "remat", what=("recomputation",), difference=("recomputation", "train_step")),
    Pair(
        "one layer more",
        "layer",
        what=("repeats",),
        where=r"\Alayers_\*\Z",
        difference=("shape", "number of arguments"),
    ),
    Pair("input stall", "stall", what=("idle",), where=r"\Aidle, input\Z"),
    Pair(
        "XLA flag: collectives not combined",
        flag="--xla_disable_hlo_passes=cpu-all-reduce-combiner",
        what=("collective",),
        where=r"\Aall-reduce\Z",
        difference=("flag", "xla_disable_hlo_passes"),
    ),
    Pair("one fused op split", "split", what=("fusion", "ops"), where=r"\Ahead"),
)


def capture(change: str, folder: Path, *, flag: str = "", steps: int = STEPS) -> Path:
    """Runs the program in a process of its own.

    Raises:
        RuntimeError: it failed; the text is what it wrote.
    """
    done = subprocess.run(
        [sys.executable, str(PROGRAM), change, str(folder), str(steps)],
        env=child_environment(
            JAX_PLATFORMS="cpu",
            XLA_FLAGS=f"--xla_force_host_platform_device_count={DEVICES} {flag}".strip(),
            PYTHONPATH=str(ROOT),
        ),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{change}: {done.stderr}")
    return folder


def renumber(trace: Trace, folder: Path, target: Path) -> None:
    """Writes the capture in a folder with another number for every instruction that has one.

    Digits are exchanged for others, one to one, so that no length in the file changes: names stay distinct, and each is
    the same in events and in the HLO.
    """
    (file,) = folder.rglob("*.xplane.pb")
    names = {name for info in trace.built.infos if (name := info.name) and re.search(r"\.\d+\Z", name)}
    for info in trace.built.infos:
        if info.program is not None:
            names |= {i.name for c in info.program.computations for i in c.instructions if "." in i.name}
    # A string field begins with its length: fusion.9 is not the beginning of fusion.92.
    fields = sorted(bytes([len(name)]) + name.encode() for name in names if len(name) < 128)
    pattern = re.compile(b"|".join(map(re.escape, fields)), re.DOTALL)
    target.mkdir(parents=True)
    text = pattern.sub(lambda match: match[0][:1] + other_number(match[0][1:].decode()).encode(), file.read_bytes())
    (target / file.name).write_bytes(text)


def other_number(name: str) -> str:
    """The name of an instruction with another number of as many digits."""
    stem, dot, number = name.rpartition(".")
    return stem + dot + number.translate(_OTHER_DIGITS) if number.isdigit() else name


def rows_sum(explanation: Explanation) -> float:
    """What causes and residual sum to, in ps; the same as the difference if nothing is lost."""
    assert explanation.residual_ps is not None
    return float(sum(cause.delta for cause in explanation.causes)) + explanation.residual_ps


def load_average() -> float:
    """Of the last minute: how busy the machine is beside the captures."""
    return os.getloadavg()[0]
