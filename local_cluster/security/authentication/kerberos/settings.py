"""The Kerberos settings of a listener. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from local_cluster.client.auth.kerberos.settings import SERVICE_NAME, check_service_name
from local_cluster.security.authentication.kerberos.short_names import DEFAULT_RULE, ShortNames


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosSettings:
    """The keys of a listener's service, and which user a principal is."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    keytab_file: str
    """The keytab; it is read at every login."""
    service_name: str = SERVICE_NAME
    """Kafka's sasl.kerberos.service.name: any host's key of this service is taken."""
    principal: str | None = None
    """The only key that is taken, such as kafka/broker-1.example@EXAMPLE."""
    principal_to_local_rules: tuple[str, ...] = (DEFAULT_RULE,)
    """Kafka's sasl.kerberos.principal.to.local.rules."""

    def __post_init__(self) -> None:
        ShortNames(self.principal_to_local_rules)
        if not self.principal_to_local_rules:
            raise ValueError("`principal_to_local_rules` needs a rule, such as DEFAULT")
        check_service_name(self.service_name)
        if self.principal is not None and self.principal.split("/")[0] != self.service_name:
            raise ValueError(f"`principal` must begin with `service_name`: {self.service_name}/")
