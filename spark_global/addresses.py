"""Where a cluster is and how it is talked to, and the same as the text of an option.

Settings of TLS and SASL name the file or the environment variable that holds a secret, so nothing
that Spark keeps, plans, logs or shows has one. Each process that reads opens it by itself: on a
master other than `local` it must be there for the executors as well.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from local_cluster.client.client import KafkaClient

CLIENT_ID: Final = "heliograph-spark"

_SECURITY: Final = TypeAdapter(ClientSecurity)
_DEFAULTS: Final = asdict(PLAINTEXT)


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """A Kafka cluster as its readers dial it."""

    bootstrap: str
    security: ClientSecurity = PLAINTEXT

    def client(self) -> KafkaClient:
        """A new client; it has no connection yet."""
        return KafkaClient(self.bootstrap, client_id=CLIENT_ID, security=self.security)


def security_fields(security: ClientSecurity) -> dict[str, Any]:
    """What is not as by default, as JSON knows it."""
    return {name: value for name, value in asdict(security).items() if value != _DEFAULTS[name]}


def encode_security(security: ClientSecurity) -> str:
    """The text of the option `security`."""
    return json.dumps(security_fields(security))


def decode_security(value: object) -> ClientSecurity:
    """What `security_fields` gave, or its JSON text.

    Raises ValueError, whose message has none of the values: one may be a secret that does not
    belong there.
    """
    try:
        if isinstance(value, str):
            return _SECURITY.validate_json(value)
        return _SECURITY.validate_python(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        told = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}".lstrip(": ") for each in found)
        raise ValueError("; ".join(told)) from None
