"""The fields of a login module in Kafka's `sasl.jaas.config`. Pure."""

from __future__ import annotations

import re
from typing import Final

_FIELD: Final = re.compile(r'\b(\w+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s;]+))')


def jaas_fields(text: str) -> dict[str, str]:
    """Return the fields by name, such as `username`; the last one of a name counts."""
    return {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        for name, quoted, plain in _FIELD.findall(text)
    }
