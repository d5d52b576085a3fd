"""JSON text to frozen dataclasses, by the types of their fields. Pure.

A worker reads its settings so, and not by pydantic, whose loading takes as long as everything else
that happens before the first record. Nothing is converted: what is written must be what is meant,
and a key that is not known is refused. Types: dataclasses, `str`, `int`, `float`, `bool`, `None`,
`Literal`, `tuple[X, ...]`, `Mapping[str, X]`, unions, and `Annotated` with functions that take the
value and raise ValueError where it will not do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin
from typing import get_type_hints as hints_of

_Settings = TypeVar("_Settings")

_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


class SettingsError(ValueError):
    """What is written is not what is wanted; the message says where."""


def read_settings(kind: type[_Settings], text: str | bytes) -> _Settings:
    """An object of the dataclass `kind`. Raises SettingsError."""
    try:
        said = json.loads(text, parse_constant=_refuse_constant)
    except ValueError as error:
        raise SettingsError(f"not JSON: {error}") from error
    settings: _Settings = _read(kind, said, "")
    return settings


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _read(kind: Any, said: Any, at: str) -> Any:
    origin = get_origin(kind)
    if origin is Annotated:
        inner, *checks = get_args(kind)
        value = _read(inner, said, at)
        for check in checks:
            _checked(at, check, value)
        return value
    if origin in (Union, UnionType):
        return _read_union(get_args(kind), said, at)
    if origin is Literal:
        choices = get_args(kind)
        if said not in choices:
            raise _wrong(at, f"one of {', '.join(map(str, choices))}, not {said!r}")
        return said
    if origin is tuple:
        (element, _) = get_args(kind)
        if not isinstance(said, list):
            raise _wrong(at, f"a list, not {said!r}")
        return tuple(_read(element, each, f"{at}[{n}]") for n, each in enumerate(said))
    if origin is Mapping:
        (_, element) = get_args(kind)
        return {name: _read(element, each, f"{at}.{name}") for name, each in _object(said, at)}
    if is_dataclass(kind):
        return _read_dataclass(kind, said, at)
    if type(said) is not kind:
        raise _wrong(at, f"{_NAMES.get(kind, 'null')}, not {said!r}")
    return said


def _read_union(members: tuple[Any, ...], said: Any, at: str) -> Any:
    if said is None and NoneType in members:
        return None
    failures = []
    for member in members:
        if member is not NoneType:
            try:
                return _read(member, said, at)
            except SettingsError as error:
                failures.append(error)
    raise failures[0] if len(failures) == 1 else _wrong(at, f"something else than {said!r}")


def _read_dataclass(kind: Any, said: Any, at: str) -> Any:
    hints = hints_of(kind, include_extras=True)
    known = {each.name: each for each in fields(kind)}
    values = {}
    for name, each in _object(said, at):
        if name not in known:
            raise _wrong(at, f"unknown key {name!r}; known are {', '.join(known)}")
        values[name] = _read(hints[name], each, f"{at}.{name}" if at else name)
    for name, field in known.items():
        if name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise _wrong(at, f"{name!r} is missing")
    return _checked(at, lambda given: kind(**given), values)


def _object(said: Any, at: str) -> list[tuple[str, Any]]:
    if not isinstance(said, dict):
        raise _wrong(at, f"an object, not {said!r}")
    return list(said.items())


def _checked(at: str, check: Any, value: Any) -> Any:
    try:
        return check(value)
    except ValueError as error:
        raise _wrong(at, str(error)) from error


def _wrong(at: str, expected: str) -> SettingsError:
    return SettingsError(f"{at}: {expected}" if at else expected)
