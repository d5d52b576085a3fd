"""Security settings of a cluster as options of the connector, without any secret. Shell.

The options name where a secret is. Kafka's config providers read it when a client starts, on the
driver and on the executors: `${directory:DIRECTORY:FILE}` or `${env:VARIABLE}`. So no plan, log or
page of Spark has it. A provider takes a file as it is and puts it between quotation marks. What
does not survive that is refused here.

Tokens and tickets also need system properties of the JVMs: `login_properties`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from local_cluster.client.auth.credentials import read_secret
from local_cluster.client.auth.kerberos.settings import KerberosLogin
from local_cluster.client.auth.oauth.java_configs import (
    allowed_properties,
    jaas_text,
    java_configs,
)
from local_cluster.client.auth.oauth.settings import OauthLogin
from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity, Secret, SecurityError
from spark_global.connector.jars import ConnectorRefusedError

_PREFIX: Final = "kafka."
_PROVIDERS: Final = {
    "config.providers": "directory,env",
    "config.providers.directory.class": "org.apache.kafka.common.config.provider."
    "DirectoryConfigProvider",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}
_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_KERBEROS_MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"
_KERBEROS_VARIABLE: Final = "KRB5_CONFIG"
_NOT_IN_QUOTES: Final = ('"', "\\", "\n", "\r", "$")
"""A dollar might begin a further reference of a provider."""
_NOT_IN_PATHS: Final = (":", "}", "{", "$")


def security_options(security: ClientSecurity) -> dict[str, str]:
    """Return the connector's options for a cluster. Raises ConnectorRefusedError."""
    if security == PLAINTEXT:
        return {}
    found = {"security.protocol": security.protocol, **_PROVIDERS}
    if security.uses_sasl:
        found |= _login(security)
    if security.uses_tls:
        found |= _certificates(security)
    return {_PREFIX + name: value for name, value in found.items()}


def login_properties(security: ClientSecurity) -> dict[str, str]:
    """Return the system properties that the JVMs of a session need for a login."""
    if security.oauth is not None:
        return allowed_properties(security.oauth)
    config = os.environ.get(_KERBEROS_VARIABLE)
    if security.kerberos is not None and config:
        return {"java.security.krb5.conf": config}  # Java does not know the variable
    return {}


def _login(security: ClientSecurity) -> dict[str, str]:
    mechanism = {"sasl.mechanism": str(security.mechanism)}
    if security.oauth is not None:
        return mechanism | _token_login(security.oauth)
    if security.kerberos is not None:
        return mechanism | _ticket_login(security.kerberos)
    assert security.password is not None and security.mechanism is not None, "it has been checked"
    user, password = security.username or "", _reference(security.password, "password")
    return mechanism | {
        "sasl.jaas.config": f"{_MODULES[security.mechanism]} required "
        f"username={jaas_text(user)} password={jaas_text(password)};",
    }


def _token_login(login: OauthLogin) -> dict[str, str]:
    if login.assertion_file is not None:
        raise ConnectorRefusedError(
            "the connector has the client of Kafka 3.9, which requests no token by "
            '`assertion_file`; use a client ID and its secret, or format("heliograph")'
        )
    secret = login.client_secret
    found = java_configs(login, "" if secret is None else _reference(secret, "client secret"))
    if login.token_ca_file is not None:
        # For the endpoint this client takes options of the login module, not its configs.
        authority = (
            f' ssl.truststore.type="PEM" ssl.truststore.location={jaas_text(login.token_ca_file)};'
        )
        found["sasl.jaas.config"] = found["sasl.jaas.config"].removesuffix(";") + authority
    return found


def _ticket_login(login: KerberosLogin) -> dict[str, str]:
    return {
        "sasl.jaas.config": f"{_KERBEROS_MODULE} required useKeyTab=true storeKey=true "
        f"keyTab={jaas_text(login.keytab_file)} principal={jaas_text(login.principal)};",
        "sasl.kerberos.service.name": login.service_name,
    }


def _certificates(security: ClientSecurity) -> dict[str, str]:
    found: dict[str, str] = {}
    if security.ca_file is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": security.ca_file}
    if security.certificate_file is not None:
        found["ssl.keystore.type"] = "PEM"
        if security.key_file is None:
            found["ssl.keystore.location"] = security.certificate_file
        else:
            found["ssl.keystore.certificate.chain"] = _file(security.certificate_file)
            found["ssl.keystore.key"] = _file(security.key_file)
        if security.key_password is not None:
            found["ssl.key.password"] = _reference(security.key_password, "password of the key")
    if not security.check_hostname:
        found["ssl.endpoint.identification.algorithm"] = ""
    return found


def _reference(secret: Secret, what: str) -> str:
    """Return where a provider finds a secret, which it must be able to pass on."""
    try:
        value = read_secret(secret)
    except SecurityError as error:
        raise ConnectorRefusedError(str(error)) from error
    place = f"environment variable {secret.env}" if secret.file is None else secret.file
    if any(each in value for each in _NOT_IN_QUOTES):
        raise ConnectorRefusedError(
            f"the {what} in {place} has a quotation mark, a backslash, a dollar or a line end, "
            'which the connector does not pass on; use format("heliograph")'
        )
    if secret.file is None:
        return f"${{env:{secret.env}}}"
    if Path(secret.file).read_bytes() != value.encode():
        raise ConnectorRefusedError(
            f"the {what} in {place} has a line end after it, which the connector takes for a part "
            "of it; write the file without one, as by printf %s"
        )
    return _file(secret.file)


def _file(path: str) -> str:
    absolute = Path(path).absolute()
    if any(each in str(absolute) for each in _NOT_IN_PATHS):
        raise ConnectorRefusedError(f"the connector reads no file at {absolute}: rename the path")
    return f"${{directory:{absolute.parent}:{absolute.name}}}"
