"""How a broker reaches the others, and whom it accepts as one: part of its registration. Pure.

Kafka's readers of registrations skip this object. `heliograph up` compares it with the next
settings of other brokers, so that a rolling restart never locks brokers out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from local_cluster.controller.model.znode_json import (
    UnreadableZnodeError,
    decode_json,
    string_of,
    strings_of,
)
from local_cluster.settings import BrokerSettings

KEY: Final = "heliograph"
"""Key of the object in the registration."""
AuthorizerState = Literal["absent", "dry_run", "enforcing"]
_CLASS: Final = "authorizer.class.name"
_DRY_RUN: Final = "heliograph.authorizer.dry.run"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredAccess:
    """The access of one broker."""

    protocols: Mapping[str, str]
    """Security protocol by listener, in the order of the settings."""
    inter_broker_listener: str
    principal: str | None
    """As whom it connects to the others; None if only they know, by a certificate or a token."""
    trusted_listeners: tuple[str, ...]
    """The listeners on which every connection counts as a broker's."""
    broker_principals: tuple[str, ...]
    authorizer: AuthorizerState

    @property
    def inter_broker_protocol(self) -> str | None:
        return self.protocols.get(self.inter_broker_listener)


def access_of(settings: BrokerSettings) -> RegisteredAccess:
    """Return the access of a broker with these settings."""
    username = settings.inter_broker_security.username
    return RegisteredAccess(
        protocols={each.name: each.security_protocol for each in settings.listeners},
        inter_broker_listener=settings.inter_broker_listener,
        principal=None if username is None else f"User:{username}",
        trusted_listeners=settings.trusted_listeners,
        broker_principals=settings.broker_principals,
        authorizer=authorizer_state(settings.config),
    )


def authorizer_state(config: Mapping[str, str]) -> AuthorizerState:
    """Return what an authorizer does with these broker configs."""
    if not config.get(_CLASS, "").strip():
        return "absent"
    return "dry_run" if config.get(_DRY_RUN, "false").strip().lower() == "true" else "enforcing"


def encode_access(access: RegisteredAccess) -> dict[str, Any]:
    """Return the object in the registration. The protocols are elsewhere in it, as in Kafka."""
    body = asdict(access)
    del body["protocols"]
    return body


def decode_access(registration: bytes) -> RegisteredAccess | None:
    """Read a registration; None if a version without this object, or Kafka, has written it.

    Raises UnreadableZnodeError.
    """
    body = decode_json(registration)
    found = body.get(KEY)
    if found is None:
        return None
    if not isinstance(found, dict):
        raise UnreadableZnodeError(f"the broker registration has no object {KEY!r}")
    state = found.get("authorizer")
    if state not in ("absent", "dry_run", "enforcing"):
        raise UnreadableZnodeError("the broker registration has an unknown state of an authorizer")
    protocols = strings_of(body, "listener_security_protocol_map")
    listener = string_of(found, "inter_broker_listener")
    if listener not in protocols:
        raise UnreadableZnodeError("the broker registration lacks its inter-broker listener")
    return RegisteredAccess(
        protocols=protocols,
        inter_broker_listener=listener,
        principal=None if found.get("principal") is None else string_of(found, "principal"),
        trusted_listeners=_texts(found, "trusted_listeners"),
        broker_principals=_texts(found, "broker_principals"),
        authorizer=state,
    )


def _texts(body: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = body.get(key)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise UnreadableZnodeError(f"the broker registration has no list of texts {key!r}")
    return tuple(found)
