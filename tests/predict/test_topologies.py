"""Slices under the compiler's names."""

from __future__ import annotations

import pytest

from tpuprof.errors import UsageError
from tpuprof.hardware import parse_slice
from tpuprof.predict import Topology, compiler_topology


@pytest.mark.parametrize(
    ("text", "topology"),
    [
        ("v5e:4x4", Topology("v5e:4x4")),
        ("v5e-16", Topology("v5e:4x4")),
        ("v5p:2x2x4", Topology("v5p:2x2x4")),
        ("v5p:4x4x8_twisted", Topology("v5p:4x4x8_twisted")),
        ("tpu7x:2x2x1", Topology("tpu7x:2x2x1")),
        ("2*v6e:4x4", Topology("v6e:4x4", 2)),
        ("v5e:1x1", Topology("v5e:1x1", 1, (1, 1, 1))),
        ("v5p:1x1x1", Topology("v5p:1x1x1", 1, (1, 1, 1))),
    ],
)
def test_names(text: str, topology: Topology) -> None:
    assert compiler_topology(parse_slice(text)) == topology


def test_v4_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match="no v4 as it is") as caught:
        compiler_topology(parse_slice("v4:2x2x1"))
    assert "one device" in str(caught.value)


def test_other_chips_are_not_known() -> None:
    from dataclasses import replace

    where = parse_slice("v5e:2x2")
    with pytest.raises(UsageError, match="does not know v9") as caught:
        compiler_topology(replace(where, chip=replace(where.chip, name="v9")))
    assert "v2, v3, v5e, v5p, v6e, tpu7x" in caught.value.hint
