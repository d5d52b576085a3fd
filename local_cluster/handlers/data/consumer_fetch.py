"""One Fetch of a consumer: read, wait, respond.

Each partition is read once, and again only when it moved. Results are kept, so the cost of a long
poll over thousands of partitions depends on those that move. A lookup that would block on the disk
(a cold index or batch header) has the range loaded in another thread and is then repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import nullcontext
from typing import Final

from local_cluster.fetch_sessions.session import Key, key_of
from local_cluster.fetch_sessions.session_cache import FetchContext
from local_cluster.fetch_sessions.watches import Watches
from local_cluster.handlers.data.current_leader import node_endpoints
from local_cluster.handlers.data.partition_read import PartitionRead, read_partition
from local_cluster.handlers.data.throttles import (
    fetch_bytes_max,
    fetch_is_limited,
    fetch_throttle_ms,
)
from local_cluster.handlers.deferred import Body, Deferred, RecordsBody, ThrottledBody
from local_cluster.handlers.registry import Reply
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.log.disk.page_cache import ColdReadError, warm_only
from local_cluster.wire import fetch as codec
from local_cluster.wire.constants import READ_COMMITTED
from local_cluster.wire.errors import ErrorCode

BYTES_MAX: Final = 55 * 1024 * 1024
"""Kafka's default of the broker's fetch.max.bytes."""
SIZE_BYTES: Final = 4
"""The size in front of a response, which Kafka's fetch quota counts."""
WAIT_MS_MAX: Final = 5 * 60 * 1000


class ConsumerFetch:
    """One request; call `run` once."""

    def __init__(
        self,
        broker: BrokerServices,
        context: RequestContext,
        request: codec.FetchRequest,
        fetch_context: FetchContext,
    ) -> None:
        self._began_ns = time.perf_counter_ns()
        """When the present step began; of a request that waits only the last one counts."""
        self._broker = broker
        self._context = context
        self._request = request
        self._fetch_context = fetch_context
        self._entries = {key_of(entry): entry for entry in fetch_context.partitions}
        self._todo: deque[Key] = deque(self._entries)
        self._reads: dict[Key, PartitionRead] = {}
        self._bytes_max = fetch_bytes_max(broker, context, min(request.bytes_max, BYTES_MAX))
        self._bytes_min = min(request.bytes_min, self._bytes_max)
        self._bytes_found = 0
        self._is_urgent = not self._entries and fetch_context.session is None
        self._is_over = request.wait_ms_max <= 0
        session = fetch_context.session
        self._watches: Watches[Key] | None = None if session is None else session.watches
        self._reply: Deferred | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_loading = False
        self._is_due = False
        self._last_cold: tuple[int, int] | None = None
        self._may_block = False
        self._rights_version = broker.rights_version

    def run(self) -> Reply:
        """Return the response, or a Deferred of it."""
        session = self._fetch_context.session
        if session is not None:
            session.on_changed = self._moved
        if self._proceed():
            return self._respond()
        reply = self._reply = Deferred()
        loop = asyncio.get_running_loop()
        wait_ms = min(self._request.wait_ms_max, WAIT_MS_MAX)
        if not self._is_over:
            self._timer = loop.call_later(wait_ms / 1000, self._on_timeout)
            if session is not None:
                session.on_closed = self._session_ended
        return reply

    # -- reading ----------------------------------------------------------------------------

    def _proceed(self) -> bool:
        """Read what is due; return whether the response may leave now."""
        if self._rights_version != self._broker.rights_version:
            # Records that were read before a revocation must not leave after it.
            self._rights_version = self._broker.rights_version
            self._todo.extend(key for key in self._reads if key not in self._todo)
        cold = self._read_all()
        if cold is not None:
            self._load(cold)
            return False
        if self._is_over or self._is_urgent or self._bytes_found >= self._bytes_min:
            return True
        self._watch()
        # Rarely: a partition that moved during a cold read is read before the request waits.
        return self._proceed() if self._todo else False

    def _read_all(self) -> ColdReadError | None:
        committed_only = self._request.isolation_level == READ_COMMITTED
        with nullcontext() if self._may_block else warm_only():
            while self._todo:
                key = self._todo[0]
                before = self._reads.pop(key, None)
                if before is not None:
                    self._bytes_found -= before.size_bytes
                try:
                    read = read_partition(
                        self._broker,
                        self._context,
                        self._entries[key],
                        bytes_left=self._bytes_max - self._bytes_found,
                        first=self._bytes_found == 0,
                        committed_only=committed_only,
                        rack_id=self._request.rack_id,
                    )
                except ColdReadError as cold:
                    return cold
                self._todo.popleft()
                self._reads[key] = read
                self._bytes_found += read.size_bytes
                if read.partition is None:
                    self._is_urgent = True
                elif self._watches is not None:
                    self._watches.add(key, read.partition)
        return None

    def _load(self, cold: ColdReadError) -> None:
        self._is_loading = True
        where = (cold.file.fileno(), cold.position)
        # On some file systems a range still counts as cold after it was loaded.
        self._may_block = self._may_block or where == self._last_cold
        self._last_cold = where
        self._broker.cold_reads.load(cold.file, cold.position, cold.size_bytes, self._loaded)

    def _loaded(self, loading: asyncio.Future[None]) -> None:
        self._is_loading = False
        if loading.cancelled():
            return
        if loading.exception() is not None:
            # The lookup meets the error of the disk again and reports it for the partition.
            self._may_block = True
        self._resume()

    # -- waiting ----------------------------------------------------------------------------

    def _watch(self) -> None:
        """Watch the partitions of a request without a session."""
        if self._watches is None:
            self._watches = Watches(self._moved)
            for key, read in self._reads.items():
                if read.partition is not None:
                    self._watches.add(key, read.partition)
                    if read.partition.high_watermark != read.result.high_watermark:
                        self._todo.append(key)

    def _moved(self, key: Key) -> None:
        session = self._fetch_context.session
        if key not in self._entries and session is not None:
            cached = session.partitions.get(key)
            if cached is None:
                return
            self._entries[key] = cached.requested
        self._todo.append(key)
        self._resume_soon()

    def _session_ended(self) -> None:
        """Respond now: a client ends its session with a request that is answered after this one."""
        self._is_over = True
        self._resume_soon()

    def _resume_soon(self) -> None:
        if not self._is_due:
            # Several partitions often move in one turn of the loop.
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._resume)

    def _on_timeout(self) -> None:
        self._is_over = True
        self._resume()

    def _resume(self) -> None:
        self._is_due = False
        if self._is_loading or self._reply is None or self._reply.is_done:
            return
        self._reply.guard(self._continue)

    def _continue(self) -> None:
        self._began_ns = time.perf_counter_ns()
        assert self._reply is not None
        if self._proceed():
            self._reply.resolve(self._respond())

    # -- responding -------------------------------------------------------------------------

    def _respond(self) -> Body:
        if self._timer is not None:
            self._timer.cancel()
        if fetch_is_limited(self._broker):
            throttle_ms = self._throttle_ms()
            if throttle_ms:
                return self._respond_throttled(throttle_ms)
        # In the order of the request, not of the reads: partitions of one topic that are apart
        # become two topics of the same name, and sarama keeps the second only.
        results = []
        for key in self._entries:
            read = self._reads.get(key)
            if read is not None:
                results.append(read.result)
                if read.partition is not None and read.result.records is not None:
                    read.partition.traffic.bytes_out += read.size_bytes
        error_code, session_id, included = self._fetch_context.answer(
            results, self._broker.clock.monotonic_ms()
        )
        if error_code != ErrorCode.invalid_fetch_session_epoch:
            self._settle()
        leaders = [entry.current_leader for entry in included if entry.current_leader is not None]
        body = codec.encode_response(
            self._context.api_version,
            included,
            error_code=error_code,
            session_id=session_id,
            node_endpoints=node_endpoints(self._broker, self._context, leaders) if leaders else (),
        )
        # Without an authorizer there is no version.
        is_guarded = self._rights_version and self._bytes_found
        return RecordsBody(body, self._may_leave) if is_guarded else body

    def _may_leave(self) -> bool:
        """Return whether the client may read what was read for it, if rights have changed since."""
        if self._rights_version == self._broker.rights_version:
            return True
        return all(
            self._broker.authorize(self._context, "READ", "TOPIC", read.partition.topic)
            for read in self._reads.values()
            if read.partition is not None and read.size_bytes
        )

    def _throttle_ms(self) -> int:
        """Return how long the client has to wait for its records, above a quota."""
        results = [self._reads[key].result for key in self._entries if key in self._reads]
        parts = codec.encode_response(
            self._context.api_version, self._fetch_context.preview(results)
        )
        size_bytes = SIZE_BYTES
        for part in parts:
            size_bytes += len(part) if isinstance(part, bytes) else codec.records_size_bytes(part)
        busy_ns = time.perf_counter_ns() - self._began_ns
        return fetch_throttle_ms(self._broker, self._context, size_bytes, busy_ns)

    def _respond_throttled(self, throttle_ms: int) -> Body:
        """Respond without partitions. A session reads them again with its next request."""
        error_code, session_id = self._fetch_context.answer_throttled()
        session = self._fetch_context.session
        if session is not None and error_code == ErrorCode.none:
            session.on_changed = session.on_closed = None
        elif session is None and self._watches is not None:
            self._watches.close()
        body = codec.encode_response(
            self._context.api_version,
            (),
            error_code=error_code,
            session_id=session_id,
            throttle_ms=throttle_ms,
        )
        return ThrottledBody(body, throttle_ms)

    def _settle(self) -> None:
        """Tell the session which partitions were read to the end: its next request skips them."""
        session = self._fetch_context.session
        if session is None:
            if self._watches is not None:
                self._watches.close()
            return
        session.on_changed = session.on_closed = None
        for key, read in self._reads.items():
            if read.is_at_end:
                session.settle(key)
