"""The options of one capture, checked before anything starts.

jax accepts unknown profiler options silently, so a misspelt one would cost a whole run; here it is an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tpuprof.errors import UsageError

TPU_TRACE_MODES = ("TRACE_ONLY_HOST", "TRACE_ONLY_XLA", "TRACE_COMPUTE", "TRACE_COMPUTE_AND_SYNC")

# Keys that jax documents for ProfileOptions.advanced_configuration, with the type of their value.
ADVANCED_KEYS: dict[str, type] = {
    "tpu_trace_mode": str,
    "tpu_num_sparse_cores_to_trace": int,
    "tpu_num_sparse_core_tiles_to_trace": int,
    "tpu_num_chips_to_profile_per_task": int,
    "tpu_perf_counters": bool,
    "gpu_max_callback_api_events": int,
    "gpu_max_activity_api_events": int,
    "gpu_max_annotation_strings": int,
    "gpu_enable_nvtx_tracking": bool,
    "gpu_enable_cupti_activity_graph_trace": bool,
    "gpu_pm_sample_counters": str,
    "gpu_pm_sample_interval_us": int,
    "gpu_pm_sample_buffer_size_per_gpu_mb": int,
    "gpu_num_chips_to_profile_per_task": int,
    "gpu_dump_graph_node_mapping": bool,
}


@dataclass(frozen=True)
class CaptureOptions:
    """What to record; build it with `check_options`."""

    host_tracer_level: int = 2  # 0 off, 1 only what users and jax annotate, 2 also the runtime, 3 verbose
    python_tracer_level: int = 0  # 1 records every Python call: heavy, fills files first
    enable_hlo_proto: bool = True  # without the HLO there is no cost model
    advanced: Mapping[str, bool | int | str] = field(default_factory=dict[str, bool | int | str])

    def as_dict(self) -> dict[str, Any]:
        """The options as plain values, for the sidecar."""
        return {
            "host_tracer_level": self.host_tracer_level,
            "python_tracer_level": self.python_tracer_level,
            "enable_hlo_proto": self.enable_hlo_proto,
            **self.advanced,
        }


def check_options(*, host_tracer_level: Any = 2, python_tracer_level: Any = 0, **options: Any) -> CaptureOptions:
    """The options of one capture.

    Args:
        host_tracer_level: 0 to 3.
        python_tracer_level: 0 or 1; 0 reaches the profiler as 0.
        options: ``enable_hlo_proto``; the keys of `ADVANCED_KEYS`; ``advanced``, a mapping that is handed to
            the profiler as it is, for keys that are too new to be known here.

    Raises:
        UsageError: an option is unknown or its value is wrong; the message names it.
    """
    _check_level("host_tracer_level", host_tracer_level, 3)
    _check_level("python_tracer_level", python_tracer_level, 1)
    enable_hlo_proto = options.pop("enable_hlo_proto", True)
    _check_type("enable_hlo_proto", enable_hlo_proto, bool)
    advanced: Any = options.pop("advanced", None) or {}
    if not isinstance(advanced, Mapping):
        raise UsageError(f"advanced={advanced!r} is not a mapping.", hint="Pass a dict of profiler options.")
    unchecked = cast("Mapping[str, Any]", advanced)
    for key, value in options.items():
        _check_advanced(key, value)
    return CaptureOptions(
        host_tracer_level=host_tracer_level,
        python_tracer_level=python_tracer_level,
        enable_hlo_proto=enable_hlo_proto,
        advanced={**options, **unchecked},
    )


def _check_level(name: str, value: Any, highest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= highest:
        raise UsageError(f"{name}={value!r} is not a whole number from 0 to {highest}.")


def _check_type(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageError(f"{name}={value!r} is not of type {kind.__name__}.")


def _check_advanced(name: str, value: Any) -> None:
    if name == "device_tracer_level":
        raise UsageError(
            "device_tracer_level is not an option of the jax profiler, although its documentation lists it.",
            hint="On TPUs, tpu_trace_mode='TRACE_ONLY_HOST' leaves the device out.",
        )
    kind = ADVANCED_KEYS.get(name)
    if kind is None:
        valid = ["host_tracer_level", "python_tracer_level", "enable_hlo_proto", *ADVANCED_KEYS]
        close = difflib.get_close_matches(name, valid, n=1)
        guess = f"Did you mean {close[0]}? " if close else ""
        raise UsageError(
            f"{name!r} is not a capture option.",
            hint=f"{guess}Valid: {', '.join(valid)}; other profiler options go into advanced={{...}}.",
        )
    _check_type(name, value, kind)
    if name == "tpu_trace_mode" and value not in TPU_TRACE_MODES:
        raise UsageError(f"tpu_trace_mode={value!r} does not exist.", hint=f"Valid: {', '.join(TPU_TRACE_MODES)}.")
