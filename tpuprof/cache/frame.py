"""A table in the cache: its columns as arrays. For tables that take long to make of what is kept of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tpuprof.cache.container import NotKeptError, Part
from tpuprof.errors import SchemaError
from tpuprof.schema import Schema
from tpuprof.tables.columns import categorical

if TYPE_CHECKING:
    import pandas as pd

_PLAIN = ("int64", "int32", "float64", "bool")


def frame_parts(frame: pd.DataFrame, schema: Schema) -> tuple[Any, list[Part]]:
    """The table as a tree for JSON (the categories of its columns) and one array per column.

    Raises:
        NotKeptError: a column has a type that is not provided for.
    """
    categories: list[list[str] | None] = []
    parts: list[Part] = []
    for column in schema:
        values: Any = frame[column.name]
        if column.dtype == "category":
            categories.append([str(text) for text in values.cat.categories])
            parts.append(np.asarray(values.cat.codes))
        elif column.dtype in _PLAIN and not column.nullable:
            categories.append(None)
            parts.append(values.to_numpy())
        else:
            raise NotKeptError(f"column {column.name} has no form in the cache")
    return categories, parts


def frame_of(tree: Any, parts: list[Part], schema: Schema) -> pd.DataFrame:
    """The table that ``frame_parts`` took apart.

    Raises:
        NotKeptError: the parts are not those of such a table.
    """
    import pandas as pd

    try:
        columns = {
            column.name: part if texts is None else categorical(np.asarray(part), [str(text) for text in texts])
            for column, part, texts in zip(schema, parts, tree, strict=True)
        }
        return schema.check(pd.DataFrame(columns))
    except (ValueError, TypeError, SchemaError) as error:
        raise NotKeptError("its content is no such table") from error
