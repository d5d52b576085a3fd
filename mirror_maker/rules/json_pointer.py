"""Fields of JSON text, found by JSON Pointer (RFC 6901) and edited in place. Pure.

An edit replaces or removes only the text of the field. All other text stays as it is, so no number
loses digits and no key moves. If an object has a key twice, both members are edited. JSON is as in
RFC 8259: no NaN, and no more than `DEPTH_MAX` levels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

DEPTH_MAX: Final = 200
"""Text nested deeper does not count as JSON. Fixed, so that every process decides alike."""

MISSING: Final = object()
"""What `find_field` returns if the field is missing; JSON's null is None."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|([\[{])|([\]}])', re.DOTALL)
"""Strings, also unterminated ones (so that matching is linear), and brackets outside strings."""


class NotJsonError(ValueError):
    """The text is not JSON."""


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """Return the reference tokens of a JSON Pointer. Raises ValueError."""
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is not a JSON pointer such as /customer/name")
    if re.search(r"~(?![01])", pointer):
        raise ValueError(f"{pointer!r}: a JSON pointer writes ~ as ~0, and / in a name as ~1")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def parse_json(value: bytes) -> Any:
    """Return the document. Raises NotJsonError."""
    return _decode(_text(value), 0, is_whole=True)[0]


def find_field(document: Any, tokens: tuple[str, ...]) -> Any:
    """Return the value at the pointer, or MISSING."""
    for token in tokens:
        if isinstance(document, dict):
            document = document.get(token, MISSING)
        elif isinstance(document, list) and _is_index(token) and int(token) < len(document):
            document = document[int(token)]
        else:
            return MISSING
    return document


def edit_field(value: bytes, tokens: tuple[str, ...], replacement: str | None) -> bytes:
    """Return the value with the field replaced by JSON text, or removed if that is None.

    Returns the same object if there is no such field. Raises NotJsonError.
    """
    assert tokens, "the document itself is not a field"
    text = _text(value)
    _decode(text, 0, is_whole=True)
    edited = _edit(text, _skip(text, 0), tokens, replacement)
    return value if edited == text else edited.encode()


class _Member(NamedTuple):
    """One member of an object or element of an array, with its positions in the text."""

    name: str
    start: int
    value_start: int
    end: int


def _edit(text: str, start: int, tokens: tuple[str, ...], replacement: str | None) -> str:
    """Return the text with the edits in the container that begins at `start`."""
    if text[start] not in "{[":
        return text
    members = list(_members(text, start))
    last = len(tokens) == 1
    if last and replacement is None:
        kept = [member for member in members if member.name != tokens[0]]
        if len(kept) == len(members):
            return text
        close = _skip(text, members[-1].end)
        inner = ",".join(text[member.start : member.end] for member in kept)
        return text[: start + 1] + inner + text[close:]
    # From the end, so that earlier positions stay valid.
    for member in reversed(members):
        if member.name != tokens[0]:
            continue
        if last:
            assert replacement is not None
            text = text[: member.value_start] + replacement + text[member.end :]
        else:
            text = _edit(text, member.value_start, tokens[1:], replacement)
    return text


def _members(text: str, start: int) -> Iterator[_Member]:
    """Yield the members of the container at `start`; the text is known to be JSON."""
    decode = _DECODER.raw_decode
    is_object = text[start] == "{"
    index = 0
    at = _skip(text, start + 1)
    while text[at] not in "}]":
        value_start, name = at, str(index)
        if is_object:
            name, name_end = decode(text, at)
            value_start = _skip(text, _skip(text, name_end) + 1)
        _, end = decode(text, value_start)
        yield _Member(name, at, value_start, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
        index += 1


def _skip(text: str, at: int) -> int:
    """Return the position after white space."""
    if at < len(text) and text[at] not in " \t\n\r":
        return at
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _is_index(token: str) -> bool:
    return token.isascii() and token.isdecimal() and (token == "0" or token[0] != "0")


def _text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise NotJsonError(str(error)) from error
    if text.count("[") + text.count("{") > DEPTH_MAX and _depth(text) > DEPTH_MAX:
        raise NotJsonError(f"nested more than {DEPTH_MAX} deep")
    return text


def _depth(text: str) -> int:
    depth = deepest = 0
    for found in _BRACKETS.finditer(text):
        if found[1]:
            depth += 1
            deepest = max(deepest, depth)
        elif found[2]:
            depth -= 1
    return deepest


def _no_constant(name: str) -> Any:
    raise NotJsonError(name)


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)


def _decode(text: str, at: int, *, is_whole: bool = False) -> tuple[Any, int]:
    """Return (the value at this position, the position after it). Raises NotJsonError."""
    try:
        found, end = _DECODER.raw_decode(text, _skip(text, at))
    except ValueError as error:  # also an integer of thousands of digits
        raise NotJsonError(str(error)) from error
    if is_whole and _skip(text, end) != len(text):
        raise NotJsonError("text follows the document")
    return found, end
