"""The schemas of all tables: what each column is called, its unit, and what it means.

Documentation, validation, tooltips and JSON descriptions are all made from these objects.
"""

from __future__ import annotations

from tpuprof.schema import Column, Schema

COMPUTE_KINDS = (
    "matmul",
    "attention",
    "custom_kernel",
    "convolution",
    "reduction",
    "elementwise",
    "gather_scatter",
    "data_movement",
    "other_compute",
)
PARTS = (*COMPUTE_KINDS, "collective_exposed", "host_transfer", "dma_wait", "barrier_wait", "idle")
"""The parts of a step, in order of precedence. They are disjoint and sum to the step exactly."""

IDLE_CAUSES = (
    "compile",
    "garbage_collection",
    "checkpoint",
    "host_sync",
    "input",
    "dispatch",
    "host_python",
    "dma_in_flight",
    "intra_program",
    "unexplained",
)

DEVICE_IDLE_CAUSES = ("dma_in_flight", "intra_program")
"""The causes that need no comparison of the host's clock with the device's."""

OP_KINDS = (*COMPUTE_KINDS, "collective", "host_transfer", "dma_wait", "container")
"""What an op can be, compute in order of precedence first. A container is no leaf."""

KIND_SOURCES = ("hlo", "category", "name", "none")
CLOCKS = ("device", "mapped", "host")

_DEVICE = Column("device", "category", "The core, as `<host>/<TPU|GPU|CPU>:<n>`.")
_STEP = Column("step", "int64", "The step's number.")

EVENTS = Schema(
    "events",
    "Every event of every line, as recorded.",
    (
        Column("host", "category", "The host that recorded the event."),
        Column("plane", "category", "The plane's name."),
        Column("line", "category", "The line's name."),
        Column("name", "category", "The event's short name."),
        Column("start_ps", "int64", "Start, relative to the trace's origin.", "ps"),
        Column("duration_ps", "int64", "Duration as recorded; null if it cannot be true.", "ps", nullable=True),
    ),
)

OPS = Schema(
    "ops",
    "One row per occurrence of a leaf op on a core.",
    (
        _DEVICE,
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
        _DEVICE,
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
        _DEVICE,
        _STEP,
        Column("start_ps", "int64", "Start, relative to the trace's origin.", "ps"),
        Column("duration_ps", "int64", "Length of the window.", "ps"),
        Column("complete", "bool", "False if cut by the edge of the capture or without device work."),
        Column("closed", "bool", "False if nothing marks the end, so that it ends with its last op."),
        Column("matched", "bool", "True if the step was found on all cores."),
        Column("counted", "bool", "True if the step enters statistics."),
    ),
)

PARTITION = Schema(
    "partition",
    "One row per step and core: the exact division of its window, in ps.",
    (
        _DEVICE,
        _STEP,
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

GAPS = Schema(
    "gaps",
    "One row per stretch of idle time on a core inside a step.",
    (
        _DEVICE,
        _STEP,
        Column("start_ps", "int64", "Start, relative to the trace's origin.", "ps"),
        Column("duration_ps", "int64", "Length of the gap.", "ps"),
        Column("before_op", "category", "The op that ended last before the gap.", nullable=True),
        Column("after_op", "category", "The op that starts after the gap.", nullable=True),
        Column("inside_run", "bool", "True if the gap lies inside the execution of a program."),
    ),
)

COLLECTIVES = Schema(
    "collectives",
    "One row per occurrence of a collective on a core; asynchronous halves are joined.",
    (
        _DEVICE,
        Column("op", "category", "The instruction: of an asynchronous one, the start half."),
        Column("kind", "category", "all_gather, all_reduce, reduce_scatter, all_to_all, collective_permute, …"),
        Column("form", "category", "sync, async (both halves), async_line, start_only or done_only."),
        Column("module", "category", "The program, as `name(program id)`.", nullable=True),
        Column("scope", "category", "The name-scope path from the HLO metadata.", nullable=True),
        Column("source", "category", "The source line, as `file:line`.", nullable=True),
        Column("step", "int64", "The step in whose window the collective starts.", nullable=True),
        Column("start_ps", "int64", "When it begins: start of the op, or of the start half.", "ps"),
        Column("window_ps", "int64", "From its begin to its end.", "ps", nullable=True),
        Column("exposed_ps", "int64", "The window minus compute on this core.", "ps", nullable=True),
        Column("hidden_ps", "int64", "The window's overlap with compute on this core.", "ps", nullable=True),
        Column("wait_ps", "int64", "From the core's arrival to the last one of its group.", "ps", nullable=True),
        Column("transfer_ps", "int64", "The window without the wait in it.", "ps", nullable=True),
        Column("wait_is_lower_bound", "bool", "True if members of the group were not traced.", nullable=True),
        Column(
            "wait_reason",
            "category",
            "Why the wait is null: half_missing, groups_unknown, peers_not_traced, not_matched or no_common_clock.",
            nullable=True,
        ),
        Column("participants", "int32", "Devices of a group, from the HLO; null if unknown.", nullable=True),
        Column(
            "bytes",
            "int64",
            "Full (gathered) size per group from the HLO; null if unknown.",
            "B",
            nullable=True,
        ),
        Column("shard_bytes", "int64", "What one device contributes or keeps of it.", "B", nullable=True),
    ),
)

ARRIVALS = Schema(
    "arrivals",
    "One row per collective and core whose arrival can be compared with that of another core.",
    (
        _DEVICE,
        Column("step", "int64", "The step in whose window the collective starts.", nullable=True),
        Column("op", "category", "The instruction, as in table collectives."),
        Column("arrival_ps", "int64", "Start of the barrier directly before it, or of the op.", "ps"),
        Column(
            "late_ps", "int64", "How much earlier the group could have begun without this core; 0 if not last.", "ps"
        ),
        Column("wait_ps", "int64", "As in table collectives.", "ps", nullable=True),
        Column("group_size", "int32", "How many cores' arrivals were compared."),
        Column("transient", "bool", "True at the start of the capture: before the second step."),
    ),
)

HOST_EVENTS = Schema(
    "host_events",
    "One row per event of the host planes (threads), instants left out.",
    (
        Column("host", "category", "The host."),
        Column("thread", "category", "The line: a thread."),
        Column("name", "category", "The event's name."),
        Column("start_ps", "int64", "Start, relative to the trace's origin.", "ps"),
        Column("duration_ps", "int64", "Duration; null if bad.", "ps", nullable=True),
        Column("step", "int64", "The step number of a StepTraceAnnotation.", nullable=True),
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

MEMORY = Schema(
    "memory",
    "One row per buffer that is live when a program that ran needs most memory, by memory space, largest first.",
    (
        Column("module", "category", "The program, as `name(program id)`."),
        Column("memory_space", "category", "hbm, vmem, host, smem, sync_flags; main on CPU; space_N without a name."),
        Column("kind", "category", "parameter, constant, output or temp."),
        Column("op", "category", "The instruction that defines the value; null if unknown.", nullable=True),
        Column("opcode", "category", "Its HLO opcode.", nullable=True),
        Column("shape", "category", "The shape of the value, with its layout.", nullable=True),
        Column("scope", "category", "The name-scope path from the HLO; of a copy that of its operand.", nullable=True),
        Column("source", "category", "The source line, as `file:line`.", nullable=True),
        Column("allocation", "int64", "The number of the allocation that holds it."),
        Column("offset_bytes", "int64", "Where in the allocation it begins.", "B"),
        Column("bytes", "int64", "Memory that it takes, padding included.", "B"),
        Column("unpadded_bytes", "int64", "What its elements need; null if unknown.", "B", nullable=True),
        Column("aliased", "bool", "True for an argument whose memory a result reuses (it was donated)."),
    ),
)

MEMORY_SUMMARY = Schema(
    "memory_summary",
    "One row per program that ran and memory space: what it needs, and its peak; one row with a reason if unknown.",
    (
        Column("module", "category", "The program, as `name(program id)`."),
        Column("memory_space", "category", "hbm, vmem, host, …; null if nothing is known.", nullable=True),
        Column("arguments_bytes", "int64", "Given by the caller.", "B", nullable=True),
        Column("output_bytes", "int64", "Results, those that reuse an argument included.", "B", nullable=True),
        Column("aliased_bytes", "int64", "Arguments reused for results: in both figures above.", "B", nullable=True),
        Column("temp_bytes", "int64", "Working memory.", "B", nullable=True),
        Column("constants_bytes", "int64", "Constants.", "B", nullable=True),
        Column("total_bytes", "int64", "arguments + output - aliased + temp + constants.", "B", nullable=True),
        Column("peak_bytes", "int64", "The most that is in use at one instruction.", "B", nullable=True),
        Column("temp_peak_bytes", "int64", "The most of the working memory that is in use.", "B", nullable=True),
        Column("padding_bytes", "int64", "Padding of what is live at the peak, as far as known.", "B", nullable=True),
        Column("live_buffers", "int64", "Buffers that are live at the peak.", nullable=True),
        Column("peak_op", "string", "The instruction at the peak (the first such).", nullable=True),
        Column("peak_scope", "string", "Its name-scope path.", nullable=True),
        Column("peak_source", "string", "Its source line.", nullable=True),
        Column(
            "reason",
            "string",
            "Why figures are null: hlo_missing, buffers_missing, buffers_damaged, not_scheduled.",
            nullable=True,
        ),
    ),
)

MEMORY_EVENTS = Schema(
    "memory_events",
    "One row per allocation or release of device memory that the host recorded, in order of time.",
    (
        Column("host", "category", "The host."),
        Column("allocator", "category", "The allocator's name, or `device N` where only its number is recorded."),
        Column("event", "category", "allocate or release."),
        Column("start_ps", "int64", "When, relative to the trace's origin, on the host's clock.", "ps"),
        Column("step", "int64", "The step whose StepTraceAnnotation was entered last before.", nullable=True),
        Column("bytes", "int64", "Size of the block.", "B", nullable=True),
        Column("requested_bytes", "int64", "Size that was asked for.", "B", nullable=True),
        Column("allocated_bytes", "int64", "In use after it.", "B", nullable=True),
        Column("available_bytes", "int64", "Free after it.", "B", nullable=True),
        Column(
            "reserved_bytes", "int64", "Reserved then, on TPU for the working memory of programs.", "B", nullable=True
        ),
        Column("peak_bytes", "int64", "The most in use since the process began.", "B", nullable=True),
        Column("fragmentation", "float64", "Share of the free memory not in its largest block.", nullable=True),
        Column("op", "category", "What asked for it, where recorded.", nullable=True),
        Column("shape", "category", "The shape it is for, where recorded.", nullable=True),
    ),
)

ALLOCATORS = Schema(
    "allocators",
    "One row per allocator of device memory: how full it was during the capture.",
    (
        Column("host", "category", "The host."),
        Column("allocator", "category", "The allocator's name, or `device N` where only its number is recorded."),
        Column("allocations", "int64", "Recorded allocations."),
        Column("releases", "int64", "Recorded releases."),
        Column("first_bytes", "int64", "In use or reserved after the first event.", "B", nullable=True),
        Column("last_bytes", "int64", "In use or reserved after the last event.", "B", nullable=True),
        Column("max_bytes", "int64", "The most in use or reserved during the capture.", "B", nullable=True),
        Column("max_reserved_bytes", "int64", "The most reserved for running programs.", "B", nullable=True),
        Column("max_at_ps", "int64", "When that was, relative to the trace's origin.", "ps", nullable=True),
        Column("max_step", "int64", "The step then.", nullable=True),
        Column("capacity_bytes", "int64", "In use + free + reserved.", "B", nullable=True),
        Column("process_peak_bytes", "int64", "The most allocated since the process began.", "B", nullable=True),
        Column("max_fragmentation", "float64", "The largest fragmentation during the capture.", nullable=True),
    ),
)

SEGMENTS = Schema(
    "segments",
    "The partition as a timeline: one row per longest stretch of a core's step that belongs to one part and cause.",
    (
        _DEVICE,
        _STEP,
        Column("start_ps", "int64", "Start, relative to the trace's origin.", "ps"),
        Column("duration_ps", "int64", "Length.", "ps"),
        Column("part", "category", "The part of the partition."),
        Column("cause", "category", "Of idle time the cause; null for other parts and if unknown.", nullable=True),
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

TABLES = {
    schema.name: schema
    for schema in (
        EVENTS,
        OPS,
        MODULES,
        STEPS,
        PARTITION,
        SEGMENTS,
        GAPS,
        COLLECTIVES,
        ARRIVALS,
        HOST_EVENTS,
        OP_STATS,
        SCOPES,
        MEMORY,
        MEMORY_SUMMARY,
        MEMORY_EVENTS,
        ALLOCATORS,
    )
}
