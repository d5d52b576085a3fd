"""What a user declares about keys and values: formats, schema files, registries.

A decoding is the same in Python and in the YAML file of `--decoding`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict

from local_cluster.client.auth.security import Secret

_STRICT: Final = ConfigDict(extra="forbid")

KEY: Final = "key"
VALUE: Final = "value"
ANY_DATACENTER: Final = "*"
"""The registry of datacenters that have none of their own."""

Format = Literal["json", "avro", "protobuf"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """A Confluent-compatible schema registry."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    url: str
    username: str | None = None
    password: Secret | None = None
    ca_file: str | None = None
    """PEM of the authorities that may sign its certificate. Absolute: Spark's workers read it."""

    def __post_init__(self) -> None:
        # The messages do not repeat the URL, because a password may be in it.
        if not self.url.startswith(("http://", "https://")):
            raise ValueError("the url of a registry begins with http:// or https://")
        if "@" in self.url:
            raise ValueError("a registry's url has no user; use `username` and `password`")
        if (self.username is None) != (self.password is None):
            raise ValueError("a registry has both `username` and `password`, or none")

    def under(self, directory: Path) -> Registry:
        """Return the registry with absolute paths; relative ones begin at a directory."""
        password, ca_file = self.password, self.ca_file
        if password is not None and password.file is not None:
            password = Secret(file=str(directory / password.file))
        if ca_file is not None:
            ca_file = str(directory / ca_file)
        return replace(self, password=password, ca_file=ca_file)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDecoding:
    """How the keys or the values of a topic are decoded."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    format: Format
    schema: str
    """File of the columns' schema: JSON Schema, Avro schema, or Protobuf descriptor set.

    If it does not exist, it is written once: from the registry, or for JSON from sample records.
    """
    message: str | None = None
    """Protobuf: full name of the message; default: the first one of the last file."""
    framed: bool | None = None
    """Whether a schema id is before each value; default: whether there are registries. JSON is read
    either way."""

    def __post_init__(self) -> None:
        if self.message is not None and self.format != "protobuf":
            raise ValueError("`message` is for format protobuf")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDecoding:
    """How the records of a topic are decoded. What is not named stays binary."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    value: PartDecoding | None = None
    key: PartDecoding | None = None

    def __post_init__(self) -> None:
        if self.value is None and self.key is None:
            raise ValueError("name the format of `value`, of `key`, or of both")

    @property
    def parts(self) -> Mapping[str, PartDecoding]:
        """The parts to decode, by name."""
        named = {KEY: self.key, VALUE: self.value}
        return {name: part for name, part in named.items() if part is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How the records of some topics are decoded."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    topics: dict[str, TopicDecoding]
    """By source topic."""
    registries: dict[str, Registry] = field(default_factory=dict)
    """By datacenter, because each registry has ids of its own; `*` for all others."""

    def under(self, directory: Path) -> Decoding:
        """Return the decoding with absolute paths; relative ones begin at a directory."""
        return Decoding(
            topics={
                topic: TopicDecoding(
                    **{
                        name: replace(part, schema=str(directory / part.schema))
                        for name, part in each.parts.items()
                    }
                )
                for topic, each in self.topics.items()
            },
            registries={name: each.under(directory) for name, each in self.registries.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedPart:
    """A part with the text of its schema, as Spark's workers get it."""

    format: Format
    schema: bytes
    is_framed: bool
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedTopic:
    """A topic with the text of its schemas, as Spark's workers get it."""

    parts: Mapping[str, PinnedPart]
    registries: Mapping[str, Registry]
