"""Which hardware a run is set against: what its trace names, or what a person picks; kept in the URL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import streamlit as st

from tpuprof.errors import TpuprofError
from tpuprof.units import format_bytes, format_si
from tpuprof_dashboards.text import plain

if TYPE_CHECKING:
    from tpuprof.roofline import HardwareOptions, Roofline
    from tpuprof.tables.rows import Device
    from tpuprof_dashboards.page import Page
    from tpuprof_dashboards.view import View

FILTERS = ("chip", "peak")
"""What the URL may say of hardware: a chip's name, and figures such as ``bf16=197T,hbm=819GB/s``."""

_AS_RECORDED = "as in the trace"


def hardware_of(view: View, devices: Sequence[Device]) -> tuple[HardwareOptions | None, str]:
    """The options that the URL gives, and what is wrong with them; nothing wrong is used."""
    from tpuprof.roofline import HardwareOptions, run_hardware

    chip, peak = view.get("chip"), view.get("peak")
    if not chip and not peak:
        return None, ""
    options = HardwareOptions(chip=chip or None, peaks=(peak,) if peak else ())
    try:
        run_hardware(devices, options)
    except TpuprofError as error:
        return None, " ".join(filter(None, (error.what, error.hint)))
    return options, ""


def show_hardware(page: Page) -> None:
    """The pickers of chip and peaks."""
    from tpuprof.hardware import chips

    names = [chip.name for chip in chips()]
    with st.container(width=200):
        page.pick(
            "chip", "Chip", ["", *names], lambda name: name or f"{_AS_RECORDED}{_recorded(page)}",
            help="The chip that ran this, if the trace does not name it, or to set the run against another.",
        )  # fmt: skip
    with st.container(width=230):
        page.text(
            "peak", "Peaks of one device", placeholder="bf16=197T,hbm=819GB/s",
            help="Figures that replace those of the chip, per runtime device: a type such as bf16 or int8, hbm, "
            "vmem, vector. A number alone is the bf16 peak.",
        )  # fmt: skip


def show_inputs(page: Page) -> None:
    """In words what the page is set against, where that is known, and what is wrong with what was given."""
    wrong = hardware_of(page.view, page.trace.devices)[1]
    if wrong:
        st.warning(f"{plain(wrong)} It is not used.")
    if page.roofline.hardware.chip is not None:
        st.caption(inputs(page.roofline))


def inputs(roofline: Roofline) -> str:
    """What the hardware can do, with its sources, or why that is not known. Markdown."""
    hardware = roofline.hardware
    chip = hardware.chip
    if chip is None:
        return plain(hardware.reason)
    peaks = [(dtype, chip.device_peak(dtype)) for dtype in chip.peak]
    told = [f"{dtype} {format_si(figure.value, 'FLOP/s')}" for dtype, figure in peaks if figure is not None]
    links = [] if roofline.rates is None else [(name, roofline.rates.link(name).value) for name in ("hbm", "vmem")]
    told += [f"{name.upper()} {format_si(value, 'B/s')}" for name, value in links if value is not None]
    capacity = hardware.hbm_capacity
    if capacity is not None:
        told.append(f"{format_bytes(capacity.value)} of HBM")
    return f"Per device: {plain(', '.join(told))} \\({plain(hardware.source)}\\)."


def _recorded(page: Page) -> str:
    kinds = sorted({device.kind for device in page.trace.devices if device.kind})
    return f" ({', '.join(kinds)})" if kinds else ""
