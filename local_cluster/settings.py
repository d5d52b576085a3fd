"""What one broker process is told when it starts: a frozen object in a JSON file.

The topology renders the file; the broker never reads the topology. Kafka's own configuration
names go verbatim into `config`; what is there but unknown is refused at start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

FlushMode = Literal["fsync", "page_cache"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One named listening address; port 0 asks the system for a free one."""

    name: str
    host: str
    port: int
    advertised_host: str = ""
    """What clients are told; empty means `host`."""
    advertised_port: int = 0
    """What clients are told; 0 means the port that was bound."""
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Everything a broker process needs to run."""

    cluster: str
    broker_id: int
    listeners: tuple[Listener, ...]
    inter_broker_listener: str
    zookeeper_connect: str
    """ZooKeeper's "host:port[,host:port]/chroot"; the chroot is created when absent."""
    log_dirs: tuple[str, ...]
    """Log directories, at least one; best each on a disk of its own (Kafka's log.dirs)."""
    ready_file: str
    """JSON {"pid", "state", "listeners"} written atomically once registered and listening."""
    rack: str | None = None
    zookeeper_session_timeout_ms: int = 18_000
    flush: FlushMode = "fsync"
    """`fsync` acknowledges after a group commit, `page_cache` with Kafka's own promise."""
    config: dict[str, str] = field(default_factory=dict)
    """Kafka broker configs by their own names, such as auto.create.topics.enable."""

    def config_int(self, name: str, default: int) -> int:
        return int(self.config.get(name, default))

    def config_bool(self, name: str, default: bool) -> bool:
        return self.config.get(name, str(default)).strip().lower() == "true"


_ADAPTER = TypeAdapter(BrokerSettings)


def load_settings(path: Path) -> BrokerSettings:
    """Read a settings file. Raises pydantic.ValidationError or OSError."""
    return _ADAPTER.validate_json(path.read_bytes())


def dump_settings(settings: BrokerSettings) -> bytes:
    """The JSON that `load_settings` reads."""
    return _ADAPTER.dump_json(settings, indent=2)
