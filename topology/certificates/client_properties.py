"""How clients connect to a cluster, as properties of Java's clients and of librdkafka. Pure.

These texts hold the password, because clients read it there.
"""

from __future__ import annotations

from collections.abc import Mapping

from local_cluster.client.auth.oauth.java_configs import jaas_text, java_configs
from local_cluster.client.auth.security import ClientSecurity

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def java_properties(bootstrap: str, security: ClientSecurity, password: str) -> dict[str, str]:
    """Return the configs of Java's clients and tools for a user with a password.

    With OAUTHBEARER, `password` is the secret of the client ID.
    """
    found = {"bootstrap.servers": bootstrap, "security.protocol": security.protocol}
    if security.oauth is not None:
        found["sasl.mechanism"] = "OAUTHBEARER"
        found |= java_configs(security.oauth, password)
    elif security.uses_sasl:
        mechanism = security.mechanism or ""
        found["sasl.mechanism"] = mechanism
        found["sasl.jaas.config"] = (
            f"{_LOGIN_MODULES[mechanism]} required username={jaas_text(security.username or '')}"
            f" password={jaas_text(password)};"
        )
    if security.ca_file is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": security.ca_file}
    if security.uses_tls and not security.check_hostname:
        found["ssl.endpoint.identification.algorithm"] = ""
    return found


def librdkafka_properties(
    bootstrap: str, security: ClientSecurity, password: str
) -> dict[str, str]:
    """Return the configs of librdkafka for a user with a password."""
    found = {"bootstrap.servers": bootstrap, "security.protocol": security.protocol}
    if security.uses_sasl:
        found |= {
            "sasl.mechanism": security.mechanism or "",
            "sasl.username": security.username or "",
            "sasl.password": password,
        }
    if security.ca_file is not None:
        found["ssl.ca.location"] = security.ca_file
    if security.uses_tls and not security.check_hostname:
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found


def properties_text(properties: Mapping[str, str]) -> str:
    """Return the lines of a properties file, with Java's escapes."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in properties.items())


def config_text(properties: Mapping[str, str]) -> str:
    """Return the lines of a file that kcat and librdkafka's tools read, which knows no escapes."""
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def _escaped(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{escaped}" if escaped.startswith((" ", "\t")) else escaped
