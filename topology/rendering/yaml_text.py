"""Documents as YAML text. Pure."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

WIDTH_CHARS: Final = 4_096
"""No value is folded: a command is one line."""


def yaml_text(comment: str, *documents: Mapping[str, Any]) -> str:
    """Return the documents in one file, below a comment of one line."""
    yaml = YAML()
    yaml.width = WIDTH_CHARS
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.explicit_start = len(documents) > 1
    out = io.StringIO()
    yaml.dump_all([_literal(each) for each in documents], out)
    return f"# {comment}\n{out.getvalue()}"


def _literal(value: Any) -> Any:
    """Return the value with texts of several lines as literal blocks."""
    if isinstance(value, Mapping):
        return {key: _literal(each) for key, each in value.items()}
    if isinstance(value, str):
        return LiteralScalarString(value) if "\n" in value else value
    if isinstance(value, Sequence):
        return [_literal(each) for each in value]
    return value
