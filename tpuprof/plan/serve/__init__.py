"""Serving plans: which slice, split and batch serve a model within limits on latency, at what cost, and why.

``plan_serving(ServeQuestion(model, slices, Workload(prompt, generate)))`` is the whole search; its parts can be used
alone.
"""

from __future__ import annotations

from tpuprof.plan.serve.candidates import Loaded, Rejected, ServeCandidate
from tpuprof.plan.serve.fit import ServeMemory, memory_of, most_sequences
from tpuprof.plan.serve.forward import ForwardModel, Parts
from tpuprof.plan.serve.layout import ServeLayout, layouts
from tpuprof.plan.serve.question import ServeQuestion
from tpuprof.plan.serve.search import ServePlan, load_curve, pareto, plan_serving
from tpuprof.plan.serve.setup import BOUND, EXPECTED, Assumptions, Sla, Types, Workload
from tpuprof.plan.serve.simulation import Request, Simulated, StepWork, poisson, simulate, step_times
from tpuprof.plan.serve.steady import Apart, Steady, apart, cost_per_million, steady_state

__all__ = [
    "BOUND",
    "EXPECTED",
    "Apart",
    "Assumptions",
    "ForwardModel",
    "Loaded",
    "Parts",
    "Rejected",
    "Request",
    "ServeCandidate",
    "ServeLayout",
    "ServeMemory",
    "ServePlan",
    "ServeQuestion",
    "Simulated",
    "Sla",
    "Steady",
    "StepWork",
    "Types",
    "Workload",
    "apart",
    "cost_per_million",
    "layouts",
    "load_curve",
    "memory_of",
    "most_sequences",
    "pareto",
    "plan_serving",
    "poisson",
    "simulate",
    "steady_state",
    "step_times",
]
