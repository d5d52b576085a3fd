"""Clients of one broker that ask for what their user may do, and note what they got."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

from local_cluster.client.auth.security import ClientSecurity, Secret
from local_cluster.client.client import KafkaClient
from local_cluster.client.connection import connect
from local_cluster.client.model import FetchPosition, TopicPartition
from local_cluster.records.batch import NewRecord, encode_batch, iter_records
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.nemesis.checkers.rights import Seen, Switch
from tests.support.producing import produce_once

TOPIC: Final = "rights"
MECHANISM: Final = "SCRAM-SHA-512"
REQUEST_MS_MAX: Final = 5_000
PAUSE_SECONDS: Final = 0.03
PARKED_FETCH: Final = "parked fetch"
PARKED_MS: Final = 1_200
"""Longer than the bound, so that the answer has records that were written after it."""
PARKED_BYTES_MIN: Final = 10_000_000
"""More than is ever there, so that the fetch waits for its whole time."""
DENIED: Final = ErrorCode.topic_authorization_failed


def security_of(user: str, password_file: Path) -> ClientSecurity:
    return ClientSecurity(
        protocol="SASL_PLAINTEXT",
        mechanism=MECHANISM,
        username=user,
        password=Secret(file=str(password_file)),
    )


class OneTry(KafkaClient):
    """Asks one broker, once: after a lost answer the outcome is unknown."""

    def __init__(self, bootstrap: str, node: int) -> None:
        super().__init__(bootstrap, request_timeout_ms=REQUEST_MS_MAX)
        self._node = node

    async def call_controller(
        self, api: ApiKey, fields: Any, *, timeout_ms: int | None = None
    ) -> Any:
        """Call this broker, which need not be the controller."""
        return await self.call(api, fields, node_id=self._node, timeout_ms=timeout_ms)


def timed_batch() -> bytes:
    """A record that says when its request began, on the clock of this process."""
    now = time.monotonic()
    return bytes(encode_batch([NewRecord(int(time.time() * 1000), b"k", f"{now:.6f}".encode())]))


class RightHolder:
    """One user at one broker: metadata, produce, fetch, and a fetch that waits."""

    def __init__(self, bootstrap: str, node: int, security: ClientSecurity, switch: Switch) -> None:
        self._bootstrap = bootstrap
        self._node = node
        self._security = security
        self._switch = switch
        self._led: TopicPartition | None = None
        """The partition that the broker leads, as the user was told last."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for loop in (self._ask, self._wait):
            self._tasks.append(asyncio.create_task(self._until_cancelled(loop)))

    async def stop(self) -> None:
        """End. Raises what ended a client early."""
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    async def _until_cancelled(self, loop: Callable[[KafkaClient], Awaitable[None]]) -> None:
        async with KafkaClient(
            self._bootstrap, request_timeout_ms=REQUEST_MS_MAX, security=self._security
        ) as client:
            while True:
                # What is not answered says nothing.
                with contextlib.suppress(KafkaError):
                    await loop(client)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _ask(self, client: KafkaClient) -> None:
        with self._noting("metadata") as note:
            found = (await client.ask_metadata([TOPIC], node_id=self._node)).topics[TOPIC]
            note(ErrorCode(found.error))
        led = [n for n, partition in found.partitions.items() if partition.leader == self._node]
        if led:
            self._led = TopicPartition(TOPIC, led[0])
        if self._led is None:
            return
        with self._noting("produce") as note:
            note((await produce_once(client, self._node, self._led, timed_batch(), acks=1)).error)
        with self._noting("fetch") as note:
            asked = {self._led: FetchPosition(0)}
            fetched = await client.fetch(
                self._node, asked, wait_ms_max=0, partition_bytes_max=1_000
            )
            note(fetched[self._led].error)

    async def _wait(self, client: KafkaClient) -> None:
        """Fetch from the end: what comes was written while the fetch waited."""
        at = self._led
        if at is None:
            return
        ends = await client.fetch(
            self._node, {at: FetchPosition(0)}, wait_ms_max=0, partition_bytes_max=1_000
        )
        if ends[at].error is not ErrorCode.none:
            return
        with self._noting(PARKED_FETCH) as note:
            fetched = await client.fetch(
                self._node,
                {at: FetchPosition(ends[at].high_watermark)},
                wait_ms_max=PARKED_MS,
                bytes_min=PARKED_BYTES_MIN,
            )
            records = list(iter_records(fetched[at].records))
            note(
                fetched[at].error,
                after=max((float((each.value or b"0").decode()) for each in records), default=0.0),
            )

    @contextlib.contextmanager
    def _noting(self, kind: str) -> Iterator[Callable[..., None]]:
        began = time.monotonic()

        def note(error: ErrorCode, after: float = 0.0) -> None:
            # Any other error is no answer to the question.
            if error in (ErrorCode.none, DENIED):
                is_on = error is ErrorCode.none
                ended = time.monotonic()
                self._switch.seen.append(Seen(kind, self._node, max(began, after), ended, is_on))

        yield note


async def log_in(port: int, node: int, security: ClientSecurity, switch: Switch) -> None:
    """Try to log in to a broker, and note whether it let the user in."""
    began = time.monotonic()
    try:
        connection = await connect(
            "127.0.0.1",
            port,
            client_id="nemesis",
            timeout_ms=REQUEST_MS_MAX,
            security=security,
        )
    except KafkaError as error:
        if error.code is not ErrorCode.sasl_authentication_failed:
            return
        is_on = False
    else:
        await connection.close()
        is_on = True
    switch.seen.append(Seen("login", node, began, time.monotonic(), is_on))
