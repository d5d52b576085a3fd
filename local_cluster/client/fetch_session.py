"""A client's fetch session with one broker (KIP-227): what the next request names. Pure.

    add(), remove() --> wanted --next_request()--> named, as the broker remembers it

The first request names everything that is wanted. Later ones name partitions that are new or whose
position differs from the one named last, and those to forget. The broker responds with what has
changed: records, an error, another high watermark or log start offset. So a request costs what has
changed, not what is fetched.

Guarantee: a broker that continues the session fetches exactly what was wanted when the request was
made, from exactly there. If it does not (no room for a session, a forgotten session, a lost
response), the next request names everything again.

One request at a time, see `fetch_in_session`. Source: FetchSessionHandler.java.

Brokers use replication/follower/fetch_session.py among themselves. It shares only the epoch
arithmetic (wire/fetch/): its caller passes what is wanted with each request, always by topic id,
and it keeps neither that nor high watermarks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from local_cluster.client.model import FetchPosition, SessionAnswer, TopicPartition
from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, next_session_epoch

SESSION_LOST: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    }
)
"""Errors of a whole request after which a full request succeeds."""


class SessionRequest(NamedTuple):
    """The part of the next Fetch that concerns the session."""

    session_id: int
    session_epoch: int
    named: Mapping[TopicPartition, FetchPosition]
    forgotten: Sequence[tuple[TopicPartition, UUID | None]]
    """With the topic ids under which they were named."""
    is_by_id: bool = False
    """Whether topics are named by id."""

    @property
    def is_full(self) -> bool:
        """Whether it names everything."""
        return self.session_epoch == INITIAL_EPOCH


class FetchSession:
    """The session of this client with one broker."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._wanted: dict[TopicPartition, FetchPosition] = {}
        self._named: dict[TopicPartition, FetchPosition] = {}
        """What the broker remembers."""
        self._changed: dict[TopicPartition, None] = {}
        """Where the two may differ."""
        self._high_watermarks: dict[TopicPartition, int] = {}
        """From responses. The broker sends one again only after it has moved."""
        self._is_by_id = False
        self._names: dict[UUID, str] = {}
        """The names of the topics that this session names by id."""
        self.knows_topic_ids = False
        """Whether the broker knows Fetch v13. Set by the sender of the requests."""

    @property
    def wanted(self) -> Mapping[TopicPartition, FetchPosition]:
        """The partitions to fetch, and their positions."""
        return self._wanted

    def add(self, at: TopicPartition, position: FetchPosition) -> None:
        """Fetch a partition from a position, or move it there."""
        self._wanted[at] = position
        self._changed[at] = None

    def remove(self, at: TopicPartition) -> None:
        """Stop fetching a partition."""
        if self._wanted.pop(at, None) is not None:
            self._changed[at] = None

    def high_watermark(self, at: TopicPartition) -> int | None:
        """Return the high watermark of a partition at the last response, None if unknown.

        A response without the partition means that it has not moved.
        """
        return self._high_watermarks.get(at)

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """Return the name of a topic that this session names by id."""
        return None if topic_id is None else self._names.get(topic_id)

    def next_request(self) -> SessionRequest:
        """Return what to send now, and count it as named."""
        changed, self._changed = self._changed, {}
        if self._is_by_id and not self._can_be_by_id(changed):
            self._epoch = INITIAL_EPOCH
        if self._epoch == INITIAL_EPOCH:
            return self._full_request()
        named: dict[TopicPartition, FetchPosition] = {}
        forgotten: list[tuple[TopicPartition, UUID | None]] = []
        for at in changed:
            wanted, before = self._as_named(at), self._named.get(at)
            if wanted == before:
                continue
            if before is not None and (wanted is None or wanted.topic_id != before.topic_id):
                del self._named[at]
                self._high_watermarks.pop(at, None)
                forgotten.append((at, before.topic_id))
            if wanted is not None:
                self._named[at] = named[at] = wanted
                self._record_name(at, wanted)
        return SessionRequest(self._id, self._epoch, named, forgotten, self._is_by_id)

    def _full_request(self) -> SessionRequest:
        self._high_watermarks.clear()
        self._names.clear()
        self._is_by_id = self._can_be_by_id(self._wanted)
        self._named = {}
        for at in self._wanted:
            position = self._as_named(at)
            if position is not None:
                self._named[at] = position
                self._record_name(at, position)
        return SessionRequest(self._id, self._epoch, self._named, (), self._is_by_id)

    def _as_named(self, at: TopicPartition) -> FetchPosition | None:
        """Return what is wanted in the form that the broker gets: by name or by id."""
        position = self._wanted.get(at)
        if position is None or self._is_by_id or position.topic_id is None:
            return position
        return position._replace(topic_id=None)

    def _can_be_by_id(self, partitions: Iterable[TopicPartition]) -> bool:
        wanted = self._wanted
        return self.knows_topic_ids and all(
            wanted[at].topic_id is not None for at in partitions if at in wanted
        )

    def _record_name(self, at: TopicPartition, position: FetchPosition) -> None:
        if position.topic_id is not None:
            self._names[position.topic_id] = at.topic

    def record_response(self, response: SessionAnswer) -> None:
        """Record a response. If it has no session, the next request is a full one again."""
        self._id = response.session_id
        if response.session_id == NO_SESSION:
            self._epoch = INITIAL_EPOCH
        else:
            self._epoch = next_session_epoch(self._epoch)
        for at, fetched in response.partitions.items():
            if fetched.error:
                # The broker sends the high watermark again after the error has ended.
                self._high_watermarks.pop(at, None)
            else:
                self._high_watermarks[at] = fetched.high_watermark

    def fail(self) -> None:
        """Start over after a failure: it is not known what the broker remembers.

        The next request names everything, and names the old session, so that its slot is freed.
        """
        self._epoch = INITIAL_EPOCH

    def closing_request(self) -> SessionRequest | None:
        """Return the request that ends the session at its broker, None if there is none.

        The next request starts another session. If the first response was lost, the session is
        not known here: the broker evicts it some day.
        """
        ended, self._id = self._id, NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._high_watermarks.clear()
        return None if ended == NO_SESSION else SessionRequest(ended, FINAL_EPOCH, {}, ())


async def fetch_in_session(
    session: FetchSession, send: Callable[[SessionRequest], Awaitable[SessionAnswer]]
) -> SessionAnswer:
    """Return one response for all that the session wants. `send` sends one request.

    A broker that has lost the session gets a second request, which names everything. Raises what
    `send` raises: KafkaError if the whole request fails.
    """
    while True:
        request = session.next_request()
        try:
            response = await send(request)
        except KafkaError as error:
            session.fail()
            if error.code in SESSION_LOST and not request.is_full:
                continue
            raise
        except BaseException:
            session.fail()
            raise
        session.record_response(response)
        return response
