"""Two sides together: the verdict, what explains it, what goes with it, and when nothing can be told."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

import tpuprof
from tests.compare.models import NS, Op, built, layers, loaded, renumbered, run
from tpuprof.compare import Samples, Thresholds, diff
from tpuprof.compare.capture import as_captures, percentile, step_figures, typical
from tpuprof.errors import UsageError
from tpuprof.report.plain import to_json

US = 1_000 * NS
CONTRACT = {
    *("verdict", "reason", "base", "new", "step_delta_ps", "p_value", "effect", "coverage", "explanation"),
    "residual_ps",
}
ROW = {
    *("group", "kind", "scope", "count_base", "count_new", "base_ps", "new_ps", "count_effect_ps"),
    *("duration_effect_ps", "delta_ps"),
}


def scaled(ops: list[Op], by: int = 1_000) -> list[Op]:
    return [replace(op, ps=op.ps * by) for op in ops]


def slower(ops: list[Op], scope: str, by: int = 2) -> list[Op]:
    return [replace(op, ps=op.ps * by) if scope in (op.scope or "") else op for op in ops]


BASE = scaled(layers(4))


@pytest.fixture(scope="module")
def base() -> tpuprof.Trace:
    return run(BASE, steps=12)


@pytest.fixture(scope="module")
def regressed() -> tpuprof.Trace:
    return run(renumbered(slower(BASE, "/attn")), steps=12)


def test_a_planted_slowdown_is_a_regression_and_the_first_cause(base: tpuprof.Trace, regressed: tpuprof.Trace) -> None:
    made = diff(base, regressed)
    document = json.loads(to_json(made.to_json()))
    assert set(document) >= CONTRACT
    assert set(document["explanation"][0]) >= ROW
    assert set(document["effect"]) == {"relative", "absolute_ps", "ci_low", "ci_high"}
    assert document["coverage"] == {"matched_time_fraction": 1.0}
    assert document["verdict"] == "regressed"
    assert document["step_delta_ps"] == 40 * US
    total = sum(row["delta_ps"] for row in document["explanation"]) + document["residual_ps"]
    assert total == document["step_delta_ps"]
    (cause,) = document["causes"]
    assert cause["scope"] == "layers_*/attn/dot_general"
    assert cause["share"] == 1.0
    assert (cause["base_ps"], cause["new_ps"]) == (40 * US, 80 * US)
    assert cause["happened"] == "each takes longer"
    assert cause["suggestion"]


def test_exchanged_sides_improve_and_mirror_the_difference(base: tpuprof.Trace, regressed: tpuprof.Trace) -> None:
    made = diff(regressed, base)
    assert made.verdict.verdict == "improved"
    assert made.step_delta_ps == -40 * US
    assert made.causes[0].delta_ps == -40 * US
    assert "nothing to do" in made.causes[0].suggestion


@pytest.mark.parametrize("change", [lambda ops: ops, renumbered], ids=["the same", "renumbered"])
def test_the_same_program_is_unchanged_without_causes(base: tpuprof.Trace, change: object) -> None:
    made = diff(base, run(change(BASE), steps=12))  # type: ignore[operator]
    document = made.to_json()
    assert made.verdict.verdict == "unchanged"
    assert (document["step_delta_ps"], document["residual_ps"]) == (0, 0)
    assert document["coverage"]["matched_time_fraction"] == 1.0
    assert document["causes"] == []
    assert "Both sides are the same recording." not in document["notes"]


def test_the_same_recording_twice_is_told(base: tpuprof.Trace) -> None:
    made = diff(base, base)
    assert made.verdict.verdict == "unchanged"
    assert "Both sides are the same recording." in made.to_json()["notes"]


def test_one_step_a_side_is_explained_and_not_judged() -> None:
    one, other = (loaded(built(layers(n), steps=1, step_line=False, hlo=False), json=True) for n in (4, 5))
    made = diff(one, other)
    assert made.verdict.verdict == "cannot_tell"
    assert made.verdict.reason.startswith("one step per side")
    assert made.explanation is not None
    assert made.step_delta_ps == 40 * NS
    rows = made.explanation.rows
    assert sum(row.delta_ps for row in rows) + (made.explanation.residual_ps or 0) == 40 * NS
    assert {row.change for row in rows if row.delta} == {"count"}


def test_runs_without_any_steps_are_one_long_step_each(monkeypatch: pytest.MonkeyPatch, base: tpuprof.Trace) -> None:
    from tpuprof.compare.comparison import _one_step
    from tpuprof.compare.outcome import Verdict

    made = diff(base, base)
    assert made.explanation is not None
    none = type("Run", (), {"step_source": "none"})()
    told = _one_step(Verdict("cannot_tell", "no samples: …"), none, none, made.explanation)
    assert told.reason.startswith("one step per side")
    kept = _one_step(Verdict("cannot_tell", "no samples: …"), none, base, made.explanation)
    assert kept.reason == "no samples: …"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"cores": 2}, "The number of cores differs: 1 and 2."),
        ({"kind": "TPU v4"}, "The devices differ: TPU v5 lite and TPU v4."),
    ],
)
def test_unlike_hardware_is_never_a_pass(base: tpuprof.Trace, options: dict[str, object], reason: str) -> None:
    made = diff(base, run(BASE, steps=12, **options))
    assert made.verdict.verdict == "cannot_tell"
    assert reason in made.verdict.reason
    assert made.verdict.reason.startswith("not comparable")
    assert made.verdict.p_value is None
    assert made.explanation is not None, "it is explained all the same"


def test_one_unlike_capture_among_several_spoils_the_side(base: tpuprof.Trace) -> None:
    other = run(BASE, steps=12, kind="TPU v4")
    assert diff([base, base], [base, other]).verdict.verdict == "cannot_tell"


def test_several_captures_are_explained_by_the_one_in_the_middle(base: tpuprof.Trace, regressed: tpuprof.Trace) -> None:
    odd = run(slower(BASE, "/mlp", 9), steps=12)
    made = diff([odd, base, base], [regressed, regressed, regressed])
    assert made.explained is not None
    assert made.explained[0].trace is base
    assert made.step_delta_ps == 40 * US
    assert any("nearest to the middle" in note for note in made.to_json()["notes"])
    assert made.to_json()["base"]["n_captures"] == 3


def test_step_times_alone_are_judged_and_not_explained() -> None:
    rng = random.Random(3)
    one = Samples(tuple(100e9 * (1 + 0.01 * rng.uniform(-1, 1)) for _ in range(60)), "a.csv")
    other = Samples(tuple(108e9 * (1 + 0.01 * rng.uniform(-1, 1)) for _ in range(60)), "b.csv")
    made = diff(one, other)
    document = made.to_json()
    assert document["verdict"] == "regressed"
    assert document["explanation"] == []
    assert document["residual_ps"] is None
    assert "needs a trace" in document["explanation_reason"]
    assert document["step_delta_ps"] == pytest.approx(8e9, rel=0.05)
    assert {slot["id"] for slot in document["evidence"] if slot["base"] and slot["new"]} == {"steps"}


def test_null_step_times_are_never_a_pass(base: tpuprof.Trace) -> None:
    made = diff(Samples((), "empty"), base)
    assert made.verdict.verdict == "cannot_tell"
    assert made.step_delta_ps is None
    assert made.to_json()["base"]["steps"]["p50_ps"] is None


def test_a_side_without_captures_is_wrong_use(base: tpuprof.Trace) -> None:
    with pytest.raises(UsageError, match="The new side has no capture"):
        diff(base, [])


def test_thresholds_decide(base: tpuprof.Trace, regressed: tpuprof.Trace) -> None:
    made = diff(base, regressed, Thresholds(relative=0.5))
    assert made.verdict.verdict == "unchanged"
    assert made.to_json()["thresholds"]["relative"] == 0.5


def test_differences_are_told_and_flags_are_evidence(base: tpuprof.Trace) -> None:
    def noted(version: str, flags: str) -> tpuprof.Trace:
        environment = {"XLA_FLAGS": flags}
        return replace(base, metadata={"versions": {"jaxlib": version}, "environment": environment})

    made = diff(noted("0.10.1", "--xla_a=1"), noted("0.10.2", "--xla_a=1 --api_token=hush"))
    found = {(d.kind, d.what): (d.base, d.new) for d in made.differences}
    assert found["version", "jaxlib"] == ("0.10.1", "0.10.2")
    slots = {slot.id: slot for slot in made.evidence}
    assert slots["versions"].complete
    assert "hush" not in (slots["flags"].new or "")
    assert slots["code"].base is None


def test_findings_that_came_and_went_are_told() -> None:
    from tpuprof.analysis import AnalysisResult, Finding
    from tpuprof.compare.finding_changes import finding_changes

    class Fake:
        name, rules, needs, pages = "fake", ("TPU998", "TPU999"), (), "tests"

        def run(self, context: object) -> AnalysisResult:
            ps = 9.0 if len(context.trace.steps) > 12 else 4.0  # type: ignore[attr-defined]
            where = {"op": f"fusion.{int(ps)}"}
            found = [Finding("TPU999", "info", "t", "m", "s", ps, ps / 100, scope=where)]
            if ps == 9.0:
                found.append(Finding("TPU998", "info", "t", "m", "s", 1.0, 0.01))
            return AnalysisResult(tuple(found))

    one, other = run(layers(1), steps=12), run(layers(1), steps=13)
    changes = finding_changes(one, other, [Fake()])
    assert [(c.change, c.rule, c.base_ps, c.new_ps) for c in changes] == [
        ("more", "TPU999", 4.0, 9.0),
        ("new", "TPU998", None, 1.0),
    ]
    assert [c.change for c in finding_changes(other, one, [Fake()])] == ["gone", "less"]
    assert finding_changes(one, one, [Fake()]) == []


def test_a_percentile_is_linear_between_neighbours() -> None:
    assert percentile([4.0, 1.0, 2.0, 3.0], 0.5) == 2.5
    assert percentile([7.0], 0.95) == 7.0
    assert step_figures([])["p95_ps"] is None
    assert step_figures([5.0])["cv"] is None


def test_the_typical_capture_needs_a_trace(base: tpuprof.Trace) -> None:
    assert typical(as_captures(Samples((1.0,)))) is None
    chosen = typical(as_captures([base, Samples((1.0,))]))
    assert chosen is not None
    assert chosen.trace is base


def test_runs_with_little_in_common_are_told(base: tpuprof.Trace) -> None:
    other = run([Op("dot.1", 160 * US, "loss/dot", "bf16[7]", "dot")], steps=12)
    notes = diff(base, other).to_json()["notes"]
    assert any("is it the same program?" in note for note in notes)
    assert not any("the same program?" in note for note in diff(base, base).to_json()["notes"])


def test_of_many_steps_the_distribution_is_kept() -> None:
    times = tuple(float(n % 5_000 + 1) for n in range(20_000))
    side = diff(Samples(times), Samples(times)).to_json()["base"]
    assert len(side["step_ps"]) == 2_000
    assert (min(side["step_ps"]), max(side["step_ps"])) == (1, 5_000)
    assert sorted(side["step_ps"])[1_000] == pytest.approx(2_500, rel=0.01)
    assert side["steps"]["count"] == 20_000


def test_causes_that_may_be_chance_are_not_named() -> None:
    def noisy(seed: int, slower: str = "") -> tpuprof.Trace:
        rng = random.Random(seed)
        trace = built(BASE, steps=20)
        for event in trace["h"]["/device:TPU:0"]["XLA Ops"]:
            factor = 0.5 if event.name == slower else 1.0
            event.duration_ps = int(event.duration_ps * factor * (1 - 0.2 * rng.random()))
        return loaded(trace)

    made = diff(noisy(1), noisy(2))
    assert made.explanation is not None
    assert len(made.explanation.changed) == 3, "all of it noise"
    assert made.causes == ()
    made = diff(noisy(1, BASE[1].name), noisy(2))
    assert {cause.title for cause in made.causes} == {"idle, intra program", "fusion f32[64,64] in layers_*/mlp/mul"}
