"""JSON texts to objects. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from spark_global.values.header import HEADER_BYTES, MAGIC_BYTE


def parse_values(values: Sequence[bytes | None]) -> tuple[list[Any], dict[int, str]]:
    """Return objects, None for what is no JSON, and why, by index.

    A schema id before the text is skipped: no JSON begins with its magic byte.
    """
    texts = [
        value[HEADER_BYTES:] if value and value[0] == MAGIC_BYTE else value for value in values
    ]
    try:
        return [None if text is None else orjson.loads(text) for text in texts], {}
    except orjson.JSONDecodeError:
        pass
    objects: list[Any] = []
    reasons: dict[int, str] = {}
    for index, text in enumerate(texts):
        try:
            objects.append(None if text is None else orjson.loads(text))
        except orjson.JSONDecodeError as error:
            objects.append(None)
            reasons[index] = f"no JSON: {error}"
    return objects, reasons
