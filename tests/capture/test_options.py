"""Options are checked before anything starts, because jax takes unknown ones without a word."""

import pytest

from tpuprof.capture.options import ADVANCED_KEYS, check_options
from tpuprof.errors import UsageError


def test_known_options_arrive_as_they_were_given():
    options = check_options(
        host_tracer_level=3,
        python_tracer_level=1,
        enable_hlo_proto=False,
        tpu_trace_mode="TRACE_COMPUTE",
        tpu_num_chips_to_profile_per_task=1,
        advanced={"brand_new": 5},
    )
    assert options.advanced == {
        "tpu_trace_mode": "TRACE_COMPUTE",
        "tpu_num_chips_to_profile_per_task": 1,
        "brand_new": 5,
    }
    assert options.as_dict() == {
        "host_tracer_level": 3,
        "python_tracer_level": 1,
        "enable_hlo_proto": False,
        **options.advanced,
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tpu_trace_mod": "x"}, r"'tpu_trace_mod' is not a capture option. Did you mean tpu_trace_mode\? Valid: host"),
        ({"zzz": 1}, r"'zzz' is not a capture option. Valid: .*gpu_max_activity_api_events.*advanced=\{...\}"),
        ({"device_tracer_level": 0}, "device_tracer_level is not an option of the jax profiler.*TRACE_ONLY_HOST"),
        ({"tpu_trace_mode": "ALL"}, "tpu_trace_mode='ALL' does not exist. Valid: TRACE_ONLY_HOST"),
        ({"tpu_num_sparse_cores_to_trace": "2"}, "tpu_num_sparse_cores_to_trace='2' is not of type int"),
        ({"tpu_num_sparse_cores_to_trace": True}, "tpu_num_sparse_cores_to_trace=True is not of type int"),
        ({"tpu_perf_counters": 1}, "tpu_perf_counters=1 is not of type bool"),
        ({"host_tracer_level": 4}, "host_tracer_level=4 is not a whole number from 0 to 3"),
        ({"host_tracer_level": -1}, "from 0 to 3"),
        ({"python_tracer_level": None}, "python_tracer_level=None is not a whole number from 0 to 1"),
        ({"python_tracer_level": False}, "python_tracer_level=False is not a whole number"),
        ({"enable_hlo_proto": 1}, "enable_hlo_proto=1 is not of type bool"),
        ({"advanced": [1]}, r"advanced=\[1\] is not a mapping"),
    ],
)
def test_a_wrong_option_is_named(options, message):
    with pytest.raises(UsageError, match=message):
        check_options(**options)


def test_every_documented_key_is_accepted():
    samples = {int: 1, bool: True, str: "x"}
    values = {name: samples[kind] for name, kind in ADVANCED_KEYS.items()} | {"tpu_trace_mode": "TRACE_ONLY_XLA"}
    assert check_options(**values).advanced == values
