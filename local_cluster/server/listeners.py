"""The listening sockets of a broker, and the client connections that they accept."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from local_cluster.counters.listener import ListenerCounters
from local_cluster.counters.requests import RequestMeters
from local_cluster.handlers.services import BrokerServices
from local_cluster.log.disk.cold_reads import ColdReads
from local_cluster.security.authentication.distinguished_name import subject_of
from local_cluster.security.authentication.listener_security import SaslSettings
from local_cluster.security.authentication.principal_rules import PrincipalRules
from local_cluster.security.authentication.tls_contexts import TlsContexts
from local_cluster.server.connection import ClientConnection, ConnectionSettings
from local_cluster.server.request_dispatch import ANONYMOUS, RequestDispatcher
from local_cluster.server.secure.credentials import Credentials
from local_cluster.server.secure.sasl_session import FRAME_BYTES_MAX, SaslSession, SharedSasl
from local_cluster.server.secure.tls_connection import TlsConnection
from local_cluster.settings import BrokerSettings, Listener

LISTEN_BACKLOG: Final = 512
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
            item.name: TlsContexts(item.name, item.tls)
            for item in settings.listeners
            if item.tls is not None
        }
        self._sockets = {item.name: bind(item.host, item.port) for item in settings.listeners}
        self.meters = RequestMeters()
        self.counters = {each: ListenerCounters(self.meters) for each in self._sockets}
        """By name of the listener."""
        self._servers: list[asyncio.Server] = []
        self._connections: set[ClientConnection | TlsConnection] = set()

    @property
    def ports(self) -> Mapping[str, int]:
        """The bound port of each listener."""
        return {name: bound.getsockname()[1] for name, bound in self._sockets.items()}

    @property
    def certificates(self) -> Mapping[str, TlsContexts]:
        """The certificates of each listener with TLS."""
        return self._tls

    @property
    def are_open(self) -> bool:
        """Whether connections are accepted, or were."""
        return bool(self._servers)

    async def open(self, services: BrokerServices, cold_reads: ColdReads) -> None:
        """Accept connections, and hand their requests to the handlers."""
        loop = asyncio.get_running_loop()
        for name, bound in self._sockets.items():
            connect = self._connections_of(self._listeners[name], services, cold_reads)
            accept = self._over_tls(name, connect, cold_reads) if name in self._tls else connect
            server = await loop.create_server(accept, sock=bound, backlog=LISTEN_BACKLOG)
            self._servers.append(server)

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
                on_open=self._connections.add,
                on_close=self._connections.discard,
                principal=principal,
            )

        return connect

    def _with_sasl(
        self,
        listener: Listener,
        sasl: SaslSettings,
        services: BrokerServices,
        cold_reads: ColdReads,
    ) -> Connect:
        shared = SharedSasl(
            listener.name,
            sasl.mechanisms,
            Credentials(sasl.users, services.scram_users, sasl.mechanisms),
            self._failure_delay_ms,
            self._session_ms_max,
            self.counters[listener.name],
        )
        limited = self._settings._replace(
            frame_bytes_max=min(FRAME_BYTES_MAX, self._settings.frame_bytes_max)
        )

        def connect(principal: str = ANONYMOUS) -> ClientConnection:
            session = SaslSession(services, shared)

            def closed(connection: ClientConnection) -> None:
                session.end()
                self._connections.discard(connection)

            connection = ClientConnection(
                session,
                cold_reads,
                limited,
                on_open=self._connections.add,
                on_close=closed,
            )
            session.begin(
                partial(connection.set_frame_bytes_max, self._settings.frame_bytes_max),
                connection.refuse,
            )
            return connection

        return connect

    def _over_tls(
        self, name: str, connect: Connect, cold_reads: ColdReads
    ) -> Callable[[], TlsConnection]:
        contexts = self._tls[name]
        settings = self._listeners[name].tls
        assert settings is not None
        rules = PrincipalRules(settings.principal_mapping_rules)

        def accept() -> TlsConnection:
            return TlsConnection(
                contexts.newest(),
                cold_reads,
                lambda session: connect(_principal_of(session, rules)),
                failure_delay_ms=self._failure_delay_ms,
                on_open=self._connections.add,
                on_close=self._connections.discard,
            )

        return accept

    def close(self) -> None:
        """Accept no more connections, and close the open ones."""
        for server in self._servers:
            server.close()
        for connection in tuple(self._connections):
            connection.shut_down()


def _principal_of(session: ssl.SSLObject, rules: PrincipalRules) -> str:
    """Return the principal of the client's certificate. Raises ValueError if no rule has one."""
    certificate = session.getpeercert(binary_form=True)
    if certificate is None:
        return ANONYMOUS
    subject = subject_of(certificate)
    name = rules.name_of(subject)
    if name is None:
        raise ValueError(f"no rule of ssl.principal.mapping.rules matches {subject!r}")
    return f"User:{name}"


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
