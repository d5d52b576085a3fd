"""Decodes one request and calls its handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from local_cluster.counters.listener import ListenerCounters
from local_cluster.handlers.registry import Handler, Reply, find_handler
from local_cluster.handlers.services import BrokerServices, RequestContext
from local_cluster.server.request_time import RequestTime
from local_cluster.wire import messages
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import PeerError
from local_cluster.wire.header import read_request_header

ANONYMOUS: Final = "User:ANONYMOUS"

FindHandler = Callable[[int], Handler | None]


class Dispatcher(Protocol):
    """What a connection hands its requests to."""

    @property
    def counters(self) -> ListenerCounters: ...

    @property
    def request_time(self) -> RequestTime: ...

    def dispatch(
        self, frame: memoryview, client_host: str, connection_id: int, principal: str
    ) -> tuple[RequestContext, Reply]: ...


class RequestDispatcher:
    """Hands the requests of one listener to their handlers."""

    def __init__(
        self,
        services: BrokerServices,
        listener: str,
        find_handler: FindHandler = find_handler,
        counters: ListenerCounters | None = None,
    ) -> None:
        self.counters = counters or ListenerCounters()
        self.request_time = RequestTime(services.quotas.request, services.clock.monotonic_ms)
        self._services = services
        self._listener = listener
        self._find_handler = find_handler

    def dispatch(
        self, frame: memoryview, client_host: str, connection_id: int, principal: str = ANONYMOUS
    ) -> tuple[RequestContext, Reply]:
        """Call the handler of the request in a frame, and return what it returns.

        Raises PeerError for a request that cannot be read or is not served, and what the
        handler raises.
        """
        header = read_request_header(frame)
        handler = self._find_handler(header.api_key)
        if handler is None:
            raise PeerError(f"api key {header.api_key} is not served")
        version = header.api_version
        is_served = handler.min_version <= version <= handler.max_version
        if not is_served:
            if header.api_key != ApiKey.API_VERSIONS:
                raise PeerError(f"{ApiKey(header.api_key).name} v{version} is not served")
            # KIP-511: the response has the v0 body, which every client can read.
            version = 0
        context = RequestContext(
            header.api_key,
            version,
            header.correlation_id,
            header.client_id,
            principal,
            self._listener,
            client_host,
            connection_id,
            len(frame),
        )
        if not is_served:
            return context, handler.function(self._services, context, None)
        position = header.body_position
        if handler.raw:
            return context, handler.function(self._services, context, frame[position:])
        request = messages.decode_request(header.api_key, version, frame, position)
        return context, handler.function(self._services, context, request)
