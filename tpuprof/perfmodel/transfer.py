"""Transfers of several stages and of several microbatches.

Formulas: scaling book, chapters "TPUs" and "GPUs". One transfer between two chips is
:func:`tpuprof.perfmodel.collectives.point_to_point`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.perfmodel.roofline import overlap

_GPUS = "scaling book, GPUs"


def staged(stages: Mapping[str, float]) -> dict[str, Derivation]:
    """A transfer through several stages, such as PCIe, ICI and HBM: ``time`` if they overlap, ``upper`` if not.

    Args:
        stages: seconds of each stage for all the bytes.

    Raises:
        UsageError: there is no stage, or a time is negative.
    """
    return overlap(stages).answers()


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
