"""Configs as rows, and the changes that a command line asks for. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from local_cluster.client.model import ConfigChange, ConfigEntry
from local_cluster.wire.constants import AlterOperation, ConfigResourceType, ConfigSource
from topology.admin.arguments import parse_pairs

HIDDEN: Final = "(hidden)"
_SECRET_NAME: Final = re.compile(
    r"password|secret|passphrase|credential|jaas|token|private.?key|keystore\.key", re.IGNORECASE
)
_NEWER_SOURCES: Final = {7: "dynamic_client_metrics", 8: "dynamic_group"}
"""Numbers of Kafka's DescribeConfigsResponse.ConfigSource that no resource of our brokers has."""
_OWN_SOURCE: Final = {
    ConfigResourceType.TOPIC: ConfigSource.DYNAMIC_TOPIC,
    ConfigResourceType.BROKER: ConfigSource.DYNAMIC_BROKER,
    ConfigResourceType.BROKER_LOGGER: ConfigSource.DYNAMIC_BROKER_LOGGER,
    ConfigResourceType.CLIENT_METRICS: 7,
    ConfigResourceType.GROUP: 8,
}
"""The source of the configs that are set on a resource itself, as kafka-configs selects them."""


def config_rows(
    entries: Iterable[ConfigEntry],
    resource_type: ConfigResourceType,
    resource_name: str,
    *,
    with_defaults: bool,
    with_documentation: bool,
) -> list[dict[str, Any]]:
    """Return one row per config: those that are set on the resource itself, or all of them.

    The value of a secret is replaced, whatever a broker sends.
    """
    own = _OWN_SOURCE[resource_type]
    if resource_type is ConfigResourceType.BROKER and not resource_name:
        own = ConfigSource.DYNAMIC_DEFAULT_BROKER
    rows = []
    for each in entries:
        if each.source != own and not with_defaults:
            continue
        row = {
            "name": each.name,
            "value": HIDDEN if each.is_sensitive else _hidden(each),
            "source": _source_name(each.source),
            "read_only": each.is_read_only,
        }
        rows.append({**row, "documentation": each.documentation} if with_documentation else row)
    return rows


def _hidden(each: ConfigEntry) -> str | None:
    return HIDDEN if each.value and is_secret_name(each.name) else each.value


def shown_value(name: str, value: str | None) -> str:
    """Return the value of a config as a plan shows it: not that of a secret."""
    return HIDDEN if value is not None and is_secret_name(name) else value or ""


def is_secret_name(name: str) -> bool:
    """Return whether a config or a key of this name may hold a secret."""
    return _SECRET_NAME.search(name) is not None


def _source_name(source: int) -> str | None:
    known = {int(each): each.name.lower() for each in ConfigSource}
    return (known | _NEWER_SOURCES).get(source)


def config_changes(
    values: Sequence[str], reset: Sequence[str], append: Sequence[str], subtract: Sequence[str]
) -> list[ConfigChange]:
    """Return the changes in the order of their kinds. Raises ValueError."""
    changes = [
        ConfigChange(name, operation, value)
        for operation, option, texts in (
            (AlterOperation.SET, "argument", values),
            (AlterOperation.APPEND, "--append", append),
            (AlterOperation.SUBTRACT, "--subtract", subtract),
        )
        for name, value in parse_pairs(texts, option).items()
    ]
    changes += [ConfigChange(name, AlterOperation.DELETE) for name in reset]
    twice = [name for name, count in Counter(each.name for each in changes).items() if count > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} is changed in two ways; name it once")
    if not changes:
        raise ValueError("nothing to change: name CONFIG=VALUE, --reset, --append or --subtract")
    return changes
