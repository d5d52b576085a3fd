"""Which of the target's flows are this worker's: the group of workers, seen from one of them."""

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

logger = logging.getLogger(__name__)


class WorkerGroup:
    """Joins the group, tells it what was discovered, hands assignments to the links."""

    def __init__(self, settings: MirrorSettings, client: KafkaClient) -> None:
        """`client` is used for nothing else: a join holds its connection."""
        self._links: dict[str, LinkWorker] = {}
        self._owned: frozenset[FlowName] = frozenset()
        self._told_digest = 0
        self._attempts = 0
        self.is_joined = False
        self.address: WorkerAddress | None = None
        """Told to the group; set before `membership.run`."""
        self.unknown_links: tuple[str, ...] = ()
        """Links that this worker was given flows of and does not have: nobody copies those."""
        self.membership = GroupMembership(
            client,
            GroupOptions(
                group_id=workers_group_id(settings.target_alias),
                protocol_type=PROTOCOL_TYPE,
                protocol_name=PROTOCOL_NAME,
                # A worker that was killed and comes back takes its place again at once.
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
        """The lease: whether the group still counts this worker in."""
        return self.membership.is_lease_valid()

    def attach(self, links: Sequence[LinkWorker]) -> None:
        """The links to share out, before `membership.run`."""
        self._links = {link.name: link for link in links}

    def on_known_changed(self) -> None:
        """Discovery found more partitions: have them shared out."""
        if self.is_joined:
            self.membership.rejoin()

    def _known(self) -> frozenset[FlowName]:
        return frozenset(
            FlowName(name, at.topic, at.partition)
            for name, link in self._links.items()
            for at in link.known
        )

    def subscription(self) -> bytes:
        """What this worker says when it joins."""
        known = self._known()
        self._told_digest = digest(known)
        self._attempts += 1
        return encode_subscription(
            Subscription(self._owned, known, self._attempts, self.address, frozenset(self._links))
        )

    def _tell_unknown(self) -> None:
        """The leader gives flows to workers that have their link, but one of an older version
        does not look at that."""
        ours = [flow for flow in self._owned if flow.link not in self._links]
        self.unknown_links = tuple(sorted({flow.link for flow in ours}))
        if ours:
            logger.error(
                "%d flows of links that this worker does not have are given to it and not copied "
                "by anybody: %s; give every worker of this target the same links and version",
                len(ours),
                ", ".join(self.unknown_links),
            )

    async def on_assignment(self, given: GroupAssignment) -> None:
        """Hand what a generation gives this worker to its links. Raises ValueError."""
        assignment = decode_assignment(given.assignment)
        self._owned = assignment.flows
        known = self._known()
        self._tell_unknown()
        logger.info(
            "generation %d: %d flows of %d known",
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
        # More may have been discovered while the join was under way. And a static member that
        # comes back is given its old assignment without anybody looking at what it knows now.
        restored = not was_joined and not self.membership.is_leader
        if known_digest != self._told_digest or (
            restored and known_digest != assignment.known_digest
        ):
            self.membership.rejoin()


def _assign(members: Sequence[GroupMember]) -> Mapping[str, bytes]:
    return assign([(member.member_id, member.metadata) for member in members])
