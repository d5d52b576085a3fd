"""A cluster's address and security settings, also as the text of an option.

TLS and SASL settings name the file or the environment variable of a secret. So no plan, log or page
of Spark has a secret. Each process that reads opens it by itself: on a master other than `local` it
must exist on the executors too.
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
    """Bootstrap addresses and security settings of a Kafka cluster."""

    bootstrap: str
    security: ClientSecurity = PLAINTEXT

    def client(self) -> KafkaClient:
        """Return a new client; it connects at the first request."""
        return KafkaClient(self.bootstrap, client_id=CLIENT_ID, security=self.security)


def security_fields(security: ClientSecurity) -> dict[str, Any]:
    """Return the settings that differ from the defaults, as JSON values."""
    return {name: value for name, value in asdict(security).items() if value != _DEFAULTS[name]}


def encode_security(security: ClientSecurity) -> str:
    """Return the text of the option `security`."""
    return json.dumps(security_fields(security))


def decode_security(value: object) -> ClientSecurity:
    """Read the result of `security_fields`, or its JSON text.

    Raises ValueError. Its message repeats no value, because one may be a misplaced secret.
    """
    try:
        if isinstance(value, str):
            return _SECURITY.validate_json(value)
        return _SECURITY.validate_python(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        texts = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}".lstrip(": ") for each in found)
        raise ValueError("; ".join(texts)) from None
