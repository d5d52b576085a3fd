"""Client quotas as rows, and the quotas that a command line names. Pure.

Functions raise ValueError with what was expected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from local_cluster.quotas.entity import ENTITY_TYPES, Entity
from local_cluster.quotas.quota_keys import ADDRESS_KEYS, CLIENT_KEYS
from topology.admin.arguments import parse_pairs
from topology.model.quotas import entity_text, number_text
from topology.problems import unknown_name


class Named(NamedTuple):
    """One part of an entity, as options name it."""

    kind: str
    name: str | None
    is_default: bool


def entity_of(parts: Sequence[Named]) -> Entity:
    """Return the entity that the options name; empty if they name none."""
    found: dict[str, str | None] = {}
    for kind, name, is_default in parts:
        if name is not None and is_default:
            raise ValueError(f"name one of --{kind} and --default-{kind}")
        if name == "":
            raise ValueError(f"--{kind} needs a name; --default-{kind} is the default")
        if name is not None or is_default:
            found[kind] = name
    if "ip" in found and len(found) > 1:
        raise ValueError("an address has quotas of its own: --ip goes with nothing else")
    return tuple((kind, found[kind]) for kind in ENTITY_TYPES if kind in found)


def keys_of(entity: Entity) -> Sequence[str]:
    """Return the quotas that an entity may have."""
    return ADDRESS_KEYS if any(kind == "ip" for kind, _ in entity) else CLIENT_KEYS


def wanted_values(texts: Sequence[str], entity: Entity) -> dict[str, float]:
    """Return the quotas of texts such as producer_byte_rate=1048576."""
    values = {}
    for name, text in parse_pairs(texts, "quota").items():
        check_key(name, entity)
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} needs a number greater than 0, not {text!r}")
        values[name] = value
    return values


def check_key(name: str, entity: Entity) -> None:
    known = keys_of(entity)
    if name not in known:
        raise ValueError(unknown_name("quota", name, known))


def has_parts(entity: Entity, parts: Entity) -> bool:
    """Return whether an entity has all these parts."""
    return set(parts) <= set(entity)


def quota_rows(quotas: Mapping[Entity, Mapping[str, float]]) -> list[dict[str, Any]]:
    """Return a row for each quota. A part of the default has the name null."""
    rows = [
        {
            "entity": [{"type": kind, "name": name} for kind, name in entity],
            "quota": key,
            "value": value,
        }
        for entity, values in quotas.items()
        for key, value in values.items()
    ]
    return sorted(rows, key=lambda row: (entity_text(_pairs(row)), row["quota"]))


def table_row(row: Mapping[str, Any]) -> dict[str, str]:
    """Return a row for people."""
    return {
        "entity": entity_text(_pairs(row)),
        "quota": row["quota"],
        "value": number_text(row["value"]),
    }


def _pairs(row: Mapping[str, Any]) -> Entity:
    return tuple((each["type"], each["name"]) for each in row["entity"])
