"""SHELL: tokens for aiokafka and librdkafka, which log in by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from local_cluster.client.auth.oauth.settings import OauthLogin
from local_cluster.client.auth.oauth.token_request import TokenUnavailableError
from local_cluster.client.auth.oauth.token_source import token_source
from local_cluster.client.auth.secret import SecurityError

UNKNOWN_LIFETIME_SECONDS: Final = 300
"""After this time librdkafka asks again for a token whose end nobody knows."""


def aiokafka_provider(login: OauthLogin) -> Any:
    """Return an AbstractTokenProvider of aiokafka, which asks it for every connection."""
    from aiokafka.abc import AbstractTokenProvider  # few need it
    from aiokafka.errors import AuthenticationFailedError, KafkaConnectionError

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            # aiokafka's background tasks survive its own errors only.
            try:
                return (await token_source(login).token_soon()).value
            except TokenUnavailableError as error:
                raise KafkaConnectionError(str(error)) from error
            except SecurityError as error:
                raise AuthenticationFailedError(str(error)) from error

        def extensions(self) -> dict[str, str]:
            return dict(login.extensions)

    return Tokens()


def librdkafka_callback(
    login: OauthLogin,
) -> Callable[[str], tuple[str, float, str, dict[str, str]]]:
    """Return an `oauth_cb` of confluent_kafka.

    librdkafka calls it after 80 % of a token's lifetime, and authenticates again (KIP-368).
    """

    def next_token(config: str) -> tuple[str, float, str, dict[str, str]]:
        token = token_source(login).token()
        ends_ms = token.ends_ms
        if ends_ms is None:
            ends_ms = token.starts_ms + UNKNOWN_LIFETIME_SECONDS * 1_000
        return token.value, ends_ms / 1_000, "", dict(login.extensions)

    return next_token
