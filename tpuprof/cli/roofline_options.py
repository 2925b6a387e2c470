"""The options of commands that set a run against its hardware."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from tpuprof.cli.hardware import hardware_options


def roofline_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the options; the command receives them as ``hardware``, a ``tpuprof.roofline.HardwareOptions``."""

    @functools.wraps(function)
    def collected(**values: Any) -> None:
        from pathlib import Path

        from tpuprof.roofline.hardware import HardwareOptions

        hardware = HardwareOptions(
            chip=values.pop("chip"),
            edition=values.pop("edition"),
            files=tuple(Path(file) for file in values.pop("hardware_files")),
            peaks=values.pop("peaks"),
            from_trace=values.pop("peaks_from_trace"),
            topology=values.pop("topology"),
        )
        function(hardware=hardware, **values)

    options = [
        click.option("--chip", metavar="NAME", help="The chip, if the trace does not name it, such as v6e or tpu7x."),
        click.option(
            "--peak",
            "peaks",
            multiple=True,
            metavar="FIGURES",
            help="Figures of one device, such as 197T or bf16=197T,hbm=819GB/s. Can be repeated.",
        ),
        click.option("--peaks-from-trace", is_flag=True, help="Use the peaks that the trace states."),
        click.option("--topology", metavar="SLICE", help="The slice, such as v6e:2x4. Default: the usual one."),
    ]
    decorated: Callable[..., None] = hardware_options(collected)
    for option in reversed(options):
        decorated = option(decorated)
    return decorated
