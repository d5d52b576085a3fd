"""By which principal a client of Heliograph logs in. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import ConfigDict

SERVICE_NAME: Final = "kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """A principal, its key, and the service that it asks tickets for."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    principal: str
    """Such as mirror@EXAMPLE.COM; without a realm the default one is meant."""
    keytab_file: str
    """The keytab with its key; it is read whenever a ticket is requested."""
    service_name: str = SERVICE_NAME
    """Kafka's sasl.kerberos.service.name: the first part of the brokers' principals."""

    def __post_init__(self) -> None:
        if not self.principal or not self.keytab_file:
            raise ValueError("`kerberos` needs `principal` and `keytab_file`")
        check_service_name(self.service_name)


def check_service_name(name: str) -> None:
    """Raise ValueError unless this is the first part of a principal."""
    if not name or set(name) & set("/@"):
        raise ValueError("`service_name` is the part of a principal before the slash")
