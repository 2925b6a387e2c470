"""What to try against a part of a slowdown, by its kind and by what happened."""

from __future__ import annotations

_BY_IDLE_CAUSE = {
    "input": "Look at the input pipeline of the new run: workers, prefetch depth, storage, and what each batch holds.",
    "compile": "Something compiles inside steps: look for shapes or static arguments that change (rule TPU431).",
    "host sync": "A result is fetched inside the step: look for prints, float() and .item() on device values.",
    "dispatch": "Launching takes longer: look at the number of arguments, at donation, and at what else the host does.",
    "host python": "Python work between launches grew: profile the host side of the step.",
    "garbage collection": "Freeze or disable the garbage collector around steps, or collect at fixed intervals.",
    "checkpoint": "Checkpoints block steps: save asynchronously, or less often.",
    "dma in flight": "The cores wait for a copy: start it earlier, or look at what made it larger.",
}
_BY_KIND = {
    "matmul": "Compare shapes, element types and padding of both sides; look at precision settings and autocasting.",
    "attention": "Compare shapes, masks and the kernel's block sizes of both sides.",
    "custom_kernel": "Compare the kernel's version, block sizes and operand shapes of both sides.",
    "convolution": "Compare shapes, layouts and element types of both sides.",
    "reduction": "Compare shapes, layouts and element types of both sides.",
    "elementwise": "Look for fusions that fell apart, element types that widened, and recomputation (remat).",
    "gather_scatter": "Compare index shapes and layouts; look for indices that are no longer sorted or unique.",
    "data_movement": "Look for layouts that no longer agree between neighbours, and for reshards at module borders.",
    "host_transfer": "Look for values that now go through the host: callbacks, offloaded parameters, infeed.",
    "dma_wait": "The wait is for a copy that starts too late or got larger: look at offloading and at the schedule.",
    "barrier_wait": "Cores wait for a slower peer: see which one arrives last with tpuprof report (rule TPU304).",
    "idle": "See what the host did meanwhile with tpuprof gaps, and idle time by cause with tpuprof report.",
}
_COLLECTIVE = {
    "new": "Compare shardings of both sides: a new collective moves data that was in place before.",
    "count": "Compare the number of layers, microbatches and shardings of both sides.",
    "exposure": "Look at what hid it before: the latency-hiding scheduler's flags, fusions beside it that split or "
    "merged, and work that now waits for it.",
}
_BY_CHANGE = {
    "new": "Find what adds it: a changed sharding, precision, recomputation or a fusion that fell apart.",
    "count": "Compare the number of layers, microbatches and loop trips of both sides.",
    "split": "The compiler fuses it no longer: compare compiler versions and flags, and the HLO of both sides.",
    "merged": "The compiler fuses it another way: compare compiler versions and flags, and the HLO of both sides.",
    "moved": "The same work now stands elsewhere: compare the programs around it.",
}


def advice(kind: str, group: str, change: str, *, slower: bool) -> str:
    """One or two sentences; for what got faster that there is nothing to do."""
    if not slower:
        return "It got faster: nothing to do but to keep it."
    if kind == "idle":
        return _BY_IDLE_CAUSE.get(group.removeprefix("idle, "), _BY_KIND["idle"])
    if kind == "collective":
        return _COLLECTIVE.get(change, "Compare bytes, groups and algorithm of both sides, and who arrives late.")
    what = _BY_CHANGE.get(change)
    how = _BY_KIND.get(kind, "Compare the HLO of both sides.")
    return what if change in ("new", "count", "moved") and what else f"{what} {how}" if what else how
