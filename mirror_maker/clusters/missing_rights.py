"""The rights that a principal lacks in a cluster, in an operator's words. Pure.

Each response that refuses is about an operation on a resource, as Kafka's ACLs name them. A later
response to the same request takes it back. Error codes alone do not tell which right is missing,
and a cluster does not even list what a principal may not describe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from local_cluster.client.auth.security import ClientSecurity
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import GROUP_KEY_TYPE
from local_cluster.wire.errors import ErrorCode
from local_cluster.wire.messages import Fields, get

MISSING_MAX: Final = 1_000
"""Rights that are kept at once; beyond this number the oldest are dropped."""
FORGOTTEN_MS: Final = 180_000
"""A right that was not refused for this long was not requested again. Longer than every backoff
with its default."""

_REFUSALS: Final = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
    }
)
_TOPIC: Final = "topic"
_ANY_TOPIC: Final = "any topic"
_CLUSTER: Final = "the cluster"


class Right(NamedTuple):
    """An operation on a resource, in Kafka's words."""

    operation: str
    resource: str
    name: str = ""
    """Empty if the resource has none: the cluster, any topic."""

    @property
    def topic(self) -> str | None:
        """Return the topic that the right is about, if any."""
        return self.name if self.resource == _TOPIC else None


class MissingRights:
    """The rights that one principal lacks in one cluster, as far as they were refused."""

    def __init__(
        self, alias: str, security: ClientSecurity, *, forgotten_ms: int = FORGOTTEN_MS
    ) -> None:
        self._alias = alias
        self._principal = principal(security)
        self._forgotten_ms = forgotten_ms
        self._refused_ms: dict[Right, int] = {}
        """Monotonic time of the last refusal, the oldest first."""

    def note(self, answers: Iterable[tuple[Right, int]], now_ms: int) -> list[Right]:
        """Take in results, each with its error code; return the rights that are newly missing."""
        self._forget(now_ms)
        found = []
        for right, code in answers:
            if code in _REFUSALS:
                if self._refused_ms.pop(right, None) is None:
                    found.append(right)
                self._refused_ms[right] = now_ms
            elif self._refused_ms:
                self._refused_ms.pop(right, None)
        while len(self._refused_ms) > MISSING_MAX:
            del self._refused_ms[next(iter(self._refused_ms))]
        return found

    def known(self, now_ms: int) -> list[Right]:
        """Return the missing rights, sorted."""
        self._forget(now_ms)
        return sorted(self._refused_ms)

    def _forget(self, now_ms: int) -> None:
        while self._refused_ms:
            right, refused_ms = next(iter(self._refused_ms.items()))
            if now_ms - refused_ms < self._forgotten_ms:
                return
            del self._refused_ms[right]

    def sentence(self, right: Right) -> str:
        on = f"{right.resource} {right.name}".rstrip()
        return f"{self._principal} may not {right.operation} {on} at {self._alias}"

    def __bool__(self) -> bool:
        return bool(self._refused_ms)


def principal(security: ClientSecurity) -> str:
    """Return the principal as ACLs name it, as far as the client can know it."""
    if security.username is not None:
        return f"User:{security.username}"
    if security.oauth is not None:
        return f"the principal of {security.oauth.who}"
    if security.kerberos is not None:
        return f"the user of {security.kerberos.principal}"
    if security.certificate_file is not None:
        return f"the principal of {security.certificate_file}"
    return "User:ANONYMOUS"


def topic_right(operation: str, topic: str) -> Right:
    return Right(operation, _TOPIC, topic)


def answered_rights(api: ApiKey, fields: Fields, response: Any) -> Iterator[tuple[Right, int]]:
    """Yield the rights that a request needed, each with its error code in the response."""
    if api in _TOPIC_APIS:
        operation, attribute = _TOPIC_APIS[api]
        for topic in getattr(response, attribute):
            name = get(topic, "name", None) or get(topic, "resource_name", None)
            if name:
                yield topic_right(operation, name), _code_of(topic)
    if api is ApiKey.FIND_COORDINATOR:
        for group_id, code in _coordinators(fields, response):
            yield _group("DESCRIBE", group_id), code
    elif api is ApiKey.OFFSET_FETCH:
        for group_id, code in _fetched_groups(fields, response):
            yield _group("DESCRIBE", group_id), code
    elif api is ApiKey.OFFSET_COMMIT:
        yield _group("READ", fields["group_id"]), _code_of_commit(response)
    elif api in _GROUP_APIS:
        yield _group("READ", fields["group_id"]), response.error_code
    elif api is ApiKey.INIT_PRODUCER_ID:
        # Or IDEMPOTENT_WRITE on the cluster, the only way before Kafka 2.8 (KIP-679).
        yield Right("WRITE", _ANY_TOPIC), response.error_code
    else:
        yield from _cluster_rights(api, response)


def _cluster_rights(api: ApiKey, response: Any) -> Iterator[tuple[Right, int]]:
    if api in _CLUSTER_READS:
        yield Right(_CLUSTER_READS[api], _CLUSTER), response.error_code
    elif api in _CLUSTER_CHANGES:
        operation, attribute = _CLUSTER_CHANGES[api]
        codes = [each.error_code for each in getattr(response, attribute)]
        code = _refusal(ErrorCode.cluster_authorization_failed, codes)
        yield Right(operation, _CLUSTER), code


_TOPIC_APIS: Final = {
    ApiKey.LIST_OFFSETS: ("DESCRIBE", "topics"),
    ApiKey.CREATE_TOPICS: ("CREATE", "topics"),
    ApiKey.DELETE_TOPICS: ("DELETE", "responses"),
    ApiKey.DELETE_RECORDS: ("DELETE", "topics"),
    ApiKey.CREATE_PARTITIONS: ("ALTER", "results"),
    ApiKey.DESCRIBE_CONFIGS: ("DESCRIBE_CONFIGS", "results"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("ALTER_CONFIGS", "responses"),
    ApiKey.OFFSET_COMMIT: ("READ", "topics"),
}
_GROUP_APIS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT})
_CLUSTER_READS: Final = {
    ApiKey.DESCRIBE_ACLS: "DESCRIBE",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "DESCRIBE_CONFIGS",
}
_CLUSTER_CHANGES: Final = {
    ApiKey.CREATE_ACLS: ("ALTER", "results"),
    ApiKey.DELETE_ACLS: ("ALTER", "filter_results"),
    ApiKey.ALTER_CLIENT_QUOTAS: ("ALTER_CONFIGS", "entries"),
}


def _group(operation: str, group_id: str) -> Right:
    return Right(operation, "group", group_id)


def _code_of(topic: Any) -> int:
    """Return the error of a topic, or of a partition that was refused because of it."""
    code = int(get(topic, "error_code", 0))
    codes = [partition.error_code for partition in get(topic, "partitions", None) or ()]
    return code or _refusal(ErrorCode.topic_authorization_failed, codes)


def _code_of_commit(response: Any) -> int:
    """Return the refusal of the group, which every partition of the response repeats."""
    codes = [partition.error_code for topic in response.topics for partition in topic.partitions]
    return _refusal(ErrorCode.group_authorization_failed, codes)


def _refusal(code: ErrorCode, codes: Sequence[int]) -> int:
    return int(code) if code in codes else 0


def _coordinators(fields: Fields, response: Any) -> Iterator[tuple[str, int]]:
    many = get(response, "coordinators", None)
    if many is not None:
        yield from ((each.key, each.error_code) for each in many)
    elif fields.get("key_type") == GROUP_KEY_TYPE:
        yield fields["key"], response.error_code


def _fetched_groups(fields: Fields, response: Any) -> Iterator[tuple[str, int]]:
    many = get(response, "groups", None)
    if many is not None:
        yield from ((each.group_id, each.error_code) for each in many)
    else:
        yield fields["group_id"], get(response, "error_code", 0)
