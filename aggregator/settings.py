"""Settings of one aggregator: frozen, rendered by the topology, read from one JSON file.

Guarantees: unknown keys, missing keys and values of the wrong type are errors that name the key;
two links never share a name, nor a source.
Not here: defaults that depend on other processes, and any reading of the topology file.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter

from aggregator.probe.settings import ProbeSettings
from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from mirror_maker.formats.naming import TopicNames


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """One link that feeds the aggregate, as far as the aggregator needs to know it."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    datacenter: str
    source: str
    """Alias of the source cluster: what its topics are prefixed with on the aggregate."""
    source_bootstrap: str
    """`host:port,host:port`; asked when a group of the source is to be translated, and written to
    where the link is probed."""
    source_security: ClientSecurity = PLAINTEXT
    names: TopicNames = field(default_factory=TopicNames)
    """What its copies are called here."""
    probe: bool = False
    """Whether the link is probed end to end; its mirror must be told as well."""

    def source_topic(self, target_topic: str) -> str | None:
        """Name at the source, or None where the name here does not tell it."""
        return self.names.source_topic(self.source, target_topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorSettings:
    """Everything one aggregator process is told."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    aggregate: str
    """Name of the aggregate cluster."""
    bootstrap: str
    security: ClientSecurity = PLAINTEXT
    links: tuple[LinkSettings, ...] = ()
    probe: ProbeSettings = field(default_factory=ProbeSettings)
    """How the links are probed that are."""
    http_host: str = "127.0.0.1"
    http_port: int = 0
    """0 picks a free port; the one in use is in the ready file."""
    ready_file: str
    """JSON {"pid", "state", "http_host", "http_port"}; atomic, and removed by a clean stop."""

    def __post_init__(self) -> None:
        for what, values in (
            ("name", [link.name for link in self.links]),
            ("source", [link.source for link in self.links]),
        ):
            for value, count in Counter(values).items():
                if count > 1:
                    raise ValueError(f"{count} links have the {what} {value!r}; it must be unique")

    def link(self, name: str) -> LinkSettings | None:
        """The link of that name, or None."""
        return next((link for link in self.links if link.name == name), None)


_ADAPTER = TypeAdapter(AggregatorSettings)


def parse_settings(text: str | bytes) -> AggregatorSettings:
    """Settings from JSON. Raises pydantic.ValidationError, which names every wrong key."""
    return _ADAPTER.validate_json(text)


def load_settings(path: Path) -> AggregatorSettings:
    """Settings from a file. Raises OSError or pydantic.ValidationError."""
    return parse_settings(path.read_bytes())


def render_settings(settings: AggregatorSettings) -> str:
    """The JSON text that `parse_settings` reads back."""
    return _ADAPTER.dump_json(settings, indent=2).decode()
