"""Whose tokens a listener takes (KIP-768). Settings, no I/O.

An address that is asked for keys must be in the broker's `oauth_allowed_urls`, which is empty by
default (CVE-2025-27817).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from pydantic import ConfigDict

HTTPS_PATTERN: Final = r"^https://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~%!$&'()*+,;=:?/-]*)?$"
"""An address with neither user nor fragment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OauthSettings:
    """One issuer: its keys, and what its tokens must say."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    keys_file: str | None = None
    """JSON Web Key Set (RFC 7517) of the issuer. Loaded again when it changes."""
    keys_url: str | None = None
    """Where the issuer serves it by https: Kafka's sasl.oauthbearer.jwks.endpoint.url."""
    keys_ca_file: str | None = None
    """PEM of the authorities that may sign the certificate of `keys_url`; default: the system's."""
    keys_refresh_seconds: int = 3_600
    """Time between two requests to `keys_url`; a token with an unknown key asks earlier."""
    expected_issuer: str | None = None
    """`iss` of every token, if given."""
    expected_audiences: tuple[str, ...] = ()
    """`aud` has one of them, if any is given."""
    principal_claim: str = "sub"
    """The claim that names the user."""
    clock_skew_seconds: int = 30
    """Tolerance for the issuer's clock."""

    def __post_init__(self) -> None:
        if (self.keys_file is None) == (self.keys_url is None):
            raise ValueError("the issuer's keys are either in `keys_file` or at `keys_url`")
        if self.keys_url is not None and not re.fullmatch(HTTPS_PATTERN, self.keys_url):
            raise ValueError("`keys_url` must be an https:// address without user and fragment")
        if self.keys_ca_file is not None and self.keys_url is None:
            raise ValueError("`keys_ca_file` has no use without `keys_url`")
        if not self.principal_claim:
            raise ValueError("`principal_claim` is the name of a claim")
        if self.keys_refresh_seconds < 1 or self.clock_skew_seconds < 0:
            raise ValueError(
                "`keys_refresh_seconds` is at least 1, `clock_skew_seconds` at least 0"
            )


def check_allowed(settings: OauthSettings, allowed_urls: Sequence[str]) -> None:
    """Raise ValueError if `keys_url` is not in the list."""
    if settings.keys_url is not None and settings.keys_url not in allowed_urls:
        raise ValueError(
            f"`keys_url` {settings.keys_url} is not in `oauth_allowed_urls`, which is empty by "
            "default: brokers ask no other address for keys"
        )
