"""Bytes from one place to another: over one link or several, with hops, in stages, in microbatches.

Formulas: scaling book, chapters "TPUs", "Sharded matrices", "Inference", "GPUs".
"""

from __future__ import annotations

from collections.abc import Mapping

from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.perfmodel.roofline import overlap

_TPUS = "scaling book, TPUs"
_SHARDED = "scaling book, sharded matrices"
_GPUS = "scaling book, GPUs"


def transfer(size: float, bandwidth: float, *, ports: int = 1, hops: int = 0, hop_latency: float = 0.0) -> Derivation:
    """The time to move bytes from one place to another, s.

    On a torus the bytes leave, or arrive, over as many ports as there are shortest paths, and pass each hop once.

    Args:
        size: bytes.
        bandwidth: of one port in one direction, B/s.
        ports: links that carry the bytes at the same time.
        hops: links between the two places.
        hop_latency: seconds that each of them adds.

    Raises:
        UsageError: a number is negative, or the bandwidth is not above zero.
    """
    rate = positive("The bandwidth", bandwidth) * counted("The number of ports", ports)
    moving = not_negative("The number of bytes", size) / rate
    if hops < 0:
        raise UsageError(f"The number of hops is {hops}.", hint="Give zero or more.")
    waiting = hops * not_negative("The latency of a hop", hop_latency)
    inputs = {"V": Quantity(size, "B"), "W": Quantity(bandwidth, "B/s"), "ports": Quantity(ports, "link")}
    if not hops:
        one = ("the link carries its full bandwidth all the time",)
        return Derivation(moving, "s", "V / (ports * W)", inputs, "bandwidth", one, (), _TPUS)
    inputs |= {"hops": Quantity(hops, "hop"), "t_hop": Quantity(hop_latency, "s")}
    steps = (
        Step("bytes over all ports", "V / (ports * W)", moving, "s"),
        Step("latency of the way", "hops * t_hop", waiting, "s"),
    )
    regime = "bandwidth" if moving >= waiting else "latency"
    assumed = ("the ports are used evenly and by nobody else",)
    return Derivation(moving + waiting, "s", "V / (ports * W) + hops * t_hop", inputs, regime, assumed, steps, _TPUS)


def staged(stages: Mapping[str, float]) -> dict[str, Derivation]:
    """A transfer through several stages, such as PCIe, ICI and HBM: ``time`` if they overlap, ``upper`` if not.

    Args:
        stages: seconds of each stage for all the bytes.

    Raises:
        UsageError: there is no stage, or a time is negative.
    """
    return overlap(stages).answers()


def latency_threshold(bandwidth: float, hop_latency: float, shards: int = 1) -> Derivation:
    """The bytes below which a transfer takes less time than the latency of a hop.

    Args:
        bandwidth: of one link in one direction, B/s.
        hop_latency: seconds.
        shards: pieces that are sent one per hop; the answer is for all of them together.

    Raises:
        UsageError: a number is not above zero.
    """
    value = positive("The bandwidth", bandwidth) * positive("The latency of a hop", hop_latency)
    inputs = {
        "W": Quantity(bandwidth, "B/s"), "t_hop": Quantity(hop_latency, "s"), "shards": Quantity(shards, "shard")
    }  # fmt: skip
    step = Step("threshold of one piece", "W * t_hop", value, "B")
    return Derivation(
        value * counted("The number of shards", shards), "B", "shards * W * t_hop", inputs, source=_SHARDED,
        steps=(step,),
    )  # fmt: skip


def latency_bound_ways(size: float, bandwidth: float, hop_latency: float) -> Derivation:
    """Into how many pieces bytes can be split before sending one takes less than the latency of a hop.

    Raises:
        UsageError: a number is not above zero.
    """
    threshold = latency_threshold(bandwidth, hop_latency)
    inputs = {**threshold.inputs, "V": Quantity(positive("The number of bytes", size), "B")}
    del inputs["shards"]
    step = threshold.as_step("bytes that a link moves during the latency")
    return Derivation(
        size / threshold.number(), "way", "V / (W * t_hop)", inputs, None, (), (step,), "scaling book, inference"
    )


def pipeline_transfers(size: float, bandwidth: float, microbatches: int, stages: int = 2) -> dict[str, Derivation]:
    """Activations handed from stage to stage: ``per-hop`` and, over all hops that follow each other, ``total``.

    Args:
        size: bytes of the activations of the whole batch.
        bandwidth: between two stages, B/s.
        microbatches: pieces of the batch.
        stages: of the pipeline.

    Raises:
        UsageError: a number is out of range.
    """
    counted("The number of microbatches", microbatches)
    if stages < 2:
        raise UsageError(f"A pipeline of {stages} stages hands nothing on.", hint="Give at least 2 stages.")
    value = not_negative("The number of bytes", size) / (positive("The bandwidth", bandwidth) * microbatches)
    inputs = {
        "V": Quantity(size, "B"), "W": Quantity(bandwidth, "B/s"),
        "N_mb": Quantity(microbatches, "microbatch"), "N_stages": Quantity(stages, "stage"),
    }  # fmt: skip
    hop = Derivation(value, "s", "V / (W * N_mb)", inputs, source=_GPUS)
    hops = microbatches + stages - 2
    steps = (hop.as_step("one hop of one microbatch"), Step("hops", "N_mb + N_stages - 2", hops, "hop"))
    assumed = ("no hop overlaps with computation",)
    total = Derivation(value * hops, "s", "V / (W * N_mb) * (N_mb + N_stages - 2)", inputs, None, assumed, steps, _GPUS)
    return {"per-hop": hop, "total": total}
