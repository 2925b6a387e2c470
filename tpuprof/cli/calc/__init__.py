"""``tpuprof calc``: single answers with their derivation, one subcommand per calculator."""

from __future__ import annotations

from importlib import import_module

import click

from tpuprof.cli.names import unknown_name

_HERE = "tpuprof.cli.calc"
SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "ridge": ("roofline", "Intensity above which work is bound by arithmetic."),
    "roofline-time": ("roofline", "Time bounds of work from its operations, bytes and other times."),
    "intensity": ("roofline", "Operations per byte, and the rate that they allow."),
    "tile": ("roofline", "Intensity of a matmul computed in output tiles."),
    "elementwise": ("roofline", "Intensity and bytes of elementwise work."),
    "attention": ("roofline", "Intensity of attention, and the prompt length that makes it compute bound."),
    "units": ("roofline", "Rate of matrix units, tensor cores or lanes from their number and clock."),
    "matmul": ("matmul", "Time, bytes, intensity and padding of a matmul."),
    "sharded-matmul": ("matmul", "Collectives that a sharded matmul needs, and what each way costs."),
    "products": ("matmul", "Which of several shardings of one product is the fastest."),
    "shard": ("arrays", "The piece of an array that each device holds, and bytes."),
    "unshard": ("arrays", "The whole array of which a piece is known."),
    "replica-group": ("arrays", "Degree and stride of a replica group."),
    "layer": ("arrays", "Communication of a layer of two matmuls, forward and backward."),
    "weight-stationary": ("arrays", "Least communication of weights split over both dimensions."),
    "collective": ("collective", "Time of a collective over a torus, a mesh or a switch."),
    "ring-traffic": ("rings", "What crosses the busiest link of a ring."),
    "latency-floor": ("rings", "Time that a collective takes however small it is."),
    "latency-bound": ("rings", "Size or degree from which hops limit a collective."),
    "bus-bandwidth": ("rings", "Bandwidth that a measured collective reached."),
    "transfer": ("transfer", "Time of bytes over links and hops."),
    "stages": ("transfer", "Time of a transfer through several stages."),
    "pipeline": ("transfer", "Time of handing activations from stage to stage."),
    "fat-tree": ("gpu", "Time of a collective over the levels of a fat tree."),
    "level-bandwidth": ("gpu", "Collective bandwidth of one level of a fat tree, or of all."),
    "tree-traffic": ("gpu", "Bytes through the switches of a tree."),
    "in-network": ("gpu", "Gain and bytes of reductions inside switches."),
    "ragged": ("gpu", "Cost of an all-to-all in which each token goes to few members."),
    "all-to-all-slowdown": ("gpu", "Slow-down of an all-to-all that leaves its node."),
    "occupancy": ("gpu", "Warps that a multiprocessor can hold."),
    "topology": ("topology", "Chips, hosts, memory, rate and wraparound of a slice."),
    "links": ("topology", "Bandwidth of several links together, or a share of it."),
    "count": ("topology", "How many units several groups have, such as switches."),
    "compare": ("compare", "One quantity over another: a ratio or a speed-up."),
    "efficiency": ("compare", "Predicted over measured time."),
    "hidden": ("compare", "Share of exposed communication that an overlap hid."),
    "achieved": ("compare", "Rates that measured work reached."),
    "params": ("models", "Parameters of a model, in all, per token and by block."),
    "flops": ("models", "Operations of training and inference."),
    "einsum": ("models", "Operations of a contraction of two arrays."),
    "attention-length": ("models", "Sequence length at which attention costs as much as the matmuls."),
    "kv-cache": ("models", "Bytes of the KV cache."),
    "kv-sharding": ("models", "How the KV cache is split over chips."),
    "memory": ("memory", "Memory of training, and whether it fits."),
    "offload": ("memory", "What moving bytes between host and chip costs."),
    "critical-batch": ("limits", "Batch from which reading weights no longer bounds a matmul."),
    "parallelism": ("limits", "Limits of data, tensor and mixed parallelism, and the best split."),
    "context-parallel": ("limits", "Tokens per chip from which ring attention is bound by arithmetic."),
    "expert-parallel": ("limits", "Width of experts from which expert parallelism is bound by arithmetic."),
    "batch": ("limits", "Batch, chips, tokens per chip and sequences: one from the others."),
    "bubble": ("layouts", "Share of a pipelined step that is lost to waiting."),
    "layout": ("layouts", "Devices of a layout."),
    "mlp-choice": ("layouts", "Whether FSDP or tensor parallelism sends fewer bytes and fits."),
    "smallest-slice": ("layouts", "Fewest chips that hold bytes, or read them in time."),
    "decode-parallel": ("layouts", "Degree at which communication overtakes reading weights in decode."),
    "weight-stationary-chips": ("layouts", "Chips from which splitting weights both ways pays off."),
    "decode": ("serving", "Time of a decode step, throughput and the largest batch."),
    "decode-matmul": ("serving", "What bounds one matmul of decode under tensor parallelism."),
    "prefill": ("serving", "Time of a prompt."),
    "disaggregation": ("serving", "Prefill servers per decode server, and what leaves per step."),
    "speculative": ("serving", "Gain of speculative decoding."),
    "train-time": ("money", "Time of a training run."),
    "cost": ("money", "Dollars of a run, of operations and of tokens."),
}
"""Subcommand → (module of this package, first line of its help). A test holds the two texts together."""


class CalcGroup(click.Group):
    """Finds subcommands in :data:`SUBCOMMANDS` and imports them when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand, imported now; null if there is none."""
        if cmd_name not in SUBCOMMANDS:
            return None
        module = import_module(f"{_HERE}.{SUBCOMMANDS[cmd_name][0]}")
        return getattr(module, cmd_name.replace("-", "_"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As usual, but a mistyped name is answered with the closest ones."""
        if args and not args[0].startswith("-") and args[0] not in SUBCOMMANDS:
            raise click.UsageError(unknown_name("calculator", args[0], list(SUBCOMMANDS)), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The listing, from the table alone."""
        with formatter.section("Calculators"):
            formatter.write_dl([(name, text) for name, (_, text) in SUBCOMMANDS.items()])


@click.group("calc", cls=CalcGroup)
def command() -> None:
    """Calculate one number of the hardware, with its derivation.

    Every calculator prints the answer with its formula, inputs, assumptions and steps. Quantities take units (45GB/s,
    197T, 1us, 400Gbit/s), arrays are written like bf16[1024_X,16384], meshes like X=4,Y=2. Rates come from --chip, or
    from --peak and --bandwidth.
    """
