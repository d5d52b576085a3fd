"""SHELL: writes the ISRs that leaders propose, if decisions/isr_changes.py accepts them."""

from __future__ import annotations

from collections.abc import Sequence

from local_cluster.controller.active.event_applier import EventApplier
from local_cluster.controller.decisions.isr_changes import check_broker_epoch, decide_isr
from local_cluster.controller.model import events
from local_cluster.controller.model.events import WriteState
from local_cluster.controller.model.isr_proposals import IsrProposal, IsrResult
from local_cluster.wire.errors import ErrorCode, KafkaError


async def alter_partitions(
    applier: EventApplier, broker_id: int, broker_epoch: int, proposals: Sequence[IsrProposal]
) -> list[IsrResult]:
    """Write the accepted proposals; return one result per proposal, in order.

    Raises KafkaError(stale_broker_epoch) for all of them, Fenced or CoordinationUnavailable.
    """
    state = applier.state
    check_broker_epoch(state, broker_id, broker_epoch)
    names = {topic.topic_id: name for name, topic in state.topics.items()}
    errors: dict[IsrProposal, ErrorCode] = {}
    writes: dict[IsrProposal, WriteState] = {}
    for proposal in proposals:
        name = names.get(proposal.topic_id)
        known = None if name is None else state.topics[name].partitions.get(proposal.partition)
        if name is None or known is None:
            errors[proposal] = ErrorCode.unknown_topic_id
            continue
        if (name, proposal.partition) in state.restarted_leaders:
            errors[proposal] = ErrorCode.fenced_leader_epoch
            continue
        try:
            decided = decide_isr(state, known, broker_id, proposal)
        except KafkaError as error:
            errors[proposal] = error.code
        else:
            writes[proposal] = WriteState(name, decided)
    written, conflicting = await applier.write(list(writes.values()))
    if written:
        await applier.apply(events.StatesWritten(written))
    if conflicting:
        await applier.apply(await applier.read_states(conflicting))
    results = []
    for proposal in proposals:
        write = writes.get(proposal)
        done = None if write is None else written.get((write.topic, proposal.partition))
        code = errors.get(proposal, ErrorCode.none)
        if write is not None and done is None:
            code = ErrorCode.invalid_update_version
        results.append(IsrResult(proposal, done, code))
    return results
