"""Where a client's tokens come from. Settings without a secret, no I/O.

A token comes from the token endpoint of an issuer (`token_url`), or from a file that another
process keeps up to date (`token_file`). The endpoint grants one for a client ID and its secret
(RFC 6749, section 4.4; KIP-768), or for a signed assertion in a file (RFC 7523; KIP-1139).
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import ConfigDict

from local_cluster.client.auth.secret import Secret

TOKEN_URL_PATTERN: Final = (
    r"^(https?)://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[1-9][0-9]{0,4})?"
    r"(/[A-Za-z0-9._~%!$&'()*+,;=:@/-]*)?$"
)
"""An address without user, query and fragment: nothing in it is a secret."""
SCOPE_PATTERN: Final = r"^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$"
"""RFC 6749, section 3.3."""
EXTENSION_PATTERN: Final = r"^[A-Za-z]+$"
"""RFC 7628, section 3.1."""
FACTOR_MIN: Final = 0.5
FACTOR_MAX: Final = 1.0
MIN_PERIOD_SECONDS_MAX: Final = 900
BUFFER_SECONDS_MAX: Final = 3_600
"""Kafka's limits of sasl.login.refresh.*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthLogin:
    """How a client gets its tokens."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    token_url: str | None = None
    """Token endpoint: https, or http on the loopback. sasl.oauthbearer.token.endpoint.url."""
    token_ca_file: str | None = None
    """PEM of the authorities that may sign its certificate; default: the system's."""
    client_id: str | None = None
    """sasl.oauthbearer.client.credentials.client.id."""
    client_secret: Secret | None = None
    """sasl.oauthbearer.client.credentials.client.secret."""
    assertion_file: str | None = None
    """File with a signed JWT for the endpoint, in place of the client's secret."""
    scope: str | None = None
    """Scopes of the token, with a space between two."""
    header_urlencode: bool = False
    """Encode ID and secret in the header as RFC 6749 says: sasl.oauthbearer.header.urlencode."""
    token_file: str | None = None
    """File with the token itself. It is read at every login."""
    extensions: tuple[tuple[str, str], ...] = ()
    """(name, value) of SASL extensions, which go to the brokers beside the token (KIP-342)."""
    refresh_window_factor: float = 0.8
    """Share of a token's lifetime after which it is renewed."""
    refresh_min_period_seconds: int = 60
    """Shortest time between two renewals."""
    refresh_buffer_seconds: int = 300
    """Time before a token's end in which it should be renewed already."""

    def __post_init__(self) -> None:
        if (self.token_url is None) == (self.token_file is None):
            raise ValueError("tokens come either from `token_url` or from `token_file`")
        if self.token_file is not None:
            self._check_file()
        else:
            self._check_endpoint(self.token_url or "")
        for name, value in self.extensions:
            if not re.fullmatch(EXTENSION_PATTERN, name) or name == "auth":
                raise ValueError("names of `extensions` are letters, and `auth` is taken")
            if not re.fullmatch(r"[\x21-\x7e \t\r\n]+", value):
                raise ValueError("values of `extensions` are printable ASCII")
        if not FACTOR_MIN <= self.refresh_window_factor <= FACTOR_MAX:
            raise ValueError(f"`refresh_window_factor` is {FACTOR_MIN}..{FACTOR_MAX}")
        if not 0 <= self.refresh_min_period_seconds <= MIN_PERIOD_SECONDS_MAX:
            raise ValueError(f"`refresh_min_period_seconds` is 0..{MIN_PERIOD_SECONDS_MAX}")
        if not 0 <= self.refresh_buffer_seconds <= BUFFER_SECONDS_MAX:
            raise ValueError(f"`refresh_buffer_seconds` is 0..{BUFFER_SECONDS_MAX}")

    @property
    def who(self) -> str:
        """Return whose tokens these are, for messages."""
        if self.client_id is not None:
            return f"client {self.client_id}"
        return f"the holder of {self.assertion_file or self.token_file}"

    @property
    def source(self) -> str:
        """Return where tokens come from, for messages."""
        if self.token_url is not None:
            return f"token endpoint {self.token_url}"
        return f"token in {self.token_file}"

    def _check_file(self) -> None:
        others = (self.token_ca_file, self.client_id, self.client_secret, self.assertion_file)
        if others != (None, None, None, None) or self.scope is not None or self.header_urlencode:
            raise ValueError("`token_file` holds the token; other keys need `token_url`")

    def _check_endpoint(self, url: str) -> None:
        if not is_token_url(url):
            raise ValueError(
                "`token_url` must be an https:// address, or http:// on the loopback, without user,"
                " query and fragment"
            )
        if not url.startswith("https://") and self.token_ca_file is not None:
            raise ValueError("`token_ca_file` has no use for an http:// address")
        if self.assertion_file is not None:
            if self.client_id is not None or self.client_secret is not None:
                raise ValueError("`assertion_file` stands for `client_id` and `client_secret`")
        elif not self.client_id or self.client_secret is None:
            raise ValueError(
                "`token_url` needs `client_id` and `client_secret`, or an `assertion_file`"
            )
        elif ":" in self.client_id and not self.header_urlencode:
            raise ValueError("a `client_id` with a colon needs `header_urlencode`")
        if self.scope is not None and not re.fullmatch(SCOPE_PATTERN, self.scope):
            raise ValueError("`scope` is a list of words with one space between two")


def is_token_url(url: str) -> bool:
    """Whether tokens may be requested there: a secret crosses no network as plain text."""
    found = re.fullmatch(TOKEN_URL_PATTERN, url)
    return found is not None and (found[1] == "https" or _is_loopback(found[2].strip("[]")))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
