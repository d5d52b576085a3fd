"""The links that feed an aggregate, as far as a reader must know them.

Spark hands options to a data source as text, so links travel as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from spark_global.addresses import decode_security, security_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorLink:
    """One link into the aggregate."""

    source: str
    """Name of the source cluster: the prefix of its topics on the aggregate."""
    datacenter: str
    name: str | None = None
    """Name of the link; needed only where its topics keep their names on the aggregate."""
    bootstrap: str | None = None
    """Addresses of the source cluster; needed where both sides are read (the audit)."""
    security: ClientSecurity = PLAINTEXT
    """How to talk to the source cluster."""

    @property
    def prefix(self) -> str:
        """What stands before a source topic's name on the aggregate."""
        return self.source + "."


def encode_links(links: Iterable[MirrorLink]) -> str:
    """The links as the text of the option `links`."""
    return json.dumps(
        [{**asdict(link), "security": security_fields(link.security)} for link in links]
    )


def decode_links(text: str) -> tuple[MirrorLink, ...]:
    """The links of the option `links`. Raises ValueError where the text is something else."""
    try:
        return tuple(
            MirrorLink(**{**entry, "security": decode_security(entry.get("security", {}))})
            for entry in json.loads(text)
        )
    except (TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"option links: a JSON array of objects with source, datacenter, name, bootstrap and "
            f"security: {error}"
        ) from error
