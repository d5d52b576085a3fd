"""What the lists of groups and of transactional ids share: every broker is asked for its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from local_cluster.client.client import KafkaClient
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import KafkaError

JsonObject = dict[str, Any]


async def ask_every_broker(
    client: KafkaClient, api_key: ApiKey, fields: Mapping[str, Any], *, version_max: int, what: str
) -> AsyncIterator[tuple[int, Any]]:
    """Yield (node id, response) of each broker. Raises KafkaError that says `what` was asked."""
    for node_id in sorted((await client.metadata([])).brokers):
        answer = await client.call(api_key, fields, node_id=node_id, version_max=version_max)
        if answer.error_code:
            raise KafkaError(answer.error_code, f"{what} of broker {node_id}")
        yield node_id, answer


def in_state(rows: Sequence[JsonObject], state: str | None) -> list[JsonObject]:
    """Return the rows in a state, in whichever case; all of them for None."""
    wanted = None if state is None else state.lower()
    return [row for row in rows if wanted in (None, str(row["state"]).lower())]
