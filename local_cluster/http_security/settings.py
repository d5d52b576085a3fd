"""Settings of HTTP ports and of their clients; they hold no secrets. Pure.

A process that asks for a token or a certificate lets the two probes of Kubernetes pass: `/livez`
and `/readyz`. Everything else needs one of:

- the token, as `Authorization: Bearer TOKEN`, or as the password of Basic authentication for GET
- the token of metrics, which allows `GET /metrics` alone
- a client certificate that an authority of `tls.truststore_file` signed
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity, Secret
from local_cluster.http_security.addresses import is_loopback
from local_cluster.security.authentication.listener_security import TlsSettings

_STRICT: Final = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSecurity:
    """How an HTTP port secures itself. The default is open, for a loopback address."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    token: Secret | None = None
    """The token that clients send."""
    accepted_tokens: Secret | None = None
    """Further tokens that are accepted, one per line, for a change of the token. The file may be
    absent."""
    metrics_token: Secret | None = None
    """A token that allows `GET /metrics` alone."""
    tls: TlsSettings | None = None
    """The certificate of the port, and the authorities of client certificates."""
    allow_insecure: bool = False
    """Whether other hosts may use a port without a token or without TLS."""

    def __post_init__(self) -> None:
        for name in ("accepted_tokens", "metrics_token"):
            if getattr(self, name) is not None and self.token is None:
                raise ValueError(f"`{name}` needs a `token`")

    @property
    def is_guarded(self) -> bool:
        """Whether a request needs a token or a certificate."""
        return self.token is not None or self.takes_certificates

    @property
    def takes_certificates(self) -> bool:
        return self.tls is not None and self.tls.client_auth != "none"

    @property
    def scheme(self) -> Literal["http", "https"]:
        return "http" if self.tls is None else "https"

    @property
    def secrets(self) -> Iterator[Secret]:
        """The place of each secret."""
        tls = self.tls
        passwords = () if tls is None else (tls.keystore_password, tls.truststore_password)
        for each in (self.token, self.accepted_tokens, self.metrics_token, *passwords):
            if each is not None:
                yield each


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpClientSecurity:
    """How a client proves itself to HTTP ports, and which certificates it trusts."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    token: Secret | None = None
    tls: ClientSecurity = PLAINTEXT
    """Protocol SSL or PLAINTEXT."""
    allow_insecure: bool = False
    """Whether the token may be sent to other hosts without TLS."""

    def __post_init__(self) -> None:
        if self.tls.uses_sasl:
            raise ValueError("HTTP has no SASL: `tls` needs protocol SSL or PLAINTEXT")

    @property
    def scheme(self) -> Literal["http", "https"]:
        return "https" if self.tls.uses_tls else "http"


OPEN: Final = HttpSecurity()
ANONYMOUS: Final = HttpClientSecurity()


def missing_at(host: str, security: HttpSecurity) -> list[str]:
    """Return what an HTTP port needs before it may bind this address; nothing if it may."""
    if is_loopback(host) or security.allow_insecure:
        return []
    return [
        *([] if security.is_guarded else ["a `token`"]),
        *([] if security.tls is not None else ["`tls`"]),
    ]


def check_binding(host: str, security: HttpSecurity) -> None:
    """Raise ValueError if an HTTP port may not bind this address."""
    missing = missing_at(host, security)
    if missing:
        raise ValueError(
            f"other hosts reach http_host {host}, so `http_security` needs"
            f" {' and '.join(missing)}; or bind 127.0.0.1, or set `allow_insecure: true` in"
            " `http_security`"
        )
