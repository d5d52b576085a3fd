"""Describes, creates, changes and deletes SCRAM credentials (KIP-554)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

from local_cluster.client.auth.scram import HASHES, ITERATIONS_MIN, salted_password
from local_cluster.client.calls import ClusterCalls
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import SCRAM_MECHANISMS
from local_cluster.wire.errors import KafkaError
from local_cluster.wire.messages import Fields

USERS_PER_REQUEST_MAX: Final = 500
SALT_BYTES: Final = 20
ITERATIONS: Final = ITERATIONS_MIN
"""As kafka-configs does by default."""
_NUMBERS: Final = {name: number for number, name in SCRAM_MECHANISMS.items()}


class ScramChange(NamedTuple):
    """The credential of one user and mechanism."""

    name: str
    mechanism: str
    """Such as SCRAM-SHA-512."""
    password: str | None
    """None deletes the credential."""

    def __repr__(self) -> str:
        return f"ScramChange({self.name!r}, {self.mechanism!r})"


async def describe_scram_users(client: ClusterCalls) -> dict[str, dict[str, int]]:
    """Return the iterations by mechanism of every user, as the controller knows them.

    A mechanism that is newer than these is its number. Raises KafkaError.
    """
    response = await client.call_controller(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None})
    if response.error_code:
        raise KafkaError(response.error_code, response.error_message or "DescribeUserScram")
    return {
        entry.user: {
            SCRAM_MECHANISMS.get(each.mechanism, str(each.mechanism)): int(each.iterations)
            for each in entry.credential_infos
        }
        for entry in response.results
        if not entry.error_code
    }


async def alter_scram_users(
    client: ClusterCalls, changes: Sequence[ScramChange]
) -> list[KafkaError | None]:
    """Change each credential by itself; return the error of each, None after a success.

    The password is salted here and does not leave this process. Raises KafkaError if a whole
    request fails.
    """
    results: dict[tuple[str, str], KafkaError | None] = {}
    # A request may name a user only once, whatever the mechanisms.
    for mechanism in dict.fromkeys(each.mechanism for each in changes):
        chosen = [each for each in changes if each.mechanism == mechanism]
        for start in range(0, len(chosen), USERS_PER_REQUEST_MAX):
            fields = _fields(mechanism, chosen[start : start + USERS_PER_REQUEST_MAX])
            response = await client.call_controller(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, fields)
            for entry in response.results:
                code, message = entry.error_code, entry.error_message
                results[entry.user, mechanism] = KafkaError(code, message or "") if code else None
    return [results[each.name, each.mechanism] for each in changes]


def _fields(mechanism: str, changes: Sequence[ScramChange]) -> Fields:
    deleted = [each.name for each in changes if each.password is None]
    return {
        "deletions": [{"name": name, "mechanism": _NUMBERS[mechanism]} for name in deleted],
        "upsertions": [
            _upsertion(each.name, mechanism, each.password)
            for each in changes
            if each.password is not None
        ],
    }


def _upsertion(name: str, mechanism: str, password: str) -> Fields:
    salt = secrets.token_bytes(SALT_BYTES)
    return {
        "name": name,
        "mechanism": _NUMBERS[mechanism],
        "iterations": ITERATIONS,
        "salt": salt,
        "salted_password": salted_password(HASHES[mechanism], password, salt, ITERATIONS),
    }
