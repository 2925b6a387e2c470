"""Schemas of memory: what programs need, and what the host recorded of its allocators."""

from __future__ import annotations

from tpuprof.schema import Column, Schema

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
