"""Statements compiled once per dialect, and the one connection that writes.

SQLAlchemy writes the SQL; running it goes straight to the driver (PEP 249) with positional parameters, since the writer
is the hot path and runs the same few statements again and again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Final, Protocol

from sqlalchemy import BindParameter, ColumnElement, Dialect, bindparam
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler

from gateway.model.problem import ensure
from gateway.store.port import Busy

Row = Sequence[Any]
LOOKUP_MAX: Final = 1024
"""Values in one list; SQLite takes 32,766 parameters, old builds 999."""

ROWS_MAX: Final = 64
"""Rows in one statement: more make it long to compile, and save nothing that is felt."""


class Cursor(Protocol):
    """The part of PEP 249 that is used."""

    @property
    def rowcount(self) -> int: ...
    def execute(self, sql: str, parameters: Any = ..., /) -> Any: ...
    def fetchall(self) -> Sequence[Row]: ...
    def close(self) -> None: ...


class Driver(Protocol):
    """A connection by PEP 249 whose transactions are begun by hand."""

    def cursor(self) -> Cursor: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...


class Text:
    """SQL text and the order in which it wants its parameters."""

    __slots__ = ("_fixed", "_pick", "_single", "names", "sql")

    def __init__(self, statement: Executable, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)  # type: ignore[attr-defined]  # every statement used here has it
        ensure(isinstance(compiled, SQLCompiler), "only SQL statements are compiled here")
        ensure(compiled.positiontup is not None, "the driver takes parameters by position")
        self.sql = str(compiled)
        self.names = tuple(compiled.positiontup)
        # Values that SQLAlchemy turned into parameters of its own, such as the offset of a limit.
        self._fixed = {name: value for name, value in compiled.params.items() if value is not None}
        self._single = len(self.names) == 1
        self._pick = itemgetter(*self.names) if self.names else None

    def row(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """The values in the statement's order."""
        if self._pick is None:
            return ()
        picked = self._pick({**self._fixed, **values} if self._fixed else values)
        return (picked,) if self._single else picked


class Statement:
    """A statement with named parameters."""

    __slots__ = ("_build", "_texts")

    def __init__(self, build: Executable | Callable[[Dialect], Executable]) -> None:
        """`build` may depend on the dialect where the two have different constructs for the same thing."""
        self._build = build
        self._texts: dict[str, Text] = {}

    def text(self, dialect: Dialect) -> Text:
        """Compiled for that dialect, once."""
        found = self._texts.get(dialect.name)
        if found is None:
            statement = self._build(dialect) if callable(self._build) else self._build
            found = self._texts[dialect.name] = Text(statement, dialect)
        return found


class Lookup:
    """A query or a change for any of many values.

    Lists are filled up to a power of two, so that few shapes are ever compiled.
    """

    __slots__ = ("_build", "_texts")

    def __init__(self, build: Callable[[list[BindParameter[Any]]], Executable]) -> None:
        """`build` makes the query from the list's parameters; it may have no others."""
        self._build = build
        self._texts: dict[tuple[str, int], Text] = {}

    def prepare(self, dialect: Dialect, values: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
        """SQL text and parameters for at least one and at most `LOOKUP_MAX` values."""
        ensure(0 < len(values) <= LOOKUP_MAX, "a look-up has a bounded list")
        size = 1 << (len(values) - 1).bit_length()
        found = self._texts.get((dialect.name, size))
        if found is None:
            names: list[BindParameter[Any]] = [bindparam(f"v{at}") for at in range(size)]
            found = self._texts[dialect.name, size] = Text(self._build(names), dialect)
        return found.sql, (*values, *([values[-1]] * (size - len(values))))


class Bulk:
    """A statement for many rows at once, which come as tuples in the order of its columns.

    Each step of a cursor lets go of the interpreter and must win it back from a busy event loop, which costs more than
    the row. Rows go in powers of two, so that few shapes are ever compiled.
    """

    __slots__ = ("_build", "_columns", "_texts")

    def __init__(
        self,
        columns: Sequence[ColumnElement[Any]],
        build: Callable[[Dialect, Sequence[Mapping[str, BindParameter[Any]]]], Executable],
    ) -> None:
        """`build` makes the statement from each row's parameters by column name; it may have no others."""
        self._columns = {column.name: column.type for column in columns}
        self._build = build
        self._texts: dict[tuple[str, int], tuple[str, Callable[[Sequence[Any]], Sequence[Any]] | None]] = {}

    def prepare(self, dialect: Dialect, rows: Sequence[Row]) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """SQL texts and parameters that together take all the rows, in order."""
        at, left = 0, len(rows)
        while left:
            size = min(ROWS_MAX, 1 << (left.bit_length() - 1))
            sql, order = self._texts.get((dialect.name, size)) or self._compile(dialect, size)
            some: Iterable[Row] = rows[at : at + size]
            yield sql, tuple(chain.from_iterable(some if order is None else map(order, some)))
            at, left = at + size, left - size

    def _compile(self, dialect: Dialect, size: int) -> tuple[str, Callable[[Sequence[Any]], Sequence[Any]] | None]:
        names = list(self._columns)
        rows = [{name: bindparam(f"{name}_{at}", type_=self._columns[name]) for name in names} for at in range(size)]
        text = Text(self._build(dialect, rows), dialect)
        # SQLAlchemy puts a table's columns into the table's order, which need not be the order of the rows.
        order = [name.removesuffix("_0") for name in text.names[: len(names)]]
        ensure(
            text.names == tuple(f"{name}_{at}" for at in range(size) for name in order) and set(order) == set(names),
            "a statement takes one row after the other",
        )
        pick = None if order == names else itemgetter(*(names.index(name) for name in order))
        self._texts[dialect.name, size] = text.sql, pick
        return text.sql, pick


class Link:
    """The one connection that writes, and what became of its transaction."""

    def __init__(self, driver: Driver, dialect: Dialect, begin: str, is_busy: Callable[[Exception], bool]) -> None:
        """`begin` is the statement that opens a writing transaction at once, or fails with an error that `is_busy`."""
        self._driver = driver
        self._is_busy = is_busy
        self._cursor = driver.cursor()
        self._begin = begin
        self._open = False
        self.dialect = dialect

    def begin(self) -> None:
        """Open a transaction that holds the right to write. Raises Busy, without waiting, if somebody else holds it."""
        try:
            self._cursor.execute(self._begin)
        except Exception as error:
            if self._is_busy(error):
                raise Busy("Another process holds the right to write to the database; nothing was changed.") from error
            raise
        self._open = True

    def commit(self) -> None:
        """Make it durable. After an error here nobody knows whether it is."""
        self._driver.commit()
        self._open = False

    def rollback(self) -> None:
        """Undo everything since `begin`, if it was begun."""
        if self._open:
            self._driver.rollback()
            self._open = False

    def close(self) -> None:
        """Let go of the connection; what was not committed is gone."""
        # A statement that is still open would keep the database locked after the connection is closed.
        self._cursor.close()
        self._driver.close()

    def fetch(self, statement: Statement, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        """All rows."""
        text = statement.text(self.dialect)
        self._cursor.execute(text.sql, text.row(values or {}))
        return self._cursor.fetchall()

    def look_up(self, lookup: Lookup, values: Iterable[Any]) -> Sequence[Row]:
        """All rows for any of the values; none for no values."""
        wanted = list(values)
        if len(wanted) <= LOOKUP_MAX:
            return self._one_lookup(lookup, wanted) if wanted else ()
        rows: list[Row] = []
        for at in range(0, len(wanted), LOOKUP_MAX):
            rows.extend(self._one_lookup(lookup, wanted[at : at + LOOKUP_MAX]))
        return rows

    def write(self, bulk: Bulk, rows: Sequence[Row]) -> int:
        """All the rows, in order; how many table rows were touched in all."""
        touched = 0
        for sql, parameters in bulk.prepare(self.dialect, rows):
            self._cursor.execute(sql, parameters)
            touched += self._cursor.rowcount
        return touched

    def touch(self, lookup: Lookup, values: Sequence[Any]) -> None:
        """Run a change for any of the values."""
        for at in range(0, len(values), LOOKUP_MAX):
            self._cursor.execute(*lookup.prepare(self.dialect, values[at : at + LOOKUP_MAX]))

    def run(self, statement: Statement, values: Mapping[str, Any]) -> None:
        """A change."""
        text = statement.text(self.dialect)
        self._cursor.execute(text.sql, text.row(values))

    def _one_lookup(self, lookup: Lookup, values: Sequence[Any]) -> Sequence[Row]:
        sql, parameters = lookup.prepare(self.dialect, values)
        self._cursor.execute(sql, parameters)
        return self._cursor.fetchall()
