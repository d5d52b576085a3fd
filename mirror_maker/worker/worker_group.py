"""The group of a target's workers, as one member sees it: which flows are assigned to it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from local_cluster.client.client import KafkaClient
from local_cluster.client.group import GroupAssignment, GroupMember, GroupMembership, GroupOptions
from local_cluster.client.model import TopicPartition
from mirror_maker.formats.workers import PROTOCOL_TYPE, WorkerAddress, workers_group_id
from mirror_maker.link.link import LinkWorker
from mirror_maker.settings import MirrorSettings
from mirror_maker.worker.assignment import (
    PROTOCOL_NAME,
    FlowName,
    Subscription,
    assign,
    decode_assignment,
    digest,
    encode_subscription,
)

log = logging.getLogger(__name__)


class WorkerGroup:
    """Joins the group, reports what was discovered, and hands assignments to the links."""

    def __init__(self, settings: MirrorSettings, client: KafkaClient) -> None:
        """`client` must not be used for anything else: a join occupies its connection."""
        self._links: dict[str, LinkWorker] = {}
        self._owned: frozenset[FlowName] = frozenset()
        self._reported_digest = 0
        self._attempts = 0
        self.is_joined = False
        self.address: WorkerAddress | None = None
        """Part of the subscription; set it before `membership.run`."""
        self.unknown_links: tuple[str, ...] = ()
        """Links that this worker does not have but was assigned flows of. No worker copies those
        flows."""
        self.membership = GroupMembership(
            client,
            GroupOptions(
                group_id=workers_group_id(settings.target_alias),
                protocol_type=PROTOCOL_TYPE,
                protocol_name=PROTOCOL_NAME,
                # A worker that was killed takes its place again at once when it restarts.
                group_instance_id=settings.worker_id,
                session_timeout_ms=settings.session_timeout_ms,
                rebalance_timeout_ms=settings.session_timeout_ms,
                heartbeat_ms=settings.heartbeat_ms,
            ),
            metadata=self.subscription,
            assign=_assign,
            on_assignment=self.on_assignment,
        )

    def is_valid(self) -> bool:
        """Return whether the lease holds: the group still counts this worker as a member."""
        return self.membership.is_lease_valid()

    def attach(self, links: Sequence[LinkWorker]) -> None:
        """Set the links to share, before `membership.run`."""
        self._links = {link.name: link for link in links}

    def on_known_changed(self) -> None:
        """Request a rebalance, because discovery found more partitions."""
        if self.is_joined:
            self.membership.rejoin()

    def _known(self) -> frozenset[FlowName]:
        return frozenset(
            FlowName(name, at.topic, at.partition)
            for name, link in self._links.items()
            for at in link.known
        )

    def subscription(self) -> bytes:
        """Return what this worker sends when it joins."""
        known = self._known()
        self._reported_digest = digest(known)
        self._attempts += 1
        return encode_subscription(
            Subscription(self._owned, known, self._attempts, self.address, frozenset(self._links))
        )

    def _report_unknown(self) -> None:
        """Log flows of links that this worker does not have.

        A leader assigns flows only to workers that have their link, but an older version does not
        check.
        """
        ours = [flow for flow in self._owned if flow.link not in self._links]
        self.unknown_links = tuple(sorted({flow.link for flow in ours}))
        if ours:
            log.error(
                "no worker copies %d flows: they are assigned to this worker, which does not have "
                "their links: %s; configure every worker of this target alike, with one version",
                len(ours),
                ", ".join(self.unknown_links),
            )

    async def on_assignment(self, given: GroupAssignment) -> None:
        """Hand the assignment of a generation to the links. Raises ValueError."""
        assignment = decode_assignment(given.assignment)
        self._owned = assignment.flows
        known = self._known()
        self._report_unknown()
        log.info(
            "generation %d: %d of %d known flows are assigned",
            given.generation_id,
            len(self._owned),
            len(known),
        )
        for name, link in self._links.items():
            link.assign(
                TopicPartition(flow.topic, flow.partition)
                for flow in self._owned
                if flow.link == name
            )
        was_joined, self.is_joined = self.is_joined, True
        known_digest = digest(known)
        # Discovery may have found more during the join. And a static member that comes back gets
        # its old assignment without a look at what it knows at present.
        restored = not was_joined and not self.membership.is_leader
        if known_digest != self._reported_digest or (
            restored and known_digest != assignment.known_digest
        ):
            self.membership.rejoin()


def _assign(members: Sequence[GroupMember]) -> Mapping[str, bytes]:
    return assign([(member.member_id, member.metadata) for member in members])
