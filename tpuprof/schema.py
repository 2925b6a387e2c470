"""Tables have schemas: one object gives validation, documentation and the JSON description.

A column's name carries its unit (``start_ps``, ``hbm_bytes``); the dtype is one of a few kinds that map onto
pandas types without loss: times are ``int64``, unknown is null.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tpuprof.errors import SchemaError

if TYPE_CHECKING:
    import pandas as pd

DType = Literal["int64", "uint64", "int32", "float64", "bool", "string", "category"]

_NULLABLE = {"int64": "Int64", "uint64": "UInt64", "int32": "Int32", "bool": "boolean"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name (with the unit in it), type, whether nulls may occur, and what it means."""

    name: str
    dtype: DType
    meaning: str
    unit: str = ""
    nullable: bool = False

    @property
    def pandas_dtype(self) -> str:
        """The pandas dtype; nullable integers and booleans use the masked extension types."""
        if self.nullable and self.dtype in _NULLABLE:
            return _NULLABLE[self.dtype]
        return "str" if self.dtype == "string" else self.dtype


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of one table, in order."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __contains__(self, name: object) -> bool:
        return any(column.name == name for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name!r} has no column {name!r}; it has {', '.join(self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """The column names in order."""
        return tuple(column.name for column in self.columns)

    def empty(self) -> pd.DataFrame:
        """A table with these columns and no rows."""
        import pandas as pd

        return pd.DataFrame({c.name: pd.Series([], dtype=c.pandas_dtype) for c in self.columns})

    def check(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame itself if it matches, for use at module borders.

        Raises:
            SchemaError: a column is missing, unknown or out of order, has another dtype, or holds nulls although
                it must not.
        """
        if tuple(frame.columns) != self.names:
            missing = [name for name in self.names if name not in frame.columns]
            unknown = [str(name) for name in frame.columns if name not in self.names]
            detail = f"missing {missing}, unknown {unknown}" if missing or unknown else "columns are out of order"
            raise SchemaError(f"Table {self.name!r} does not match its schema: {detail}.")
        for column in self.columns:
            series = frame[column.name]
            actual = str(series.dtype)
            if actual != column.pandas_dtype and not (column.dtype == "string" and actual in ("object", "str")):
                raise SchemaError(
                    f"Column {column.name!r} of table {self.name!r} is {actual}, its schema says {column.pandas_dtype}."
                )
            if not column.nullable and bool(series.isna().any()):
                raise SchemaError(f"Column {column.name!r} of table {self.name!r} must not hold nulls.")
        return frame

    def describe(self) -> list[dict[str, object]]:
        """The schema as plain data, for documentation and JSON."""
        return [
            {"name": c.name, "dtype": c.dtype, "unit": c.unit, "nullable": c.nullable, "meaning": c.meaning}
            for c in self.columns
        ]
