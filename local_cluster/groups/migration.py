"""The migration of groups between the classic and the consumer protocol (KIP-848), in one step.

- Upgrade: a consumer member joins a classic group. The group becomes a consumer group in which the
  others stay classic members, with what they hold as target and current assignment.
- Downgrade: the last consumer member is gone and classic members are left. The group becomes a
  classic group, and its members rebalance.

Rules and errors are those of Kafka's GroupMetadataManager (convertToConsumerGroup,
convertToClassicGroup). Deviations:

- A group whose record would be too large for the log stays a consumer group.
- A downgraded group that has to rebalance has the next generation, in Kafka the group epoch. There
  a coordinator that loads the group before the rebalance ends takes members at the group epoch for
  settled. What the last consumer member held has no owner.
- Until a downgraded group has rebalanced, its members may use the epochs that they had. In Kafka a
  member that was not at the group epoch gets ILLEGAL_GENERATION, and loses its partitions before it
  can commit what it has read. So it does here if the coordinator is replaced.
- A member that joined with partitions that its new assignment lacks is about to give them up. They
  wait for its next JoinGroup. In Kafka a consumer member gets them while it may still read them.
- A downgraded group has as assignment what its members hold. In Kafka it is their target: if a
  consumer member joins before the rebalance ends, a partition could have two owners.
- A group that is downgraded by a static member rebalances unless every member has its target.
  Otherwise a partition could have two owners.
- Sessions go on. In Kafka every member gets a new session with each conversion. While members come
  and go with different protocols, a member that died would keep its partitions.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping

from local_cluster.coordinator_runtime.outcome import UnreadableRecordError
from local_cluster.groups.classic.classic_fsm import GroupState
from local_cluster.groups.classic.group import ClassicGroup, Member
from local_cluster.groups.classic.rebalance import (
    SESSION,
    Step,
    extend_session,
    prepare_rebalance,
    respond_to_join,
    respond_to_sync,
)
from local_cluster.groups.classic.subscription import CONSUMER_PROTOCOL
from local_cluster.groups.consumer import records
from local_cluster.groups.consumer.classic_members import with_topic_ids, with_topic_names
from local_cluster.groups.consumer.consumer_group import ConsumerGroup
from local_cluster.groups.consumer.embedded_protocol import (
    Subscription,
    encode_assignment,
    read_assignment,
    read_subscription,
)
from local_cluster.groups.consumer.model import (
    Assignment,
    ClassicMetadata,
    ConsumerMember,
    MemberState,
)
from local_cluster.groups.consumer.requests import ConsumerGroupLimits
from local_cluster.groups.consumer.step import CONSUMER_SESSION, ConsumerStep
from local_cluster.groups.consumer.topics import Topics
from local_cluster.groups.records import encode_group_value
from local_cluster.groups.requests import JoinResponse, SyncResponse
from local_cluster.groups.timers import TimerKey
from local_cluster.wire.errors import ErrorCode, KafkaError

# -- classic to consumer ----------------------------------------------------------------------


def check_upgrade(group: ClassicGroup, limits: ConsumerGroupLimits) -> None:
    """Raise KafkaError(group_id_not_found), as Kafka does, unless the group may be upgraded."""
    cannot = f"Cannot upgrade classic group {group.group_id} to consumer group because"
    if not limits.may_upgrade:
        raise KafkaError(ErrorCode.group_id_not_found, f"{cannot} online upgrade is disabled.")
    if group.protocol_type != CONSUMER_PROTOCOL:
        raise KafkaError(
            ErrorCode.group_id_not_found,
            f"{cannot} the group does not use the consumer embedded protocol.",
        )
    if len(group.members) > limits.group_consumer_max_size:
        raise KafkaError(
            ErrorCode.group_id_not_found,
            f"{cannot} the group size exceeds the consumer group maximum size.",
        )


def fill_from_classic(step: ConsumerStep, classic: ClassicGroup) -> None:
    """Write a classic group's members and their last assignments into the step's empty group.

    Raises KafkaError: group_id_not_found for metadata that is no subscription, unsupported_version
    for the data of a custom assignor. The caller then drops the step's group.
    """
    cannot = f"Cannot upgrade classic group {classic.group_id} to consumer group because"
    held = _held_partitions(classic, step.topics, cannot)
    try:
        subscriptions = {
            member_id: _subscription(classic, member)
            for member_id, member in classic.members.items()
        }
    except UnreadableRecordError as error:
        raise KafkaError(
            ErrorCode.group_id_not_found, f"{cannot} the embedded consumer protocol is malformed."
        ) from error
    members = [
        _consumer_member(classic, member, subscriptions[member.member_id])
        for member in classic.members.values()
    ]
    unrevoked = _unrevoked_partitions(subscriptions, held, step.topics)
    group, generation = step.group, classic.generation_id
    for member in members:
        step.describe_member(member)
    # Without a hash the topics count as changed: the join that follows raises the epoch. A classic
    # group that was rebalancing may have partitions that nobody holds.
    step.write(records.GroupEpochKey(group.group_id), records.GroupEpoch(generation))
    for member in members:
        target = held[member.member_id]
        step.write(records.TargetKey(group.group_id, member.member_id), dict(target))
    # Without a timestamp the first target of the consumer group is due at once.
    step.write(records.TargetEpochKey(group.group_id), records.TargetEpoch(generation))
    for member in members:
        assigned = {
            topic_id: dict.fromkeys(indexes, member.member_epoch)
            for topic_id, indexes in held[member.member_id].items()
        }
        pending = {
            topic_id: dict.fromkeys(indexes, member.member_epoch)
            for topic_id, indexes in unrevoked[member.member_id].items()
        }
        state = MemberState.UNREVOKED_PARTITIONS if pending else MemberState.STABLE
        step.set_current(
            member._replace(assigned=assigned, pending_revocation=pending, state=state)
        )
        step.extend_session(member.member_id)
        # A member that waits for a response sends no heartbeats; it gets one with this step.
        waits = (
            member.member_id in classic.awaiting_join or member.member_id in classic.awaiting_sync
        )
        if not waits:
            ends_ms = step.timers.deadline_ms(_key(SESSION, group, member))
            step.timers.bring_forward(_key(CONSUMER_SESSION, group, member), ends_ms)


def release_waiting(step: Step, group: ClassicGroup) -> None:
    """Tell the waiting members of an upgraded group to rejoin, and stop their timeouts."""
    for member_id in group.members:
        again = JoinResponse(ErrorCode.rebalance_in_progress, member_id)
        respond_to_join(step, group, member_id, again)
        respond_to_sync(step, group, member_id, SyncResponse(ErrorCode.rebalance_in_progress))
        step.cancel(SESSION, group.group_id, member_id)


def _held_partitions(classic: ClassicGroup, topics: Topics, cannot: str) -> dict[str, Assignment]:
    """Return what each member may hold: what it has in the last stored generation.

    While a new generation is formed, members still hold what they had. If the assignor of a broken
    client gave a partition twice, the first member has it.
    """
    stored = () if classic.stored is None else classic.stored.members
    payloads = {member.member_id: member.assignment for member in stored}
    held: dict[str, Assignment] = {}
    taken: set[tuple[uuid.UUID, int]] = set()
    for member_id in classic.members:
        try:
            assignment = read_assignment(payloads.get(member_id, b""))
        except UnreadableRecordError as error:
            raise KafkaError(
                ErrorCode.group_id_not_found,
                f"{cannot} the embedded consumer protocol is malformed.",
            ) from error
        if assignment.has_user_data:
            raise KafkaError(
                ErrorCode.unsupported_version,
                f"{cannot} an unsupported custom assignor is in use. Please refer to the "
                "documentation or switch to a default assignor before re-attempting the upgrade.",
            )
        held[member_id] = _take_free(with_topic_ids(assignment.partitions, topics), taken)
    return held


def _unrevoked_partitions(
    subscriptions: Mapping[str, Subscription], held: Mapping[str, Assignment], topics: Topics
) -> dict[str, Assignment]:
    """Return what members said they had when they joined, and nobody was given.

    If two members say that they have a partition, the one of the newer generation has it.
    """
    taken = {
        (topic_id, index)
        for each in held.values()
        for topic_id, indexes in each.items()
        for index in indexes
    }
    newest_first = sorted(subscriptions, key=lambda each: -subscriptions[each].generation)
    return {
        member_id: _take_free(with_topic_ids(subscriptions[member_id].owned, topics), taken)
        for member_id in newest_first
    }


def _take_free(wanted: Assignment, taken: set[tuple[uuid.UUID, int]]) -> Assignment:
    """Return the wanted partitions that nobody has, and note that they are taken."""
    found = {}
    for topic_id, indexes in wanted.items():
        free = frozenset(index for index in indexes if (topic_id, index) not in taken)
        taken |= {(topic_id, index) for index in free}
        if free:
            found[topic_id] = free
    return found


def _subscription(classic: ClassicGroup, member: Member) -> Subscription:
    """Return what a member said in its last JoinGroup. Raises UnreadableRecordError."""
    return read_subscription(member.metadata(classic.protocol_name) or member.protocols[0][1])


def _consumer_member(
    classic: ClassicGroup, member: Member, subscription: Subscription
) -> ConsumerMember:
    # The generation that its client uses, which is a former one right after a downgrade.
    epoch = classic.former_epochs.get(member.member_id, classic.generation_id)
    return ConsumerMember(
        member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
        member_epoch=epoch,
        previous_member_epoch=epoch,
    )


# -- consumer to classic ----------------------------------------------------------------------


def downgraded(
    step: ConsumerStep,
    classic_step: Step,
    leaving: Collection[str],
    *,
    joining_id: str | None = None,
) -> ClassicGroup | None:
    """Turn the step's group into a classic group if only classic members are left in it.

    `leaving` are the members that go; with `joining_id` they go because that static member has
    taken their place, and the group keeps its assignment. Both groups' records are written. Return
    None if the group stays a consumer group; then nothing has changed.
    """
    group = step.group
    members = [member for member in group.members.values() if member.member_id not in leaving]
    if not (
        members
        and step.limits.may_downgrade
        and group.uses_only_classic(leaving)
        and len(members) <= classic_step.limits.group_max_size
    ):
        return None
    classic = _classic_group(group, members, classic_step.now.wall_ms)
    is_reconciled = all(member.is_reconciled_to(group.epoch) for member in members)
    rebalances = joining_id is None or not is_reconciled
    if rebalances:
        # No member has this generation: a coordinator that loads it does not take the group for
        # settled. It would leave to nobody what the leaving members held.
        classic.generation_id += 1
    assignments = {
        member_id: encode_assignment(
            _version(member.metadata(classic.protocol_name)),
            _held(group.members[member_id], step.topics),
        )
        for member_id, member in classic.members.items()
    }
    stored = encode_group_value(classic.to_stored(assignments))
    if len(stored) > classic_step.limits.group_record_bytes_max:
        return None
    ends_ms = {
        member.member_id: step.timers.deadline_ms(_key(CONSUMER_SESSION, group, member))
        for member in members
    }
    step.delete_group()
    classic_step.store(classic, assignments)
    for member_id, member in classic.members.items():
        member.assignment = assignments[member_id]
        extend_session(classic_step, classic, member)
        step.timers.bring_forward(_key(SESSION, group, member), ends_ms[member_id])
    if rebalances:
        classic.former_epochs = {member.member_id: member.member_epoch for member in members}
        prepare_rebalance(classic_step, classic)
    return classic


def _classic_group(
    group: ConsumerGroup, members: Collection[ConsumerMember], wall_ms: int
) -> ClassicGroup:
    classic = ClassicGroup(
        group.group_id,
        state=GroupState.STABLE,
        previous_state=GroupState.STABLE,
        generation_id=group.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        state_timestamp_ms=wall_ms,
    )
    for member in members:
        assert member.classic is not None, member
        classic.add(
            Member(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=member.classic.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                protocols=member.classic.protocols,
            )
        )
    classic.protocol_name = classic.select_protocol()
    return classic


def _held(member: ConsumerMember, topics: Topics) -> dict[str, tuple[int, ...]]:
    """Return what a member may hold; if it has its target, that is the target."""
    held = with_topic_names(member.assigned, topics)
    for name, indexes in with_topic_names(member.pending_revocation, topics).items():
        held[name] = (*held.get(name, ()), *indexes)
    return held


def _key(kind: str, group: ConsumerGroup, member: ConsumerMember | Member) -> TimerKey:
    return TimerKey(kind, group.group_id, member.member_id)


def _version(subscription: bytes) -> int:
    try:
        return read_subscription(subscription).version
    except UnreadableRecordError:
        return 0  # every consumer reads it
