"""Slices, links, counts."""

from __future__ import annotations

from typing import Any

from tests.cases.support import Given, ask, by, case
from tpuprof.hardware.slices import parse_slice
from tpuprof.perfmodel import peaks
from tpuprof.perfmodel.arrays import parse_array
from tpuprof.perfmodel.sharding import shard
from tpuprof.perfmodel.slice_facts import slice_facts


@case("tpus-7x-pod-chips")
def _chips(g: Given, _: Any) -> Any:
    return ask(f"topology --shape {by(g.shape)}", peaks.slice_totals(tuple(g.shape))["chips"])


@case("tpus-wrap-*")
def _wrap(g: Given, about: dict[str, Any]) -> Any:
    name = f"{g.generation}:{by(g.slice_shape)}"
    found = slice_facts(parse_slice(name, about["edition"]))["wrap"]
    return ask(f"topology {name} --edition {about['edition']} --ask wrap", found)


@case("tpus-q2-*-hosts")
def _hosts(g: Given, _: Any) -> Any:
    found = peaks.slice_totals(tuple(g.pod), host=tuple(g.host))["hosts"]
    return ask(f"topology --shape {by(g.pod)} --host {by(g.host)} --ask hosts", found)


@case("tpus-q2-*-cores")
def _cores(g: Given, _: Any) -> Any:
    found = peaks.slice_totals(tuple(g.pod), cores_per_chip=g.cores_per_chip)["cores"]
    return ask(f"topology --shape {by(g.pod)} --cores-per-chip {g.cores_per_chip} --ask cores", found)


@case("tpus-q2-*-hbm")
def _memory(g: Given, _: Any) -> Any:
    found = peaks.slice_totals(tuple(g.pod), hbm=g.hbm)["hbm"]
    return ask(f"topology --shape {by(g.pod)} --hbm {g.hbm} --ask hbm", found)


@case("tpus-vreg-bytes")
def _registers(g: Given, _: Any) -> Any:
    # 4 bytes per element is a 32-bit type.
    text = f"u32[{','.join(map(str, [g.vregs, *g.shape]))}]"
    return ask(f"shard {text} --ask bytes", shard(parse_array(text), {}).answers()["bytes"])


@case("tpus-ici-egress-v5p")
def _egress(g: Given, _: Any) -> Any:
    found = peaks.links_bandwidth((g.links,), g.link_bw_one_way)
    return ask(f"links --count {g.links} --bandwidth {g.link_bw_one_way}", found)


@case("gpus-nvlink-*")
def _nvlink(g: Given, _: Any) -> Any:
    return ask(f"links --count {g.links} --bandwidth {g.bw}", peaks.links_bandwidth((g.links,), g.bw))


def _bits(gbps: float, counts: tuple[int, ...]) -> Any:
    from tpuprof.hardware.quantity import parse_quantity

    link = f"{gbps}Gbit/s"
    found = peaks.links_bandwidth(counts, parse_quantity(link, "B/s", "The bandwidth"))
    return ask(f"links --count {by([*counts])} --bandwidth {link}", found)


@case("gpus-quiz3-node-egress")
def _nics(g: Given, _: Any) -> Any:
    return _bits(g.gbps, (g.nics,))


@case("gpus-gb200-node-egress")
def _cables(g: Given, _: Any) -> Any:
    return _bits(g.gbps, (g.links,))


@case("gpus-quiz3-su-spine")
def _to_spine(g: Given, _: Any) -> Any:
    return _bits(g.gbps, (g.leaf, g.spine, g.links))


@case("gpus-quiz3-spine-total")
def _spine(g: Given, _: Any) -> Any:
    return ask(f"links --count {g.spine} --bandwidth {g.switch}", peaks.links_bandwidth((g.spine,), g.switch))


@case("gpus-quiz3-per-node")
def _spine_per_node(g: Given, _: Any) -> Any:
    found = peaks.links_bandwidth((1,), g.spine, shared_by=g.nodes)
    return ask(f"links --bandwidth {g.spine} --shared-by {g.nodes}", found)


@case("gpus-superpod-switches")
def _switches(g: Given, _: Any) -> Any:
    found = peaks.total_of_groups(((g.nodes, g.nvswitch), (g.leaf,), (g.spine,)))
    return ask(f"count {g.nodes}x{g.nvswitch} {g.leaf} {g.spine}", found)


@case("gpus-resident-warps")
def _warps(g: Given, _: Any) -> Any:
    found = peaks.resident_warps(g.register_file, g.regs_per_thread, g.lanes, g.bytes_per_register)
    words = (
        f"occupancy --register-file {g.register_file} --registers {g.regs_per_thread} --lanes {g.lanes} "
        f"--register-bytes {g.bytes_per_register}"
    )
    return ask(words, found)
