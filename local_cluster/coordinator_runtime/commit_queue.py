"""What a coordinator writes to its log, and who waits for its commit.

While records wait for their commit, those of the next steps are gathered, and go out as one batch
when it is there. No answer gets later by that: a commit under way (a round of fsync, a follower's
fetch) never covers what is appended after it began.

Guarantees: outcomes finish in the order in which they were put; each finishes when its records and
all before them are committed; after a failure nothing finishes until `restart`.
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
    appended_together,
    encode_records,
    size_bytes,
)
from local_cluster.coordinator_runtime.outcome import Outcome
from local_cluster.coordinator_runtime.ports import LeadingReplica
from local_cluster.records.control import EndMarker
from local_cluster.wire.errors import ErrorCode, KafkaError

# How a failed write is told to clients (Kafka's CoordinatorOperationExceptionHelper); whatever
# is not here means that the coordinator has to be looked for again.
_WRITE_FAILURES: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
}


class CommitQueue:
    """Writes outcomes to one replica's log; `on_committed` gets each when it is committed.

    `on_failed` is called with a reason and the error for whoever waits; what was put and has not
    finished is forgotten by then.
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
        self._gathered = Outcome()
        self._gathered_bytes = 0

    def restart(self, end_offset: int) -> None:
        """Forget what waits; the state now is that of the log up to `end_offset`."""
        self._in_flight.clear()
        self._gathered = Outcome()
        self._gathered_bytes = 0
        self._written_end_offset = end_offset

    @property
    def is_waiting(self) -> bool:
        """Whether what is put now finishes only with a commit that is not there yet."""
        return bool(self._in_flight) or self._replica.high_watermark < self._written_end_offset

    def waiting_tickets(self) -> Iterator[int]:
        """The requests whose answers wait for a commit."""
        for outcome in (*self._in_flight, self._gathered):
            yield from (ticket for ticket, _ in outcome.answers)

    def put(self, outcome: Outcome) -> None:
        """Write the records now or with the next batch, and finish when they are committed."""
        if not self._in_flight:
            self._write(outcome)
        elif outcome.producer is not None:
            if self.write_gathered():
                self._write(outcome)
        elif outcome.records or self._gathered_bytes:
            _add(self._gathered, outcome)
            self._gathered_bytes += size_bytes(outcome.records)
            if self._gathered_bytes >= BATCH_BYTES_TARGET:
                self.write_gathered()
        else:
            _add(self._in_flight[-1], outcome)

    def write_gathered(self) -> bool:
        """Append what was gathered, whatever is under way. False where that failed."""
        if not self._gathered_bytes:
            return True
        gathered, self._gathered, self._gathered_bytes = self._gathered, Outcome(), 0
        return self._write(gathered)

    def write_marker(
        self, producer_id: int, producer_epoch: int, marker: EndMarker
    ) -> asyncio.Future[None]:
        """Append a marker after everything that was put; done when it is committed.

        Raises KafkaError or OSError: what the log has against it; then nothing has changed.
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
                for part in appended_together(outcome):
                    buffer, headers = encode_records(part, outcome.producer, self._clock.now_ms())
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
            return  # The state that it belonged to is gone.
        if committed.cancelled() or failure is not None:
            self._fail(f"the records were not committed: {failure!r}", ErrorCode.not_coordinator)
            return
        self._in_flight.popleft()
        self._on_committed(outcome)
        if not self._in_flight:
            self.write_gathered()

    def _fail(self, reason: str, code: ErrorCode) -> None:
        self.restart(self._written_end_offset)
        self._on_failed(reason, code)


def _add(to: Outcome, outcome: Outcome) -> None:
    to.records += outcome.records
    to.answers += outcome.answers
    to.follow_ups += outcome.follow_ups
