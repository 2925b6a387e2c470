"""How much of a chip's peaks training reaches, as data with a source, and the same after calibration."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from tpuprof.errors import UsageError


@dataclass(frozen=True, slots=True)
class Efficiency:
    """What a chip reaches, and how computation and communication share time.

    Args:
        name: of the profile.
        matmul: share of the peak of a large matmul.
        attention: the same of a fused attention kernel, after padding of heads to the matrix unit.
        memory: share of the HBM bandwidth of elementwise work.
        launch_s: fixed part of every op, seconds.
        spread: relative error of the compute time; makes the interval.
        overlap_weights, overlap_activations, overlap_network: share of the collectives on weights, on activations
            and between slices that runs behind computation, if there is enough of it.
        per_doubling_of_slices: what each doubling of the slices adds to a step, as a share.
        offload_share: share of the bandwidth to the host's memory.
        offload_hidden: share of those transfers that runs behind computation.
        host_bandwidth: between a chip and its host in one direction, B/s, where no document states it and a guess
            stands in; null if there is none.
        attention_block: rows and columns of the blocks of an attention kernel, at most.
        attention_blocks: blocks that a shorter sequence is cut into.
        elementwise: factors of elementwise traffic by ``width``, ``heads``, ``hidden`` and ``backward``, and
            ``narrow_bytes``, which an element that becomes narrow moves.
        group_tile: rows of a tile of a grouped matmul at most.
        gather: share of the HBM bandwidth that rows reach which are gathered in any order.
        source: where the shares come from.
        idle_s: of every step, seconds in which nothing is computed or sent, whatever the layout.
        collectives: by kind of collective the expected time over the one that is reached; 1 for those not named.
        sources: where single constants come from, by their place in a profile (``overlap.weights``).
    """

    name: str
    matmul: float
    attention: float
    memory: float
    launch_s: float
    spread: float
    overlap_weights: float
    overlap_activations: float
    overlap_network: float
    per_doubling_of_slices: float
    offload_share: float
    offload_hidden: float
    host_bandwidth: float | None
    attention_block: int
    attention_blocks: int
    elementwise: tuple[tuple[str, float], ...]
    source: str
    group_tile: int
    gather: float
    idle_s: float = 0.0
    collectives: tuple[tuple[str, float], ...] = ()
    sources: tuple[tuple[str, str], ...] = ()

    def scaled(self, factor: float, name: str, source: str) -> Efficiency:
        """The same with matmuls, attention and memory faster by a factor, as a calibration leaves it.

        Raises:
            UsageError: the factor is not above zero.
        """
        if not (math.isfinite(factor) and factor > 0):
            raise UsageError(f"An efficiency cannot be scaled by {factor}.", hint="Give a factor above zero.")
        changed = {key: getattr(self, key) * factor for key in ("matmul", "attention", "memory")}
        return replace(self, name=name, source=source, launch_s=self.launch_s / factor, **changed)

    def with_overlap(self, share: float) -> Efficiency:
        """The same with one share of all communication hidden behind computation.

        Raises:
            UsageError: it is not from 0 to 1.
        """
        if not 0 <= share <= 1:
            raise UsageError(f"A share of {share} cannot overlap.", hint="Give 0 (none) to 1 (all).")
        return replace(
            self, overlap_weights=share, overlap_activations=share, overlap_network=share, offload_hidden=share,
            source=f"{self.source}; overlap given",
            sources=tuple(
                pair for pair in self.sources if not pair[0].startswith("overlap.") and pair[0] != "offload.hidden"
            ),
        )  # fmt: skip

    def factor(self, name: str) -> float:
        """A factor of elementwise traffic."""
        return dict(self.elementwise)[name]

    def reached(self, kind: str) -> float:
        """The expected time of a kind of collective over the one that is reached."""
        return dict(self.collectives).get(kind, 1.0)

    def source_of(self, constant: str) -> str:
        """Where a constant comes from, as far as it has a source of its own; else the profile's name."""
        return dict(self.sources).get(constant, f"profile {self.name}")


@lru_cache(maxsize=64)
def efficiency(chip: str) -> Efficiency:
    """The profile of a chip; the default, which says that it is a guess, if nothing is known of it."""
    return efficiency_in(built_in(), chip, f"{chip} (uncalibrated)")


def efficiency_in(
    table: Mapping[str, Any], chip: str, name: str, sources: Mapping[str, str] = MappingProxyType({})
) -> Efficiency:
    """The profile of a chip in tables like those of ``train_profile.toml``.

    Args:
        name: of the profile.
        sources: of single constants, by their place.
    """
    own: Mapping[str, Any] = table["chips"].get(chip, table["default"])
    shares = {key: float(own[key]) for key in ("matmul", "attention", "memory", "launch_s", "spread")}
    overlap, steps, offload, loops = table["overlap"], table["steps"], table["offload"], table["elementwise"]
    reached: Mapping[str, Any] = table.get("collectives", {})
    return Efficiency(
        name=name,
        overlap_weights=overlap["weights"],
        overlap_activations=overlap["activations"],
        overlap_network=overlap["network"],
        per_doubling_of_slices=steps["per_doubling_of_slices"],
        offload_share=offload["bandwidth_share"],
        offload_hidden=offload["hidden"],
        host_bandwidth=table["host"].get(chip),
        attention_block=table["attention"]["block"],
        attention_blocks=table["attention"]["blocks_of_a_sequence"],
        elementwise=tuple((key, float(value)) for key, value in loops.items() if key != "source"),
        source=own["source"],
        group_tile=table["experts"]["tile_rows"],
        gather=own.get("gather", table["experts"]["gather"]),
        idle_s=float(steps.get("idle_s", 0.0)),
        collectives=tuple((key, float(value)) for key, value in reached.items() if key != "source"),
        sources=tuple(sources.items()),
        **shares,
    )


def assumptions(profile: Efficiency | None = None) -> tuple[str, ...]:
    """What the built-in profile assumes on every chip, one sentence each, and what the given one knows better."""
    table = built_in()
    found = tuple(
        f"{name}: {table[name]['source']}"
        for name in ("overlap", "steps", "attention", "experts", "offload", "host", "elementwise")
    )
    own = () if profile is None else profile.sources
    return (*found, *(f"instead, {constant}: {source}" for constant, source in own))


@lru_cache(maxsize=1)
def built_in() -> Mapping[str, Any]:
    """The tables of ``train_profile.toml``."""
    return tomllib.loads(files("tpuprof.plan").joinpath("train_profile.toml").read_text("utf-8"))
