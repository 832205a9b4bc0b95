"""Tables in Arrow's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _tare
from ._errors import ResultsError, UsageError, plain

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


def _library(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise plain(
            UsageError,
            f"`{name}` is not installed",
            f"`pip install {name}`, or use `.rows()`, which needs nothing",
        ) from None


class Table:
    """A table in memory.

    Any library that speaks Arrow's PyCapsule interface reads it without copying: `pyarrow.table(table)`,
    `polars.DataFrame(table)`, `pandas.DataFrame.from_arrow(table)`, `duckdb.sql("FROM table")`. So the package
    needs none of them.
    """

    def __init__(self, native: _tare.Table) -> None:
        self._native = native

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return self._native.column_names

    def __len__(self) -> int:
        """The number of rows."""
        return len(self._native)

    def __repr__(self) -> str:
        columns = self.column_names
        return f"<tare.Table of {len(self)} rows and {len(columns)} columns: {', '.join(columns)}>"

    def _repr_html_(self) -> str | None:
        """Show the table in a notebook, if a library for frames is installed."""
        for frame in (self.to_pandas, self.to_polars):
            try:
                return frame()._repr_html_()  # type: ignore[operator]
            except UsageError:
                continue
        return None

    def __arrow_c_schema__(self) -> object:
        """The schema, by Arrow's PyCapsule interface."""
        return self._native.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, by Arrow's PyCapsule interface."""
        return self._native.__arrow_c_stream__(requested_schema)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries, without any other library.

        Numbers, text and truth values are Python's; times, lists and structures are text. Times with a zone are shown
        in UTC.
        """
        names = self.column_names
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise plain(
                ResultsError,
                f"two columns are named `{twice}`, and a dictionary can have only one of them",
                "give each a name of its own in the query, with `AS`",
            )
        try:
            return self._native.rows()
        except ValueError as error:
            help = "change the column's type in the query, with `::text`, or use `.to_arrow()`"
            raise plain(ResultsError, f"a column cannot be shown as values of Python: {error}", help) from error

    def to_arrow(self) -> pyarrow.Table:
        """Return a table of `pyarrow`, which shares the memory."""
        return _library("pyarrow").table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a frame of `pandas`. It copies columns that NumPy stores differently, such as text and missing numbers."""
        _library("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return a frame of `polars`, which shares the memory."""
        return _library("polars").DataFrame(self)
