"""The history of runs: a store of what was measured, its series over time, and named baselines.

from tpuprof.history import Store

store = Store.open()                                  # or a file, or postgresql://…
added = store.add("logs", {"branch": "main", "commit": "1a2b3c"})
baseline = store.baseline("nightly", like=added.run)
samples = store.samples(baseline)
"""

from __future__ import annotations

from tpuprof.history.facts import OpGroup, RunFacts, run_facts
from tpuprof.history.metrics import METRICS, Metric
from tpuprof.history.runs import Added, Baseline, Run, Sample
from tpuprof.history.store import Store

__all__ = ["METRICS", "Added", "Baseline", "Metric", "OpGroup", "Run", "RunFacts", "Sample", "Store", "run_facts"]
