"""``tpuprof diff``: exit codes, every format, hostile names, the bundle."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.compare.models import built
from tests.gate.models import BASE, SLOW, US, Run, f28, f28_jobs, write_run, write_steps
from tests.report.fake import HOSTILE
from tpuprof.report import REPORT_FORMATS
from tpuprof.report.diff import GROUPINGS, diff_document, render_diff
from tpuprof.report.diff_bundle import bundle_bytes, joint_redactor, masked
from tpuprof.report.screen import Screen


@pytest.fixture(scope="module")
def document(runs: tuple[Path, Path]) -> dict[str, Any]:
    import tpuprof
    from tpuprof.compare import diff

    return diff_document(diff(*(tpuprof.load(run) for run in runs)))


def hostile_copy(value: Any, key: str = "") -> Any:
    """The document with every free text made hostile."""
    kept = ("verdict", "severity", "by", "change", "command", "rule", "id", "side", "kind", "from")
    if isinstance(value, str):
        return value if key in kept else HOSTILE
    if isinstance(value, dict):
        return {name: hostile_copy(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [hostile_copy(item, key) for item in value]
    return value


def test_a_regression_exits_with_1_and_says_what_it_is(tpuprof_cli: Run, runs: tuple[Path, Path]) -> None:
    code, out, err = tpuprof_cli("diff", *runs)
    assert code == 1
    assert "Step time +25.00 %" in out
    assert "regressed; 100 % of it is fusion f32[64,16] in layers_*/attn/dot_general (each takes longer)" in " ".join(
        out.split()
    )
    assert "MISSING" in out
    assert err == ""


def test_the_same_run_twice_exits_with_0(tpuprof_cli: Run, runs: tuple[Path, Path]) -> None:
    code, out, _ = tpuprof_cli("diff", runs[0], runs[0], "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["verdict"], found["step_delta_ps"], found["residual_ps"]) == ("unchanged", 0, 0)
    assert found["findings"] == []


def test_one_step_a_side_exits_with_5(tpuprof_cli: Run, tmp_path: Path) -> None:
    paths = [write_run(tmp_path / str(n), ops, steps=1) for n, ops in enumerate((BASE, BASE[:-1]))]
    code, out, _ = tpuprof_cli("diff", *paths, "--json")
    found = json.loads(out)
    assert code == 5
    assert found["reason"].startswith("one step per side")
    assert found["step_delta_ps"] == -30 * US
    assert [f["rule"] for f in found["findings"]] == ["TPU602"]


def test_other_ends_of_the_command(tpuprof_cli: Run, runs: tuple[Path, Path], tmp_path: Path) -> None:
    assert tpuprof_cli("diff", runs[0])[0] == 2
    assert tpuprof_cli("diff", runs[0], tmp_path / "nothing")[0] == 3
    code, _, err = tpuprof_cli("diff", *runs, "--min-effect", "often")
    assert (code, "no share for --min-effect" in err) == (2, True)
    code, _, err = tpuprof_cli("diff", *runs, "--min-effect-time", "5")
    assert (code, "no time for --min-effect-time" in err) == (2, True)
    assert tpuprof_cli("diff", *runs, "--min-effect", "60 %")[0] == 0


@pytest.mark.parametrize("by", GROUPINGS)
def test_groups_sum_to_the_difference(tpuprof_cli: Run, runs: tuple[Path, Path], by: str) -> None:
    _, out, _ = tpuprof_cli("diff", *runs, "--by", by, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert rows
    assert sum(float(row["delta_ps"]) for row in rows if row["depth"] == "0") == pytest.approx(40 * US)
    lines = [json.loads(line) for line in tpuprof_cli("diff", *runs, "--by", by, "--format", "jsonl")[1].splitlines()]
    assert [line["name"] for line in lines] == [row["name"] for row in rows]


def test_f28_through_diff(tpuprof_cli: Run, tmp_path: Path) -> None:
    base, _, slow = f28(tmp_path)
    found = json.loads(tpuprof_cli("diff", base, slow, "--json")[1])
    assert found["verdict"] == "regressed"
    assert found["effect"]["relative"] == pytest.approx(0.08, abs=0.005)


def test_pairs_of_jobs(tpuprof_cli: Run, tmp_path: Path) -> None:
    base, new = f28_jobs(tmp_path)
    more = [word for path in base[1:] for word in ("--base", path)]
    code, out, _ = tpuprof_cli("diff", base[0], *new, *more, "--paired", "--json")
    assert code == 1
    assert json.loads(out)["effect"]["relative"] == pytest.approx(0.08, abs=0.01)
    code, out, _ = tpuprof_cli("diff", base[0], *new, *more, "--json")
    assert code == 5
    assert json.loads(out)["reason"].startswith("noise too high")


def test_junit_fails_what_regressed_and_marks_what_cannot_be_told(
    tpuprof_cli: Run, runs: tuple[Path, Path], tmp_path: Path
) -> None:
    root = ElementTree.fromstring(tpuprof_cli("diff", *runs, "--format", "junit")[1])
    assert (root.get("failures"), root.get("errors")) == ("1", "0")
    few = write_steps(tmp_path / "few.csv", [0.1, 0.2, 0.1])
    root = ElementTree.fromstring(tpuprof_cli("diff", few, few, "--format", "junit")[1])
    assert (root.get("failures"), root.get("errors")) == ("0", "1")
    root = ElementTree.fromstring(tpuprof_cli("diff", runs[0], runs[0], "--format", "junit")[1])
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("1", "0", "0")


def test_sarif_and_github_name_the_rules(document: dict[str, Any]) -> None:
    sarif = json.loads(render_diff(document, "sarif"))
    ids = [result["ruleId"] for result in sarif["runs"][0]["results"]]
    assert {"TPU601", "TPU604"} <= set(ids)
    text = render_diff(document, "github")
    assert text.startswith("::error title=tpuprof TPU601")
    assert "## tpuprof diff" in text


def test_the_step_summary_is_appended(
    tpuprof_cli: Run, runs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    code, out, _ = tpuprof_cli("diff", *runs, "--format", "github")
    assert code == 1
    assert "## tpuprof diff" not in out
    assert summary.read_text().startswith("before\n## tpuprof diff")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    code, _, err = tpuprof_cli("diff", *runs, "--format", "github")
    assert (code, "step summary cannot be written" in err) == (2, True)


@pytest.mark.parametrize("form", REPORT_FORMATS)
def test_hostile_names_stay_texts_in_every_format(document: dict[str, Any], form: str) -> None:
    text = render_diff(hostile_copy(document), form, Screen(width=400))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text.replace("\\u", ""))
    if form == "html":
        assert "<script" not in text
        assert "onerror=" not in re.sub("&[a-z]+;", "", "".join(re.findall("<[^>]*>", text)))
    if form == "md":
        assert "<script" not in text
    if form == "junit":
        ElementTree.fromstring(text)
    if form == "github":
        assert sum(line.startswith("::") for line in text.splitlines()) == len(document["findings"]) + len(
            document["quality"]
        )


@pytest.mark.parametrize("form", REPORT_FORMATS)
def test_every_format_survives_step_times_alone(form: str) -> None:
    from tpuprof.compare import Samples, diff

    text = render_diff(diff_document(diff(Samples(()), Samples((5.0,)))), form)
    assert "None" not in text
    assert "nan" not in text.lower().replace("tenant", "")


def test_the_bundle_holds_both_sides_without_names_and_secrets(tpuprof_cli: Run, tmp_path: Path) -> None:
    paths: list[Path] = []
    for side, ops in (("base", BASE), ("new", SLOW)):
        noted = [replace(op, source="/home/agnes/secret_project/model.py:12") for op in ops]
        trace = built(noted, steps=12)
        trace.hosts[0].name = f"agnes-{side}-machine"
        trace.write(tmp_path / side)
        session = next((tmp_path / side / "plugins/profile").iterdir())
        sidecar = {
            "versions": {"jaxlib": "0.10.2"},
            "environment": {"XLA_FLAGS": "--xla_a=1 --api_token=hush", "HF_TOKEN": "hf_abcdefghijklmnopqrstuv"},
            "command": ["/home/agnes/run.py", "--password", "hush"],
            "host": f"agnes-{side}-machine",
            "git": {"commit": "c0ffee", "remote": "https://bob:hush@example.com/x.git"},
        }
        (session / "tpuprof.json").write_text(json.dumps(sidecar))
        paths.append(tmp_path / side)
    target = tmp_path / "out.zip"
    assert tpuprof_cli("diff", *paths, "--bundle", target)[0] == 1
    with zipfile.ZipFile(target) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert {"README.md", "diff.json", "diff.html", "diff.md"} <= set(files)
    for side in ("base", "new"):
        assert {f"{side}/steps-1.csv", f"{side}/tpuprof.json", f"{side}/hlo/01-jit_step.hlo.pb"} <= set(files)
    for name, data in files.items():
        for secret in (b"hush", b"agnes", b"hf_abc", b"secret_project", b"/home"):
            assert secret not in data, (name, secret)
    assert b"0.10.2" in files["base/tpuprof.json"]
    assert b"xla_a" in files["base/tpuprof.json"]
    from tpuprof.hlo.load import parse_hlo

    assert parse_hlo(files["new/hlo/01-jit_step.hlo.pb"]).name == "jit_step"
    steps = [tmp_path / f"{side}-steps.csv" for side in ("base", "new")]
    for side, path in zip(("base", "new"), steps, strict=True):
        path.write_bytes(files[f"{side}/steps-1.csv"])
    assert tpuprof_cli("diff", *steps)[0] == 1, "the samples give the verdict again"
    code, _, err = tpuprof_cli("diff", *paths, "--bundle", target)
    assert (code, "The bundle exists" in err) == (2, True)
    assert tpuprof_cli("diff", *paths, "--bundle", target, "--force")[0] == 1
    assert tpuprof_cli("diff", *paths, "--bundle", tmp_path / "no" / "x.zip")[0] == 2


def test_the_bundle_of_the_same_comparison_has_the_same_bytes(runs: tuple[Path, Path]) -> None:
    import tpuprof
    from tpuprof.compare import diff

    made = diff(*(tpuprof.load(run) for run in runs))
    found = diff_document(made)
    assert bundle_bytes(made, found) == bundle_bytes(made, found)


def test_hosts_of_two_runs_never_share_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from tpuprof.redact import make_redactor
    from tpuprof.report import diff_bundle

    monkeypatch.setattr(diff_bundle, "redactor_for", lambda hosts: make_redactor(hosts))
    joint = joint_redactor([["alpha", "beta"], ["gamma", "beta"]])  # type: ignore[list-item]
    assert joint.text("alpha beta gamma") == "host-1 host-2 host-3"


def test_settings_that_are_secrets_are_masked() -> None:
    found = masked({"HF_TOKEN": "x", "flags": "--key_file=a --api_key=b", "n": 1, "list": ["https://a:b@c.de/"]})
    assert found == {"HF_TOKEN": "***", "flags": "--key_file=a --api_key=***", "n": 1, "list": ["https://a:***@c.de/"]}


def test_html_draws_the_difference_and_the_step_times(
    document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("altair")
    text = render_diff(document, "html")
    assert text.count("<svg") == 3
    assert text.count("</svg>") == 3
    from tpuprof.report import diff_charts

    monkeypatch.setattr(diff_charts, "charts_available", lambda: False)
    assert "<svg" not in render_diff(document, "html")


def test_numbers_are_never_cut_for_the_sake_of_a_narrow_column() -> None:
    from tpuprof.report.listing import Field
    from tpuprof.report.terminal_table import fit

    fields = (Field("a", "what", role="name"), Field("b", "n", right=True), Field("c", "time", right=True))
    widths = fit(fields, [["x" * 60, "1", "5.212 ms"]], 40, 0)
    assert widths[1:] == [1, 8]
    assert sum(widths) + 2 * 2 == 40


def test_a_plain_screen_shows_ascii_only(document: dict[str, Any]) -> None:
    text = render_diff(document, "table", Screen(120, plain=True))
    assert text.isascii()
    assert "?" not in text
    assert "2026_01_01_00_00_00 > 2026_01_01_00_00_00" in text
