"""How every number of a serving candidate was come by, as derivations that can be checked by hand.

Formulas: scaling book, chapters "Inference" and "Serving LLaMA"; what the book leaves out says so in its assumptions.
"""

from __future__ import annotations

from tpuprof.perfmodel.derivation import Derivation, Quantity, Step
from tpuprof.perfmodel.matmul import Matmul
from tpuprof.plan.params import param_counts
from tpuprof.plan.serve.candidates import ServeCandidate
from tpuprof.plan.serve.fit import capacity_of
from tpuprof.plan.serve.forward import ForwardModel, MatmulShare, Parts
from tpuprof.plan.serve.question import ServeQuestion
from tpuprof.plan.serving import INFERENCE, SERVING

_SUM = "weights + arithmetic + cache + scores + collectives + overhead + loops"
_MATMUL = "max(bytes / (e_m*W), padded FLOPs / (e_c*C))"
_WORDS = {
    "weights": ("matmuls that wait for weights", "sum of bytes / (e_m*W) where that is longer"),
    "arithmetic": ("matmuls that wait for the matrix unit", "sum of padded FLOPs / (e_c*C) where that is longer"),
    "cache": ("attention of decode", "sum over layers of max(cache bytes / (e_m*W), padded FLOPs / (e_c*C_act))"),
    "scores": ("attention of prompts", "sum over layers of max(key bytes / (e_m*W), padded FLOPs / (e_a*C_act))"),
    "collectives": ("collectives that are exposed", "sum over layers of t_0 + max(V * per_byte, floor) / c"),
    "overhead": ("overhead of a step", "given"),
    "loops": (
        "element-wise work, tokens to experts and back",
        "sum over layers of max(ops * t_op, element bytes / (e_m*W)) + gathered bytes / (e_g*W)",
    ),
}


def explain(question: ServeQuestion, one: ServeCandidate) -> dict[str, Derivation]:
    """A derivation per number of a candidate, the ones that lead to others first."""
    found = {"memory": _memory(question, one), "max-batch": _most(question, one)}
    for number, layer in enumerate(one.forward.counts):
        found[f"layer-{number}"] = _layer(one, number, layer.kind)
    found["collective"] = _collective(one)
    found |= {"cache-read": _cache(question, one), "decode-step": _decode(question, one)}
    found |= {"ttft": _ttft(question, one), "average-step": _average(question, one)}
    found |= {"requests-per-second": _requests(question, one), "throughput": _throughput(question, one)}
    if one.cost is not None:
        found["cost"] = _cost(question, one)
    return found | {"prefill-servers": _ratio(question, one)}


def _rates(forward: ForwardModel) -> dict[str, Quantity]:
    types = forward.types
    kind = Matmul(1, 1, 1, 1, types.activations, types.weights).compute_dtype
    return {
        "C": forward.rates.need_peak(kind), "C_act": forward.rates.need_peak(types.activations),
        "W": forward.rates.need_link("hbm"), "e_c": Quantity(forward.assumed.compute, "fraction", "assumed"),
        "e_m": Quantity(forward.assumed.memory, "fraction", "assumed"), **_engine(forward),
    }  # fmt: skip


def _engine(forward: ForwardModel) -> dict[str, Quantity]:
    engine = forward.assumed.engine
    if engine is None:
        return {"e_a": Quantity(forward.assumed.compute, "fraction", "assumed")}
    return {
        "e_a": Quantity(engine.attention, "fraction", engine.source),
        "e_g": Quantity(engine.gather, "fraction", "the same"),
        "t_op": Quantity(engine.op_s, "s", "the same"), "ops": Quantity(engine.ops, "op/layer", "the same"),
    }  # fmt: skip


def _setting(question: ServeQuestion, one: ServeCandidate) -> dict[str, Quantity]:
    return {
        "model": Quantity(question.model.name, "", question.model.source), "slice": Quantity(one.layout.where.name),
        "split": Quantity(one.layout.text()), "weights": Quantity(question.types.weights),
        "cache": Quantity(question.types.cache), "activations": Quantity(question.types.activations),
    }  # fmt: skip


def _steps(parts: Parts) -> tuple[Step, ...]:
    return tuple(Step(*_WORDS[name], value, "s") for name, value in parts.to_json().items() if value)


def _memory(question: ServeQuestion, one: ServeCandidate) -> Derivation:
    kept = one.memory
    whole = capacity_of(question.chip)
    inputs = {
        **_setting(question, one), "P": Quantity(param_counts(question.model).all, "param"),
        "N": Quantity(one.layout.devices, "device"), "B": Quantity(one.steady.batch, "seq"),
        "S": Quantity(question.workload.context, "token"), "HBM": Quantity(whole.value, "B", whole.source),
        "share": Quantity(question.assumed.memory_fraction, "fraction", "assumed"),
    }  # fmt: skip
    steps = (
        Step("weights", "bytes of a weight * P / N, norms whole", kept.weights, "B"),
        Step("cache", "B / batch ways * S / token ways * bytes per token / head ways", kept.cache, "B"),
        Step("work", "activations of the largest pass, float32 logits", kept.work, "B"),
        Step("capacity", "share * HBM", kept.capacity, "B"),
    )
    assumed = ("every sequence has room for its full length", "one buffer per tensor of a layer, reused by the next")
    return Derivation(kept.total, "B", "weights + cache + work", inputs, None, assumed, steps, INFERENCE)


def _most(question: ServeQuestion, one: ServeCandidate) -> Derivation:
    inputs = {
        "capacity": Quantity(one.memory.capacity, "B"), "weights": Quantity(one.memory.weights, "B"),
        "budget": Quantity(question.budget, "token"),
    }  # fmt: skip
    regime = "token budget" if one.most == question.budget else "memory"
    formula = "the largest B with weights + cache(B) + work(B) <= capacity, and B <= budget"
    return Derivation(one.most, "seq", formula, inputs, regime, (), (), INFERENCE)


def _layer(one: ServeCandidate, number: int, kind: str) -> Derivation:
    forward, batch = one.forward, one.steady.batch
    layer = list(forward.counts)[number]
    rows = [(share.output, share) for share in forward.shares(layer, batch)]
    steps = [
        Step(_shape(name, share), _MATMUL, max(share.t_weights_s, share.t_arithmetic_s), "s") for name, share in rows
    ]
    value = sum(max(share.t_weights_s, share.t_arithmetic_s) for _, share in rows)
    inputs = {
        **_rates(forward), "kind": Quantity(kind), "layers": Quantity(forward.counts[layer], "layer"),
        "B": Quantity(batch, "token"), "S": Quantity(forward.rates.mxu_size, "element", "edge of a matrix unit"),
    }  # fmt: skip
    assumed = (
        "sizes are those of the busiest device, padded to its matrix unit",
        "weights are read once; activations stay in vector memory where they take less than half of it",
        "experts are chosen independently and evenly",
    )
    return Derivation(value, "s", "sum over the matmuls", inputs, None, assumed[: 3 if "experts" in kind else 2],
                      tuple(steps), SERVING)  # fmt: skip


def _shape(name: str, share: MatmulShare) -> str:
    m = share.matmul
    many = f"{m.batch} x " if m.batch > 1 else ""
    return f"{name}, {many}{m.lhs_dtype}[{m.m},{m.k}] x {m.rhs_dtype}[{m.k},{m.n}]"


def _collective(one: ServeCandidate) -> Derivation:
    forward = one.forward
    cost = forward.links.cost("all_reduce", "all")
    size = one.steady.batch * forward.model.width * 2.0
    inputs = {
        "V": Quantity(size, "B"), "per_byte": Quantity(cost.per_byte, "s/B", "tpuprof calc collective"),
        "floor": Quantity(cost.floor, "s"), "c": Quantity(cost.c, "fraction", cost.source),
        "t_0": Quantity(cost.t0, "s", cost.source),
    }  # fmt: skip
    assumed = (
        "an all-reduce of bf16 activations over all devices, as each block of a decode step needs in one dimension",
    )
    return Derivation(cost.seconds(size), "s", "t_0 + max(V * per_byte, floor) / c", inputs, None, assumed, (), SERVING)


def _cache(question: ServeQuestion, one: ServeCandidate) -> Derivation:
    forward, context = one.forward, question.workload.mean_context
    size = sum(n * forward.cache_bytes(layer, one.steady.batch, context) for layer, n in forward.counts.items())
    inputs = {
        "B": Quantity(one.steady.batch, "seq"), "S": Quantity(context, "token", "prompt and half of what is generated"),
        "split": Quantity({name: n for name, n in one.layout.mesh().items() if name.startswith("cache")}, "way"),
    }  # fmt: skip
    formula = "sum over layers of bytes per token * S * B / ways"
    return Derivation(size, "B", formula, inputs, None, ("layers with a window read no more than it",), (), INFERENCE)


def _decode(question: ServeQuestion, one: ServeCandidate) -> Derivation:
    inputs = {
        **_setting(question, one), **_rates(one.forward), "B": Quantity(one.steady.batch, "seq"),
        "S": Quantity(question.workload.mean_context, "token", "prompt and half of what is generated"),
        "overlap": Quantity(question.assumed.overlap, "fraction", "assumed"),
    }  # fmt: skip
    parts = one.forward.decode(one.steady.batch, question.workload.mean_context)
    assumed = ("attention does not overlap the matmuls", "the slowest device decides, and all have equal work")
    return Derivation(parts.total, "s", _SUM, inputs, parts.bound_by, assumed, _steps(parts), INFERENCE)


def _ttft(question: ServeQuestion, one: ServeCandidate) -> Derivation:
    parts = one.forward.prompt(question.workload.prompt, question.budget)
    inputs = {
        **_setting(question, one), **_rates(one.forward), "P": Quantity(question.workload.prompt, "token"),
        "budget": Quantity(question.budget, "token"),
    }  # fmt: skip
    assumed = ("the server is empty, and the prompt goes through it in pieces of the budget",)
    return Derivation(one.steady.ttft_s, "s", f"sum over pieces of {_SUM}", inputs, parts.bound_by, assumed,
                      _steps(parts), SERVING)  # fmt: skip


def _average(question: ServeQuestion, one: ServeCandidate) -> Derivation:
    steady, workload = one.steady, question.workload
    inputs = {
        "B": Quantity(steady.batch, "seq"), "P": Quantity(workload.prompt, "token"),
        "G": Quantity(workload.generate, "token"), "budget": Quantity(question.budget, "token"),
    }  # fmt: skip
    steps = (
        Step("share of steps with a piece of a prompt, f", "min(1, P*B / ((G-1)*(budget-B+1) + P))",
             steady.mixed_share, "fraction"),
        Step("step without one", _SUM, steady.decode.total, "s"),
        Step("step with one", _SUM, steady.mixed.total, "s"),
    )  # fmt: skip
    regime = "prompts decide" if steady.mixed_share >= 1 else "decode decides"
    assumed = ("the server always has as many sequences as it may", "places are free at different times")
    return Derivation(steady.step_s, "s", "(1-f) * step without + f * step with", inputs, regime, assumed, steps,
                      "balance of tokens")  # fmt: skip


def _requests(question: ServeQuestion, one: ServeCandidate) -> Derivation:
    steady, more = one.steady, question.workload.generate - 1
    inputs = {"T": Quantity(steady.step_s, "s"), "G": Quantity(question.workload.generate, "token")}
    if not more:
        formula = "tokens of prompts in a step / (P * T)"
        return Derivation(steady.requests_per_s, "1/s", formula, inputs, "prompts only", (), (), SERVING)
    formula = "B - f" if steady.mixed_share < 1 else "min(B - 1, budget*(G-1) / (P+G-1))"
    steps = (Step("sequences that decode on average, D", formula, steady.decoding, "seq"),)
    return Derivation(steady.requests_per_s, "1/s", "D / ((G-1) * T)", inputs, None, (), steps, SERVING)


def _throughput(question: ServeQuestion, one: ServeCandidate) -> Derivation:
    inputs = {"R": Quantity(one.steady.requests_per_s, "1/s"), "G": Quantity(question.workload.generate, "token")}
    return Derivation(one.steady.tokens_per_s, "token/s", "R * G", inputs, None, (), (), SERVING)


def _cost(question: ServeQuestion, one: ServeCandidate) -> Derivation:
    listed = question.chip.price_usd_per_hour
    given = question.price_usd_per_hour is not None
    inputs = {
        "price": Quantity(question.price, "USD/h", "" if given or listed is None else listed.source),
        "N": Quantity(one.layout.chips, "chip"), "R": Quantity(one.steady.tokens_per_s, "token/s"),
    }  # fmt: skip
    assumed = ("the server is full all the time",)
    return Derivation(one.cost, "USD/Mtoken", "price / 3600 * N / R * 1e6", inputs, None, assumed, (), SERVING)


def _ratio(question: ServeQuestion, one: ServeCandidate) -> Derivation:
    inputs = {
        "T_prefill": Quantity(one.steady.ttft_s, "s"), "R": Quantity(one.apart.requests_per_s, "1/s"),
        "B": Quantity(one.steady.batch, "seq"), "G": Quantity(question.workload.generate, "token"),
    }  # fmt: skip
    steps = (
        Step("requests that a decoding server finishes, R", "B / (T_step * (G-1))", one.apart.requests_per_s, "1/s"),
    )
    assumed = ("both kinds of server are slices of the same shape", "prompts are processed one at a time")
    return Derivation(one.apart.ratio, "ratio", "T_prefill * R", inputs, None, assumed, steps, SERVING)
