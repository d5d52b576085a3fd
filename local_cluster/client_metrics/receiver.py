"""The receiver of client metrics of one broker (KIP-714).

Off unless `heliograph.client.metrics.enable` is true: then ApiVersions names the two APIs, so that
clients ask for subscriptions. As in Kafka without a receiver, requests get the same responses while
it is off, and what they push is dropped.

Payloads are decompressed and decoded in a thread, one after the other.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from local_cluster.client_metrics.connections import ClientConnections
from local_cluster.client_metrics.instances import (
    RESERVED_IDS,
    ClientInstances,
    Instance,
    check_get,
    check_push,
)
from local_cluster.client_metrics.series import LABEL_CHARS_MAX, ClientSeries
from local_cluster.client_metrics.subscriptions import instance_text, read_subscriptions
from local_cluster.clock import Clock
from local_cluster.prometheus_text import Family, Head, Sample, counter, gauge, samples
from local_cluster.settings import BrokerSettings
from local_cluster.wire.errors import ErrorCode

if TYPE_CHECKING:
    from local_cluster.client_metrics.otlp import Pushed

ENABLE: Final = "heliograph.client.metrics.enable"
TELEMETRY_BYTES_MAX_DEFAULT: Final = 1024 * 1024
"""Kafka's default of telemetry.max.bytes."""
DECODES_WAITING_MAX: Final = 64
"""Payloads that may wait for the thread; a push beyond that is asked to come later."""

log = logging.getLogger(__name__)


class Peer(NamedTuple):
    """The client of a request, as its header and its connection name it."""

    connection_id: int
    client_id: str
    client_host: str


class EntityConfigs(Protocol):
    """The part of the metadata cache that has the subscriptions."""

    @property
    def entity_configs(self) -> Mapping[str, Mapping[str, str]]: ...


class ClientMetrics:
    """Answers the two APIs, and has the metrics of clients for a scrape."""

    def __init__(self, settings: BrokerSettings, clock: Clock, metadata: EntityConfigs) -> None:
        self.is_enabled: Final = settings.config_bool(ENABLE, False)
        self.telemetry_bytes_max: Final = settings.config_int(
            "telemetry.max.bytes", TELEMETRY_BYTES_MAX_DEFAULT
        )
        self.connections = ClientConnections(self.is_enabled)
        self._clock = clock
        self._metadata = metadata
        self._seen: object = None
        self._instances = ClientInstances()
        self._series = ClientSeries()
        self._thread: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._pushes = Counter[str]()
        """By the name of the error."""

    def subscribe(
        self, peer: Peer, instance_id: uuid.UUID | None
    ) -> tuple[ErrorCode, Instance | None]:
        """Return the subscription of a client. One without an id gets a new one."""
        chosen = instance_id or self._new_id()
        instance = self._use(peer, chosen)
        error = check_get(instance, self._clock.monotonic_ms())
        return (error, None) if error is not ErrorCode.none else (error, instance)

    def push(
        self,
        peer: Peer,
        instance_id: uuid.UUID | None,
        *,
        subscription_id: int,
        compression_type: int,
        terminating: bool,
        payload: bytes,
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        """Check a push, and decode it later if it has a payload that is wanted."""
        if instance_id is None or instance_id in RESERVED_IDS:
            return self._count(ErrorCode.invalid_request)
        instance = self._use(peer, instance_id)
        error = check_push(
            instance,
            subscription_id=subscription_id,
            compression_type=compression_type,
            payload_bytes=len(payload),
            payload_bytes_max=self.telemetry_bytes_max,
            terminating=terminating,
            now_ms=self._clock.monotonic_ms(),
        )
        if error is not ErrorCode.none or not payload or not self.is_enabled:
            return self._count(error)
        if self._waiting >= DECODES_WAITING_MAX:
            return self._count(ErrorCode.throttling_quota_exceeded)
        self._waiting += 1
        return asyncio.ensure_future(self._decode(peer, instance, compression_type, payload))

    def end_connection(self, connection_id: int) -> None:
        """Forget the client of a closed connection; its series end later."""
        self.connections.closed(connection_id)
        self._instances.end_connection(connection_id)

    def families(self) -> Iterator[Family]:
        """Yield the metrics about client metrics; nothing without a receiver."""
        if not self.is_enabled:
            return
        yield gauge(
            "kafka_server_client_metrics_instance_count",
            "Client instances that this broker knows.",
            Sample(len(self._instances)),
        )
        yield counter(
            "heliograph_client_metrics_pushes_total",
            "Pushes of clients, by the error of the response.",
            *samples("error", sorted(self._pushes.items())),
        )
        yield gauge(
            "heliograph_client_metrics_series",
            "Series of clients on this page.",
            Sample(len(self._series)),
        )
        yield counter(
            "heliograph_client_metrics_dropped_total",
            "Data points beyond a limit, or of a kind that is not shown.",
            Sample(self._series.dropped),
        )

    def write(self, lines: dict[Head, list[str]]) -> Iterator[None]:
        """Fill in the lines of what clients pushed, in steps."""
        self._series.expire(self._clock.monotonic_ms())
        yield from self._series.write(lines)

    def stop(self) -> None:
        """End the thread; what waits is dropped."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _decode(
        self, peer: Peer, instance: Instance, codec: int, payload: bytes
    ) -> ErrorCode:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "client-metrics")
        who = {
            "client_id": peer.client_id[:LABEL_CHARS_MAX],
            "client_instance_id": instance_text(instance.instance_id),
        }
        try:
            read = await asyncio.get_running_loop().run_in_executor(
                self._thread, _read, codec, payload, self.telemetry_bytes_max, who
            )
        finally:
            self._waiting -= 1
        if isinstance(read, ErrorCode):
            instance.last_error = read
            return self._count(read)
        now_ms = self._clock.monotonic_ms()
        info = {**who, **_info(instance.attributes)}
        self._series.dropped += read.dropped
        expires_ms = now_ms + instance.lifetime_ms
        self._series.push(instance.instance_id, info, read.samples, now_ms, expires_ms)
        return self._count(ErrorCode.none)

    def _use(self, peer: Peer, instance_id: uuid.UUID) -> Instance:
        # The cache replaces this object exactly if a config of an entity changed.
        if self._metadata.entity_configs is not self._seen:
            self._seen = self._metadata.entity_configs
            self._instances.set_subscriptions(read_subscriptions(self._metadata.entity_configs))
        client = self.connections.find(peer.connection_id)
        attributes = {
            "client_instance_id": instance_text(instance_id),
            "client_id": peer.client_id,
            "client_software_name": client.software_name,
            "client_software_version": client.software_version,
            "client_source_address": peer.client_host,
            "client_source_port": str(client.port),
        }
        now_ms = self._clock.monotonic_ms()
        return self._instances.use(instance_id, attributes, peer.connection_id, now_ms)

    def _new_id(self) -> uuid.UUID:
        while True:
            chosen = uuid.uuid4()
            if chosen not in self._instances and not instance_text(chosen).startswith("-"):
                return chosen

    def _count(self, error: ErrorCode) -> ErrorCode:
        self._pushes[error.name] += 1
        return error


def _read(codec: int, payload: bytes, bytes_max: int, who: Mapping[str, str]) -> Pushed | ErrorCode:
    """Return what a payload holds, or the error of the response. Runs in the thread."""
    # protobuf costs memory, so a broker that nobody pushes to does not import it.
    from local_cluster.client_metrics.otlp import BrokenPayload, TooLarge, read_payload

    try:
        return read_payload(codec, payload, bytes_max, who)
    except (TooLarge, BrokenPayload) as error:
        log.warning("client metrics of %s refused: %s", who["client_id"], error)
        too_large = isinstance(error, TooLarge)
        return ErrorCode.telemetry_too_large if too_large else ErrorCode.invalid_record


def _info(attributes: Mapping[str, str]) -> dict[str, str]:
    shown = ("client_software_name", "client_software_version", "client_source_address")
    return {name: attributes[name][:LABEL_CHARS_MAX] for name in shown}
