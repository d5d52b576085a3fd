"""Appends a coordinator's records to its log and releases outcomes when they are committed.

While a commit is under way, the records of later steps are accumulated and appended as one batch
afterwards. This delays no response: a commit under way (a round of fsync, a follower's fetch)
never covers what is appended after it began.

Guarantees:

- outcomes complete in the order in which they were put
- an outcome completes when its records and all records before them are committed
- after a failure nothing completes until `restart`
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from local_cluster.clock import Clock
from local_cluster.coordinator_runtime.batches import (
    BATCH_BYTES_TARGET,
    encode_records,
    size_bytes,
    split_into_appends,
)
from local_cluster.coordinator_runtime.outcome import Outcome
from local_cluster.coordinator_runtime.ports import LeadingReplica
from local_cluster.records.control import EndMarker
from local_cluster.wire.errors import ErrorCode, KafkaError

# How clients see a failed write (Kafka's CoordinatorOperationExceptionHelper). After any other
# error the client has to look for the coordinator again.
_WRITE_FAILURES: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}


class CommitQueue:
    """The outcomes of one replica that wait for their commit.

    `on_committed` receives each outcome when it completes. `on_failed` receives the reason and
    the error for the waiting requests; the queue has dropped all waiting outcomes by then.
    """

    def __init__(
        self,
        replica: LeadingReplica,
        clock: Clock,
        on_committed: Callable[[Outcome], None],
        on_failed: Callable[[str, ErrorCode], None],
    ) -> None:
        self._replica = replica
        self._clock = clock
        self._on_committed = on_committed
        self._on_failed = on_failed
        self._written_end_offset = 0
        self._in_flight: deque[Outcome] = deque()
        self._accumulated = Outcome()
        self._accumulated_bytes = 0

    def restart(self, end_offset: int) -> None:
        """Drop what waits; the state is that of the log up to `end_offset`."""
        self._in_flight.clear()
        self._accumulated = Outcome()
        self._accumulated_bytes = 0
        self._written_end_offset = end_offset

    @property
    def is_waiting(self) -> bool:
        """Whether an outcome that is put must wait for a commit."""
        return bool(self._in_flight) or self._replica.high_watermark < self._written_end_offset

    def parked_tickets(self) -> Iterator[int]:
        """Yield the requests whose responses wait for a commit."""
        for outcome in (*self._in_flight, self._accumulated):
            yield from (ticket for ticket, _ in outcome.responses)

    def put(self, outcome: Outcome) -> None:
        """Append the records now or with the next batch; complete them when committed."""
        if not self._in_flight:
            self._write(outcome)
        elif outcome.producer is not None:
            if self.flush():
                self._write(outcome)
        elif outcome.records or self._accumulated_bytes:
            _merge(self._accumulated, outcome)
            self._accumulated_bytes += size_bytes(outcome.records)
            if self._accumulated_bytes >= BATCH_BYTES_TARGET:
                self.flush()
        else:
            _merge(self._in_flight[-1], outcome)

    def flush(self) -> bool:
        """Append the accumulated records. Return False if that failed."""
        if not self._accumulated_bytes:
            return True
        accumulated, self._accumulated, self._accumulated_bytes = self._accumulated, Outcome(), 0
        return self._write(accumulated)

    def write_marker(
        self, producer_id: int, producer_epoch: int, marker: EndMarker
    ) -> asyncio.Future[None]:
        """Append a marker after everything that was appended; done when it is committed.

        Raises KafkaError or OSError if the log refuses the marker; then nothing has changed.
        """
        result = self._replica.append_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch
        )
        self._written_end_offset = result.last_offset + 1
        self._park(Outcome())
        return self._replica.committed(self._written_end_offset)

    # -- inside -----------------------------------------------------------------------------

    def _write(self, outcome: Outcome) -> bool:
        if outcome.records:
            try:
                for records in split_into_appends(outcome):
                    buffer, headers = encode_records(
                        records, outcome.producer, self._clock.now_ms()
                    )
                    result = self._replica.append(buffer, headers)
            except (KafkaError, OSError) as error:
                code = error.code if isinstance(error, KafkaError) else ErrorCode.none
                self._fail(
                    f"append failed: {error}", _WRITE_FAILURES.get(code, ErrorCode.not_coordinator)
                )
                return False
            self._written_end_offset = result.last_offset + 1
        self._park(outcome)
        return True

    def _park(self, outcome: Outcome) -> None:
        if not self._in_flight and self._replica.high_watermark >= self._written_end_offset:
            self._on_committed(outcome)
            return
        self._in_flight.append(outcome)
        committed = self._replica.committed(self._written_end_offset)
        committed.add_done_callback(partial(self._committed, outcome))

    def _committed(self, outcome: Outcome, committed: asyncio.Future[None]) -> None:
        failure = None if committed.cancelled() else committed.exception()
        if not self._in_flight or self._in_flight[0] is not outcome:
            return  # A restart has dropped it.
        if committed.cancelled() or failure is not None:
            self._fail(f"the records were not committed: {failure!r}", ErrorCode.not_coordinator)
            return
        self._in_flight.popleft()
        self._on_committed(outcome)
        if not self._in_flight:
            self.flush()

    def _fail(self, reason: str, code: ErrorCode) -> None:
        self.restart(self._written_end_offset)
        self._on_failed(reason, code)


def _merge(into: Outcome, outcome: Outcome) -> None:
    into.records += outcome.records
    into.responses += outcome.responses
    into.follow_ups += outcome.follow_ups
