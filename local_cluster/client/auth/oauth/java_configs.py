"""The settings of a token's source as configs of Java's clients, from Kafka 3.4 on. Pure.

Client ID and secret are options of the login module, because Kafka 3.9, which Spark's own Kafka
connector has, knows no other place. The JVM needs the system property of `allowed_property` too, or
refuses the address or the file (CVE-2025-27817). An assertion needs Kafka 4.1.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from local_cluster.client.auth.oauth.settings import OauthLogin

_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer"
_SASL: Final = "sasl.oauthbearer"


def java_configs(login: OauthLogin, secret: str) -> dict[str, str]:
    """Return the configs of Java's clients. `secret` is the client's, if there is one."""
    found = {
        "sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required{_options(login, secret)};",
        "sasl.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
        f"{_SASL}.token.endpoint.url": _endpoint(login),
        "sasl.login.refresh.window.factor": str(login.refresh_window_factor),
        "sasl.login.refresh.min.period.seconds": str(login.refresh_min_period_seconds),
        "sasl.login.refresh.buffer.seconds": str(login.refresh_buffer_seconds),
    }
    if login.header_urlencode:
        found[f"{_SASL}.header.urlencode"] = "true"
    if login.assertion_file is not None:
        found[f"{_SASL}.jwt.retriever.class"] = f"{_OAUTH}.JwtBearerJwtRetriever"
        found[f"{_SASL}.assertion.file"] = login.assertion_file
        if login.scope is not None:
            found[f"{_SASL}.scope"] = login.scope
    return found


def allowed_properties(login: OauthLogin) -> dict[str, str]:
    """Return the JVM's system properties that allow the address and the file."""
    prefix = "org.apache.kafka.sasl.oauthbearer.allowed"
    found = {f"{prefix}.urls": _endpoint(login)}
    file = login.token_file or login.assertion_file
    if file is not None:
        found[f"{prefix}.files"] = file
    return found


def jaas_text(text: str) -> str:
    """Return a quoted value of a JAAS configuration."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _endpoint(login: OauthLogin) -> str:
    return login.token_url or PurePosixPath(login.token_file or "").as_uri()


def _options(login: OauthLogin, secret: str) -> str:
    options = {f"extension_{name}": value for name, value in login.extensions}
    if login.client_id is not None:
        options |= {"clientId": login.client_id, "clientSecret": secret}
        if login.scope is not None:
            options["scope"] = login.scope
    return "".join(f" {name}={jaas_text(value)}" for name, value in options.items())
