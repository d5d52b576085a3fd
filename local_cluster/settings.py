"""The settings of one broker process: a frozen object, read from a JSON file at the start.

The topology renders the file, and the broker never reads the topology. `config` holds Kafka's
broker configs by their own names. A key or a config that is not known is refused at the start,
and so is a value of the wrong type: a typing error must not silently leave a default in force.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from local_cluster.broker_configs import (
    RESERVED_TYPES_DEFAULT,
    ReservedType,
    did_you_mean,
    find_problem,
    is_known,
    why_unknown,
)
from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity, Secret
from local_cluster.client.auth.zookeeper_security import NO_ZOOKEEPER_USER, ZooKeeperSecurity
from local_cluster.http_security.settings import OPEN, HttpSecurity, check_binding
from local_cluster.log_format import LogFormat
from local_cluster.security.authentication.kerberos.settings import KerberosSettings
from local_cluster.security.authentication.listener_security import (
    SaslSettings,
    SecurityProtocol,
    TlsSettings,
    check_listener,
)
from local_cluster.security.authentication.oauth.settings import OauthSettings, check_allowed

FlushMode = Literal["fsync", "page_cache"]
_STRICT: Final = ConfigDict(extra="forbid")
_UNKNOWN_KEY: Final = "unexpected_keyword_argument"
"""Pydantic's name of the error for a key that a dataclass lacks."""


class SettingsError(Exception):
    """A settings file cannot be used. The message has one line per problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One named listening address; port 0 asks the system for a free one."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    host: str
    port: int
    advertised_host: str = ""
    """The host in Metadata responses; empty means `host`."""
    advertised_port: int = 0
    """The port in Metadata responses; 0 means the port that was bound."""
    security_protocol: SecurityProtocol = "PLAINTEXT"
    """As in Kafka's listener.security.protocol.map."""
    tls: TlsSettings | None = None
    """For SSL and SASL_SSL."""
    sasl: SaslSettings | None = None
    """For SASL_PLAINTEXT and SASL_SSL."""

    def __post_init__(self) -> None:
        check_listener(self.security_protocol, self.tls, self.sasl)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Everything that a broker process needs to run."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    cluster: str
    broker_id: int
    listeners: tuple[Listener, ...]
    inter_broker_listener: str
    zookeeper_connect: str
    """ZooKeeper's "host:port[,host:port]/chroot"; the chroot is created if it is absent."""
    log_dirs: tuple[str, ...]
    """Log directories, at least one; best each on a disk of its own (Kafka's log.dirs)."""
    ready_file: str
    """JSON {"pid", "state", "listeners"}, written atomically once registered and listening."""
    rack: str | None = None
    zookeeper_session_timeout_ms: int = 18_000
    zookeeper_security: ZooKeeperSecurity = NO_ZOOKEEPER_USER
    """How this broker proves to ZooKeeper who it is; the same user for all brokers of a cluster."""
    flush: FlushMode = "fsync"
    """`fsync` acknowledges after a group commit, `page_cache` with Kafka's own promise."""
    http_host: str = "127.0.0.1"
    """Address of health and metrics."""
    http_port: int | None = None
    """Port of health and metrics: 0 takes a free one, None opens none."""
    http_security: HttpSecurity = OPEN
    """Who may read the metrics. Health is open."""
    inter_broker_security: ClientSecurity = PLAINTEXT
    """How this broker proves to the others who it is, on the inter-broker listener."""
    broker_principals: tuple[str, ...] = ()
    """Principals of the brokers, such as User:broker: requests between brokers need one of them,
    on whatever listener they arrive. Only a PLAINTEXT inter-broker listener is trusted by name."""
    internal_topic_writers: dict[str, tuple[str, ...]] | None = None
    """With an authorizer: principals by a prefix of the internal names that they may change by any
    ACL. Other principals but super users need an ACL that names them. None reserves nothing."""
    internal_types_reserved: tuple[ReservedType, ...] = RESERVED_TYPES_DEFAULT
    """What is reserved under internal names, if `internal_topic_writers` is given."""
    former_inter_broker_listener: str | None = None
    """A PLAINTEXT listener that some brokers may still use as their inter-broker listener. It is
    trusted by name too, until every broker has moved."""
    oauth_allowed_urls: tuple[str, ...] = ()
    """Addresses that this broker may ask for keys of tokens, as in Kafka's
    org.apache.kafka.sasl.oauthbearer.allowed.urls."""
    log_format: LogFormat = "text"
    """Lines for people, or one JSON object per line."""
    config: dict[str, str] = field(default_factory=dict)
    """Kafka broker configs by their own names, such as auto.create.topics.enable."""

    def __post_init__(self) -> None:
        if self.http_port is not None:
            check_binding(self.http_host, self.http_security)
        for each in self.listeners:
            if each.sasl is not None and each.sasl.oauth is not None:
                check_allowed(each.sasl.oauth, self.oauth_allowed_urls)
        if self.sets_znode_acls and not self.zookeeper_security.authenticates:
            raise ValueError("config zookeeper.set.acl needs a user in `zookeeper_security`")
        protocol = self._protocol_of(self.inter_broker_listener)
        if protocol is None:
            names = ", ".join(each.name for each in self.listeners)
            raise ValueError(
                f"inter_broker_listener {self.inter_broker_listener!r} is none of {names}"
            )
        self._check_former_listener()
        if protocol != self.inter_broker_security.protocol:
            raise ValueError(
                f"the inter-broker listener has {protocol}, but `inter_broker_security` has "
                f"{self.inter_broker_security.protocol}"
            )
        if protocol != "PLAINTEXT" and not self.broker_principals:
            raise ValueError(f"an inter-broker listener of {protocol} needs `broker_principals`")

    def _check_former_listener(self) -> None:
        former = self.former_inter_broker_listener
        if former is None:
            return
        if former == self.inter_broker_listener:
            raise ValueError(f"former_inter_broker_listener {former!r} is the present one")
        if self._protocol_of(former) != "PLAINTEXT":
            raise ValueError(
                f"former_inter_broker_listener {former!r} is no PLAINTEXT listener; only those are"
                " trusted by name, and `broker_principals` names the brokers on others"
            )

    @property
    def sets_znode_acls(self) -> bool:
        """Whether new znodes get Kafka's ACLs, which name the user of `zookeeper_security`."""
        return self.config_bool("zookeeper.set.acl", False)

    @property
    def trusts_listener_name(self) -> bool:
        """Whether a connection to the inter-broker listener is a broker's without a proof."""
        return self._protocol_of(self.inter_broker_listener) == "PLAINTEXT"

    @property
    def trusted_listeners(self) -> tuple[str, ...]:
        """The listeners on which every connection counts as a broker's, without a proof."""
        names = [self.inter_broker_listener] if self.trusts_listener_name else []
        if self.former_inter_broker_listener is not None:
            names.append(self.former_inter_broker_listener)
        return tuple(names)

    def _protocol_of(self, listener: str) -> SecurityProtocol | None:
        for each in self.listeners:
            if each.name == listener:
                return each.security_protocol
        return None

    def config_int(self, name: str, default: int) -> int:
        return int(self.config.get(name, default))

    def config_bool(self, name: str, default: bool) -> bool:
        return self.config.get(name, str(default)).strip().lower() == "true"


_ADAPTER: Final = TypeAdapter(BrokerSettings)
_OWNERS: Final[Mapping[Any, type[Any]]] = {
    "inter_broker_security": ClientSecurity,
    "zookeeper_security": ZooKeeperSecurity,
    "tls": TlsSettings,
    "sasl": SaslSettings,
    "oauth": OauthSettings,
    "kerberos": KerberosSettings,
    "http_security": HttpSecurity,
    "token": Secret,
    "accepted_tokens": Secret,
    "metrics_token": Secret,
    "keystore_password": Secret,
    "truststore_password": Secret,
}
"""Who has an unknown key, by the key above it; numbers are those of listeners."""


def load_settings(path: Path) -> BrokerSettings:
    """Read a settings file. Raises OSError, and SettingsError for unknown keys or bad values."""
    try:
        settings = _ADAPTER.validate_json(path.read_bytes())
    except ValidationError as error:
        problems = [_describe(each["loc"], each["type"], each["msg"]) for each in error.errors()]
    else:
        problems = list(_config_problems(settings.config))
        if not problems:
            return settings
    raise SettingsError("\n".join(f"{path}: {each}" for each in problems))


def dump_settings(settings: BrokerSettings) -> bytes:
    """Return the JSON that `load_settings` reads."""
    return _ADAPTER.dump_json(settings, indent=2)


def _describe(location: tuple[Any, ...], error_type: str, message: str) -> str:
    key = ".".join(map(str, location)) or "the whole file"
    if error_type != _UNKNOWN_KEY:
        return f"{key}: {message}"
    owner = _OWNERS.get(location[-2], Listener) if len(location) > 1 else BrokerSettings
    known = [each.name for each in fields(owner)]
    return (
        f"{key}: unknown key; expected one of {', '.join(known)}{did_you_mean(location[-1], known)}"
    )


def _config_problems(config: dict[str, str]) -> Iterator[str]:
    for name, value in config.items():
        if not is_known(name):
            yield f"config.{name}: {why_unknown(name)}"
        elif (expected := find_problem(name, value)) is not None:
            yield f"config.{name}: expected {expected}, not {value!r}"
