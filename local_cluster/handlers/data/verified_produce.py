"""A transactional Produce that has to ask the transaction coordinator first (KIP-890).

Apart from `p00_produce`, which is compiled: a compiled module has no coroutines.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from local_cluster.controller.model.cluster_image import INTERNAL_TOPICS
from local_cluster.handlers.deferred import Body, Deferred
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.handlers.transactions.partition_verification import (
    SupportedOperation,
    UnverifiedPartition,
    begin_verification,
    has_open_transaction,
    verify_or_add,
)
from local_cluster.records.header import HEADER_BYTES, read_header
from local_cluster.transactions.requests import AddRequest
from local_cluster.transactions.transaction import TopicPartition
from local_cluster.wire import produce as codec
from local_cluster.wire.errors import ErrorCode, KafkaError

Verified = Mapping[TopicPartition, ErrorCode] | None
"""The coordinator's answer for each partition that it was asked about; None: it is not asked."""


async def verify_and_produce(
    broker: BrokerServices,
    context: RequestContext,
    request: codec.ProduceRequest,
    operation: SupportedOperation,
    produce: Callable[[Verified], Body | Deferred | None],
) -> Body | None:
    """Ask the coordinator, then produce. A marker that arrives meanwhile refuses the batches."""
    assert request.transactional_id is not None
    async with broker.transactions.write_queue.enter(request.transactional_id):
        unverified = find_unverified(broker, context, request)
        verified: dict[TopicPartition, ErrorCode] = {}
        if unverified:
            wanted = add_request(request, unverified)
            verified.update(await verify_or_add(broker, wanted, operation))
            for key, entry in unverified.items():
                if verified[key] is ErrorCode.none and not entry.is_still_valid(operation):
                    verified[key] = ErrorCode.invalid_txn_state
        reply = produce(verified)
    return await reply if inspect.isawaitable(reply) else reply


def find_unverified(
    broker: BrokerServices, context: RequestContext, request: codec.ProduceRequest
) -> dict[TopicPartition, UnverifiedPartition]:
    """Return the partitions in which the transaction of a request starts.

    All transactional batches of the request have the same producer. Topics that the client may not
    write are left out: the end of the transaction would write markers there.
    """
    producer_id = producer_epoch = -1
    found: dict[TopicPartition, UnverifiedPartition] = {}
    for entry in request.partitions:
        if entry.records is None or len(entry.records) < HEADER_BYTES:
            continue
        header = read_header(entry.records)
        if not header.is_transactional:
            continue
        if producer_id < 0:
            producer_id, producer_epoch = header.producer_id, header.producer_epoch
        assert (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)
        if entry.topic in INTERNAL_TOPICS or not broker.may(context, "WRITE", "TOPIC", entry.topic):
            continue  # the produce refuses it
        try:
            partition = broker.replicas.get_leader(entry.topic, entry.partition)
        except KafkaError:
            continue  # the produce refuses it
        if not has_open_transaction(partition, producer_id, producer_epoch):
            unverified = begin_verification(partition, producer_id, producer_epoch)
            found[entry.topic, entry.partition] = unverified
    return found


def add_request(
    request: codec.ProduceRequest, unverified: Mapping[TopicPartition, UnverifiedPartition]
) -> AddRequest:
    first = next(iter(unverified.values()))
    assert request.transactional_id is not None
    return AddRequest(
        request.transactional_id, first.producer_id, first.producer_epoch, frozenset(unverified)
    )
