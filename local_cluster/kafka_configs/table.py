"""Every config of Kafka 4.4's brokers, topics, groups and client metrics, by name.

The JSON file beside this module comes from Kafka's own classes. Read once, when it is first needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal

from local_cluster.kafka_configs.definition import ConfigDefinition, ConfigType, Synonym

ConfigKind = Literal["broker", "topic", "group", "client_metrics"]

_FILE: Final = "kafka_4_4_configs.json"
_MS_PER_UNIT: Final = {"hours": 3_600_000, "minutes": 60_000}
_RANGE: Final = re.compile(r"\[(-?[\d.]+?)?,?\.\.\.,?(-?[\d.]+)?\](?: or -1)?")


@cache
def kafka_configs(kind: ConfigKind) -> Mapping[str, ConfigDefinition]:
    """Return the configs of one kind of resource, by name in order."""
    table = json.loads((files(__package__) / _FILE).read_text())[kind]
    return MappingProxyType({name: _definition(name, row) for name, row in sorted(table.items())})


def _definition(name: str, row: Mapping[str, Any]) -> ConfigDefinition:
    minimum, maximum, choices = None, None, None
    valid = row.get("valid", "")
    match row.get("validator"):
        case "Range" | "LambdaValidator":
            minimum, maximum = _bounds(valid)
            if valid.endswith(" or -1"):
                minimum = -1
        case "ValidString" | "ValidList" | "CaseInsensitiveValidString" if valid:
            listed = valid[valid.index("[") + 1 : -1]
            choices = tuple(listed.split(", "))
    return ConfigDefinition(
        name=name,
        type=ConfigType[row["type"]],
        default=row["default"],
        doc=row["documentation"],
        synonyms=tuple(_synonym(name, other) for other in row.get("synonyms", ())),
        minimum=minimum,
        maximum=maximum,
        choices=choices,
        ignores_case=row.get("validator") == "CaseInsensitiveValidString",
        is_dynamic=row.get("dynamic", False),
        is_replica_list=row.get("validator") == "ThrottledReplicaListValidator",
    )


def _bounds(valid: str) -> tuple[float | None, float | None]:
    """Read Kafka's own notation: [0,...], [...,9] or [0,...,9]."""
    found = _RANGE.fullmatch(valid)
    assert found is not None, valid
    minimum, maximum = (None if bound is None else float(bound) for bound in found.groups())
    return minimum, maximum


def _synonym(name: str, synonym: str) -> Synonym:
    """Return a synonym; one in hours or minutes is converted for a config in milliseconds.

    A broker takes any negative retention for unlimited, a topic only -1.
    """
    if name == "retention.ms":
        unit_ms = _MS_PER_UNIT.get(synonym.rpartition(".")[2], 1)
        return Synonym(synonym, lambda value: str(max(int(value) * unit_ms, -1)))
    factor = _MS_PER_UNIT.get(synonym.rpartition(".")[2])
    if factor is None or not name.endswith(".ms"):
        return Synonym(synonym)
    return Synonym(synonym, lambda value: str(int(value) * factor))
