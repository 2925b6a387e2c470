"""A stand-in for a loaded trace: real tables that match their schemas, with numbers known in advance.

A training step of 1000 us on each core: matmul 400, attention 150, elementwise 120, data movement 30, exposed
collective 160 (40 more on the last core, taken from idle), DMA wait 40, idle 100. Every third step is 2 % longer,
which is idle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpuprof.formats.recording import Recording, Source
from tpuprof.formats.xspace import Events, Line, Plane, Space
from tpuprof.quality import Quality
from tpuprof.schema import Schema
from tpuprof.tables import stats
from tpuprof.tables.opclass import OpClass
from tpuprof.tables.rows import OpInfo
from tpuprof.tables.schemas import (
    COLLECTIVES,
    GAPS,
    IDLE_CAUSES,
    MODULES,
    OP_STATS,
    OPS,
    PARTITION,
    PARTS,
    STEPS,
)
from tpuprof.tables.stated import StatedCost

US = 1_000_000
MODULE = "jit_train_step(1234567890)"
SCOPE = "jit(train_step)/jit(main)/transformer/layer_3"
_PARTS_US = {
    "matmul": 400,
    "attention": 150,
    "elementwise": 120,
    "data_movement": 30,
    "collective_exposed": 160,
    "dma_wait": 40,
    "idle": 100,
}
_OPS = (
    ("fusion.2", "matmul", 250, f"{SCOPE}/mlp/dot_general", "model.py:120"),
    ("fusion.17", "matmul", 150, f"{SCOPE}/attn/qkv/dot_general", "model.py:88"),
    ("splash_attention.1", "attention", 150, f"{SCOPE}/attn/splash", "attention.py:41"),
    ("all-gather.5", "collective", 100, f"{SCOPE}/mlp/all_gather", "model.py:118"),
    ("fusion.1", "elementwise", 120, f"{SCOPE}/mlp/gelu/mul", "model.py:121"),
    ("reduce-scatter.9", "collective", 60, f"{SCOPE}/mlp/reduce_scatter", "model.py:125"),
    ("copy-done.4", "dma_wait", 40, None, None),
    ("copy.4", "data_movement", 30, None, None),
)

# At the peak of a v6e (918 TFLOP/s, 1,638 GB/s) fusion.2 takes 125 of its 250 us, fusion.17 75 of its 150, and fusion.1
# 100 of its 120; the attention kernel's cost is not known.
_STATED = {
    "fusion.2": StatedCost(114_750_000_000, (("hbm", 20_000_000),)),
    "fusion.17": StatedCost(68_850_000_000, (("hbm", 10_000_000),)),
    "fusion.1": StatedCost(80_000_000, (("hbm", 163_800_000),)),
    "copy.4": StatedCost(0, (("hbm", 16_380_000),)),
}


def table(schema: Schema, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """The rows as a table of the schema; columns left out are null, or zero where null is not allowed."""
    columns: dict[str, pd.Series] = {}
    for column in schema:
        default = None if column.nullable else {"bool": False, "string": "", "category": ""}.get(column.dtype, 0)
        values = [row.get(column.name, default) for row in rows]
        columns[column.name] = pd.Series(values, dtype=column.pandas_dtype)
    return schema.check(pd.DataFrame(columns))


@dataclass(frozen=True)
class Device:
    """The fields of ``tpuprof.tables.rows.Device`` that reports use."""

    id: str
    host: str
    plane: str
    platform: str
    ordinal: int
    kind: str | None
    stats: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class FakeBuilt:
    """The part of ``tpuprof.tables.build.Built`` that rooflines use."""

    infos: tuple[OpInfo, ...]
    cores: tuple[Any, ...] = ()


@dataclass(frozen=True)
class FakeTrace:
    """The face of ``tpuprof.trace.Trace`` that reports use."""

    name: str = "2026_01_01_00_00_00"
    devices: tuple[Device, ...] = ()
    n_steps: int = 6
    step_source: str = "steps_line"
    quality: tuple[Quality, ...] = ()
    ops_rows: tuple[tuple[str, str, int, str | None, str | None], ...] = _OPS
    module: str = MODULE
    causes_reason: str | None = None
    metadata: dict[str, Any] = field(default_factory=lambda: {"versions": {"jax": "0.7.0", "libtpu": "0.0.21"}})
    programs: dict[int, Any] = field(default_factory=dict[int, Any])
    sources: tuple[Source, ...] = (Source("hostA.xplane.pb", "xplane", 4_200_000),)
    origin_ns: int = 1_700_000_000_000_000_000
    path: str = "/logs/plugins/profile/2026_01_01_00_00_00"
    other_runs: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(device.host for device in self.devices)) or ("hostA",)

    @property
    def window_ps(self) -> tuple[int, int] | None:
        return (0, 6020 * US) if self.devices else None

    @property
    def outside_steps_ps(self) -> float | None:
        return 12.5 * US if self.devices else None

    @property
    def steps(self) -> pd.DataFrame:
        rows = [
            {
                "device": device.id,
                "step": step,
                "start_ps": step * 1000 * US,
                "duration_ps": self._step_us(step) * US,
                "complete": True,
                "closed": step < self.n_steps - 1,
                "matched": True,
                "counted": True,
            }
            for device in self.devices
            for step in range(self.n_steps)
        ]
        return table(STEPS, rows)

    def _step_us(self, step: int) -> int:
        return 1020 if step % 3 == 2 else 1000

    def _parts(self, device: Device, step: int) -> dict[str, int]:
        parts = dict(_PARTS_US)
        parts["idle"] += self._step_us(step) - 1000
        if len(self.devices) > 1 and device is self.devices[-1]:
            parts["collective_exposed"] += 40
            parts["idle"] -= 40
        return {f"{part}_ps": parts.get(part, 0) * US for part in PARTS}

    @property
    def partition(self) -> pd.DataFrame:
        rows = []
        for device in self.devices:
            for step in range(self.n_steps):
                parts = self._parts(device, step)
                idle = parts["idle_ps"]
                causes = {f"idle_{cause}_ps": 0 for cause in IDLE_CAUSES}
                causes |= {"idle_dispatch_ps": idle // 2, "idle_unexplained_ps": idle - idle // 2}
                row = {"device": device.id, "step": step, "start_ps": step * 1000 * US}
                row |= {"duration_ps": sum(parts.values()), "hidden_collective_ps": 310 * US, **parts}
                if self.causes_reason:  # only the causes that need no comparison of clocks are known
                    causes = {"idle_dma_in_flight_ps": 0, "idle_intra_program_ps": idle // 4}
                rows.append(row | causes)
        return table(PARTITION, rows)

    @property
    def gaps(self) -> pd.DataFrame:
        rows = [
            {
                "device": device.id,
                "step": step,
                "start_ps": (step * 1000 + 950) * US,
                "duration_ps": (self._step_us(step) - 950) * US,
                "before_op": self.ops_rows[-1][0] if self.ops_rows else None,
                "after_op": self.ops_rows[0][0] if step and self.ops_rows else None,
                "inside_run": False,
            }
            for device in self.devices
            for step in range(self.n_steps)
        ]
        return table(GAPS, rows)

    @property
    def collectives(self) -> pd.DataFrame:
        rows = []
        for device in self.devices:
            for step in range(self.n_steps):
                for op, kind, us, scope, source in self.ops_rows:
                    if kind == "collective":
                        row = {
                            "device": device.id,
                            "op": op,
                            "module": self.module,
                            "form": "async",
                            "step": step,
                        }
                        row |= {"kind": "all_gather" if "gather" in op else "reduce_scatter", "scope": scope}
                        row |= {
                            "start_ps": (step * 1000 + 100) * US,
                            "window_ps": 2 * us * US,
                            "source": source,
                        }
                        rows.append(
                            row
                            | {
                                "exposed_ps": us * US,
                                "hidden_ps": us * US,
                                "participants": 8,
                                "bytes": 1 << 30,
                            }
                        )
        return table(COLLECTIVES, rows)

    @property
    def modules(self) -> pd.DataFrame:
        rows = [
            {
                "device": d.id,
                "run": n,
                "module": self.module,
                "start_ps": n * 1000 * US,
                "duration_ps": 950 * US,
                "clock": "device",
            }
            for d in self.devices
            for n in range(self.n_steps)
        ]
        return table(MODULES, rows)

    @property
    def recordings(self) -> tuple[Recording, ...]:
        def plane(at: int, name: str, lines: dict[str, int]) -> Plane:
            return Plane(
                at,
                name,
                tuple(Line(n, k, 0, _no_events(c)) for n, (k, c) in enumerate(lines.items())),
                (),
                (),
            )

        planes = [
            plane(n, d.plane, {"XLA Ops": self.n_steps * len(self.ops_rows), "Steps": self.n_steps})
            for n, d in enumerate(self.devices)
        ]
        space = Space((*planes, plane(99, "/host:CPU", {"python": 7}), plane(100, "/host:metadata", {})))
        return (Recording("hostA", space, self.sources[0]),)

    @property
    def ops(self) -> pd.DataFrame:
        rows = [
            {"device": d.id, "step": step, "op": op, "kind": kind, "module": self.module, "scope": scope}
            | {"source": source, "start_ps": step * 1000 * US, "duration_ps": us * US, "self_ps": us * US}
            for d in self.devices
            for step in range(self.n_steps)
            for op, kind, us, scope, source in self.ops_rows
        ]
        return table(OPS, rows)

    @property
    def op_rows(self) -> np.ndarray[Any, Any]:
        return np.tile(np.arange(len(self.ops_rows), dtype=np.int32), len(self.devices) * self.n_steps)

    @property
    def built(self) -> FakeBuilt:
        return FakeBuilt(
            tuple(
                OpInfo(op, OpClass(kind, "hlo"), None, self.module, scope=scope, source=source, stated=_STATED.get(op))
                for op, kind, _, scope, source in self.ops_rows
            )
        )

    def counted(self, rows: pd.DataFrame) -> pd.DataFrame:
        return rows[stats.in_counted_steps(rows, self.steps)]

    @property
    def counted_ops(self) -> np.ndarray[Any, Any]:
        return stats.in_counted_steps(self.ops, self.steps)

    def op_stats(self, by: str = "op") -> pd.DataFrame:
        factor = len(self.devices) * self.n_steps
        all_ps = sum(us for _, _, us, _, _ in self.ops_rows) * factor * US
        groups: dict[str, dict[str, Any]] = {}
        for name, kind, us, scope, source in self.ops_rows if factor else ():
            key = {"op": name, "kind": kind, "scope": scope, "source": source, "module": self.module}[by]
            row = groups.setdefault(
                key or "(unknown)", {"occurrences": 0, "total_ps": 0, "kind": kind, "module": self.module}
            )
            row["occurrences"] += factor
            row["total_ps"] += us * factor * US
            row |= {"scope": scope, "source": source, "kind_source": "hlo"} if by == "op" else {}
        rows = [
            {
                **row,
                "name": name,
                "self_ps": row["total_ps"],
                "mean_ps": row["total_ps"] / row["occurrences"],
                "self_fraction": row["total_ps"] / all_ps,
            }
            for name, row in groups.items()
        ]
        frame = table(OP_STATS, rows)
        return frame.sort_values("self_ps", ascending=False, kind="stable", ignore_index=True)

    def step_statistics(self) -> dict[str, Any]:
        return stats.step_statistics(self.steps)

    def critical_device(self) -> str | None:
        return stats.critical_device(self.steps)

    def breakdown(self) -> dict[str, Any] | None:
        return stats.breakdown(self.partition, self.steps["counted"].to_numpy(), self.causes_reason)

    def select(self, *, devices: Any = None, steps: Any = None) -> FakeTrace:
        chosen = self.devices if devices is None else tuple(d for d in self.devices if d.id in set(devices))
        count = self.n_steps if steps is None else len(list(steps))
        return replace(self, devices=chosen, n_steps=count)


def _no_events(count: int) -> Events:
    zeros, small = np.zeros(count, np.int64), np.zeros(count, np.int32)
    nothing = np.zeros(0, np.int64)
    return Events(small, zeros, zeros, None, np.zeros(count + 1, np.int64), nothing.astype(np.int32),
                  nothing.astype(np.uint8), nothing)  # fmt: skip


def fake_trace(n_devices: int = 4, **changes: Any) -> FakeTrace:
    """A trace of ``n_devices`` TPU cores on one host."""
    devices = tuple(
        Device(f"hostA/TPU:{n}", "hostA", f"/device:TPU:{n}", "tpu", n, "TPU v6 lite") for n in range(n_devices)
    )
    return FakeTrace(devices=devices, **changes)


HOSTILE = "<script>alert(1)</script>\x1b[31mred\x1b[0m\n::error::forged | `tick` [link](x) @team \u202eabc\x00"
"""A name that would break out of every format if it were written as it is."""


def without_analyzers() -> Iterator[None]:
    """Until resumed, no analyzer is found, whether or not the package is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tpuprof.registry.discover", tuple)
        yield
