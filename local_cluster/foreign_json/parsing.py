"""Documents of JSON, and the values in them. Pure.

Guarantee: every function raises ValueError, and nothing else, on what it does not accept.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)


def parse_json(content: bytes | str) -> Any:
    """Parse a document.

    Refused are bytes that are not UTF-8, halves of surrogate pairs, numbers that are not finite,
    and nesting that exceeds the stack. Any text of the result can be encoded again.
    """
    text = content if isinstance(content, str) else content.decode()
    try:
        document = _DECODER.decode(text)
        if "\\" in text and _ESCAPED_SURROGATE in text.lower():
            json.dumps(document, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    return document


def parse_object(content: bytes | str) -> dict[str, Any]:
    """Parse a document that is an object."""
    document = parse_json(content)
    if not isinstance(document, dict):
        raise ValueError("the JSON is no object")
    return document


def integer(value: Any, minimum: int = INT64_MIN, maximum: int = INT64_MAX) -> int:
    """Return an integer of a document."""
    if type(value) is not int or not minimum <= value <= maximum:
        raise ValueError(f"no integer from {minimum} to {maximum}: {_shown(value)}")
    return value


def decimal(text: str, maximum: int = INT64_MAX) -> int:
    """Return the number from 0 to `maximum` that a text of ASCII digits is."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(maximum))
    if not is_number or int(text) > maximum:
        raise ValueError(f"no number from 0 to {maximum}: {text[:40]!r}")
    return int(text)


def string(value: Any) -> str:
    """Return a string of a document."""
    if not isinstance(value, str):
        raise ValueError(f"no string: {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    """Return a short text of a value: one that is nested deeply, or is huge, has no repr."""
    return repr(value)[:40] if isinstance(value, str | float | None) else type(value).__name__


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number is too large: {digits[:40]}")
    return value


_ESCAPED_SURROGATE: Final = "\\ud"
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
