"""PORT: the coordination service, as little of ZooKeeper as the control plane needs.

Watches are level-triggered: after a watched read the service reports, at least once, that the path
may have changed. The caller then reads again. A lost connection fires every watch.

Not promised:

- the order of watches and results;
- how often a watch fires;
- the outcome of a commit that raised CoordinationUnavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

ANY_VERSION: Final = -1
READ_MANY_MAX: Final = 500
"""Paths of one `read_many`; with Kafka's longest topic names a request of about 150 KiB."""


class SessionState(Enum):
    """The state of our session, as the client reports it."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection is lost; the session and its ephemeral znodes may survive."""
    LOST = "lost"
    """The session and its ephemeral znodes are gone; the client opens a new session."""


class Znode(NamedTuple):
    """One znode as read."""

    payload: bytes
    version: int
    created_zxid: int
    modified_zxid: int
    ephemeral_owner: int
    """Session id, 0 for a persistent znode."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create a znode; fails with NODE_EXISTS."""

    path: str
    payload: bytes = b""
    ephemeral: bool = False
    sequential: bool = False
    """Append a counter to the path; never fails with NODE_EXISTS."""


@dataclass(frozen=True, slots=True)
class SetPayload:
    """Replace a znode's payload; fails with BAD_VERSION or NO_NODE."""

    path: str
    payload: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a childless znode; fails with BAD_VERSION, NO_NODE or NOT_EMPTY."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class CheckVersion:
    """Fail the whole commit unless the znode has this version."""

    path: str
    version: int


ZkOp = Create | SetPayload | Delete | CheckVersion


class Conflict(Enum):
    """Why an operation failed."""

    NODE_EXISTS = "node exists"
    NO_NODE = "no node"
    BAD_VERSION = "bad version"
    NOT_EMPTY = "not empty"
    OTHER = "other"


class CommitConflict(Exception):
    """The service refused a whole commit; the operation at `index` failed."""

    def __init__(self, index: int, op: ZkOp, conflict: Conflict) -> None:
        self.index = index
        self.op = op
        self.conflict = conflict
        super().__init__(f"{type(op).__name__} {op.path}: {conflict.value}")


class CoordinationUnavailable(Exception):
    """The connection or the session was lost; a commit may have happened or not."""


class CoordinationDenied(CoordinationUnavailable):
    """ZooKeeper denied a request: this process has not the credential that an ACL names."""

    def __init__(self, path: str | None = None) -> None:
        where = "" if path is None else f" to {path}"
        super().__init__(
            f"ZooKeeper denied access{where}: its ACL names another user or password than"
            " `zookeeper_security`"
        )


class ZnodeFollower(Protocol):
    """Who hears of watches and of the session, besides the member of the cluster."""

    def path_changed(self, path: str | None) -> None:
        """A watched path may have changed; None: any of them."""
        ...

    def session_changed(self, state: SessionState) -> None: ...


class Coordination(Protocol):
    """The service, on the event loop."""

    async def start(self) -> None:
        """Connect. Raises CoordinationUnavailable if that takes too long."""
        ...

    async def stop(self) -> None:
        """End the session, so that its ephemeral znodes go at once."""
        ...

    @property
    def session_id(self) -> int: ...

    async def read(self, path: str, *, watch: bool = False) -> Znode | None:
        """Return the znode, or None; a watch on a missing path reports its creation."""
        ...

    async def read_many(self, paths: Sequence[str]) -> list[Znode | None]:
        """Return at most READ_MANY_MAX znodes in the order of the paths, without a watch."""
        ...

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...]:
        """Return the names of the children; empty if the path does not exist."""
        ...

    async def commit(self, ops: Sequence[ZkOp]) -> tuple[int, ...]:
        """Do all operations or none; return the new version of each znode (0 after a create).

        Raises CommitConflict or CoordinationUnavailable.
        """
        ...

    def subscribe(
        self,
        on_path: Callable[[str | None], None],
        on_session: Callable[[SessionState], None],
    ) -> None:
        """Set the callbacks, run on the loop. `on_path` gets a watched path that may have changed,
        or None: every watched path may have changed."""
        ...
