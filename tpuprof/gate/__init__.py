"""The gate: budgets and baselines that a run must keep, and what watches over them."""
