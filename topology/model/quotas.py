"""Client quotas of our own clusters as the file declares them, and as Kafka names them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, NamedTuple

from pydantic import Field

from local_cluster.quotas.entity import CLIENT_ID, IP, USER, Entity
from local_cluster.quotas.quota_keys import ADDRESS_KEYS, CLIENT_KEYS
from topology.model.scalars import Entry

DEFAULT: Final = "(default)"
"""What stands for the default entity in a text."""

PartName = Annotated[str, Field(min_length=1)]
Rate = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0)]


class QuotaKey(NamedTuple):
    """One quota: of whom, and Kafka's name of it."""

    entity: Entity
    quota: str

    @property
    def order(self) -> tuple[Any, ...]:
        """What to sort by: the default of a part comes before its names."""
        return (*((kind, name or "") for kind, name in self.entity), (self.quota, ""))

    def __str__(self) -> str:
        return f"{self.quota} of {entity_text(self.entity)}"


class QuotaRule(Entry):
    """The quotas of one user, client id, pair of both, or address."""

    user: PartName | None = None
    """A user."""
    default_user: bool = False
    """Users without quotas of their own."""
    client_id: PartName | None = None
    """A client id; beside a user, that client id of the user."""
    default_client_id: bool = False
    """Client ids without quotas of their own."""
    ip: PartName | None = None
    """An address of clients."""
    default_ip: bool = False
    """Addresses without quotas of their own."""
    producer_byte_rate: Rate | None = None
    """Bytes per second of Produce requests, on each broker."""
    consumer_byte_rate: Rate | None = None
    """Bytes per second of Fetch responses, on each broker."""
    request_percentage: Rate | None = None
    """Time of request handlers on each broker; 100 is its whole event loop."""
    controller_mutation_rate: Rate | None = None
    """Partitions per second that are created or deleted."""
    connection_creation_rate: Rate | None = None
    """Connections per second that a broker accepts; of addresses only."""

    @property
    def parts(self) -> list[tuple[str, str | None, bool]]:
        """Kafka's type, the name and whether it is the default, of each part that is set."""
        found = [
            (USER, self.user, self.default_user),
            (CLIENT_ID, self.client_id, self.default_client_id),
            (IP, self.ip, self.default_ip),
        ]
        return [each for each in found if each[1] is not None or each[2]]

    @property
    def entity(self) -> Entity:
        """Whose quotas these are; empty if no part is set."""
        return tuple((kind, name) for kind, name, _ in self.parts)

    @property
    def rates(self) -> dict[str, float]:
        """The quotas that are set, by Kafka's names."""
        names = (*CLIENT_KEYS, *ADDRESS_KEYS)
        return {name: rate for name in names if (rate := getattr(self, name)) is not None}

    def quotas(self) -> Iterator[tuple[QuotaKey, float]]:
        """Yield each quota with its value."""
        for name, rate in self.rates.items():
            yield QuotaKey(self.entity, name), float(rate)


def entity_text(entity: Entity) -> str:
    """Return an entity such as `user alice, client-id (default)`."""
    return ", ".join(f"{kind} {DEFAULT if name is None else name}" for kind, name in entity)


def number_text(value: float) -> str:
    """Return a number without a useless fraction or exponent."""
    return str(int(value)) if value.is_integer() else repr(value)
