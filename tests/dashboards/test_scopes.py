"""Page Scopes: the tree of the trace, what the browser gets of it, and the scope of the URL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tpuprof_dashboards.flame import MOST_NODES, flame_data

import tpuprof
from tests.dashboards.harness import SAMPLES, page_test, problems, sample, texts
from tests.dashboards.odd import WILD
from tpuprof.report.plain import records
from tpuprof.report.scopes import flame_nodes
from tpuprof.units import format_ps

RUN = SAMPLES / "cpu_demo"


@pytest.mark.parametrize("name", ["tpu_loop_async", "tpu_two_hosts", "cpu_demo"])
def test_the_table_is_the_top_of_the_tree(name: str) -> None:
    tree = sample(name).scopes
    top = tree[(tree["parent"] == "") & (tree["total_ps"] > 0)]
    test = page_test("scopes", SAMPLES / name)
    assert problems(test) == []
    assert test.dataframe[0].value["name"].tolist() == top["name"].tolist()
    assert f"{len(tree) - 1} scopes, {format_ps(int(tree['total_ps'].iloc[0]))} of self time" in texts(test)


def test_the_scope_of_the_url_is_shown_as_the_tree_or_as_ops_have_it() -> None:
    tree = sample("cpu_demo").scopes.set_index("path")
    for scope in ("mlp", "jit(train_step)/shard_map/jvp()/while/body/mlp"):
        test = page_test("scopes", RUN, scope=scope)
        assert problems(test) == []
        assert f"Total {format_ps(int(tree.loc['mlp', 'total_ps']))}" in texts(test)
        inside = tree[(tree["parent"] == "mlp") & (tree["total_ps"] > 0)]
        assert test.dataframe[0].value["name"].tolist() == inside["name"].tolist()
    flat = page_test("scopes", RUN, rows="flat").dataframe[0].value["self_ps"].tolist()
    assert flat == sorted(flat, reverse=True)
    found = page_test("scopes", RUN, q="DOT_general").dataframe[0].value["path"]
    assert all("dot_general" in path for path in found)


def test_a_step_and_a_core_narrow_the_tree() -> None:
    trace = sample("tpu_two_hosts")
    device = trace.devices[1].id
    one = trace.ops[(trace.ops["device"] == device) & (trace.ops["step"] == 1)]
    test = page_test("scopes", SAMPLES / "tpu_two_hosts", step="1", device=device)
    assert problems(test) == []
    assert f"{format_ps(int(one['self_ps'].sum()))} of self time on 1 core" in texts(test)
    assert [button.label.partition(":")[0] for button in test.button[:2]] == ["step", "core"]
    lost = page_test("scopes", SAMPLES / "tpu_two_hosts", step="77", device="<b>")
    assert "This selection has no step `77` and no core" in texts(lost)
    assert f"{format_ps(int(trace.ops['self_ps'].sum()))} of self time" in texts(lost)


def test_what_the_browser_gets_is_bounded_plain_and_adds_up() -> None:
    nodes = flame_nodes(records(sample("cpu_demo").scopes), MOST_NODES)
    data = flame_data(nodes, "light")
    json.dumps(data, allow_nan=False)
    assert len(data["nodes"]) == len(nodes) <= 2 * MOST_NODES
    assert data["nodes"][0]["total"] == nodes[0]["total_ps"]
    assert all(node["above"] is None or node["above"] < len(nodes) for node in data["nodes"])
    used = {at for node in data["nodes"] for at in (node["kind"], *(kind for kind, _ in node["parts"]))}
    assert used - {-1} == set(range(len(data["kinds"])))  # the legend has what is drawn and nothing else
    for node in data["nodes"]:  # the strip of kinds: shares below 1 % are left out
        assert 0.9 < sum(share for _, share in node["parts"]) < 1.005
    assert flame_data(nodes, "dark")["kinds"] != data["kinds"]


def test_hostile_empty_and_unknown_scopes(odd: Path) -> None:
    test = page_test("scopes", odd, run="hostile_ops")
    assert problems(test) == []
    test = page_test("scopes", odd, run="hostile_ops", scope=WILD)
    assert problems(test) == []
    data = flame_data(flame_nodes(records(tpuprof.load(odd, run="hostile_ops").scopes), 10), "light")
    assert not {"\x1b", "\u202e"} & set("".join(node["name"] for node in data["nodes"]))
    test = page_test("scopes", odd, run="no_devices")
    assert problems(test) == []
    assert "no device work" in texts(test)
    test = page_test("scopes", RUN, scope="no/such/scope", rows="?")
    assert problems(test) == []
    assert "This run has no scope" in texts(test)
