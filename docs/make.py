"""Makes the reference pages from the code, and the README's picture from a run.

python docs/make.py                    writes docs/cli.md, tables.md and sidecar.md, and the tables in docs/hardware.md
                                       and models.md
python docs/make.py --check            says which of them are out of date; exit code 1 if any
python docs/make.py --picture RUN      writes docs/images/report.svg from the report of a run
python docs/make.py --charts RUN       writes docs/images/roofline.svg and ladder.svg from it
python docs/make.py --plans            writes the charts of docs/planner.md and serving.md (about 10 s)
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from importlib import import_module
from pathlib import Path

import click

DOCS = Path(__file__).parent
PICTURE = DOCS / "images" / "report.svg"
PICTURE_WIDTH = 100
_FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}\s*")
_TABLE_BEGIN = "<!-- The table is made by `python docs/make.py`. -->"
_TABLE_END = "<!-- End of the table. -->"
APPS = {"dashboard": "tpuprof_dashboards.command"}
"""Commands of this distribution that the core finds by entry point."""
_NOTE = "<!-- Made by `python docs/make.py`; edit the code instead. -->"


def cli_page() -> str:
    """The reference of the command line: the help of every command."""
    from tpuprof.cli.commands import COMMANDS, group

    lines = [_NOTE, "", "# The command line", "", *_command(group, "tpuprof", level=2)]
    for name, (module, _) in COMMANDS.items():
        command = import_module(module).command
        lines += _command(command, f"tpuprof {name}", level=2)
        if isinstance(command, click.Group):
            lines += _subcommands(command, f"tpuprof {name}")
    for name, module in APPS.items():
        lines += _command(import_module(module).command, f"tpuprof {name}", level=2)
    return "\n".join(lines).rstrip("\n") + "\n"


def tables_page() -> str:
    """The reference of the tables: their columns, from the schemas."""
    from tpuprof.tables.schemas import TABLES

    lines = [_NOTE, "", "# Tables", ""]
    lines += [
        "Every table is a pandas DataFrame. Times are integer picoseconds from the trace's origin, means are floats;",
        "what is unknown is null, and only columns marked so can hold null.",
        "",
    ]
    for schema in TABLES.values():
        lines += [
            f"## {schema.name}",
            "",
            schema.meaning,
            "",
            "| column | type | unit | null | meaning |",
            "|---|---|---|---|---|",
        ]
        for column in schema:
            null = "yes" if column.nullable else ""
            lines.append(f"| `{column.name}` | {column.dtype} | {column.unit} | {null} | {_cell(column.meaning)} |")
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def sidecar_page() -> str:
    """The reference of the sidecar: its fields, from their description."""
    from tpuprof.sidecar import FIELDS, SCHEMA_VERSION

    lines = [_NOTE, "", "# The sidecar", ""]
    lines += [
        "Beside every trace lies a small JSON file that says how, where and by what it was captured: `tpuprof.json` of",
        "a lone process, and of the first one of a distributed program; `<trace>.tpuprof.json` of the others.",
        "`tpuprof info` shows it, quality entries come from it, and `tpuprof info RUN --json` has all of it in",
        "`capture`.",
        "",
        f"This is version {SCHEMA_VERSION}. Fields are only ever added; readers ignore those that they do not know.",
        "Secrets in command lines and variables are masked. Of `tpuprof grab`, only what is known from outside the job",
        "is there.",
        "",
        "| field | type | null | may be missing | meaning |",
        "|---|---|---|---|---|",
    ]
    for field in FIELDS:
        flags = " | ".join("yes" if flag else "" for flag in (field.nullable, field.optional))
        lines.append(f"| `{field.path}` | {field.kind} | {flags} | {_cell(field.meaning)} |")
    return "\n".join(lines) + "\n"


def hardware_page() -> str:
    """The page on hardware as it is, with the table of chips made anew."""
    from tpuprof.report.hardware import hardware_result
    from tpuprof.report.listing import markdown_table

    return _with_table("hardware.md", markdown_table(hardware_result(None, ()).listings[0]))


def models_page() -> str:
    """The page on models as it is, with the named models and the keys of a table made anew."""
    from tpuprof.plan import models, param_counts
    from tpuprof.plan.table import KEYS
    from tpuprof.plan.zoo import aliases

    lines = ["| model | parameters | per token | layers | width | kinds of layers | other names | source |"]
    lines.append("|---|---:|---:|---:|---:|---|---|---|")
    for model in models():
        counts = param_counts(model)
        kinds = ", ".join(dict.fromkeys(layer.kind for layer in model.layers))
        names = ", ".join(aliases(model.name))
        lines.append(
            f"| `{model.name}` | {counts.all / 1e9:.2f} B | {counts.active_all / 1e9:.2f} B | {len(model.layers)} "
            f"| {model.width:,} | {kinds} | {names} | {_cell(model.source)} |"
        )
    keys = ["| key | meaning |", "|---|---|", *(f"| `{key}` | {_cell(text)} |" for key, text in KEYS.items())]
    return _with_table("models.md", ["## Named models", "", *lines, "", "## Keys of a model", "", *keys])


def _with_table(name: str, lines: list[str]) -> str:
    before, begin, rest = (DOCS / name).read_text(encoding="utf-8").partition(_TABLE_BEGIN)
    _, end, after = rest.partition(_TABLE_END)
    if not begin or not end:
        raise ValueError(f"docs/{name} lacks the marks of its table")
    return "\n".join([f"{before}{begin}", "", *lines, "", f"{end}{after}"])


PAGES = {
    "cli.md": cli_page, "tables.md": tables_page, "sidecar.md": sidecar_page, "hardware.md": hardware_page,
    "models.md": models_page,
}  # fmt: skip


def picture(run: str) -> str:
    """The report of a run as an SVG picture of a terminal."""
    from rich.console import Console

    import tpuprof
    from tpuprof.report import build_report
    from tpuprof.report.screen import Screen
    from tpuprof.report.terminal import draw_report

    report = build_report(tpuprof.load(run))
    console = Console(
        record=True, width=PICTURE_WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor",
        highlight=False, markup=False, emoji=False, legacy_windows=False,
    )  # fmt: skip
    console.print(draw_report(report, Screen(PICTURE_WIDTH, "truecolor"), top=8))
    svg = console.export_svg(title="tpuprof report", unique_id="tpuprof")
    return _FONT_FACE.sub("", svg)  # a picture loads nothing from elsewhere; the text is set to its width anyway


def charts(run: str) -> dict[str, str]:
    """The charts of a run as SVG, by file name."""
    import tpuprof
    from tpuprof.charts import ladder_chart, roofline_chart, to_svg
    from tpuprof.report import build_report
    from tpuprof.report.roofline import ladder_rows

    report = build_report(tpuprof.load(run))
    drawings = {
        "roofline": roofline_chart(report["ops"], report["roofline"]),
        "ladder": ladder_chart(ladder_rows(report)),
    }
    return {f"{name}.svg": to_svg(d.chart) for name, d in drawings.items() if d.chart is not None}


def plans() -> dict[str, str]:
    """The charts of the examples in planner.md and serving.md as SVG, by file name."""
    from tpuprof.charts import (
        load_chart,
        mesh_map_chart,
        pareto_chart,
        plan_memory_chart,
        plan_steps_chart,
        scaling_chart,
        to_svg,
    )
    from tpuprof.hardware import chip, make_slice, parse_slice
    from tpuprof.plan import load_model, remat_policy
    from tpuprof.plan.serve import ServeQuestion, Sla, Types, Workload, load_curve, plan_serving
    from tpuprof.plan.train_layout import Job
    from tpuprof.plan.train_scaling import strong_scaling
    from tpuprof.plan.train_search import search
    from tpuprof.report.serve_plan import serve_result
    from tpuprof.report.training_plan import plan_result, scaling_result

    policy = remat_policy("block-inputs")
    book = plan_result(search(Job(load_model("llama3-70b"), 1024, 4096, policy), parse_slice("v5p:16x16x32"))).document
    small = Job(load_model("llama3-8b"), 64, 4096, policy)
    points = scaling_result(small, strong_scaling(small, parse_slice("v5p:8x8x8"))).document["points"]
    v5e = chip("v5e")
    slices = tuple(make_slice(v5e, shape) for shape in ((2, 2), (2, 4), (4, 4), (4, 8)))
    question = ServeQuestion(
        load_model("llama3-70b"), slices, Workload(8192, 512), types=Types("int8", "int8"), sla=Sla(tpot_s=0.06)
    )
    plan = plan_serving(question)
    served = serve_result(plan, curve=load_curve(question, plan.candidates[0])).document
    drawings = {
        "plan_steps": plan_steps_chart(book["candidates"][:5]),
        "plan_memory": plan_memory_chart(served["candidates"][:5]),
        "plan_map": mesh_map_chart(book["mesh_map"]),
        "plan_scaling": scaling_chart(points),
        "plan_pareto": pareto_chart(served["pareto"], served["candidates"], 0.06),
        "plan_load": load_chart(served["load_curve"], None, 0.06),
    }
    return {f"{name}.svg": to_svg(d.chart) for name, d in drawings.items() if d.chart is not None}


def _subcommands(group: click.Group, path: str, level: int = 3) -> list[str]:
    """The options that all subcommands share, once; then every subcommand with its own."""
    from tpuprof.cli.commands import group as commands

    context = click.Context(group, info_name=path)
    context.help_option_names = commands.context_settings["help_option_names"]
    found: dict[str, click.Command] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None:
            raise ValueError(f"{path} {name} is listed and does not exist")
        found[name] = command
    tables = [[_option(option, context) for option in _options_of(command, context)] for command in found.values()]
    shared = [row for row in tables[0] if all(row in table for table in tables)] if tables else []
    lines = ["Options of all subcommands:", "", "| option | meaning |", "|---|---|", *shared, ""] if shared else []
    for name, command in found.items():
        lines += _command(command, f"{path} {name}", level=level, leave_out=frozenset(shared))
        if isinstance(command, click.Group):
            lines += _subcommands(command, f"{path} {name}", level + 1)
    return lines


def _command(command: click.Command, path: str, level: int, leave_out: frozenset[str] = frozenset()) -> list[str]:
    from tpuprof.cli.commands import group

    context = click.Context(command, info_name=path)
    context.help_option_names = group.context_settings["help_option_names"]
    lines = [f"{'#' * level} {path}", ""]
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    lines += ["```", usage, "```", ""]
    for paragraph in (command.help or "").strip().split("\n\n"):
        lines += [_cell(" ".join(paragraph.split())), ""]
    rows = [_option(option, context) for option in _options_of(command, context)]
    rows = [row for row in rows if row not in leave_out]
    if rows:
        lines += ["| option | meaning |", "|---|---|", *rows, ""]
    return lines


def _options_of(command: click.Command, context: click.Context) -> list[click.Option]:
    return [option for option in command.get_params(context) if isinstance(option, click.Option)]


def _option(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    if record is None:
        raise ValueError(f"{option.name} has no help")
    names, text = record
    return f"| `{names.replace('|', chr(92) + '|')}` | {_cell(text)} |"


def _cell(text: str) -> str:
    """Text for one cell; in code spans only the bar needs care."""
    spans = text.replace("|", "\\|").split("`")
    return "`".join(s if n % 2 else s.replace("<", "&lt;").replace("*", "\\*") for n, s in enumerate(spans))


def main() -> int:
    """Does what the arguments say; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--picture", metavar="RUN")
    parser.add_argument("--charts", metavar="RUN")
    parser.add_argument("--plans", action="store_true")
    arguments = parser.parse_args()
    sys.path.insert(0, str(DOCS.parent))
    if arguments.picture:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(picture(arguments.picture), encoding="utf-8")
        return 0
    if arguments.charts or arguments.plans:
        made = plans() if arguments.plans else charts(arguments.charts)
        for name, svg in made.items():
            (PICTURE.parent / name).write_text(svg + "\n", encoding="utf-8")
        return 0
    stale = 0
    for name, make in PAGES.items():
        page, text = DOCS / name, make()
        if page.exists() and page.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if arguments.check:
            print(f"{page} is out of date")
        else:
            page.write_text(text, encoding="utf-8")
    return int(bool(stale) and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
