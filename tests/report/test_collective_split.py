"""Collectives divided by exposed and hidden, waiting and moving; and gaps with their hosts."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tpuprof
from tpuprof.analysis import Context
from tpuprof.errors import UsageError
from tpuprof.report.collective_groups import collective_groups
from tpuprof.report.collective_split import (
    OCCURRENCE_COLUMNS,
    SPLIT_GROUPS,
    collective_occurrences,
    collective_split,
    collectives_with,
)
from tpuprof.report.documents import gaps_result
from tpuprof.report.gap_rows import GAP_COLUMNS, _not_known, longest_gaps  # pyright: ignore[reportPrivateUsage]
from tpuprof.testing import TraceBuilder

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
US = 1_000_000


@cache
def sample(name: str) -> Any:
    return tpuprof.load(SAMPLES / name)


def test_the_two_collectives_of_two_hosts() -> None:
    first, second = collective_split(sample("tpu_two_hosts"), "op")
    assert (first["name"], first["exposed_ps"], first["hidden_ps"]) == ("all-reduce.3", 120 * US, 0)
    assert first["wait_ps"] == (40 + 30 + 40 + 0) / 4 * US
    assert (first["transfer_ps"], first["unknown_ps"], first["count"]) == (120 * US, 0, 12)
    assert (second["name"], second["exposed_ps"]) == ("all-gather.5", 80 * US)


@pytest.mark.parametrize("name", ["tpu_two_hosts", "tpu_loop_async", "cpu_demo"])
@pytest.mark.parametrize("by", SPLIT_GROUPS)
def test_groups_divide_the_same_whole(name: str, by: str) -> None:
    trace = sample(name)
    context = Context(trace)
    groups = collective_split(trace, by)
    for key in ("exposed_ps", "hidden_ps", "window_ps", "wait_ps", "transfer_ps"):
        whole = context.collectives[key].astype("float64").sum() / context.pairs
        assert sum(group[key] or 0 for group in groups) == pytest.approx(whole)
    assert sum(group["count"] for group in groups) == len(context.collectives)
    assert [group["exposed_ps"] for group in groups] == sorted((g["exposed_ps"] for g in groups), reverse=True)
    if by != "op":
        others = {row["name"]: row["exposed_per_step_ps"] for row in collective_groups(trace, by)}
        assert sorted(others.values()) == pytest.approx(sorted(group["exposed_ps"] for group in groups))


def test_filters_narrow_them_down() -> None:
    trace = sample("cpu_demo")
    (only,) = collective_split(trace, "kind", kind="reduce_scatter")
    assert only["name"] == "reduce_scatter"
    below = collective_split(trace, "scope", scope="jit(train_step)/shard_map")
    assert below
    assert all(group["name"].startswith("jit(train_step)/shard_map/") for group in below)
    assert collective_split(trace, "scope", scope="jit(train_step)/shard") == []  # a name, not the beginning of one
    assert collective_split(trace, "op", step="4", device="vm/CPU:0")
    assert collective_split(trace, "op", step="four") == []
    assert collective_split(trace, "op", axis="model") == []
    names = collectives_with(trace, kind="reduce_scatter")
    assert {name for name, _ in names} == {
        group["name"] for group in collective_split(trace, "op", kind="reduce_scatter")
    }


def test_occurrences_are_the_most_exposed_first_and_bounded() -> None:
    trace = sample("cpu_demo")
    rows, total = collective_occurrences(trace, 5, op="psum_invariant.103")
    mine = trace.collectives[trace.collectives["op"] == "psum_invariant.103"]
    assert total == len(mine)
    assert [row["exposed_ps"] for row in rows] == sorted(mine["exposed_ps"], reverse=True)[:5]
    assert all(tuple(row) == OCCURRENCE_COLUMNS for row in rows)
    assert collective_occurrences(trace, 5, op="none of them") == ([], 0)


def test_what_cannot_be_grouped_or_filtered_is_refused() -> None:
    trace = sample("cpu_demo")
    with pytest.raises(UsageError, match="Cannot group collectives by 'host'"):
        collective_split(trace, "host")
    with pytest.raises(UsageError, match="Cannot filter collectives by 'host'"):
        collective_split(trace, "kind", host="vm")


def test_gaps_come_longest_first_with_what_their_host_did() -> None:
    trace = sample("tpu_two_hosts")
    gaps = longest_gaps(trace, 3)
    assert (gaps.total, gaps.total_ps, gaps.unknown) == (12, 1200 * US, ())
    first = gaps.rows[0]
    assert tuple(first) == GAP_COLUMNS
    assert (first["duration_ps"], first["where"], first["before_op"], first["after_op"]) == (
        100 * US, "between programs", "copy.6", "fusion.1",
    )  # fmt: skip
    assert (first["host_cause"], first["host_call"], first["host_ps"]) == (
        "dispatch",
        "PjitFunction(train_step)",
        75 * US,
    )
    assert len(gaps.rows) == 3
    assert longest_gaps(trace, 99, "worker-1/TPU:0", 2).total == 1
    assert longest_gaps(trace, 99, "nobody").rows == []


def test_gaps_are_those_of_the_command_where_all_steps_count() -> None:
    trace = sample("tpu_loop_async")
    document = gaps_result(trace, 20, 20).document
    found = longest_gaps(trace, 20)
    assert [row["duration_ps"] for row in found.rows] == [row["duration_ps"] for row in document["gaps"]]
    assert (found.total, found.total_ps) == (document["total"], document["total_ps"])


def test_where_clocks_cannot_be_compared_the_gaps_say_why(tmp_path: Path) -> None:
    builder = TraceBuilder()
    host = builder.add_host("h")
    ops = host.add_tpu(0).add_line("XLA Ops")
    ops.event("fusion.1", 0, 30).event("fusion.2", 40, 60)
    host.add_thread("main").event("PjitFunction(f)", 30, 10)
    gaps = longest_gaps(tpuprof.load(builder.write(tmp_path)), 5)
    assert [row["host_cause"] for row in gaps.rows] == [None]
    assert gaps.unknown == (
        "What the host did is not known: nothing in the trace links device work to the host call that launched it.",
    )


def test_reasons_of_many_cores_are_one_sentence() -> None:
    assert _not_known([]) == []
    assert _not_known(["a"] * 3) == ["What the host did is not known: a."]
    assert _not_known(["a 1 ms", "a 2 ms"]) == [
        "What the host did is not known for 2 cores. For the first of them a 1 ms."
    ]
