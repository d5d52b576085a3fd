"""Counts the mirrored records on the aggregate, for progress bars and to wait for the end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from local_cluster.client.auth.security import ClientSecurity
from local_cluster.client.client import KafkaClient
from local_cluster.client.model import TopicPartition
from local_cluster.wire.constants import LATEST_TIMESTAMP
from local_cluster.wire.errors import KafkaError

POLL_S: Final = 0.25
STALL_S: Final = 60.0
"""Seconds without a new record, while some are missing, after which mirroring has stalled."""
SETTLE_S: Final = 3.0
"""Seconds that missing records may take to appear without lag; after that the audit decides."""


class MirrorStalledError(Exception):
    """Mirroring makes no progress."""


class MirroredWatch:
    """Counts the records of the mirrored topics in its own thread, until it is closed."""

    def __init__(
        self,
        bootstrap: str,
        security: ClientSecurity,
        topics: Mapping[str, str],
        on_progress: Callable[[str, int], None],
    ) -> None:
        """`topics` maps each topic of the aggregate to the caller's name for it."""
        self._bootstrap = bootstrap
        self._security = security
        self._topics = topics
        self._on_progress = on_progress
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirrored-watch", daemon=True)
        self.counts: dict[str, int] = dict.fromkeys(topics.values(), 0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self, produced: Mapping[str, int], links: Callable[[], list[dict[str, Any]]]) -> None:
        """Return when every link reports no lag and every record has arrived.

        `links` returns the links of the status document. Raises MirrorStalledError.
        """
        changed_s = time.monotonic()
        before = dict(self.counts)
        while True:
            lags = {link["name"]: link["lag_records"] for link in links()}
            missing = sum(produced.values()) - sum(self.counts.values())
            no_lag = all(lag == 0 for lag in lags.values())
            quiet_s = time.monotonic() - changed_s
            if no_lag and (missing == 0 or quiet_s > SETTLE_S):
                return
            if quiet_s > STALL_S:
                raise MirrorStalledError(
                    f"{missing} records are not mirrored; nothing came for {STALL_S:g} s;"
                    f" lag by link: {lags}"
                )
            if self.counts != before:
                before, changed_s = dict(self.counts), time.monotonic()
            time.sleep(POLL_S)

    def _run(self) -> None:
        asyncio.run(self._poll())

    async def _poll(self) -> None:
        async with KafkaClient(
            self._bootstrap, client_id="heliograph-demo", security=self._security
        ) as client:
            while True:
                # Read before the count, so that there is one more count after closing.
                last = self._stop.is_set()
                # Topics appear when mirrors create them, and brokers may be starting. `wait`
                # limits how long this continues.
                with contextlib.suppress(KafkaError):
                    await self._count(client)
                if last:
                    return
                await asyncio.to_thread(self._stop.wait, POLL_S)

    async def _count(self, client: KafkaClient) -> None:
        metadata = await client.metadata(sorted(self._topics))
        partitions = [
            TopicPartition(name, partition)
            for name, topic in metadata.topics.items()
            if not topic.error
            for partition in topic.partitions
        ]
        if not partitions:
            return
        counts = dict.fromkeys(self._topics.values(), 0)
        listed = await client.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
        for at, entry in listed.items():
            if entry.error:
                raise KafkaError(entry.error, str(at))
            counts[self._topics[at.topic]] += entry.offset
        for name, count in counts.items():
            if count != self.counts[name]:
                self.counts[name] = count
                self._on_progress(name, count)
