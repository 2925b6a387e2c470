"""What is known of one accelerator chip: figures in SI units, each with its source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Platform = Literal["tpu", "gpu", "cpu"]
WrapRule = Literal["only_16", "multiples_of_4"]
_AS_PRINTED = " for the figure before that"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with where it comes from.

    Args:
        value: in ``unit``.
        unit: an SI unit such as ``FLOP/s``, ``B/s``, ``B``, ``Hz``, ``s``, ``USD/h``, ``W``.
        source: the document that states the number, or how it was derived.
        note: what else a reader should know.
        conflict: what other documents say instead.
        unverified: nobody checked the number against a document.
    """

    value: float
    unit: str
    source: str
    note: str = ""
    conflict: str = ""
    unverified: bool = False

    def times(self, factor: float, why: str) -> Figure:
        """The figure multiplied, with the reason added to its note; a conflict stays about the figure as printed."""
        note = f"{self.note}; {why}" if self.note else why
        conflict = self.conflict
        if conflict and not conflict.endswith(_AS_PRINTED):
            conflict = f"{conflict}{_AS_PRINTED}"
        return replace(self, value=self.value * factor, note=note, conflict=conflict)


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known besides figures: a count, a shape or a text, with where it comes from."""

    value: int | tuple[int, ...] | tuple[float, ...] | str
    source: str
    note: str = ""
    conflict: str = ""
    unverified: bool = False


@dataclass(frozen=True, slots=True)
class Ici:
    """The links between the chips of a TPU slice.

    Args:
        dims: dimensions of the torus, 2 or 3.
        links: links of one chip.
        link_bandwidth: of one link in one direction, B/s; null if no document states it.
        hop_latency_s: of one hop between neighbours, s.
        wrap_rule: when an axis closes to a ring: ``only_16`` an axis of 16 chips; ``multiples_of_4`` every axis,
            if every axis is a multiple of 4.
        total_bandwidth: sum over all links of a chip and both directions, as vendors print it, B/s.
        pod_all_reduce: all-reduce bandwidth of a whole pod, as printed, B/s.
        pod_bisection: bisection bandwidth of a whole pod, as printed, B/s.
    """

    dims: int
    links: int
    wrap_rule: WrapRule
    link_bandwidth: Figure | None = None
    hop_latency_s: Figure | None = None
    total_bandwidth: Figure | None = None
    pod_all_reduce: Figure | None = None
    pod_bisection: Figure | None = None

    @property
    def axis_bandwidth(self) -> Figure | None:
        """Both directions of one link: what a chip sends along one wrapped axis, B/s (W_ici of the scaling book)."""
        return None if self.link_bandwidth is None else self.link_bandwidth.times(2, "both directions of a link")


def _no_figures() -> dict[str, Figure]:
    return {}


def _no_facts() -> dict[str, Fact]:
    return {}


def _no_reasons() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Chip:
    """One kind of accelerator, per chip (or GPU package); what is unknown is null.

    A *runtime device* is what JAX lists: a whole chip on v4 to v6e, one of two cores on v2, v3 and TPU7x. The
    ``device_`` methods give the figures of one such device.

    Args:
        name: the key, such as ``v5e``, ``tpu7x`` or ``H100-SXM``.
        edition: the edition of constants that the figures follow.
        aliases: device kinds and other names.
        peak: dense rate by class of dtype (``bf16``, ``fp8``, ``int8`` …), FLOP/s.
        hbm_bytes: capacity of the chip's main memory.
        hbm_usable_bytes: what the runtime leaves to programs, per chip.
        hbm_bandwidth: B/s.
        core_vmem_bytes: vector memory of one core.
        vmem_bandwidth: of all cores of the chip, B/s.
        cmem_bytes: common memory of the chip (v4).
        cores_per_chip: TensorCores, or dies of a GPU package.
        devices_per_chip: runtime devices.
        mxu_size: edge of a matrix unit, in elements.
        mxus_per_core: matrix units of a core.
        clock_hz: of the compute core; boost clock of a GPU.
        vector_flops: elementwise float32 rate of the chip, FLOP/s.
        sparse_cores: per chip.
        ici: the links between TPU chips; null where not known and on GPUs.
        host_shape: chips of one host as a block of the torus.
        host_memory_bytes: DRAM of one host.
        dcn_bandwidth: data-centre network, per chip and direction, B/s.
        pcie_bandwidth: between chip and host, per chip and direction, B/s.
        host_dma_bandwidth: measured between chip and host memory, per chip and direction, B/s.
        pod_shape: the largest slice of chips joined by ICI.
        pod_chips: its size.
        max_job_shape: the largest slice that one job may use, where smaller than the pod.
        scale_up_bandwidth: egress of one GPU into its NVLink (or equivalent) domain, one way, B/s.
        scale_up_size: GPUs of such a domain.
        scale_out_bandwidth: egress of one GPU into the network beyond, one way, B/s.
        scale_out_unit_size: GPUs of one unit of the network beyond a node.
        scale_out_unit_bandwidth: egress of such a unit to the spine, B/s.
        sms: streaming multiprocessors of a GPU.
        smem_bytes: shared memory of one of them.
        power_w: of a chip.
        price_usd_per_hour: on-demand list price of a chip-hour.
        facts: counts, shapes and texts with their sources, among them the ones that are attributes here.
        reasons: why a figure is null, by its name (``peak.int8``), where there is more to say than that no source
            states it.
        note: on the chip as a whole.
    """

    name: str
    platform: Platform
    edition: str
    aliases: tuple[str, ...] = ()
    peak: Mapping[str, Figure] = field(default_factory=_no_figures, hash=False)
    hbm_bytes: Figure | None = None
    hbm_usable_bytes: Figure | None = None
    hbm_bandwidth: Figure | None = None
    core_vmem_bytes: Figure | None = None
    vmem_bandwidth: Figure | None = None
    cmem_bytes: Figure | None = None
    cores_per_chip: int = 1
    devices_per_chip: int = 1
    mxu_size: int | None = None
    mxus_per_core: int | None = None
    clock_hz: Figure | None = None
    vector_flops: Figure | None = None
    sparse_cores: int | None = None
    ici: Ici | None = None
    host_shape: tuple[int, ...] | None = None
    host_memory_bytes: Figure | None = None
    dcn_bandwidth: Figure | None = None
    pcie_bandwidth: Figure | None = None
    host_dma_bandwidth: Figure | None = None
    pod_shape: tuple[int, ...] | None = None
    pod_chips: int | None = None
    max_job_shape: tuple[int, ...] | None = None
    scale_up_bandwidth: Figure | None = None
    scale_up_size: int | None = None
    scale_out_bandwidth: Figure | None = None
    scale_out_unit_size: int | None = None
    scale_out_unit_bandwidth: Figure | None = None
    sms: int | None = None
    smem_bytes: Figure | None = None
    power_w: Figure | None = None
    price_usd_per_hour: Figure | None = None
    facts: Mapping[str, Fact] = field(default_factory=_no_facts, hash=False)
    reasons: Mapping[str, str] = field(default_factory=_no_reasons, hash=False)
    note: str = ""

    @property
    def vmem_bytes(self) -> Figure | None:
        """Vector memory of all cores of the chip, B."""
        if self.core_vmem_bytes is None or self.cores_per_chip == 1:
            return self.core_vmem_bytes
        return self.core_vmem_bytes.times(self.cores_per_chip, f"{self.cores_per_chip} cores")

    @property
    def chips_per_host(self) -> int | None:
        """Chips of one host."""
        return None if self.host_shape is None else math.prod(self.host_shape)

    @property
    def node_egress_bandwidth(self) -> Figure | None:
        """What all GPUs of a scale-up domain together send into the network beyond it, one way, B/s."""
        if self.scale_out_bandwidth is None or self.scale_up_size is None:
            return None
        return self.scale_out_bandwidth.times(self.scale_up_size, f"{self.scale_up_size} GPUs of a node")

    def device_peak(self, dtype: str) -> Figure | None:
        """Dense peak of one runtime device for an HLO dtype or a class of them, FLOP/s; null if not known.

        float32 has no peak on TPUs, because it runs there in passes of bf16: see `matmul_peak`.
        """
        from tpuprof.hardware.dtypes import peak_class

        kind = peak_class(dtype)
        return self._per_device(None if kind is None else self.peak.get(kind))

    def no_peak(self, dtype: str) -> str:
        """Why there is no peak for a dtype, as a sentence; empty if there is one."""
        from tpuprof.hardware.dtypes import peak_class

        kind = peak_class(dtype)
        if kind is None:
            return f"There is no class of matrix units for {dtype}."
        if kind in self.peak:
            return ""
        return self.reasons.get(f"peak.{kind}", f"No source states a peak of {self.name} for {kind}.")

    @property
    def device_hbm_bytes(self) -> Figure | None:
        """Main memory of one runtime device, B."""
        return self._per_device(self.hbm_bytes)

    @property
    def device_hbm_usable_bytes(self) -> Figure | None:
        """What the runtime leaves to programs of one device's main memory, B."""
        return self._per_device(self.hbm_usable_bytes)

    @property
    def device_hbm_bandwidth(self) -> Figure | None:
        """Main memory bandwidth of one runtime device, B/s."""
        return self._per_device(self.hbm_bandwidth)

    @property
    def device_vmem_bytes(self) -> Figure | None:
        """Vector memory of one runtime device (of both cores where they act as one device), B."""
        return self._per_device(self.vmem_bytes)

    @property
    def device_vmem_bandwidth(self) -> Figure | None:
        """Vector memory bandwidth of one runtime device, B/s."""
        return self._per_device(self.vmem_bandwidth)

    @property
    def device_vector_flops(self) -> Figure | None:
        """Elementwise float32 rate of one runtime device, FLOP/s."""
        return self._per_device(self.vector_flops)

    def _per_device(self, figure: Figure | None) -> Figure | None:
        if figure is None or self.devices_per_chip == 1:
            return figure
        count = self.devices_per_chip
        return figure.times(1 / count, f"one of the {count} runtime devices of a chip")
