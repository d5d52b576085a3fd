"""AlterPartition between a leader and the controller: written states and refusals arrive."""

from __future__ import annotations

from local_cluster.controller.model import isr_proposals
from local_cluster.controller.model.isr_proposals import IsrProposal, IsrResult
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode
from tests.unit.local_cluster.controller.samples import partition, topic_id

WRITTEN = IsrProposal(topic_id("a"), 0, 5, ((1, 10), (2, 20)), 7)
REFUSED = IsrProposal(topic_id("a"), 1, 5, ((1, 10), (4, 40)), 7)


def test_written_and_refused_proposals_round_trip() -> None:
    state = partition(0, 1, 2, 3, epoch=5, isr=(1, 2), version=8)
    results = [IsrResult(WRITTEN, state), IsrResult(REFUSED, None, ErrorCode.invalid_request)]
    version = isr_proposals.VERSION
    body = messages.encode_response(
        ApiKey.ALTER_PARTITION, version, isr_proposals.response_fields(results)
    )
    response = messages.decode_response(ApiKey.ALTER_PARTITION, version, memoryview(body), 0)
    replicas = {(topic_id("a"), 0): (1, 2, 3), (topic_id("a"), 1): (1, 2, 3)}
    assert isr_proposals.read_response(response, [WRITTEN, REFUSED], replicas) == results
