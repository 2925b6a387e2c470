"""Timelines made from arrays, of any size, with known contents."""

from __future__ import annotations

import numpy as np
from tpuprof_dashboards.timeline.items import Item, Items
from tpuprof_dashboards.timeline.looks import colour_of_kind, tone
from tpuprof_dashboards.timeline.model import Group, TimelineModel, Track
from tpuprof_dashboards.timeline.rows import Events, make_rows

KINDS = ("matmul", "elementwise", "collective", "data_movement", "dma_wait", "attention", "reduction")


def items_of(count: int) -> Items:
    """So many ops, their kinds in turn."""
    return Items(
        tuple(
            Item(f"{KINDS[n % 7]}.{n}", colour_of_kind(KINDS[n % 7]), KINDS[n % 7], f"model/layer_{n // 7}/{n}")
            for n in range(count)
        )
    )


def events_of(rng: np.random.Generator, count: int, items: int, longest_ps: int = 20_000_000) -> Events:
    """Disjoint events with pauses; a few are long."""
    length = rng.integers(1_000, longest_ps, count)
    length[:: max(count // 50, 1)] *= 40
    pause = rng.integers(0, 200_000, count) * (rng.random(count) < 0.3)
    start = np.cumsum(length + pause) - length
    return Events(start, start + length, rng.integers(0, items, count).astype(np.int32))


def made_model(events: int, devices: int = 8, name: str = "made") -> TimelineModel:
    """So many ops on so many devices, a tenth of them inside loops of ten, with steps above them."""
    rng = np.random.default_rng(0)
    items = Items(
        (*items_of(500).all, Item("step", tone(0), "step"), Item("while", colour_of_kind("container"), "loop"))
    )
    groups: list[Group] = []
    for device in range(devices):
        ops = events_of(rng, events // devices, 500)
        first, last = ops.start[::1000], ops.end[np.minimum(np.arange(999, len(ops) + 999, 1000), len(ops) - 1)]
        steps = Events(first, last, np.full(len(first), 500, np.int32))
        loops = np.arange(0, max(len(ops) - 9, 0), 100)
        start = np.concatenate([ops.start, ops.start[loops]])
        end = np.concatenate([ops.end, ops.end[loops + 9]])
        every = Events(start, end, np.concatenate([ops.item, np.full(len(loops), 501, np.int32)]))
        tracks = [
            Track("Steps", "steps", *make_rows(steps, items.colours)),
            Track("XLA Ops", "ops", *make_rows(every, items.colours), is_work=True),
        ]
        groups.append(Group(f"/device:TPU:{device}", f"host/TPU:{device}", tuple(tracks)))
    rows = [row for group in groups for track in group.tracks for row in track.rows]
    start = min(int(row.events.start[0]) for row in rows)
    end = max(int(row.events.end[-1]) for row in rows)
    return TimelineModel(name, tuple(groups), items, start, end, (start, end))
