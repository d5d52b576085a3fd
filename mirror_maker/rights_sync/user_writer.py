"""Carries out the changes of SCRAM credentials: reads keys at the source, sets them. Shell.

Keys are held for the time of one call, and nothing else is done with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from local_cluster.client.admin.stored_credentials import read_keys, write_stored_credentials
from local_cluster.client.auth.scram_transfer import CredentialChange
from local_cluster.wire.errors import KafkaError
from mirror_maker.clusters.cluster_client import MirrorClient
from mirror_maker.topic_sync.sync_plan import Change


async def apply_users(
    source: MirrorClient, sink: MirrorClient, changes: Sequence[Change]
) -> dict[Change, KafkaError]:
    """Apply the changes of users that are not withheld; return the refused ones, and why.

    A credential that has changed at the source since it was planned waits for the next round: its
    generation has no record yet. Raises KafkaError.
    """
    planned = [
        (each, each.credential)
        for each in changes
        if each.credential is not None and not each.withheld
    ]
    users = sorted({credential.name.user for _, credential in planned if credential.wanted})
    keys = await read_keys(source, users) if users else {}
    doing: dict[Change, CredentialChange] = {}
    for change, (name, expected, wanted) in planned:
        found = keys.get(name)
        if wanted is None:
            doing[change] = CredentialChange(name, expected, None)
        elif found is not None and found.keys is not None and found.generation == wanted:
            doing[change] = CredentialChange(name, expected, found.keys)
    if not doing:
        return {}
    results = await write_stored_credentials(sink, list(doing.values()))
    return {
        change: error for change, error in zip(doing, results, strict=True) if error is not None
    }
