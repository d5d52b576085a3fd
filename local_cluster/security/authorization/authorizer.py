"""Decides for the handlers, and remembers decisions until the ACLs change.

A decision is kept by principal, address, operation and resource. Each image starts with no
decisions, so a revocation holds for the next check. An image is replaced as a whole: a request that
checks twice may see two images, but each check sees a complete one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from local_cluster.security.authorization.acl_image import AclImage
from local_cluster.security.authorization.decision import (
    Asking,
    Decision,
    Policy,
    Rule,
    decide,
    decide_by_resource_type,
)
from local_cluster.security.authorization.denials import Denials, Request
from local_cluster.security.authorization.hosts import java_host
from local_cluster.security.authorization.reserved_names import MAPS
from local_cluster.wire.api import ApiKey
from local_cluster.wire.constants import CLUSTER_NAME, AclOperation, ResourceType

DECISIONS_MAX: Final = 100_000
"""Remembered decisions, of about 300 bytes each. All are forgotten when there are more."""
ANY_NAME: Final = "(any)"
PRODUCER_ID: Final = "PRODUCER_ID"
"""In place of a resource type, where a producer id is denied."""
_NO_MIRROR: Final = Decision(False, Rule.MIRROR_PRODUCER)

_Key = tuple[str, str, str, str, str | None]
"""Principal, address, operation, resource type, and name, which is None for any of the type."""


class AskingContext(Protocol):
    """What a request says about its client."""

    @property
    def api_key(self) -> int: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def principal(self) -> str: ...
    @property
    def listener(self) -> str: ...
    @property
    def client_host(self) -> str: ...


class Authorizer:
    """The rights on one broker."""

    def __init__(
        self, policy: Policy, *, is_dry_run: bool = False, on_change: Callable[[], None]
    ) -> None:
        """`on_change` is called after each change of the ACLs."""
        self._policy = policy
        self._is_dry_run = is_dry_run
        self._on_change = on_change
        self._image: AclImage | None = None
        self._decisions: dict[_Key, Decision] = {}
        self.denials = Denials(is_dry_run=is_dry_run)
        self.version = 0
        """Grows with each image: a check of an earlier version has to be repeated."""

    def set_image(self, image: AclImage | None) -> None:
        """Decide by these ACLs from now on; None denies everything but to super users."""
        self._image = image
        self._decisions = {}
        self.version += 1
        self._on_change()

    def authorize(
        self, context: AskingContext, operation: str, resource_type: str, name: str
    ) -> bool:
        """Return whether the client may do this. A denial is logged and counted."""
        decision = self._decide(context, operation, resource_type, name)
        return decision.is_allowed or self._deny(context, operation, resource_type, name, decision)

    def authorize_any(self, context: AskingContext, operation: str, resource_type: str) -> bool:
        """Return whether the client may do this on at least one resource of the type."""
        decision = self._decide(context, operation, resource_type, None)
        return decision.is_allowed or self._deny(
            context, operation, resource_type, ANY_NAME, decision
        )

    def holds(self, context: AskingContext, operation: str, resource_type: str, name: str) -> bool:
        """Return whether the client has a right that stands for another one, by the ACLs alone.

        A dry run does not change it: the other right has to be asked for, and its denial noted.
        """
        return self._decide(context, operation, resource_type, name).is_allowed

    def holds_for_topic(self, context: AskingContext, operation: str, topic: str) -> bool:
        """Return whether the client has a right on the cluster that stands for one on a topic.

        It stands for none on a reserved topic, and `authorize` decides by the ACLs of its name.
        """
        wanted = AclOperation[operation]
        if self._policy.guards(context.principal, wanted, ResourceType.TOPIC, topic):
            return False
        return self.holds(context, operation, ResourceType.CLUSTER.name, CLUSTER_NAME)

    def is_mirror(self, context: AskingContext) -> bool:
        """Return whether a client is a mirror: it may write offset maps.

        A super user, who may write anything, is one only if the settings name it.
        """
        policy = self._policy
        if policy.reserved is None:
            return False
        if context.principal in policy.super_users:
            return policy.reserved.names_writer(context.principal, MAPS)
        return self.holds(context, "WRITE", ResourceType.TOPIC.name, MAPS)

    def authorize_producer(self, context: AskingContext, producer_id: int) -> bool:
        """Return whether the client may write with the producer id of a mirror."""
        if context.principal in self._policy.super_users or self.is_mirror(context):
            return True
        return self._deny(context, "WRITE", PRODUCER_ID, str(producer_id), _NO_MIRROR)

    def may(self, context: AskingContext, operation: str, resource_type: str, name: str) -> bool:
        """Return the same as `authorize`, for a response that lists what is allowed: no denial."""
        decision = self._decide(context, operation, resource_type, name)
        return decision.is_allowed or self._is_dry_run

    def _decide(
        self, context: AskingContext, operation: str, resource_type: str, name: str | None
    ) -> Decision:
        key = (context.principal, context.client_host, operation, resource_type, name)
        decision = self._decisions.get(key)
        if decision is not None:
            return decision
        asking = Asking(context.principal, java_host(context.client_host))
        wanted, kind = AclOperation[operation], ResourceType[resource_type]
        if name is None:
            decision = decide_by_resource_type(self._policy, self._image, asking, wanted, kind)
        else:
            decision = decide(self._policy, self._image, asking, wanted, kind, name)
        if len(self._decisions) >= DECISIONS_MAX:
            self._decisions.clear()
        self._decisions[key] = decision
        return decision

    def _deny(
        self,
        context: AskingContext,
        operation: str,
        resource_type: str,
        name: str,
        decision: Decision,
    ) -> bool:
        """Note a denial; return whether the request is allowed all the same."""
        self.denials.note(request_of(context, operation, resource_type, name), decision)
        return self._is_dry_run


def request_of(context: AskingContext, operation: str, resource_type: str, name: str) -> Request:
    """Return a request in the words of the log."""
    return Request(
        context.principal,
        context.client_host,
        context.listener,
        ApiKey(context.api_key).name,
        context.client_id,
        operation,
        resource_type,
        name,
    )
