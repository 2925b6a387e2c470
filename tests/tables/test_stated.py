"""What a trace states of the cost of an op."""

from __future__ import annotations

import pytest

from tpuprof.tables.stated import MAX_COUNT, StatedCost, stated_cost

# Reads 524,288 bytes of HBM, writes as many, and reads as many of VMEM: the matmul of a real v5e trace.
FUSION = b"\n\x08\x08\x01\x10\x01\x18\x80\x80 \n\x08\x08\x02\x10\x01\x18\x80\x80 \n\x08\x08\x01\x10\x03\x18\x80\x80 "


def test_flops_and_bytes_by_memory():
    stats = {"flops": 5, "model_flops": 268_435_456, "bytes_accessed": 1, "raw_bytes_accessed": 1_572_864}
    assert stated_cost({**stats, "memory_access_breakdown": FUSION}) == StatedCost(
        268_435_456, (("hbm", 1_048_576), ("vmem", 524_288)), 1_572_864
    )


def test_the_older_names_serve_where_the_newer_are_missing():
    assert stated_cost({"flops": 7, "bytes_accessed": 9}) == StatedCost(7, None, 9)


def test_an_empty_breakdown_of_bytes_is_unknown_and_of_none_is_none():
    assert stated_cost({"bytes_accessed": 9, "memory_access_breakdown": b""}) == StatedCost(None, None, 9)
    assert stated_cost({"bytes_accessed": 0, "memory_access_breakdown": b""}) == StatedCost(None, (), 0)


@pytest.mark.parametrize(
    "stats",
    [
        {},
        {"flops": "12"},
        {"flops": -1},
        {"model_flops": MAX_COUNT + 1},
        {"flops": True},
        {"memory_access_breakdown": "<opaque bytes>"},
        {"memory_access_breakdown": b"\xff\xff"},
        {"memory_access_breakdown": b"\n" * (1 << 17)},
        {"memory_access_breakdown": b"\n\x0c\x10\x01\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
    ],
)
def test_what_cannot_be_true_is_nothing(stats: dict[str, object]):
    assert stated_cost(stats) is None
