"""Names, addresses and patterns of the topology file, and the base class of its mappings."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    WithJsonSchema,
)

BROKERS_MAX = 100
"""Most brokers that one `count` starts on one host."""

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"
"""It has no dot, because a cluster's name is the prefix of the copies of its topics."""

LOOPBACK = "127.0.0.1"
"""Default host of everything: this host."""

ANY_ADDRESSES = frozenset({"0.0.0.0", "::"})
"""Addresses that bind every address of a host."""

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names by which every host means itself. 127.0.1.1 is none: it can stand for a host in tests."""

HOST_PATTERN = r"^[A-Za-z0-9.:_-]+$"
TOPIC_PATTERN = r"^[A-Za-z0-9._-]{1,249}$"

_ADDRESS = r"(\[[0-9a-fA-F:]+\]|[^\s/:,]+):\d{1,5}"
_BOOTSTRAP = re.compile(rf"^{_ADDRESS}(,{_ADDRESS})*$")


def _check_bootstrap(value: str) -> str:
    if not _BOOTSTRAP.match(value):
        raise ValueError("addresses such as host1:9092,host2:9092")
    return value


def check_pattern(value: str) -> str:
    """Return a regular expression unchanged. Raises ValueError if it is invalid."""
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"a topic name or a regular expression; {error}") from error
    return value


def _config_text(value: Any) -> Any:
    """Return a config value as text: in YAML it may be a number or a boolean."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return value


MIRROR_WORKERS_MAX: Final = 64
"""Mirror workers of one target on one host: each is a process."""

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Host = Annotated[str, Field(pattern=HOST_PATTERN)]
Port = Annotated[int, Field(strict=True, ge=1, le=65535)]
PortOrAny = Annotated[int, Field(strict=True, ge=0, le=65535)]
Bootstrap = Annotated[str, AfterValidator(_check_bootstrap)]
TopicPattern = Annotated[str, Field(min_length=1), AfterValidator(check_pattern)]
TopicName = Annotated[str, Field(pattern=TOPIC_PATTERN)]
ConfigValue = Annotated[
    str,
    BeforeValidator(_config_text),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]


class Entry(BaseModel):
    """Base class of every mapping in the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def mapping_or(other: str) -> Discriminator:
    """Return a discriminator that tells a mapping from the other alternative of a union."""
    return Discriminator(lambda value: "mapping" if isinstance(value, dict | Entry) else other)
