"""PORT: the coordination service, as little of ZooKeeper as the control plane needs.

Watches are level-triggered here: a watched read makes the service say, once and at least, that
the path may have changed; the reader reads again. A lost connection fires every watch. Three
things are not promised: the order of watches against results, how often a watch
fires, and what became of a commit that ended in CoordinationUnavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

ANY_VERSION: Final = -1
READ_MANY_MAX: Final = 500
"""Paths of one `read_many`; at Kafka's longest topic names about 150 KiB of request."""


class SessionState(Enum):
    """What the service says about our session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """Connection lost; the session may yet survive, ephemeral znodes are still there."""
    LOST = "lost"
    """The session is over and its ephemeral znodes are gone; a new one is being made."""


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
    """The service appends a counter to the path, so it never fails with NODE_EXISTS."""


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
    """A commit was refused as a whole; `index` is the operation that failed."""

    def __init__(self, index: int, op: ZkOp, conflict: Conflict) -> None:
        self.index = index
        self.op = op
        self.conflict = conflict
        super().__init__(f"{type(op).__name__} {op.path}: {conflict.value}")


class CoordinationUnavailable(Exception):
    """No answer: the connection or the session was lost; a commit may or may not have happened."""


class Coordination(Protocol):
    """The service, on the event loop."""

    async def start(self) -> None:
        """Connect. Raises CoordinationUnavailable where that takes too long."""
        ...

    async def stop(self) -> None:
        """End the session, so that its ephemeral znodes go at once."""
        ...

    @property
    def session_id(self) -> int: ...

    async def read(self, path: str, *, watch: bool = False) -> Znode | None:
        """The znode, or None; a watch on an absent path tells of its creation."""
        ...

    async def read_many(self, paths: Sequence[str]) -> list[Znode | None]:
        """At most READ_MANY_MAX znodes, in the order of the paths, without a watch."""
        ...

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...]:
        """Names of the children; empty where the path does not exist."""
        ...

    async def commit(self, ops: Sequence[ZkOp]) -> tuple[int, ...]:
        """Do all or nothing; the new version of each operation's znode (0 after a create).

        Raises CommitConflict or CoordinationUnavailable.
        """
        ...

    def subscribe(
        self,
        on_path: Callable[[str | None], None],
        on_session: Callable[[SessionState], None],
    ) -> None:
        """Whom to tell, on the loop: a watched path may have changed (None: any of them)."""
        ...
