"""Lines of text to records. Pure.

A line is one of these:

- a value
- a key and a value with a separator between them
- a JSON object as `consume -o json` writes it
"""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from topology.records.payloads import Encoding, decode

_KNOWN: Final = frozenset({"key", "value", "headers", "partition", "timestamp_ms"})
_FROM_CONSUME: Final = frozenset(
    {"topic", "offset", "time", "datacenter"}
    | {"source_topic", "source_partition", "source_offset"}
)
"""Keys of `consume -o json` that say where a record was, not what it is."""

Headers = tuple[tuple[str, bytes | None], ...]


class InputForm(enum.StrEnum):
    """The form of the input's lines."""

    text = "text"
    json = "json"


class InputRecord(NamedTuple):
    """A record to produce; None for a partition or a time leaves them to the producer."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None
    timestamp_ms: int | None


class BadLineError(ValueError):
    """A line of the input is no record; the message says why."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRules:
    """How lines are read. `key`, `headers` and `partition` hold where a line has none."""

    form: InputForm = InputForm.text
    encoding: Encoding = Encoding.text
    separator: str | None = None
    key: str | None = None
    headers: Sequence[tuple[str, str]] = ()
    partition: int | None = None


def read_line(line: str, rules: InputRules) -> InputRecord:
    """Return the record of a line without its end. Raises ValueError with what was expected."""
    headers = tuple((name, decode(value, rules.encoding)) for name, value in rules.headers)
    key = None if rules.key is None else decode(rules.key, rules.encoding)
    if rules.form is InputForm.json:
        return _from_json(line, rules, key, headers)
    value = line
    if rules.separator is not None:
        before, found, after = line.partition(rules.separator)
        if not found:
            raise ValueError(f"there is no key: the line has no {rules.separator!r}")
        key, value = decode(before, rules.encoding), after
    return InputRecord(key, decode(value, rules.encoding), headers, rules.partition, None)


def _from_json(line: str, rules: InputRules, key: bytes | None, headers: Headers) -> InputRecord:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError('not a JSON object such as {"key": "k", "value": "v"}')
    unknown = sorted(document.keys() - _KNOWN - _FROM_CONSUME)
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}; known are {', '.join(sorted(_KNOWN))}")
    if "value" not in document:
        raise ValueError("it has no `value`; null is a tombstone")
    own_key = _payload(document.get("key"), "key", rules.encoding)
    partition = _number(document.get("partition"), "partition")
    return InputRecord(
        key if own_key is None else own_key,
        _payload(document["value"], "value", rules.encoding),
        headers + _headers(document.get("headers") or [], rules.encoding),
        rules.partition if rules.partition is not None else partition,
        _number(document.get("timestamp_ms"), "timestamp_ms"),
    )


def _payload(value: Any, name: str, encoding: Encoding) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        # A value that is JSON itself is produced as JSON.
        return json.dumps(value, separators=(",", ":")).encode()
    try:
        return decode(value, encoding)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _number(value: Any, name: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise ValueError(f"`{name}` is not a number of 0 or more: {value!r}")


def _headers(value: Any, encoding: Encoding) -> Headers:
    pairs = list(value.items()) if isinstance(value, dict) else value
    try:
        return tuple(
            (str(name), None if each is None else decode(str(each), encoding))
            for name, each in pairs
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f'`headers` is not [["name", "value"], ...]: {error}') from error
