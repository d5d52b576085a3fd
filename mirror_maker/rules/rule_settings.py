"""The settings `filter` and `transform` of a link: which records it copies, and what it changes.

They decide which record is the n-th one that is copied. So a link keeps `fingerprint` of them in
its map topic, and refuses other rules once it has copied. `record_rules` applies them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from mirror_maker.rules.json_pointer import parse_pointer

RULES_VERSION: Final = 1
"""Increased when the same settings get another meaning."""
RULES_MAX: Final = 100
"""Conditions or transforms in one list."""
MASK: Final = '"***"'
"""JSON text that replaces a masked field."""

_STRICT = ConfigDict(extra="forbid", use_attribute_docstrings=True)

Scalar = bool | int | Annotated[float, Field(allow_inf_nan=False)] | str


def _check_test(equals: Scalar | None, matches: str | None) -> None:
    if equals is not None and matches is not None:
        raise ValueError("`equals` or `matches`, not both")
    if matches is not None:
        try:
            re.compile(matches)
        except re.error as error:
            raise ValueError(f"{matches!r} is not a regular expression: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTest:
    """A test of the record's key; at most one of the fields."""

    __pydantic_config__ = _STRICT

    equals: str | None = None
    """The whole key, as UTF-8."""
    matches: str | None = None
    """A regular expression for the whole key, as UTF-8."""

    def __post_init__(self) -> None:
        _check_test(self.equals, self.matches)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonTest:
    """A test of a field of a JSON value; without `equals` and `matches`, that the field exists."""

    __pydantic_config__ = _STRICT

    json: str
    """JSON pointer of the field, such as /customer/name; an empty pointer is the whole value."""
    equals: Scalar | None = None
    """A text, number, true or false."""
    matches: str | None = None
    """A regular expression for the whole text."""

    def __post_init__(self) -> None:
        parse_pointer(self.json)
        _check_test(self.equals, self.matches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A test of one part of a record: a header, the key or a field of a JSON value."""

    __pydantic_config__ = _STRICT

    header: str | None = None
    """Name of a header. At least one header of that name must fit `equals` or `matches`, if set."""
    equals: str | None = None
    """The header's whole value, as UTF-8."""
    matches: str | None = None
    """A regular expression for the header's whole value, as UTF-8."""
    key: KeyTest | None = None
    """A test of the key; without `equals` and `matches`, that the record has a key."""
    value: JsonTest | None = None
    """A test of a field of the JSON value."""

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.header, self.key, self.value)) != 1:
            raise ValueError("one of `header`, `key` and `value`")
        if self.header is None and (self.equals is not None or self.matches is not None):
            raise ValueError("`equals` and `matches` belong to `header` here")
        _check_test(self.equals, self.matches)


Conditions = Annotated[tuple[Condition, ...], Field(max_length=RULES_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Which records are copied: those that meet any of `keep` (if set) and none of `drop`."""

    __pydantic_config__ = _STRICT

    keep: Conditions = ()
    """Only records that meet one of these are copied; empty copies all."""
    drop: Conditions = ()
    """Records that meet one of these are not copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderValue:
    """A header to set."""

    __pydantic_config__ = _STRICT

    name: str
    """Its name."""
    value: str
    """Its value, written as UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """One change of a record."""

    __pydantic_config__ = _STRICT

    set_header: HeaderValue | None = None
    """A header to append; it replaces headers of the same name."""
    drop_header: str | None = None
    """Name of the headers to remove."""
    drop_field: str | None = None
    """JSON pointer of a field of the value to remove."""
    mask_field: str | None = None
    """JSON pointer of a field of the value to replace by the text ***."""

    def __post_init__(self) -> None:
        changes = (self.set_header, self.drop_header, self.drop_field, self.mask_field)
        if sum(each is not None for each in changes) != 1:
            raise ValueError("one of `set_header`, `drop_header`, `drop_field` and `mask_field`")
        for pointer in (self.drop_field, self.mask_field):
            if pointer is not None and not parse_pointer(pointer):
                raise ValueError("the pointer must name a field, not the whole value")


Transforms = Annotated[tuple[Transform, ...], Field(max_length=RULES_MAX)]


def fingerprint(chosen: RecordFilter, transforms: Sequence[Transform]) -> str:
    """Return a name for what the rules do; empty if there are none."""
    if not (chosen.keep or chosen.drop or transforms):
        return ""
    settings = [asdict(chosen), [asdict(each) for each in transforms]]
    text = json.dumps(_without_none(settings), sort_keys=True)
    return f"{RULES_VERSION}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _without_none(value: Any) -> Any:
    """Leave out unset fields, so that a new setting does not change old fingerprints."""
    if isinstance(value, dict):
        return {name: _without_none(each) for name, each in value.items() if each is not None}
    return [_without_none(each) for each in value] if isinstance(value, list | tuple) else value
