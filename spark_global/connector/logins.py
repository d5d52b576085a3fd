"""Security settings of a cluster as options of the connector, without any secret. Shell.

The options name where a secret is. Kafka's config providers read it when a client starts, on the
driver and on the executors: `${directory:DIRECTORY:FILE}` or `${env:VARIABLE}`. So no plan, log or
page of Spark has it. A provider takes a file as it is and puts it between quotation marks. What
does not survive that is refused here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from local_cluster.client.auth.credentials import read_secret
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


def _login(security: ClientSecurity) -> dict[str, str]:
    module = _MODULES.get(security.mechanism or "")
    if module is None or security.password is None or security.username is None:
        raise ConnectorRefusedError(
            f"the connector logs in by {', '.join(_MODULES)}, not by {security.mechanism}; use "
            'format("heliograph")'
        )
    user = security.username.replace("\\", "\\\\").replace('"', '\\"')
    password = _reference(security.password, "password")
    return {
        "sasl.mechanism": str(security.mechanism),
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
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
