"""Which quota holds for a client, and with whom the client shares it. Pure.

As in Kafka's ClientQuotaManager the first of these that is set decides:

    users/U/clients/C, users/U/clients/<default>, users/U,
    users/<default>/clients/C, users/<default>/clients/<default>, users/<default>,
    clients/C, clients/<default>

A quota of a user is shared by all its clients, one of a client id by all users with that client
id. A default gives each user, client id or pair a quota of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from local_cluster.quotas.entity import CLIENT_ID, USER, Entity

Quotas = Mapping[Entity, Mapping[str, float]]
"""The values of each entity by quota key."""

NOBODY: Final = ""
"""In place of a user or a client id: the quota does not depend on it."""


class Share(NamedTuple):
    """Whose values are added up: a user, a client id, or a pair; NOBODY in place of the other."""

    user: str
    client_id: str


class Limit(NamedTuple):
    """A quota that holds for a client."""

    share: Share
    value: float


def find_limit(
    quotas: Quotas, key: str, user: str, client_id: str, *, only_named: bool = False
) -> Limit | None:
    """Return the quota `key` of a client, None if it has none.

    With `only_named` a quota must name the user.
    """
    pair, of_user, of_client = (
        Share(user, client_id),
        Share(user, NOBODY),
        Share(NOBODY, client_id),
    )
    candidates: tuple[tuple[Share, Entity], ...] = (
        (pair, ((USER, user), (CLIENT_ID, client_id))),
        (pair, ((USER, user), (CLIENT_ID, None))),
        (of_user, ((USER, user),)),
        (pair, ((USER, None), (CLIENT_ID, client_id))),
        (pair, ((USER, None), (CLIENT_ID, None))),
        (of_user, ((USER, None),)),
        (of_client, ((CLIENT_ID, client_id),)),
        (of_client, ((CLIENT_ID, None),)),
    )
    names = {USER: user, CLIENT_ID: client_id}
    for share, entity in candidates:
        # As in Kafka no quota of client ids, also no default, holds for an empty client id.
        if all(names[kind] for kind, _ in entity) and (not only_named or (USER, user) in entity):
            value = quotas.get(entity, {}).get(key)
            if value is not None:
                return Limit(share, value)
    return None
