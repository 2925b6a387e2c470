"""Some of the ops of a run, chosen by what they are and where they belong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tpuprof.tables.scopes import in_scope, scope_path
from tpuprof.tables.stats import op_stats

_NEEDED = ["op", "kind", "kind_source", "detail", "module", "scope", "source", "duration_ps", "self_ps"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which ops; an empty text chooses all.

    Args:
        op: the name of an op.
        module: the program, as ``name(program id)``.
        kind: the kind.
        scope: a path of the tree of name scopes, or one as ops have it; all that lies in it.
        source: the source line, as ops have it.
        device: the core that it ran on.
        step: the number of the step that it ran in; null for all, and for what lies in none.
    """

    op: str = ""
    module: str = ""
    kind: str = ""
    scope: str = ""
    source: str = ""
    device: str = ""
    step: int | None = None

    @property
    def everything(self) -> bool:
        """True if no op is left out."""
        return self == Chosen()


def chosen_mask(ops: pd.DataFrame, chosen: Chosen) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each row of table ``ops`` whether it is chosen."""
    mask = np.ones(len(ops), np.bool_)
    for column in ("op", "module", "kind", "source", "device"):
        wanted = getattr(chosen, column)
        if wanted:
            mask &= _equal(ops[column], wanted)
    if chosen.scope:
        # One decision per distinct scope; the last one is for ops without a scope, whose code is -1.
        names: list[str | None] = [*(str(name) for name in ops["scope"].cat.categories), None]
        inside = np.array([in_scope(scope_path(name), chosen.scope) for name in names], np.bool_)
        mask &= inside[ops["scope"].cat.codes.to_numpy()]
    if chosen.step is not None:
        mask &= ops["step"].eq(chosen.step).fillna(False).to_numpy(np.bool_)
    return mask


def chosen_op_stats(ops: pd.DataFrame, by: str, chosen: Chosen) -> pd.DataFrame:
    """Table ``op_stats`` of the chosen ops; ``self_fraction`` is their share of the self time of all ops.

    Args:
        ops: table ``ops``.
        by: as for :func:`tpuprof.tables.stats.op_stats`.
        chosen: which of them.

    Raises:
        UsageError: ``by`` is no grouping.
    """
    if chosen.everything:
        return op_stats(ops, by)
    found = op_stats(ops[_NEEDED][chosen_mask(ops, chosen)], by)
    everything = int(ops["self_ps"].sum())
    return found.assign(self_fraction=found["self_ps"] / everything if everything else np.nan)


def _equal(column: pd.Series, wanted: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    names = [str(name) for name in column.cat.categories]
    return column.cat.codes.to_numpy() == names.index(wanted) if wanted in names else np.zeros(len(column), np.bool_)
