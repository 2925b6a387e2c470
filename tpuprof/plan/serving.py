"""Times and limits of inference: decode steps, prefill, batches that fit, disaggregation, speculation.

Formulas: scaling book, chapters "Inference" and "Serving LLaMA".
"""

from __future__ import annotations

from math import floor

from tpuprof.errors import UsageError
from tpuprof.perfmodel.checks import counted, not_negative, positive
from tpuprof.perfmodel.derivation import Derivation, Quantity

INFERENCE = "scaling book, inference"
SERVING = "scaling book, serving LLaMA"
_IDEAL = (
    "weights and cache are spread evenly over the chips and read once",
    "communication, latency and imperfect overlap are left out",
)


def decode_step(
    *, batch: float, kv_bytes: float, weight_bytes: float, chips: int, bandwidth: Quantity,
    params: float | None = None, peak: Quantity | None = None, capacity: Quantity | None = None,
) -> dict[str, Derivation]:  # fmt: skip
    """``step`` time of one token per sequence, its parts, and what follows: ``throughput``, ``max-batch`` …

    The cache is always bound by memory; the rest by the longer of arithmetic and reading weights, or by the latter
    alone where no parameters and peak are given.

    Args:
        batch: sequences.
        kv_bytes: of one sequence.
        weight_bytes: that a step reads.
        bandwidth: of one chip's memory.
        params: that one token uses.
        peak: of one chip.
        capacity: of one chip's memory.

    Raises:
        UsageError: a number is out of range.
    """
    counted("The number of chips", chips)
    positive("The bandwidth", bandwidth.number())
    inputs = {
        "B": Quantity(not_negative("The batch", batch), "seq"),
        "KV": Quantity(not_negative("The bytes of a sequence", kv_bytes), "B/seq"),
        "weights": Quantity(not_negative("The bytes of the weights", weight_bytes), "B"),
        "N": Quantity(chips, "chip"), "W": bandwidth,
    }  # fmt: skip
    total = chips * bandwidth.number()
    cache = Derivation(batch * kv_bytes / total, "s", "B*KV / (N*W)", inputs, None, _IDEAL, (), INFERENCE)
    load = Derivation(weight_bytes / total, "s", "weights / (N*W)", inputs, None, _IDEAL, (), INFERENCE)
    steps = [cache.as_step("reading the cache"), load.as_step("reading the weights")]
    found: dict[str, Derivation] = {}
    linear, formula, regime = load.number(), "(B*KV + weights) / (N*W)", "memory"
    if params is not None and peak is not None:
        made = compute_time(params, chips, peak, batch)
        inputs = {**made.inputs, **inputs}
        steps.append(made.as_step("arithmetic"))
        found["compute-time"] = made
        formula = "B*KV/(N*W) + max(2*B*P/(N*C), weights/(N*W))"
        if made.number() > linear:
            linear, regime = made.number(), "compute"
    time = cache.number() + linear
    step = Derivation(time, "s", formula, inputs, regime, _IDEAL, tuple(steps), INFERENCE)
    rates: dict[str, Derivation] = {}
    if time > 0 and batch > 0:
        rates = throughput(batch, time, chips)
    found = {"step": step, **rates, "weight-time": load, "cache-time": cache, **found}
    return found if capacity is None else found | batch_limit(weight_bytes, kv_bytes, capacity, chips)


def compute_time(params: float, chips: int, peak: Quantity, tokens: float = 1) -> Derivation:
    """The time of the arithmetic of so many tokens at the peak rate of some chips.

    Raises:
        UsageError: a number is out of range.
    """
    rate = counted("The number of chips", chips) * positive("The peak rate", peak.number())
    value = 2 * positive("The number of parameters", params) * not_negative("The number of tokens", tokens) / rate
    inputs = {
        "P": Quantity(params, "param"), "N": Quantity(chips, "chip"), "C": peak, "B": Quantity(tokens, "token"),
    }  # fmt: skip
    return Derivation(value, "s", "2*B*P / (N*C)", inputs, None, ("attention scores are left out",), (), INFERENCE)


def throughput(batch: float, step: float, chips: int | None = None) -> dict[str, Derivation]:
    """``throughput`` in tokens per second, and with chips ``throughput-per-chip``.

    Raises:
        UsageError: a number is out of range.
    """
    value = not_negative("The batch", batch) / positive("The time of a step", step)
    inputs = {"B": Quantity(batch, "seq"), "T": Quantity(step, "s")}
    found = {"throughput": Derivation(value, "token/s", "B / T", inputs, source=INFERENCE)}
    if chips is not None:
        inputs["N"] = Quantity(counted("The number of chips", chips), "chip")
        found["throughput-per-chip"] = Derivation(value / chips, "token/s/chip", "B / (T*N)", inputs, source=INFERENCE)
    return found


def batch_limit(weight_bytes: float, kv_bytes: float, capacity: Quantity, chips: int = 1) -> dict[str, Derivation]:
    """``max-batch``: sequences whose caches fit beside the weights; ``free`` bytes per chip beside the weights.

    Args:
        capacity: bytes of one chip; of all of them with chips = 1.

    Raises:
        UsageError: a number is out of range.
    """
    total = counted("The number of chips", chips) * positive("The memory", capacity.number())
    inputs = {
        "HBM": capacity, "N": Quantity(chips, "chip"),
        "weights": Quantity(not_negative("The bytes of the weights", weight_bytes), "B"),
    }  # fmt: skip
    room = total - weight_bytes
    regime = "the weights alone do not fit" if room < 0 else None
    assumed = ("memory for the work itself is left out",)
    found = {"free": Derivation(room / chips, "B", "HBM - weights/N", inputs, regime, assumed, (), INFERENCE)}
    if kv_bytes > 0:
        inputs = {**inputs, "KV": Quantity(kv_bytes, "B/seq")}
        value = max(0, floor(room / kv_bytes))
        most = Derivation(value, "seq", "floor((N*HBM - weights) / KV)", inputs, regime, assumed, (), INFERENCE)
        found = {"max-batch": most, **found}
    return found


def sharded_matmul_times(
    width: float, hidden: float, chips: int, *, tokens: float | None = None, peak: float | None = None,
    hbm: float | None = None, ici: float | None = None, weight_bytes: float = 2,
) -> dict[str, Derivation]:  # fmt: skip
    """Times of one matmul [B,D] x [D,F] of decode with tensor parallelism: ``weights``, ``compute``, ``communication``.

    Args:
        hbm: bandwidth of a chip's memory, B/s.
        ici: bandwidth of one axis, both directions, B/s.
        weight_bytes: per weight.

    Raises:
        UsageError: a number is out of range, or too little is given for any answer.
    """
    size = positive("The width", width) * positive("The hidden width", hidden)
    inputs = {
        "D": Quantity(width, "element"), "F": Quantity(hidden, "element"),
        "Y": Quantity(counted("The number of chips", chips), "chip"),
    }  # fmt: skip
    found: dict[str, Derivation] = {}
    if hbm is not None:
        given = inputs | {"w": Quantity(weight_bytes, "B"), "W": Quantity(positive("The bandwidth", hbm), "B/s")}
        value = positive("The bytes of a weight", weight_bytes) * size / (chips * hbm)
        found["weights"] = Derivation(value, "s", "w*D*F / (Y*W)", given, source=SERVING)
    if tokens is not None:
        inputs = inputs | {"B": Quantity(positive("The number of tokens", tokens), "token")}
        if peak is not None:
            given = inputs | {"C": Quantity(positive("The peak rate", peak), "FLOP/s")}
            found["compute"] = Derivation(
                2 * tokens * size / (chips * peak), "s", "2*B*D*F / (Y*C)", given, source=SERVING
            )
        if ici is not None:
            given = inputs | {"W_ici": Quantity(positive("The bandwidth", ici), "B/s")}
            found["communication"] = Derivation(
                2 * tokens * width / ici, "s", "2*B*D / W_ici", given, None, ("bf16 activations",), (), SERVING
            )
    if not found:
        raise UsageError("Too little is given for any time.", hint="Give a bandwidth, or tokens and a peak rate.")
    return found


def prefill_time(params: float, tokens: float, chips: int, peak: Quantity, utilization: float = 0.4) -> Derivation:
    """The time of a prompt, bound by arithmetic.

    Raises:
        UsageError: a number is out of range.
    """
    rate = counted("The number of chips", chips) * positive("The peak rate", peak.number()) * share(utilization)
    value = 2 * positive("The number of parameters", params) * positive("The number of tokens", tokens) / rate
    inputs = {
        "P": Quantity(params, "param"), "T": Quantity(tokens, "token"), "N": Quantity(chips, "chip"), "C": peak,
        "MFU": Quantity(utilization, "fraction"),
    }  # fmt: skip
    return Derivation(value, "s", "2*P*T / (N*C*MFU)", inputs, None, ("attention scores are left out",), (), SERVING)


def disaggregation(
    *, batch: float, generated: float, prompt: float | None = None, prefill: float | None = None,
    step: float | None = None,
) -> dict[str, Derivation]:  # fmt: skip
    """``ratio`` of prefill to decode servers, and what leaves a decode server per step: ``finished``, ``evicted``.

    Args:
        batch: sequences of a decode server.
        generated: tokens per answer.
        prompt: tokens per prompt.
        prefill: seconds per prompt.
        step: seconds of a decode step.

    Raises:
        UsageError: a number is out of range.
    """
    inputs = {
        "B": Quantity(positive("The batch", batch), "seq"),
        "G": Quantity(positive("The number of generated tokens", generated), "token"),
    }  # fmt: skip
    assumed = ("answers have equal lengths and end at different times",)
    done = Derivation(batch / generated, "seq/step", "B / G", inputs, None, assumed, (), SERVING)
    found = {"finished": done}
    if prompt is not None:
        given = inputs | {"P": Quantity(not_negative("The number of prompt tokens", prompt), "token")}
        value = batch * (prompt + generated) / generated
        found["evicted"] = Derivation(value, "token/step", "B*(P + G)/G", given, None, assumed, (), SERVING)
    if step is not None:
        given = inputs | {"T_step": Quantity(positive("The time of a step", step), "s")}
        rate = Derivation(batch / (step * generated), "1/s", "B / (T_step*G)", given, None, assumed, (), SERVING)
        found["requests-per-second"] = rate
        if prefill is not None:
            given = given | {"T_prefill": Quantity(positive("The time of a prompt", prefill), "s")}
            value = prefill * rate.number()
            steps = (rate.as_step("requests"),)
            formula = "T_prefill * B / (T_step*G)"
            ratio = Derivation(value, "ratio", formula, given, None, assumed, steps, SERVING)
            found = {"ratio": ratio, **found}
    return found


def speculative(
    acceptance: float, drafted: int, *, draft_cost: float = 0.0, verify_cost: float = 1.0
) -> dict[str, Derivation]:
    """``tokens`` per step and ``speedup`` of speculative decoding, whose drafts are accepted independently.

    Args:
        acceptance: probability that a drafted token is kept.
        drafted: tokens per step.
        draft_cost: time of drafting one token, over that of a plain step.
        verify_cost: time of checking all of them at once, over that of a plain step; 1 while memory bounds it.

    Raises:
        UsageError: a number is out of range.
    """
    if not 0 <= acceptance <= 1:
        raise UsageError(f"The acceptance is {acceptance}; it is a probability from 0 to 1.")
    counted("The number of drafted tokens", drafted)
    tokens = drafted + 1.0 if acceptance == 1 else (1 - acceptance ** (drafted + 1)) / (1 - acceptance)
    inputs = {
        "a": Quantity(acceptance, "fraction"), "k": Quantity(drafted, "token"),
        "c": Quantity(not_negative("The cost of drafting", draft_cost), "step"),
        "v": Quantity(positive("The cost of checking", verify_cost), "step"),
    }  # fmt: skip
    assumed = ("every drafted token is accepted with the same probability, independently",
               "the first that is not is replaced by one that the check gives")  # fmt: skip
    source = "scaling book, inference (without the formula); Leviathan et al. 2023"
    each = Derivation(tokens, "token/step", "(1 - a^(k+1)) / (1 - a)", inputs, None, assumed, (), source)
    value = tokens / (verify_cost + drafted * draft_cost)
    gain = Derivation(value, "x", "tokens / (v + k*c)", inputs, "slower" if value < 1 else "faster", assumed,
                      (each.as_step("tokens"),), source)  # fmt: skip
    return {"speedup": gain, "tokens": each}


def share(utilization: float) -> float:
    """A utilisation, if it is above 0 and at most 1.

    Raises:
        UsageError: it is not.
    """
    if not 0 < utilization <= 1:
        raise UsageError(f"The utilisation is {utilization}; it is a share above 0 and at most 1.", hint="Write 0.4.")
    return utilization
