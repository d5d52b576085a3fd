"""The links into an aggregate, as readers need them.

Spark passes options to a data source as text, so links are passed as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity
from spark_global.addresses import decode_security, security_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorLink:
    """A link into the aggregate."""

    source: str
    """Name of the source cluster, which is the prefix of its topics on the aggregate."""
    datacenter: str
    name: str | None = None
    """Name of the link; required if its topics keep their names on the aggregate."""
    bootstrap: str | None = None
    """Bootstrap addresses of the source cluster; required for the audit, which reads both sides."""
    security: ClientSecurity = PLAINTEXT
    """Security settings of connections to the source cluster."""

    @property
    def prefix(self) -> str:
        """The prefix of the copies' names on the aggregate."""
        return self.source + "."


def former_names(links: Iterable[MirrorLink]) -> dict[str, str]:
    """Return the datacenters of links by the names that a running query gives them. Pure.

    A link that joins a query has its alias or its own name as datacenter. The options of the next
    run say which one it is.
    """
    every = list(links)
    present = {link.datacenter for link in every}
    return {
        name: link.datacenter
        for link in every
        for name in (link.source, link.name)
        if name is not None and name not in present
    }


def encode_links(links: Iterable[MirrorLink]) -> str:
    """Return the text of the option `links`."""
    return json.dumps(
        [{**asdict(link), "security": security_fields(link.security)} for link in links]
    )


def decode_links(text: str) -> tuple[MirrorLink, ...]:
    """Read the text of the option `links`. Raises ValueError for any other text."""
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
