"""The schemas of the roofline's tables."""

from __future__ import annotations

from tpuprof.schema import Column, Schema

BOUNDS: tuple[str, ...] = ("compute", "hbm", "vmem", "host")
"""What can bound an op: the matrix and vector units, or one of the memories."""

COST_SOURCES = ("hlo", "formula", "cost_estimate", "user", "trace")
"""Where a cost comes from: HLO shapes, a formula for a known kernel, the kernel author's estimate, a formula that the
user registered, or the compiler's figures in the trace."""

ROOFLINE = Schema(
    "roofline",
    "One row per op of counted steps: what it does, what the hardware allows, and what was measured.",
    (
        Column("op", "string", "The HLO instruction's name, or the kernel's."),
        Column("module", "string", "The program, as `name(program id)`.", nullable=True),
        Column("kind", "string", "What the op is; only compute kinds are listed.", nullable=True),
        Column("scope", "string", "The name-scope path.", nullable=True),
        Column("source", "string", "The source line, as `file:line`.", nullable=True),
        Column("executions", "int64", "Executions in counted steps on all cores."),
        Column("self_ps", "int64", "Sum of self times over them.", "ps"),
        Column(
            "cost_source", "string", "hlo, formula, cost_estimate, user or trace; null without a cost.", nullable=True
        ),
        Column("reason", "string", "Why there is no cost.", nullable=True),
        Column("note", "string", "What a reader of the cost should know.", nullable=True),
        Column("remat", "bool", "True if it repeats work to save memory."),
        Column("flops", "float64", "Operations of one execution, as executed.", "FLOP", nullable=True),
        Column(
            "matmul_flops",
            "float64",
            "Those of matrix multiplications, convolutions and attention.",
            "FLOP",
            nullable=True,
        ),
        Column("dtype", "string", "The type of most of its matrix multiplications.", nullable=True),
        Column("hbm_bytes", "float64", "Bytes read from and written to HBM by one execution.", "B", nullable=True),
        Column("vmem_bytes", "float64", "The same for VMEM.", "B", nullable=True),
        Column("intensity", "float64", "Operations per byte of HBM; null without any.", "FLOP/B", nullable=True),
        Column(
            "compute_ps", "float64", "Operations at the peak of their types, for one execution.", "ps", nullable=True
        ),
        Column("hbm_ps", "float64", "HBM bytes at the HBM's bandwidth.", "ps", nullable=True),
        Column("vmem_ps", "float64", "VMEM bytes at the VMEM's bandwidth.", "ps", nullable=True),
        Column("bound_ps", "float64", "The largest of these: no execution can be faster.", "ps", nullable=True),
        Column("bound_by", "string", "Which one that is.", nullable=True),
        Column("mean_ps", "float64", "Mean self time of one execution.", "ps"),
        Column("achieved_flops", "float64", "Operations per second of self time.", "FLOP/s", nullable=True),
        Column("achieved_hbm", "float64", "HBM bytes per second of self time.", "B/s", nullable=True),
        Column(
            "efficiency",
            "float64",
            "The bound over the measured time; null if above 1, see `above_peak`.",
            nullable=True,
        ),
        Column("above_peak", "bool", "True if the op was measured faster than its bound: peak or cost must be wrong."),
        Column("recoverable_ps", "float64", "Self time above the bound, all executions together.", "ps", nullable=True),
        Column("estimate_ps", "float64", "The compiler's own estimate for one execution.", "ps", nullable=True),
    ),
)

MATMULS = Schema(
    "matmuls",
    "One row per shape of a matrix multiplication in counted steps, the one with the most self time first.",
    (
        Column("shape", "string", "The product, as `[batch x] m x k x n`, and the types of its inputs and output."),
        Column("batch", "int64", "Independent products."),
        Column("m", "int64", "Rows: not contracted, of the left input."),
        Column("k", "int64", "The contracted size."),
        Column("n", "int64", "Columns: not contracted, of the right input."),
        Column("dtype", "string", "The inputs' types, one if both are the same."),
        Column("out_dtype", "string", "The output's type.", nullable=True),
        Column("ops", "int64", "Ops that hold such a product."),
        Column("executions", "int64", "Products executed on all cores."),
        Column("self_ps", "int64", "Self time of these ops, whatever else they do.", "ps"),
        Column("flops", "float64", "Operations of one product.", "FLOP"),
        Column(
            "padding_waste",
            "float64",
            "Share of the matrix unit's work that is padding; null on other hardware.",
            nullable=True,
        ),
        Column("compute_ps", "float64", "One product at the peak of its type, without padding.", "ps", nullable=True),
        Column(
            "achieved_flops",
            "float64",
            "Operations per second of self time, a lower bound for fused ops.",
            "FLOP/s",
            nullable=True,
        ),
        Column("efficiency", "float64", "achieved_flops over the peak of its type.", nullable=True),
    ),
)

LADDER_RUNGS = (
    "measured",
    "without_skew",
    "without_exposed_collectives",
    "without_copy_waits",
    "without_idle",
    "ops_at_roofline",
)
"""The ideal ladder of a step: each rung takes one more cause of loss away, and no step of this program on this
hardware can be shorter than the last one."""
