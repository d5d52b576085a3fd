"""The settings of one aggregator: frozen, rendered by the topology, read from one JSON file.

Guarantees: unknown keys, missing keys and wrong types are errors that name the key. Names and
sources of links are unique.
Not here: defaults that depend on other processes. No daemon reads the topology file.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter

from aggregator.probe.settings import ProbeSettings
from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from local_cluster.http_security.settings import (
    ANONYMOUS,
    OPEN,
    HttpClientSecurity,
    HttpSecurity,
    check_binding,
)
from local_cluster.log_format import LogFormat
from mirror_maker.formats.naming import TopicNames


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """One link into the aggregate."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    datacenter: str
    source: str
    """Alias of the source cluster, which is the prefix of its topics on the aggregate."""
    source_bootstrap: str
    """`host:port,host:port`. The aggregator reads groups there for translation, and writes there if
    the link is probed."""
    source_security: ClientSecurity = PLAINTEXT
    names: TopicNames = field(default_factory=TopicNames)
    """Names of the copies on the aggregate."""
    probe: bool = False
    """Whether the link is probed end to end; its mirror needs the same setting."""

    def source_topic(self, target_topic: str) -> str | None:
        """Return the name at the source; None if the name of the copy does not determine it."""
        return self.names.source_topic(self.source, target_topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlace:
    """Where a mirror worker may serve HTTP."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    host: str
    """An address or a name. Every loopback name means this host."""
    port: int | None = None
    """Its port; None allows every port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorSettings:
    """The settings of one aggregator process."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    aggregate: str
    """Name of the aggregate cluster."""
    bootstrap: str
    security: ClientSecurity = PLAINTEXT
    links: tuple[LinkSettings, ...] = ()
    probe: ProbeSettings = field(default_factory=ProbeSettings)
    """Settings of the probes."""
    http_host: str = "127.0.0.1"
    http_port: int = 0
    """0 picks a free port, which the ready file has."""
    http_security: HttpSecurity = OPEN
    """Who may use the API. Health is open."""
    workers_security: HttpClientSecurity = ANONYMOUS
    """How the aggregator asks mirror workers."""
    workers_allowed: tuple[WorkerPlace, ...] = (WorkerPlace(host="127.0.0.1"),)
    """Where mirror workers may be. A member of their group that is elsewhere is not asked."""
    ready_file: str
    """JSON {"pid", "state", "http_host", "http_port", "settings"}; a clean stop removes it.
    `settings` is the SHA-256 of the settings file, written anew after a reload."""
    log_format: LogFormat = "text"
    """Lines for people, or one JSON object per line."""

    def __post_init__(self) -> None:
        check_binding(self.http_host, self.http_security)
        for what, values in (
            ("name", [link.name for link in self.links]),
            ("source", [link.source for link in self.links]),
        ):
            for value, count in Counter(values).items():
                if count > 1:
                    raise ValueError(f"{count} links have the {what} {value!r}; it must be unique")

    def link(self, name: str) -> LinkSettings | None:
        """Return the link with this name, or None."""
        return next((link for link in self.links if link.name == name), None)


_ADAPTER = TypeAdapter(AggregatorSettings)


def parse_settings(text: str | bytes) -> AggregatorSettings:
    """Read settings from JSON. Raises pydantic.ValidationError, which names every wrong key."""
    return _ADAPTER.validate_json(text)


def render_settings(settings: AggregatorSettings) -> str:
    """Return the JSON text that `parse_settings` reads."""
    return _ADAPTER.dump_json(settings, indent=2).decode()
