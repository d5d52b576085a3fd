"""The settings of a token's source as configs of Java's clients (Kafka 4.1 and later). Pure.

Spark's Kafka connector takes the same configs with the prefix `kafka.`. Its JVM needs the system
property of `allowed_property` too, or refuses the address or the file (CVE-2025-27817).
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from local_cluster.client.auth.oauth.settings import OauthLogin

_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
_SASL: Final = "sasl.oauthbearer"


def java_configs(login: OauthLogin, secret: str) -> dict[str, str]:
    """Return the configs of Java's clients. `secret` is the client's, if there is one."""
    endpoint = login.token_url or PurePosixPath(login.token_file or "").as_uri()
    found = {
        "sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        f"{_SASL}.token.endpoint.url": endpoint,
        "sasl.login.refresh.window.factor": str(login.refresh_window_factor),
        "sasl.login.refresh.min.period.seconds": str(login.refresh_min_period_seconds),
        "sasl.login.refresh.buffer.seconds": str(login.refresh_buffer_seconds),
    }
    if login.client_id is not None:
        found[f"{_SASL}.client.credentials.client.id"] = login.client_id
        found[f"{_SASL}.client.credentials.client.secret"] = secret
        found[f"{_SASL}.header.urlencode"] = str(login.header_urlencode).lower()
    if login.assertion_file is not None:
        retriever = f"{_OAUTH}.JwtBearerJwtRetriever"
        found[f"{_SASL}.jwt.retriever.class"] = retriever
        found[f"{_SASL}.assertion.file"] = login.assertion_file
    if login.scope is not None:
        found[f"{_SASL}.scope"] = login.scope
    return found


def allowed_property(login: OauthLogin) -> tuple[str, str]:
    """Return the JVM's system property that allows the address or the file, and its value."""
    if login.token_file is not None:
        return "org.apache.kafka.sasl.oauthbearer.allowed.files", login.token_file
    return "org.apache.kafka.sasl.oauthbearer.allowed.urls", login.token_url or ""
