"""A link's filter and transforms, applied to one record. Pure: no clock, no random choice.

Conditions see the record as the source has it. Transforms follow, in order. A value that is not
JSON, such as a null value, meets no condition on JSON, and transforms of fields leave it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from local_cluster.records.batch import Record
from mirror_maker.rules.json_pointer import (
    MISSING,
    NotJsonError,
    edit_field,
    find_field,
    parse_json,
    parse_pointer,
)
from mirror_maker.rules.rule_settings import MASK, Condition, JsonTest, RecordFilter, Transform


class RecordRules:
    """The filter and transforms of one link, ready to be applied."""

    def __init__(self, chosen: RecordFilter, transforms: Sequence[Transform]) -> None:
        self._keep = [_predicate(each) for each in chosen.keep]
        self._drop = [_predicate(each) for each in chosen.drop]
        self._changes = [_change(each) for each in transforms]

    def apply(self, record: Record) -> Record | None:
        """Return the record as it is copied, or None if the link leaves it out."""
        seen = _Seen(record)
        if self._keep and not any(meets(seen) for meets in self._keep):
            return None
        if any(meets(seen) for meets in self._drop):
            return None
        for change in self._changes:
            record = change(record)
        return record


def build_rules(chosen: RecordFilter, transforms: Sequence[Transform]) -> RecordRules | None:
    """Return the rules, or None if every record is copied as it is."""
    if not (chosen.keep or chosen.drop or transforms):
        return None
    return RecordRules(chosen, transforms)


class _Seen:
    """One record as conditions see it. Its value is parsed at most once, when first needed."""

    __slots__ = ("_document", "_is_parsed", "record")

    def __init__(self, record: Record) -> None:
        self.record = record
        self._document: Any = MISSING
        self._is_parsed = False

    @property
    def document(self) -> Any:
        """The value as JSON, or MISSING if it is not JSON."""
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
    """Return a test of nullable bytes; bytes that are not UTF-8 match no pattern."""
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
        # In Python, True == 1.
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
