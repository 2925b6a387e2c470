"""Schemas of what ran on the cores: ops, programs, steps and their division, scopes."""

from __future__ import annotations

from tpuprof.schema import Column, Schema
from tpuprof.tables.schemas.vocabulary import DEVICE, IDLE_CAUSES, OP_KINDS, PARTS, STEP

OPS = Schema(
    "ops",
    "One row per occurrence of a leaf op on a core.",
    (
        DEVICE,
        Column("line", "category", "The line, stream or thread that ran the op."),
        Column("op", "category", "The HLO instruction's name, or the kernel's where no instruction is known."),
        Column("kind", "category", "What the op is: a compute kind, collective, host_transfer or dma_wait."),
        Column("kind_source", "category", "What the kind was decided from: hlo, category, name or none."),
        Column("detail", "category", "More on the kind, such as the other memory space of a copy.", nullable=True),
        Column("category", "category", "The category that the trace states.", nullable=True),
        Column("module", "category", "The program, as `name(program id)`.", nullable=True),
        Column("scope", "category", "The name-scope path from the HLO metadata.", nullable=True),
        Column("source", "category", "The source line, as `file:line`.", nullable=True),
        Column(
            "run",
            "int32",
            "Which execution of a program on this core, from 0 in order of time.",
            nullable=True,
        ),
        Column("step", "int64", "The step in whose window the op starts.", nullable=True),
        Column("start_ps", "int64", "Start, relative to the trace's origin.", "ps"),
        Column("duration_ps", "int64", "Duration, clipped at the next sibling; null if bad.", "ps", nullable=True),
        Column("self_ps", "int64", "Duration minus children on the same line; null if bad.", "ps", nullable=True),
        Column(
            "clock",
            "category",
            "device: the core's own timer; mapped: moved onto it; host: the host's clock.",
        ),
    ),
)

MODULES = Schema(
    "modules",
    "One row per execution of a program on a core.",
    (
        DEVICE,
        Column("run", "int32", "Which execution on this core, from 0 in order of time."),
        Column("module", "category", "The program, as `name(program id)`."),
        Column("start_ps", "int64", "Start, relative to the trace's origin.", "ps"),
        Column("duration_ps", "int64", "Duration.", "ps"),
        Column("run_id", "int64", "The recorded run id (counts per device).", nullable=True),
        Column("clock", "category", "device, mapped, host, or rebuilt from ops on the device clock (mapped)."),
    ),
)

STEPS = Schema(
    "steps",
    "One row per step and core. A step is a half-open window from its start to the start of the next one.",
    (
        DEVICE,
        STEP,
        Column("start_ps", "int64", "Start, relative to the trace's origin.", "ps"),
        Column("duration_ps", "int64", "Length of the window.", "ps"),
        Column("complete", "bool", "False if cut by the edge of the capture or without device work."),
        Column("closed", "bool", "False if nothing marks the end, so that it ends with its last op."),
        Column("matched", "bool", "True if the step was found on all cores."),
        Column("transient", "bool", "True if the start of the capture held the step up: cores began it far apart."),
        Column("counted", "bool", "True if the step enters statistics."),
    ),
)

PARTITION = Schema(
    "partition",
    "One row per step and core: the exact division of its window, in ps.",
    (
        DEVICE,
        STEP,
        Column("start_ps", "int64", "Start, relative to the trace's origin.", "ps"),
        Column("duration_ps", "int64", "Length of the window: the sum of the parts.", "ps"),
        *(Column(f"{part}_ps", "int64", f"Time that belongs to {part}.", "ps") for part in PARTS),
        Column("hidden_collective_ps", "int64", "Collectives in flight under compute; not part of the sum.", "ps"),
        Column("hidden_dma_ps", "int64", "Copies in flight under compute; not part of the sum.", "ps"),
        *(
            Column(
                f"idle_{cause}_ps",
                "int64",
                f"Idle time with the cause {cause}; null if unknown.",
                "ps",
                nullable=True,
            )
            for cause in IDLE_CAUSES
        ),
    ),
)

SEGMENTS = Schema(
    "segments",
    "The partition as a timeline: one row per longest stretch of a core's step that belongs to one part and cause.",
    (
        DEVICE,
        STEP,
        Column("start_ps", "int64", "Start, relative to the trace's origin.", "ps"),
        Column("duration_ps", "int64", "Length.", "ps"),
        Column("part", "category", "The part of the partition."),
        Column("cause", "category", "Of idle time the cause; null for other parts and if unknown.", nullable=True),
    ),
)

GAPS = Schema(
    "gaps",
    "One row per stretch of idle time on a core inside a step.",
    (
        DEVICE,
        STEP,
        Column("start_ps", "int64", "Start, relative to the trace's origin.", "ps"),
        Column("duration_ps", "int64", "Length of the gap.", "ps"),
        Column("before_op", "category", "The op that ended last before the gap.", nullable=True),
        Column("after_op", "category", "The op that starts after the gap.", nullable=True),
        Column("inside_run", "bool", "True if the gap lies inside the execution of a program."),
    ),
)

OP_STATS = Schema(
    "op_stats",
    "Ops aggregated over cores and occurrences, by one key.",
    (
        Column("name", "string", "The group: an op, kind, scope, source line or module."),
        Column("kind", "string", "The kind; null for a group of several kinds.", nullable=True),
        Column("kind_source", "string", "What the kind was decided from; null if mixed.", nullable=True),
        Column("detail", "string", "More on the kind, such as the other memory space of a copy.", nullable=True),
        Column("module", "string", "The program; null for a group over several.", nullable=True),
        Column("scope", "string", "The name-scope path; null if unknown or mixed.", nullable=True),
        Column("source", "string", "The source line; null if unknown or mixed.", nullable=True),
        Column("occurrences", "int64", "Number of occurrences on all cores."),
        Column("total_ps", "int64", "Sum of durations over all cores.", "ps"),
        Column("self_ps", "int64", "Sum of self times over all cores.", "ps"),
        Column("mean_ps", "float64", "Mean duration; null if every duration is bad.", "ps", nullable=True),
        Column("self_fraction", "float64", "Share of the self time of all ops; null if that is 0.", nullable=True),
    ),
)

SCOPES = Schema(
    "scopes",
    "The tree of name scopes: a scope's self time and the total times of its children sum to its total time exactly.",
    (
        Column("path", "string", "The program's own names, outside in; empty for the whole."),
        Column("parent", "string", "The path of the enclosing scope; null for the whole.", nullable=True),
        Column("depth", "int32", "Number of names in the path."),
        Column("name", "string", "The last name of the path."),
        Column("marks", "string", "What JAX did to ops in it: jit, jvp, transpose, while, shard_map …", nullable=True),
        Column("self_ps", "int64", "Self time of the ops of this very path, over all cores.", "ps"),
        Column("total_ps", "int64", "Self time of all ops in the scope, over all cores.", "ps"),
        Column("occurrences", "int64", "Number of op occurrences in the scope on all cores."),
        Column("backward_ps", "int64", "The part of the total time in transposed (backward) code.", "ps"),
        Column("recomputed_ps", "int64", "The part of the total time in code that rematerialisation runs again.", "ps"),
        *(
            Column(f"{kind}_ps", "int64", f"The part of the total time in ops of kind {kind}.", "ps")
            for kind in OP_KINDS
            if kind != "container"
        ),
        Column("occurrences_per_core", "float64", "Occurrences divided by the number of cores."),
        Column(
            "step_fraction",
            "float64",
            "Total time within steps over the length of all steps of all cores; null without steps.",
            nullable=True,
        ),
    ),
)
