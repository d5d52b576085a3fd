"""The listening sockets of a broker, and the client connections that they accept."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from local_cluster.client_metrics.receiver import ClientMetrics
from local_cluster.controller.model.metadata_cache import Changes
from local_cluster.counters.listener import ListenerCounters
from local_cluster.counters.requests import RequestMeters
from local_cluster.handlers.services import BrokerServices
from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.security.authentication.listener_security import SaslSettings
from local_cluster.server.accept.acceptor import Acceptor
from local_cluster.server.accept.admission import Admission
from local_cluster.server.accept.limits import ConnectionLimits, ConnectionSettings
from local_cluster.server.connection import ClientConnection
from local_cluster.server.request_dispatch import ANONYMOUS, RequestDispatcher
from local_cluster.server.secure.credentials import Credentials
from local_cluster.server.secure.gss_acceptor import GssAcceptor
from local_cluster.server.secure.late_imports import tls_acceptor, token_acceptor
from local_cluster.server.secure.sasl_session import FRAME_BYTES_MAX, SaslSession, SharedSasl
from local_cluster.server.secure.tls_connection import TlsConnection
from local_cluster.settings import BrokerSettings, Listener
from local_cluster.wire.request_memory import RequestMemory

if TYPE_CHECKING:
    from local_cluster.security.authentication.tls_contexts import TlsContexts

IDLE_SWEEP_MS_MAX: Final = 10_000
"""Time between two searches for idle connections."""
IDLE_SWEEP_MS_MIN: Final = 100
MEMORY_SWEEP_MS: Final = 1_000
"""Time between two searches for peers that keep memory from others."""
FAILURE_DELAY_MS: Final = 100
"""Kafka's default of connection.failed.authentication.delay.ms."""


class Connect(Protocol):
    """Makes a connection, with a principal if TLS has found one."""

    def __call__(self, principal: str = ANONYMOUS) -> ClientConnection: ...


class Listeners:
    """The listeners of one broker by name: bound at once, opened later."""

    def __init__(self, settings: BrokerSettings) -> None:
        """Bind the sockets, so that port 0 is known, and load the certificates.

        Raises OSError that names the address, SecurityError that names the listener and the file.
        """
        self._settings = ConnectionSettings.of(settings)
        self._failure_delay_ms = settings.config_int(
            "connection.failed.authentication.delay.ms", FAILURE_DELAY_MS
        )
        self._session_ms_max = settings.config_int("connections.max.reauth.ms", 0)
        self._listeners = {item.name: item for item in settings.listeners}
        self._tls = {
            item.name: tls_acceptor(item.name, item.tls)
            for item in settings.listeners
            if item.tls is not None
        }
        self._tokens = {
            item.name: token_acceptor(item.name, item.sasl.oauth)
            for item in settings.listeners
            if item.sasl is not None and item.sasl.oauth is not None
        }
        self._kerberos = {
            item.name: GssAcceptor(item.name, item.sasl.kerberos)
            for item in settings.listeners
            if item.sasl is not None and item.sasl.kerberos is not None
        }
        self._sockets = {item.name: bind(item.host, item.port) for item in settings.listeners}
        self.meters = RequestMeters()
        self.counters = {each: ListenerCounters(self.meters) for each in self._sockets}
        """By name of the listener."""
        between = {settings.inter_broker_listener, *settings.trusted_listeners}
        self._protected = frozenset(between if len(settings.listeners) > 1 else ())
        self.admission = Admission(ConnectionLimits.of(settings.config), self._protected)
        """Counts connections, and knows the limits of them."""
        self.memory = RequestMemory(self._settings.request_bytes_max, time.perf_counter_ns)
        """Counts what requests of clients take."""
        self.memory.on_wait(self._sweep_memory_later)
        self._broker_principals = frozenset(settings.broker_principals)
        self._acceptors: list[Acceptor] = []
        self._connections: set[ClientConnection | TlsConnection] = set()
        self._places: dict[asyncio.BufferedProtocol, tuple[str, str]] = {}
        """Listener and address of each admitted connection."""
        self._idle_sweep: asyncio.TimerHandle | None = None
        self._memory_sweep: asyncio.TimerHandle | None = None
        self._client_metrics: ClientMetrics | None = None

    @property
    def ports(self) -> Mapping[str, int]:
        """The bound port of each listener."""
        return {name: bound.getsockname()[1] for name, bound in self._sockets.items()}

    @property
    def certificates(self) -> Mapping[str, TlsContexts]:
        """The certificates of each listener with TLS."""
        return {name: each.contexts for name, each in self._tls.items()}

    @property
    def are_open(self) -> bool:
        """Whether connections are accepted, or were."""
        return bool(self._acceptors)

    def open(self, services: BrokerServices, cold_reads: ColdReads) -> None:
        """Accept connections, and hand their requests to the handlers."""
        self._client_metrics = services.client_metrics
        for tokens in self._tokens.values():
            tokens.keys.start()
        for name, bound in self._sockets.items():
            connect = self._connections_of(self._listeners[name], services, cold_reads)
            make = self._over_tls(name, connect, cold_reads) if name in self._tls else connect
            acceptor = Acceptor(
                name,
                bound,
                self.admission,
                partial(self._admitted, name, make),
                self._ended,
                self.counters[name],
            )
            acceptor.start()
            self._acceptors.append(acceptor)
        self._close_idle()

    def limits_of(self, configs: Mapping[str, str]) -> Callable[[Changes], None]:
        """Return what applies the limits of changed broker configs."""

        def apply(changes: Changes) -> None:
            if changes.broker_configs:
                self.set_limits(ConnectionLimits.of(configs))

        return apply

    def set_limits(self, limits: ConnectionLimits) -> None:
        """Change the limits. As in Kafka, what exceeds max.connections is closed."""
        self.admission.limits = limits
        for _ in range(self.admission.excess):
            self._close_oldest()
        for acceptor in self._acceptors:
            acceptor.resume()

    def _connections_of(
        self, listener: Listener, services: BrokerServices, cold_reads: ColdReads
    ) -> Connect:
        if listener.sasl is not None:
            return self._with_sasl(listener, listener.sasl, services, cold_reads)
        dispatcher = RequestDispatcher(
            services, listener.name, counters=self.counters[listener.name]
        )

        def connect(principal: str = ANONYMOUS) -> ClientConnection:
            return ClientConnection(
                dispatcher,
                cold_reads,
                self._settings,
                on_open=self._opened,
                on_close=self._left,
                principal=principal,
                memory=self._memory_of(listener.name, principal),
            )

        return connect

    def _with_sasl(
        self,
        listener: Listener,
        sasl: SaslSettings,
        services: BrokerServices,
        cold_reads: ColdReads,
    ) -> Connect:
        kerberos = self._kerberos.get(listener.name)
        shared = SharedSasl(
            listener.name,
            sasl.mechanisms,
            Credentials(
                sasl,
                services.scram_users,
                services.clock,
                self._tokens.get(listener.name),
                kerberos,
            ),
            self._failure_delay_ms,
            self._session_ms_max,
            self.counters[listener.name],
            None if kerberos is None else kerberos.threads,
        )
        limited = self._settings._replace(
            frame_bytes_max=min(FRAME_BYTES_MAX, self._settings.frame_bytes_max)
        )

        def connect(principal: str = ANONYMOUS) -> ClientConnection:
            session = SaslSession(services, shared)

            def closed(connection: ClientConnection) -> None:
                session.end()
                self._left(connection)

            connection = ClientConnection(
                session,
                cold_reads,
                limited,
                on_open=self._opened,
                on_close=closed,
            )

            def authenticated(principal: str) -> None:
                connection.admit(
                    self._settings.frame_bytes_max, self._memory_of(listener.name, principal)
                )

            session.begin(authenticated, connection.shut_down)
            return connection

        return connect

    def _over_tls(
        self, name: str, connect: Connect, cold_reads: ColdReads
    ) -> Callable[[], TlsConnection]:
        acceptor = self._tls[name]

        def accept() -> TlsConnection:
            return TlsConnection(
                acceptor.contexts.newest(),
                cold_reads,
                lambda session: connect(acceptor.principal_of(session)),
                failure_delay_ms=self._failure_delay_ms,
                on_open=self._connections.add,
                on_close=self._closed,
            )

        return accept

    def close(self) -> None:
        """Accept no more connections, and close the open ones."""
        for sweep in (self._idle_sweep, self._memory_sweep):
            if sweep is not None:
                sweep.cancel()
        for tokens in self._tokens.values():
            tokens.keys.stop()
        for kerberos in self._kerberos.values():
            kerberos.close()
        for acceptor in self._acceptors:
            acceptor.close()
        for connection in tuple(self._connections):
            connection.shut_down()

    # -- limits -----------------------------------------------------------------------------

    def _admitted(
        self, listener: str, make: Callable[[], ClientConnection | TlsConnection], address: str
    ) -> ClientConnection | TlsConnection:
        connection = make()
        self._places[connection] = (listener, address)
        if self.admission.excess:
            self._close_oldest()
        return connection

    def _ended(self, connection: asyncio.BufferedProtocol) -> None:
        """Release the place of a connection. The inner one of TLS has none."""
        place = self._places.pop(connection, None)
        if place is not None:
            self.admission.release(*place)
            for acceptor in self._acceptors:
                acceptor.resume()

    def _closed(self, connection: ClientConnection | TlsConnection) -> None:
        self._connections.discard(connection)
        self._ended(connection)

    def _opened(self, connection: ClientConnection) -> None:
        self._connections.add(connection)
        if self._client_metrics is not None:
            self._client_metrics.connections.opened(connection.id, connection.client_port)

    def _left(self, connection: ClientConnection) -> None:
        self._closed(connection)
        if self._client_metrics is not None:
            self._client_metrics.end_connection(connection.id)

    def _memory_of(self, listener: str, principal: str) -> RequestMemory | None:
        """Return what counts requests; None for brokers, which clients must not hold up."""
        is_broker = listener in self._protected or principal in self._broker_principals
        return None if is_broker else self.memory

    def _sweep_memory_later(self) -> None:
        if self._memory_sweep is None:
            loop = asyncio.get_running_loop()
            self._memory_sweep = loop.call_later(MEMORY_SWEEP_MS / 1000, self._sweep_memory)

    def _sweep_memory(self) -> None:
        """Close peers that keep memory from others, as long as somebody waits."""
        self._memory_sweep = None
        now_ns = time.perf_counter_ns()
        for connection in tuple(self._connections):
            if isinstance(connection, ClientConnection) and connection.is_too_slow(now_ns):
                connection.shut_down(
                    "it sends too slowly while others wait for memory (queued.max.request.bytes)"
                )
        if self.memory.waiting:
            self._sweep_memory_later()

    def _close_oldest(self) -> None:
        """Close the unprotected connection that was used least recently."""
        others = [
            each
            for each in self._connections
            if not each.is_closing
            and each in self._places
            and self._places[each][0] not in self._protected
        ]
        if others:
            oldest = min(others, key=lambda each: each.last_active_ns)
            oldest.shut_down("another connection needs its place (max.connections)")

    def _close_idle(self) -> None:
        """Close idle connections, and come back later."""
        idle_ms = self.admission.limits.idle_ms_max
        sweep_ms = IDLE_SWEEP_MS_MAX
        if idle_ms >= 0:
            sweep_ms = min(max(idle_ms // 4, IDLE_SWEEP_MS_MIN), IDLE_SWEEP_MS_MAX)
            before_ns = time.perf_counter_ns() - idle_ms * 1_000_000
            for connection in tuple(self._connections):
                if not connection.is_busy and connection.last_active_ns < before_ns:
                    connection.shut_down(f"idle for {idle_ms} ms (connections.max.idle.ms)")
        loop = asyncio.get_running_loop()
        self._idle_sweep = loop.call_later(sweep_ms / 1000, self._close_idle)


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket. Raises OSError that names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only if the protocol is named does asyncio set TCP_NODELAY on accepted connections.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setblocking(False)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from error
    return bound
