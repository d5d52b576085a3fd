"""Query parameters as typed values; an invalid one is an error with its name."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from multidict import MultiMapping

from aggregator.maps.catalog import nearest
from aggregator.web.problems import bad_parameter

OFFSET_MAX: Final = 2**63 - 1
PARTITION_MAX: Final = 2**31 - 1
_DIGITS: Final = re.compile(r"[0-9]{1,19}", re.ASCII)


def check_names(
    query: MultiMapping[str], known: Collection[str], repeated: Collection[str] = ()
) -> None:
    """Refuse unknown parameters, and parameters given twice unless they may be repeated."""
    for name in query:
        if name not in known:
            raise bad_parameter(
                name,
                f"unknown parameter {name!r}; this address takes {', '.join(known)}",
                nearest(name, known),
            )
        if name not in repeated and len(query.getall(name)) > 1:
            raise bad_parameter(name, f"parameter {name!r} is given more than once")


def text(query: MultiMapping[str], name: str) -> str:
    """Return a required text that is not empty."""
    value = query.get(name, "")
    if not value:
        raise bad_parameter(name, f"parameter {name!r} is required")
    return value


def one_of(query: MultiMapping[str], name: str, values: Sequence[str]) -> str:
    """Return a parameter that is one of these texts; the first one is its default."""
    value = query.get(name, values[0])
    if value not in values:
        raise bad_parameter(
            name,
            f"parameter {name!r} is {' or '.join(values)}, not {value[:40]!r}",
            nearest(value, values),
        )
    return value


def partition(query: MultiMapping[str]) -> int:
    """Return the required parameter `partition`."""
    return _integer(query, "partition", PARTITION_MAX)


def offset(query: MultiMapping[str]) -> int:
    """Return the required parameter `offset`."""
    return _integer(query, "offset", OFFSET_MAX)


def milliseconds(query: MultiMapping[str], name: str) -> int:
    """Return a required time in milliseconds since the epoch."""
    return _integer(query, name, OFFSET_MAX)


def _integer(query: MultiMapping[str], name: str, maximum: int) -> int:
    value = text(query, name)
    if not _DIGITS.fullmatch(value) or int(value) > maximum:
        raise bad_parameter(
            name, f"parameter {name!r} must be an integer from 0 to {maximum}, not {value[:40]!r}"
        )
    return int(value)
