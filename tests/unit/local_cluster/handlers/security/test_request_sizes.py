"""Requests that change rights and quotas have so many elements, and no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from local_cluster.handlers.security.acl_filters import ACLS_MAX, changeable_acls
from local_cluster.handlers.security.p49_alter_client_quotas import ENTRIES_MAX, alter_client_quotas
from local_cluster.handlers.security.p51_alter_user_scram_credentials import (
    USERS_MAX,
    alter_user_scram_credentials,
)
from local_cluster.wire.errors import ErrorCode, KafkaError

CONTEXT: Any = None


class Changes:
    """Counts what was changed."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def alter_client(self, path: str, plan: Any, **_: Any) -> None:
        self.paths.append(path)


def broker_of(changes: Changes) -> Any:
    async def reload(paths: list[str]) -> None:
        assert not paths

    async def reload_user(name: str) -> None:
        assert name

    return SimpleNamespace(
        scram_users=SimpleNamespace(reload=reload_user),
        authorize=lambda *_: True,
        control_plane=SimpleNamespace(configs=changes),
        quota_store=SimpleNamespace(reload=reload),
        acls="the store",
    )


async def result_of(answering: Any) -> Any:
    return await answering


async def test_quotas_of_too_many_entities_are_refused_and_none_is_changed() -> None:
    changes = Changes()
    entries = [
        SimpleNamespace(
            entity=[SimpleNamespace(entity_type="user", entity_name=f"u{number}")], ops=[]
        )
        for number in range(ENTRIES_MAX + 1)
    ]
    request: Any = SimpleNamespace(entries=entries, validate_only=False)
    response = await result_of(alter_client_quotas(broker_of(changes), CONTEXT, request))
    codes = {each["error_code"] for each in response["entries"]}
    assert codes == {ErrorCode.invalid_request}
    assert len(response["entries"]) == ENTRIES_MAX + 1
    assert not changes.paths


async def test_credentials_of_too_many_users_are_refused_and_none_is_changed() -> None:
    changes = Changes()
    deletions = [SimpleNamespace(name=f"u{number}", mechanism=1) for number in range(USERS_MAX + 1)]
    request: Any = SimpleNamespace(deletions=deletions, upsertions=[])
    answering = alter_user_scram_credentials(broker_of(changes), CONTEXT, request)
    response = await result_of(answering)
    assert {each["error_code"] for each in response["results"]} == {ErrorCode.invalid_request}
    assert not changes.paths
    request = SimpleNamespace(deletions=deletions[:USERS_MAX], upsertions=[])
    await result_of(alter_user_scram_credentials(broker_of(changes), CONTEXT, request))
    assert len(changes.paths) == USERS_MAX


def test_too_many_acls_are_refused_as_by_kafka() -> None:
    broker = broker_of(Changes())
    acls: object = changeable_acls(broker, CONTEXT, ACLS_MAX, "ACLs")
    assert acls == "the store"
    with pytest.raises(KafkaError, match="at most 10000 ACLs") as refused:
        changeable_acls(broker, CONTEXT, ACLS_MAX + 1, "ACLs")
    assert refused.value.code is ErrorCode.policy_violation
