"""A plan when a side has no authorizer, or hides what mirrors wrote."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace as Answer
from typing import Any, cast

import pytest

from local_cluster.client.auth.scram_transfer import (
    StoredCredential,
    StoredCredentials,
    decode_read,
    encode_stored,
)
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import CredentialName
from local_cluster.wire.errors import ErrorCode, KafkaError
from mirror_maker.formats.written_rights import QuotaName, WrittenRights
from mirror_maker.rights_sync.rights_planner import RightsPlanner
from mirror_maker.settings import LinkSettings
from mirror_maker.topic_sync.sync_plan import PlannedCredential

SETTINGS = LinkSettings(
    name="x", source_alias="a", source_bootstrap="-", sync_group_acls=True, sync_quotas=True
)
RATE = QuotaName((("user", "alice"),), "producer_byte_rate")


class ClusterDouble:
    """A cluster without an authorizer; `probe` is its answer about a topic that no link has."""

    def __init__(
        self,
        quota: float | None = None,
        probe: ErrorCode = ErrorCode.none,
        user: CredentialName | None = None,
    ) -> None:
        self._quota = quota
        self._user = user
        self._probe = probe

    async def metadata(self, names: list[str] | None = None, **_: object) -> Answer:
        error = self._probe or ErrorCode.unknown_topic_or_partition
        return Answer(topics={name: Answer(error=error) for name in names or ()})

    async def call(self, api: ApiKey, fields: dict[str, Any], **_: object) -> Answer:
        assert api is ApiKey.DESCRIBE_ACLS
        return Answer(error_code=ErrorCode.security_disabled, error_message="no authorizer")

    async def call_controller(self, api: ApiKey, fields: dict[str, Any]) -> Answer:
        assert api is ApiKey.DESCRIBE_CLIENT_QUOTAS
        entity = [Answer(entity_type=kind, entity_name=name) for kind, name in RATE.entity]
        values = [Answer(key=RATE.quota, value=self._quota)]
        entries = [] if self._quota is None else [Answer(entity=entity, values=values)]
        return Answer(error_code=0, error_message=None, entries=entries)

    async def call_controller_raw(self, api: ApiKey, body: bytes) -> bytes:
        """Answer as a broker with one user, or fail as one that does not serve this."""
        if self._user is None:
            raise KafkaError(ErrorCode.unsupported_version, f"the broker has no {api.name}")
        credentials = {self._user: StoredCredential("1")} if decode_read(body).users is None else {}
        return encode_stored(StoredCredentials(credentials, frozenset()))


def planner(
    source: ClusterDouble, target: ClusterDouble, settings: LinkSettings = SETTINGS
) -> RightsPlanner:
    return RightsPlanner(cast("Any", source), cast("Any", target), settings)


async def test_quotas_follow_although_a_side_has_no_authorizer() -> None:
    found = await planner(ClusterDouble(5.0), ClusterDouble()).plan(WrittenRights())
    assert [(each.quota, each.quota_value) for each in found.plan.changes] == [(RATE, 5.0)]
    assert [each.code for each in found.failures] == [ErrorCode.security_disabled]


async def test_nothing_follows_while_what_mirrors_wrote_is_hidden() -> None:
    """Otherwise it would all pass for native, and circulate."""
    source = ClusterDouble(5.0, ErrorCode.topic_authorization_failed)
    with pytest.raises(KafkaError, match="heliograph-rights"):
        await planner(source, ClusterDouble()).plan(WrittenRights())


ALICE = CredentialName("alice", "SCRAM-SHA-512")
USERS = replace(SETTINGS, sync_group_acls=False, sync_users=True, users=("alice",))


async def test_users_follow_between_clusters_of_ours() -> None:
    source, target = ClusterDouble(user=ALICE), ClusterDouble(user=ALICE)
    found = await planner(source, target, USERS).plan(WrittenRights())
    assert found.failures == []
    assert [each.credential for each in found.plan.changes] == [PlannedCredential(ALICE, None, "1")]


@pytest.mark.parametrize("theirs", ["source", "target"])
async def test_a_side_that_gives_or_takes_no_users_is_named_and_the_rest_follows(
    theirs: str,
) -> None:
    source = ClusterDouble(5.0, user=None if theirs == "source" else ALICE)
    target = ClusterDouble(user=None if theirs == "target" else ALICE)
    found = await planner(source, target, USERS).plan(WrittenRights())
    assert [each.quota for each in found.plan.changes] == [RATE]
    (failure,) = found.failures
    name = "a" if theirs == "source" else "the target"
    assert failure.message.startswith(
        f"SCRAM users do not follow: {name} does not serve stored credentials. Brokers of ours do"
    )
