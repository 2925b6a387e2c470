"""What the planner would choose for published jobs, beside the layout that those who ran them chose."""

from __future__ import annotations

import pytest

from tpuprof.plan.published import PublishedStep, bundled_rows, published_step
from tpuprof.plan.train_search import search
from tpuprof.plan.train_step import estimate

ROWS = {str(row["id"]): row for row in bundled_rows()}


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("perf-0006", 0.0),  # Gemma 4 26B on TPU7x, a mixture
        ("perf-0013", 0.0),  # Llama 3.1 70B on TPU7x
        ("perf-0042", 0.0),  # DeepSeek V3 on v5p
        ("perf-0091", 0.0),  # 52B on v4
        ("perf-0050", 0.08),  # 128B on v5e, FSDP and tensor parallelism
        ("perf-0075", 0.08),  # 128B on v5p, the same
    ],
)
def test_the_layout_of_a_published_job_is_first_or_near(name: str, most: float) -> None:
    made = published_step(ROWS[name])
    assert isinstance(made, PublishedStep)
    plan = search(made.job, made.where, policies=[made.job.policy])
    own = estimate(made.job, made.layout, made.where).seconds
    assert plan.candidates[0].seconds >= (1 - most) * own - 1e-9
    assert any(one.step.layout == made.layout for one in plan.candidates)
