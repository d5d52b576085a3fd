"""A ZooKeeper in memory: sessions, versions, transactions, one-shot watches, lost connections."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from local_cluster.controller.zk.coordination import (
    ANY_VERSION,
    CheckVersion,
    CommitConflict,
    Conflict,
    CoordinationUnavailable,
    Create,
    Delete,
    SessionState,
    SetPayload,
    ZkOp,
    Znode,
)


@dataclass
class FakeZooKeeper:
    """The server; `tree` holds every znode by path."""

    tree: dict[str, Znode] = field(default_factory=lambda: {"/": Znode(b"", 0, 0, 0, 0)})
    zxid: int = 1
    sessions: int = 0
    watches: dict[str, set[FakeCoordination]] = field(default_factory=dict)
    commits: list[tuple[ZkOp, ...]] = field(default_factory=list)

    def child_names(self, path: str) -> tuple[str, ...]:
        prefix = path.rstrip("/") + "/"
        names = (p[len(prefix) :] for p in self.tree if p.startswith(prefix) and p != "/")
        return tuple(sorted(name for name in names if name and "/" not in name))

    def commit(self, ops: Sequence[ZkOp], session_id: int) -> tuple[int, ...]:
        before = dict(self.tree)
        self.zxid += 1
        touched: list[str] = []
        try:
            versions = tuple(
                self._do(index, op, session_id, touched) for index, op in enumerate(ops)
            )
        except CommitConflict:
            self.tree = before
            raise
        self.commits.append(tuple(ops))
        self.fire(touched)
        return versions

    def write(self, path: str, payload: bytes = b"") -> None:
        """Create or replace a znode, parents included, as an outside tool does."""
        parent = path.rsplit("/", 1)[0]
        if parent and parent not in self.tree:
            self.write(parent)
        known = self.tree.get(path)
        op: ZkOp = Create(path, payload) if known is None else SetPayload(path, payload, -1)
        self.commit([op], 0)

    def remove(self, path: str) -> None:
        for child in self.child_names(path):
            self.remove(f"{path}/{child}")
        self.commit([Delete(path)], 0)

    def expire(self, session_id: int) -> None:
        gone = [path for path, znode in self.tree.items() if znode.ephemeral_owner == session_id]
        self.commit([Delete(path) for path in gone], 0)

    def fire(self, paths: Sequence[str]) -> None:
        for path in dict.fromkeys(paths):
            for client in self.watches.pop(path, set()):
                client.on_path(path)

    def _do(self, index: int, op: ZkOp, session_id: int, touched: list[str]) -> int:
        parent = op.path.rsplit("/", 1)[0] or "/"
        if isinstance(op, Create) and op.sequential:
            op = dataclasses.replace(op, path=f"{op.path}{self.zxid:010d}")
        known = self.tree.get(op.path)
        if isinstance(op, Create):
            if known is not None:
                raise CommitConflict(index, op, Conflict.NODE_EXISTS)
            if parent not in self.tree:
                raise CommitConflict(index, op, Conflict.NO_NODE)
            owner = session_id if op.ephemeral else 0
            self.tree[op.path] = Znode(op.payload, 0, self.zxid, self.zxid, owner)
            touched += [op.path, parent]
            return 0
        if known is None:
            raise CommitConflict(index, op, Conflict.NO_NODE)
        wanted = op.version
        if wanted not in (ANY_VERSION, known.version):
            raise CommitConflict(index, op, Conflict.BAD_VERSION)
        if isinstance(op, CheckVersion):
            return 0
        touched.append(op.path)
        if isinstance(op, Delete):
            if self.child_names(op.path):
                raise CommitConflict(index, op, Conflict.NOT_EMPTY)
            del self.tree[op.path]
            touched.append(parent)
            return 0
        self.tree[op.path] = known._replace(
            payload=op.payload, version=known.version + 1, modified_zxid=self.zxid
        )
        return known.version + 1


class FakeCoordination:
    """One client of a FakeZooKeeper, as the port `Coordination`."""

    def __init__(self, server: FakeZooKeeper) -> None:
        self.server = server
        self.session_id = 0
        self.on_path: Callable[[str | None], None] = lambda path: None
        self.on_session: Callable[[SessionState], None] = lambda state: None
        self.lose_answer_of: Callable[[Sequence[ZkOp]], bool] | None = None
        """The response of the first commit for which it returns True is lost."""
        self.before_commit: Callable[[Sequence[ZkOp]], None] = lambda ops: None
        self.cut_off = False
        self.calls = 0
        self.break_at_call: int | None = None
        """The connection breaks at this call, and works again for the next."""

    def subscribe(
        self,
        on_path: Callable[[str | None], None],
        on_session: Callable[[SessionState], None],
    ) -> None:
        self.on_path = on_path
        self.on_session = on_session

    async def start(self) -> None:
        self.new_session()

    async def stop(self) -> None:
        self.server.expire(self.session_id)

    def new_session(self) -> None:
        self.server.sessions += 1
        self.session_id = self.server.sessions

    def lose_session(self) -> None:
        """The server ends the session; the client opens a new one."""
        former = self.session_id
        self.server.expire(former)
        self.on_session(SessionState.LOST)
        self.new_session()
        self.on_session(SessionState.CONNECTED)

    async def read(self, path: str, *, watch: bool = False) -> Znode | None:
        self._check()
        if watch:
            self.server.watches.setdefault(path, set()).add(self)
        return self.server.tree.get(path)

    async def read_many(self, paths: Sequence[str]) -> list[Znode | None]:
        self._check()
        return [self.server.tree.get(path) for path in paths]

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...]:
        self._check()
        if watch:
            self.server.watches.setdefault(path, set()).add(self)
        return self.server.child_names(path)

    async def commit(self, ops: Sequence[ZkOp]) -> tuple[int, ...]:
        self._check()
        self.before_commit(ops)
        versions = self.server.commit(ops, self.session_id)
        if self.lose_answer_of is not None and self.lose_answer_of(ops):
            self.lose_answer_of = None
            raise CoordinationUnavailable("answer lost")
        return versions

    def _check(self) -> None:
        self.calls += 1
        if self.calls == self.break_at_call:
            raise CoordinationUnavailable("broken")
        if self.cut_off:
            raise CoordinationUnavailable("cut off")
