"""Objects as Arrow columns, with strict types. Pure.

A shape has an Arrow type, and builds an array of it from Python objects of a whole batch. Arrow
alone is not strict: it truncates 1.5 to the integer 1, and splits text into a list of characters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from types import NoneType
from typing import Any, Final, Protocol

import pyarrow as pa

from spark_global.values.not_decodable import NotDecodable

_NAMES: Final[Mapping[type, str]] = {
    bool: "a truth value",
    int: "a whole number",
    float: "a number",
    str: "text",
    bytes: "bytes",
    dict: "an object",
    list: "a list",
}
_BUILD_ERRORS: Final = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError)


class Shape(Protocol):
    """How objects become a column."""

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the column."""

    def build(self, values: Sequence[Any]) -> pa.Array:
        """Return the column. Raises NotDecodable if any object is of another type."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """Values without parts."""

    type: pa.DataType
    accepts: frozenset[type]
    """The exact classes of the objects."""
    built_as: pa.DataType | None = None
    """Type of the objects' numbers if it is not that of the column, such as milliseconds."""
    coerce: Callable[[Any], Any] | None = None
    """Tried on every object if one is of a class that is not accepted."""

    def build(self, values: Sequence[Any]) -> pa.Array:
        if self._strangers(values):
            if self.coerce is not None:
                values = [self.coerce(value) for value in values]
            if strangers := self._strangers(values):
                expected = " or ".join(sorted(map(_name, self.accepts)))
                raise NotDecodable(f"{_name(min(strangers, key=_name))}, expected {expected}")
        try:
            column = pa.array(values, type=self.built_as or self.type)
            return column if self.built_as is None else column.cast(self.type, safe=False)
        except _BUILD_ERRORS as error:
            raise NotDecodable(f"a value that {self.type} cannot hold") from error

    def _strangers(self, values: Sequence[Any]) -> set[type]:
        return set(map(type, values)) - self.accepts - {NoneType}


@dataclass(frozen=True, slots=True)
class Struct:
    """Objects with named fields, as dicts. A missing field is null, an unknown one is ignored."""

    fields: Mapping[str, Shape]
    type: pa.DataType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", struct_type(self.fields))

    def build(self, values: Sequence[Any]) -> pa.Array:
        values, nulls = _without_nulls(values, dict, {})
        return struct_column(
            self.fields, self.type, lambda name: [value.get(name) for value in values], nulls
        )


@dataclass(frozen=True, slots=True)
class Repeated:
    """Lists."""

    items: Shape
    type: pa.DataType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", pa.list_(self.items.type))

    def build(self, values: Sequence[Any]) -> pa.Array:
        values, nulls = _without_nulls(values, list, [])
        items = _build_within(self.items, "[]", list(chain.from_iterable(values)))
        return pa.ListArray.from_arrays(_offsets(values), items, type=self.type, mask=nulls)


@dataclass(frozen=True, slots=True)
class Mapped:
    """Maps, as dicts."""

    keys: Shape
    items: Shape
    type: pa.DataType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", pa.map_(self.keys.type, self.items.type))

    def build(self, values: Sequence[Any]) -> pa.Array:
        values, nulls = _without_nulls(values, dict, {})
        keys = self.keys.build(list(chain.from_iterable(values)))
        items = list(chain.from_iterable(value.values() for value in values))
        return pa.MapArray.from_arrays(
            _offsets(values),
            keys,
            _build_within(self.items, "{}", items),
            type=self.type,
            mask=nulls,
        )


def struct_type(fields: Mapping[str, Shape]) -> pa.DataType:
    """Return the type of a struct of these fields."""
    return pa.struct([pa.field(name, shape.type) for name, shape in fields.items()])


def struct_column(
    fields: Mapping[str, Shape],
    kind: pa.DataType,
    values_of: Callable[[str], list[Any]],
    nulls: pa.Array | None,
) -> pa.Array:
    """Return a struct column; `values_of` has the objects of a field, `nulls` is true for nulls."""
    children = [_build_within(shape, name, values_of(name)) for name, shape in fields.items()]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=nulls)


def _build_within(shape: Shape, name: str, values: Sequence[Any]) -> pa.Array:
    try:
        return shape.build(values)
    except NotDecodable as error:
        raise error.within(name) from error


def _without_nulls(
    values: Sequence[Any], accepted: type, empty: object
) -> tuple[Sequence[Any], pa.Array | None]:
    """Return objects with `empty` in place of None, and where None was."""
    classes = set(map(type, values))
    if strangers := classes - {accepted, NoneType}:
        raise NotDecodable(f"{_name(min(strangers, key=_name))}, expected {_name(accepted)}")
    if NoneType not in classes:
        return values, None
    nulls = pa.array([value is None for value in values])
    return [empty if value is None else value for value in values], nulls


def _offsets(values: Sequence[Any]) -> pa.Array:
    return pa.array(accumulate(map(len, values), initial=0), type=pa.int32())


def _name(kind: type) -> str:
    return _NAMES.get(kind, kind.__name__)


def build_column(shape: Shape, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
    """Return the column, with null for objects of a wrong type, and why, by index."""
    try:
        return shape.build(values), {}
    except NotDecodable:
        reasons: dict[int, str] = {}
        _find(shape, values, 0, reasons)
        kept = [None if index in reasons else value for index, value in enumerate(values)]
        return shape.build(kept), reasons


def _find(shape: Shape, values: Sequence[Any], start: int, reasons: dict[int, str]) -> None:
    """Add the objects that do not build, by halving."""
    try:
        shape.build(values)
    except NotDecodable as error:
        if len(values) == 1:
            reasons[start] = str(error)
            return
        half = len(values) // 2
        _find(shape, values[:half], start, reasons)
        _find(shape, values[half:], start + half, reasons)
