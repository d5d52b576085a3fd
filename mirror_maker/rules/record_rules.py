"""Which records a link copies, and what it changes in them: a pure function of each record.

`RecordFilter` and `Transform` are the settings, `RecordRules` applies them. Conditions see the
record as the source has it; transforms come after them, in order. What is not JSON, a null value
included, meets no condition on JSON and is left as it is by transforms of fields.

The result decides what the n-th copied record is, so it must be the same in every process, and
`fingerprint` names it for the terms of the link. No I/O, no clock, no chance.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from local_cluster.records.batch import Record
from mirror_maker.rules.json_pointer import (
    MISSING,
    NotJsonError,
    edit_field,
    find_field,
    parse_json,
    parse_pointer,
)

RULES_VERSION: Final = 1
"""Raised where the same settings would come to mean something else."""
RULES_MAX: Final = 100
"""Conditions or transforms in one list."""
MASK: Final = '"***"'
"""JSON text in the place of a masked field."""

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
    """What the key of a record is; one of both."""

    __pydantic_config__ = _STRICT

    equals: str | None = None
    """The whole key, as UTF-8."""
    matches: str | None = None
    """A regular expression for the whole key, as UTF-8."""

    def __post_init__(self) -> None:
        _check_test(self.equals, self.matches)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonTest:
    """What a field of a JSON value is; without `equals` and `matches`, that it is there."""

    __pydantic_config__ = _STRICT

    json: str
    """JSON pointer of the field, such as /customer/name; an empty one is the whole value."""
    equals: Scalar | None = None
    """A text, number, true or false."""
    matches: str | None = None
    """A regular expression for the whole of a text."""

    def __post_init__(self) -> None:
        parse_pointer(self.json)
        _check_test(self.equals, self.matches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that a record may have: a header, a key or a JSON value."""

    __pydantic_config__ = _STRICT

    header: str | None = None
    """Name of a header; one of that name must fit `equals` or `matches`, where they are given."""
    equals: str | None = None
    """The header's whole value, as UTF-8."""
    matches: str | None = None
    """A regular expression for the header's whole value, as UTF-8."""
    key: KeyTest | None = None
    """What the key is; without `equals` and `matches`, that there is one."""
    value: JsonTest | None = None
    """What a field of the JSON value is."""

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.header, self.key, self.value)) != 1:
            raise ValueError("one of `header`, `key` and `value`")
        if self.header is None and (self.equals is not None or self.matches is not None):
            raise ValueError("`equals` and `matches` belong to `header` here")
        _check_test(self.equals, self.matches)


Conditions = Annotated[tuple[Condition, ...], Field(max_length=RULES_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Which records are copied: any of `keep` where there are some, and none of `drop`."""

    __pydantic_config__ = _STRICT

    keep: Conditions = ()
    """Only records that meet one of these are copied; empty for all."""
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
    """A header to put behind the others, in the place of any of that name."""
    drop_header: str | None = None
    """Name of headers to leave out."""
    drop_field: str | None = None
    """JSON pointer of a field of the value to leave out."""
    mask_field: str | None = None
    """JSON pointer of a field of the value, replaced by the text ***."""

    def __post_init__(self) -> None:
        said = (self.set_header, self.drop_header, self.drop_field, self.mask_field)
        if sum(each is not None for each in said) != 1:
            raise ValueError("one of `set_header`, `drop_header`, `drop_field` and `mask_field`")
        for pointer in (self.drop_field, self.mask_field):
            if pointer is not None and not parse_pointer(pointer):
                raise ValueError("a field, not the whole value")


Transforms = Annotated[tuple[Transform, ...], Field(max_length=RULES_MAX)]


class RecordRules:
    """A link's filter and transforms, ready to be applied."""

    def __init__(self, chosen: RecordFilter, transforms: Sequence[Transform]) -> None:
        self._keep = [_predicate(each) for each in chosen.keep]
        self._drop = [_predicate(each) for each in chosen.drop]
        self._changes = [_change(each) for each in transforms]

    def apply(self, record: Record) -> Record | None:
        """The record as it is copied, None where it is not."""
        seen = _Seen(record)
        if self._keep and not any(meets(seen) for meets in self._keep):
            return None
        if any(meets(seen) for meets in self._drop):
            return None
        for change in self._changes:
            record = change(record)
        return record


def record_rules(chosen: RecordFilter, transforms: Sequence[Transform]) -> RecordRules | None:
    """The rules; None where every record is copied as it is."""
    if not (chosen.keep or chosen.drop or transforms):
        return None
    return RecordRules(chosen, transforms)


def fingerprint(chosen: RecordFilter, transforms: Sequence[Transform]) -> str:
    """A name for what the rules do; empty where there are none."""
    if record_rules(chosen, transforms) is None:
        return ""
    said = [asdict(chosen), [asdict(each) for each in transforms]]
    text = json.dumps(_without_none(said), sort_keys=True)
    return f"{RULES_VERSION}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def _without_none(said: Any) -> Any:
    """What is left unsaid does not count, so that new settings leave old fingerprints alone."""
    if isinstance(said, dict):
        return {name: _without_none(each) for name, each in said.items() if each is not None}
    return [_without_none(each) for each in said] if isinstance(said, list | tuple) else said


class _Seen:
    """A record under conditions; its value is parsed once, and only where one asks."""

    __slots__ = ("_document", "_is_parsed", "record")

    def __init__(self, record: Record) -> None:
        self.record = record
        self._document: Any = MISSING
        self._is_parsed = False

    @property
    def document(self) -> Any:
        """The value as JSON; MISSING where it is none."""
        if not self._is_parsed:
            self._is_parsed = True
            if self.record.value is not None:
                with suppress(NotJsonError):
                    self._document = parse_json(self.record.value)
        return self._document


_Predicate = Callable[[_Seen], bool]
_Test = Callable[[bytes | None], bool]


def _predicate(condition: Condition) -> _Predicate:
    if condition.header is not None:
        name, fits = condition.header, _bytes_test(condition.equals, condition.matches)
        if condition.equals is None and condition.matches is None:
            return lambda seen: any(each == name for each, _ in seen.record.headers)
        return lambda seen: any(each == name and fits(value) for each, value in seen.record.headers)
    if condition.key is not None:
        is_key = _bytes_test(condition.key.equals, condition.key.matches)
        return lambda seen: is_key(seen.record.key)
    assert condition.value is not None
    return _json_predicate(condition.value)


def _bytes_test(equals: str | None, matches: str | None) -> _Test:
    """A test of bytes that may be null; what is not UTF-8 matches nothing."""
    if equals is not None:
        wanted = equals.encode()
        return lambda found: found == wanted
    if matches is None:
        return lambda found: found is not None
    pattern = re.compile(matches)

    def matched(found: bytes | None) -> bool:
        try:
            return found is not None and pattern.fullmatch(found.decode()) is not None
        except UnicodeDecodeError:
            return False

    return matched


def _json_predicate(test: JsonTest) -> _Predicate:
    tokens = parse_pointer(test.json)
    if test.matches is not None:
        pattern = re.compile(test.matches)

        def matched(seen: _Seen) -> bool:
            found = find_field(seen.document, tokens)
            return isinstance(found, str) and pattern.fullmatch(found) is not None

        return matched
    wanted = test.equals
    if wanted is None:
        return lambda seen: find_field(seen.document, tokens) is not MISSING

    def equal(seen: _Seen) -> bool:
        found = find_field(seen.document, tokens)
        # To Python, true is 1.
        return bool(found == wanted) and isinstance(found, bool) == isinstance(wanted, bool)

    return equal


def _change(transform: Transform) -> Callable[[Record], Record]:
    if transform.set_header is not None:
        name, value = transform.set_header.name, transform.set_header.value.encode()
        return lambda record: _without_header(record, name, (name, value))
    if transform.drop_header is not None:
        dropped = transform.drop_header
        return lambda record: _without_header(record, dropped)
    replacement = MASK if transform.mask_field is not None else None
    tokens = parse_pointer(transform.mask_field or transform.drop_field or "")

    def edit(record: Record) -> Record:
        if record.value is None:
            return record
        try:
            value = edit_field(record.value, tokens, replacement)
        except NotJsonError:
            return record
        return record if value is record.value else record._replace(value=value)

    return edit


def _without_header(record: Record, name: str, *added: tuple[str, bytes]) -> Record:
    kept = tuple(header for header in record.headers if header[0] != name)
    if len(kept) == len(record.headers) and not added:
        return record
    return record._replace(headers=(*kept, *added))
