"""``tpuprof calc``: one answer each, with what derives it, and errors that say what to give."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path

import click
import pytest

from tests.cli.conftest import Run
from tpuprof.cli.calc import SUBCOMMANDS, command

DOCS = Path(__file__).parents[2] / "docs"


def _subcommand(name: str) -> click.Command:
    found = command.get_command(click.Context(command), name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_the_listing_says_what_the_help_says(name: str) -> None:
    found = _subcommand(name)
    assert found.name == name
    assert (found.help or "").splitlines()[0] == SUBCOMMANDS[name][1]
    for parameter in found.params:
        if isinstance(parameter, click.Option):
            assert parameter.help


def test_every_option_is_in_the_reference() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    shared = text.partition("\n## tpuprof calc\n")[2].partition("\n### ")[0]
    for name in SUBCOMMANDS:
        section = text.partition(f"\n### tpuprof calc {name}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
        for parameter in _subcommand(name).params:
            if isinstance(parameter, click.Option):
                assert all(option in section + shared for option in parameter.opts)


def test_every_calculator_of_the_modules_is_listed() -> None:
    modules = {module for module, _ in SUBCOMMANDS.values()}
    found = {
        value.name
        for module in modules
        for value in vars(import_module(f"tpuprof.cli.calc.{module}")).values()
        if isinstance(value, click.Command)
    }
    assert found == set(SUBCOMMANDS)


def test_json_holds_the_contract_and_raw_numbers(run: Run) -> None:
    code, out, err = run("calc", "ridge", "--peak", "197T", "--bandwidth", "820GB/s", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert document["schema_version"] == 1
    assert document["command"] == "calc ridge"
    assert document["answer"] == {"value": pytest.approx(197e12 / 820e9), "unit": "FLOP/B"}
    assert document["regime"] is None
    assert document["formula"] == "C / W"
    assert document["inputs"]["W"] == {"value": 8.2e11, "unit": "B/s"}
    assert document["assumptions"] == document["steps"] == []


def test_the_table_is_a_readable_derivation(run: Run) -> None:
    code, out, _ = run("calc", "matmul", "bf16[512,4096]", "int8[4096,16384]", "--chip", "v6e")
    assert code == 0
    assert out.startswith("time")
    for label in ("regime", "formula", "inputs", "steps", "assumes", "source", "also"):
        assert re.search(rf"^{label} ", out, re.MULTILINE), label
    assert "matmul" not in out.splitlines()[0]


def test_markdown_shows_inputs_as_a_table(run: Run) -> None:
    code, out, _ = run("calc", "transfer", "--bytes", "16GB", "--bandwidth", "820GB/s", "--format", "md")
    assert code == 0
    assert out.startswith("### time: 19.5122 ms\n")
    assert "| bytes | 16 GB |" in out


def test_stages_overlap_to_the_slowest(run: Run) -> None:
    code, out, _ = run("calc", "stages", "pcie=63ms", "ici=167ms", "hbm=20ms", "--json")
    document = json.loads(out)
    assert (code, document["answer"]["value"], document["regime"]) == (0, 0.167, "ici")
    assert document["also"]["upper"]["value"] == pytest.approx(0.25)


def test_an_infinite_answer_is_a_word(run: Run) -> None:
    words = ("calc", "attention", "--queries", "inf", "--keys", "inf", "--json")
    code, out, _ = run(*words)
    assert code == 0
    assert json.loads(out)["answer"]["value"] == "infinity"


def test_the_rates_of_a_chip_carry_their_source(run: Run) -> None:
    code, out, _ = run("calc", "ridge", "--chip", "v5e", "--edition", "book-2026", "--json")
    document = json.loads(out)
    assert code == 0
    assert document["inputs"]["C"]["source"].startswith("v5e: ")
    assert document["also"]["dcn"]["value"] == pytest.approx(63_040, rel=1e-3)


def test_half_a_tpu7x_is_one_device(run: Run) -> None:
    for per, peak in (("chip", 2.307e15), ("device", 1.1535e15)):
        code, out, _ = run("calc", "ridge", "--chip", "tpu7x", "--per", per, "--json")
        assert code == 0
        assert json.loads(out)["inputs"]["C"]["value"] == pytest.approx(peak, rel=5e-3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("ridge", "No peak rate is given. | Give --peak, or a --chip that states it."),
        ("ridge --peak 197T", "No bandwidth of hbm is known for this device."),
        ("ridge --peak 197 --bandwidth 820GB/s", "Invalid value for '--peak'"),
        ("ridge --edition book-2026 --peak 1T --bandwidth 1GB/s", "Give --chip too."),
        ("ridge --chip v99", "v99"),
        ("ridge --chip v5e --dtype s32", "There is no class of matrix units for s32."),
        ("ridge --peak 197T --bandwidth 820GB/s --ask rigde", "Ask for one of ridge"),
        ("matmul bf16[8_X,16] bf16[16,8] --chip v5e", "is sharded, but this is the matmul of one device."),
        ("matmul bf16[8,16] --line bf16[8,8]=fusion(bf16[8,16],bf16[16,8])", "The matmul is given twice"),
        ("collective all-gather --bytes 1MB --link-bandwidth 1GB/s --lines 1 --hop-latency 1us", "needs both the hops"),
        ("collective all-gather --bytes 1MB --link-bandwidth 1GB/s --lines 1 --hops 3", "needs both the hops"),
        (
            "collective all-gather --array bf16[8_X,4] --mesh X=4 --over X --link-bandwidth 1GB/s --ring-axes Q",
            "Q closes to a ring, but is no axis of the mesh.",
        ),
        (
            "decode llama3-70b --chip v5e --chips 8 --batch nan --context 8192",
            "nan is no number.\ntpuprof: where: --batch",
        ),
        (f"in-network --members {'9' * 400}", "A number is too large or too small to calculate with."),
        ("rigde", "There is no calculator 'rigde'. Did you mean ridge?"),
        ("roofline-time", "There is no work. | Give --flops, --bytes, or a time such as --comm-time."),
        ("roofline-time --flops 1T --compute-time 1s --peak 1T", "A time and the work it takes are both given."),
        ("matmul bf16[2,3] bf16[4,5]", "the sizes 3 and 4 are summed over"),
        ("matmul bf16[2,3]", "The matmul is given twice or not at all."),
        ("matmul [2,3] [3,4]", "The element type is not known."),
        ("matmul bf16[2,x_] bf16[3,4]", "is no dimension"),
        ("matmul --line f32[3]", "names fewer than three arrays"),
        ("matmul --line bf16[7,5]=f(bf16[3],bf16[4])", "No matmul without batch dimensions has these sizes."),
        ("matmul bf16[2,3] bf16[3,4] --contract 1", "--contract names one dimension of each input."),
        ("matmul bf16[0,3] bf16[3,4]", "A dimension of the matmul is 0."),
        ("shard bf16[8_X,8] --mesh Y=2 --ask bytes", "There is no answer 'bytes'"),
        ("shard bf16[8,8] --mesh Y=2,Y=4", "The mesh has the axis Y twice."),
        ("shard bf16[8,8] --mesh Y", "is no mesh axis"),
        ("shard bf61[8]", "'bf61' is no element type."),
        ("shard bf16[8_X] --mesh X=4 --first 9", "Ask for 1 to 2"),
        ("sharded-matmul [I,J] [K,L]", "share 0 dimensions"),
        ("sharded-matmul [I_X,J] [J,K] --peak 1T", "Times need the sizes of the mesh axes."),
        ("sharded-matmul [I_X,J] [J,K] --mesh Y=2", "The mesh has no axis X"),
        ("products [I,J] --out [I,K]", "is no product of two arrays"),
        ("collective all-gather --bytes 1GB", "0 networks are given."),
        ("collective all-gather --bytes 1GB --slice v5e:4x4 --node-bandwidth 1GB/s", "2 networks are given."),
        ("collective all-gather --node-bandwidth 1GB/s", "The bytes are given nowhere."),
        ("collective all-gather --bytes 1GB --link-bandwidth 45GB/s", "A collective over no axis."),
        ("collective all-gather --bytes 1GB --node-bandwidth 1GB/s --rings 1", "--rings means nothing"),
        ("collective all-to-all --bytes 1GB --link-bandwidth 45GB/s", "Give --shape"),
        ("collective all-to-all --bytes 1GB --link-bandwidth 45GB/s --rings 2", "--rings means nothing"),
        ("collective all-gather --bytes 1GB --slice v5e:3x5", "v5e has no slice of shape 3x5"),
        ("transfer --bytes 1GB", "The way is given twice or not at all."),
        ("transfer --bytes 1GB --slice v5e:4x4 --devices 1", "1 devices are given."),
        ("pipeline --bytes 1GB --bandwidth 1GB/s --microbatches 4 --stages 1", "hands nothing on"),
        ("stages pcie=1s pcie=2s", "no stage, or it is given twice"),
        ("stages pcie", "no stage, or it is given twice"),
        ("topology", "The slice is given twice or not at all."),
        ("links --count 0 --bandwidth 1GB/s", "A count of units is 0"),
        ("links --count a --bandwidth 1GB/s", "is no list of counts"),
        ("compare 1s 1GB", "are not two quantities of one unit"),
        ("compare 1 0", "above zero"),
        ("compare nan 1", "must be zero or more"),
        ("achieved --time 1s", "There is no work."),
        ("hidden --exposed 1s --overlapped 1s --floor 2s", "Nothing was exposed"),
        ("replica-group 1,1", "This is no replica group."),
        ("weight-stationary --ratio 4 --batch 8", "Give all four."),
        ("fat-tree --bytes 1GB --level leaf", "is no level of a tree"),
        ("level-bandwidth --children 4", "One level or all of them."),
        ("units --clock 1GHz", "Too little or too much is given."),
        ("attention", "There is nothing to calculate."),
        ("tile 512", "A tile of 1 sizes."),
        ("layer bf16[8,4] bf16[4,4] bf16[4,4_Z] --mesh X=2", "The mesh has no axis Z"),
    ],
)
def test_wrong_use_says_what_to_give(run: Run, words: str, message: str) -> None:
    code, out, err = run("calc", *words.split())
    assert (code, out) == (2, "")
    text = err.replace("\ntpuprof: next: ", " | ")
    assert message in text, text
    assert "Traceback" not in err


def test_without_a_calculator_the_help_lists_them(run: Run) -> None:
    code, _, err = run("calc")
    assert code == 2
    assert all(name in err for name in SUBCOMMANDS)


def test_numbers_beyond_all_floats_are_refused(run: Run) -> None:
    code, out, err = run("calc", "in-network", "--members", "9" * 400, "--bytes", "1GB")
    assert (code, out) == (2, "")
    assert "too large or too small to calculate with" in err


def test_a_calculator_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys\nfrom tpuprof.cli import main\n"
        "words = 'matmul bf16[8,8] bf16[8,8] --chip v5e --json -o /dev/null --force -q'.split()\n"
        "code = main(['calc', *words])\n"
        "heavy = {'numpy', 'pandas', 'numba', 'pyarrow', 'jax', 'google.protobuf', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_python_example_of_the_page_works() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "calc.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(block, "docs/calc.md", "exec"), names)
    made = names["made"]
    assert getattr(made, "bound_by") == "compute"  # noqa: B009
    assert getattr(made, "padding_waste") == 0  # noqa: B009


def _examples() -> list[tuple[str, str]]:
    page = (DOCS / "calc.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n\$ tpuprof ((?:[^\n]*\\\n)*[^\n]*)\n(.*?)```", page, re.DOTALL)
    return [(re.sub(r"\\\n\s*", "", words), shown) for words, shown in blocks]


@pytest.mark.parametrize(("words", "shown"), _examples(), ids=lambda text: text.splitlines()[0][:60])
def test_the_page_shows_what_the_commands_print(run: Run, words: str, shown: str) -> None:
    import shlex

    code, out, err = run(*shlex.split(words))
    assert (code, err) == (0, "")
    assert [line.rstrip() for line in out.splitlines()] == [line.rstrip() for line in shown.splitlines()]
