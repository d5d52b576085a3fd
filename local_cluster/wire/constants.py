"""Numbers that the Kafka protocol gives a meaning, each defined once.

The names are those of Kafka's Java classes. Constants of record batches are in
`local_cluster/records/header.py`, API keys in `api.py`, error codes in `errors.py`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

CONSUMER_REPLICA_ID: Final = -1
"""The replica id of a client that is no replica (Fetch, ListOffsets)."""

# ListOffsets: timestamps that stand for a position (ListOffsetsRequest).
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6

# Isolation levels of Fetch and ListOffsets (IsolationLevel).
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

# When a Produce is answered.
ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1

# Key types of FindCoordinator (CoordinatorType).
GROUP_KEY_TYPE: Final = 0
TRANSACTION_KEY_TYPE: Final = 1

NO_GENERATION: Final = -1
"""The generation id of a commit that no group member makes."""

OPERATIONS_NOT_REQUESTED: Final = -(2**31)
"""The authorized operations (KIP-430) of a response whose request did not ask for them."""


class ConfigResourceType(IntEnum):
    """The kinds of resources that have configs (ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where the value of a config comes from (DescribeConfigs)."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class AlterOperation(IntEnum):
    """What IncrementalAlterConfigs does with a value (AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AclOperation(IntEnum):
    """What a principal does to a resource."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class CredentialName(NamedTuple):
    """The SCRAM credential of one user; he may have one for each mechanism."""

    user: str
    mechanism: str
    """Such as SCRAM-SHA-512."""


SCRAM_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Names of the SCRAM mechanisms by their numbers in messages (KIP-554)."""

WILDCARD: Final = "*"
"""The resource name of a literal ACL, or the host, that stands for every one."""
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name of a CLUSTER resource."""


class ResourceType(IntEnum):
    """The kind of resource that an ACL protects."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL names the resource."""

    ANY = 1
    MATCH = 2
    """Only in filters: every pattern that covers the name."""
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether an ACL allows or denies."""

    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One ACL binding. Its numbers may be newer than the enumerations here."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        named = (
            _name(Permission, self.permission),
            self.principal,
            f"from {self.host}",
            _name(AclOperation, self.operation),
            _name(ResourceType, self.resource_type),
            f"{self.resource_name!r}",
            _name(PatternType, self.pattern_type),
        )
        return " ".join(named)


def _name(kind: type[IntEnum], value: int) -> str:
    return kind(value).name if value in {int(known) for known in kind} else str(value)
