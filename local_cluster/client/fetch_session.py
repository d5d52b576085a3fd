"""A client's side of its fetch session with one broker (KIP-227): what has to be named. Pure.

    ask(), leave_out() --> wanted --next_request()--> named, as the broker remembers it

The first request names everything that is wanted. Later ones name what is new, or is wanted from
another position than was named last, and what is to be forgotten; the broker tells only what has
news: records, an error, another high watermark or log start offset. So a request costs what has
changed, not what is followed.

Guarantee: a broker that goes on with the session fetches exactly what was wanted when the request
was made, from exactly there. Where it does not (it has no room for a session, has forgotten it, or
an answer was lost), the next request names everything again.

One request at a time, see `fetch_in_session`. Source: FetchSessionHandler.java.

Brokers among themselves have replication/follower_session.py, which has only the arithmetic of
epochs (wire/fetch.py) in common: it is told with every request what is wanted, always by topic id,
and keeps neither that nor high watermarks.
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
"""Errors of a whole request after which a full one is answered."""


class SessionRequest(NamedTuple):
    """What the next Fetch has to say of the session."""

    session_id: int
    session_epoch: int
    asked: Mapping[TopicPartition, FetchPosition]
    forgotten: Sequence[tuple[TopicPartition, UUID | None]]
    """With the topic ids under which they were asked for."""
    is_by_id: bool = False
    """Whether topics are named by id."""

    @property
    def is_full(self) -> bool:
        """Whether it names everything."""
        return self.session_epoch == INITIAL_EPOCH


class FetchSession:
    """Of this client with one broker."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._wanted: dict[TopicPartition, FetchPosition] = {}
        self._named: dict[TopicPartition, FetchPosition] = {}
        """What the broker remembers."""
        self._changed: dict[TopicPartition, None] = {}
        """Where the two may differ."""
        self._ends: dict[TopicPartition, int] = {}
        """High watermarks that were told, and are not told again before they move."""
        self._is_by_id = False
        self._names: dict[UUID, str] = {}
        """Of the topics that were named by id in this session."""
        self.knows_topic_ids = False
        """Whether the broker understands Fetch v13; said by who sends the requests."""

    @property
    def wanted(self) -> Mapping[TopicPartition, FetchPosition]:
        """What is fetched, and from where."""
        return self._wanted

    def ask(self, at: TopicPartition, position: FetchPosition) -> None:
        """Fetch this partition, from there."""
        self._wanted[at] = position
        self._changed[at] = None

    def leave_out(self, at: TopicPartition) -> None:
        """Fetch it no more."""
        if self._wanted.pop(at, None) is not None:
            self._changed[at] = None

    def high_watermark(self, at: TopicPartition) -> int | None:
        """Of the partition when the last answer was given; None where that was not told.

        An answer that leaves a partition out says by that: where it was.
        """
        return self._ends.get(at)

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """Of a topic that was asked for by its id."""
        return None if topic_id is None else self._names.get(topic_id)

    def next_request(self) -> SessionRequest:
        """What to send now."""
        changed, self._changed = self._changed, {}
        if self._is_by_id and not self._can_be_by_id(changed):
            self._epoch = INITIAL_EPOCH
        if self._epoch == INITIAL_EPOCH:
            return self._full_request()
        asked: dict[TopicPartition, FetchPosition] = {}
        forgotten: list[tuple[TopicPartition, UUID | None]] = []
        for at in changed:
            wanted, named = self._as_named(at), self._named.get(at)
            if wanted == named:
                continue
            if named is not None and (wanted is None or wanted.topic_id != named.topic_id):
                del self._named[at]
                self._ends.pop(at, None)
                forgotten.append((at, named.topic_id))
            if wanted is not None:
                self._named[at] = asked[at] = wanted
                self._note_name(at, wanted)
        return SessionRequest(self._id, self._epoch, asked, forgotten, self._is_by_id)

    def _full_request(self) -> SessionRequest:
        self._ends.clear()
        self._names.clear()
        self._is_by_id = self._can_be_by_id(self._wanted)
        self._named = {}
        for at in self._wanted:
            position = self._as_named(at)
            if position is not None:
                self._named[at] = position
                self._note_name(at, position)
        return SessionRequest(self._id, self._epoch, self._named, (), self._is_by_id)

    def _as_named(self, at: TopicPartition) -> FetchPosition | None:
        """What is wanted, as the broker is told it: by name or by id."""
        position = self._wanted.get(at)
        if position is None or self._is_by_id or position.topic_id is None:
            return position
        return position._replace(topic_id=None)

    def _can_be_by_id(self, partitions: Iterable[TopicPartition]) -> bool:
        wanted = self._wanted
        return self.knows_topic_ids and all(
            wanted[at].topic_id is not None for at in partitions if at in wanted
        )

    def _note_name(self, at: TopicPartition, position: FetchPosition) -> None:
        if position.topic_id is not None:
            self._names[position.topic_id] = at.topic

    def answered(self, answer: SessionAnswer) -> None:
        """The request was answered; where that gives no session the next one is full again."""
        self._id = answer.session_id
        if answer.session_id == NO_SESSION:
            self._epoch = INITIAL_EPOCH
        else:
            self._epoch = next_session_epoch(self._epoch)
        for at, told in answer.partitions.items():
            if told.error:
                # Nor does the broker hold it for known: the end of an error is told.
                self._ends.pop(at, None)
            else:
                self._ends[at] = told.high_watermark

    def failed(self) -> None:
        """Nobody knows what the broker remembers. The next request names everything, and the
        session that it ends, so that its place there is free."""
        self._epoch = INITIAL_EPOCH

    def closing_request(self) -> SessionRequest | None:
        """What ends the session at its broker; None where there is none. Asked again it is begun
        anew.

        A session whose first answer was lost is not known here: its broker evicts it some day.
        """
        ended, self._id = self._id, NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._ends.clear()
        return None if ended == NO_SESSION else SessionRequest(ended, FINAL_EPOCH, {}, ())


async def fetch_in_session(
    session: FetchSession, send: Callable[[SessionRequest], Awaitable[SessionAnswer]]
) -> SessionAnswer:
    """One answer for all that the session wants; `send` is one request to its broker.

    A broker that has lost the session is asked once more, with everything named. Raises what
    `send` raises: KafkaError for trouble with the whole request.
    """
    while True:
        request = session.next_request()
        try:
            answer = await send(request)
        except KafkaError as error:
            session.failed()
            if error.code in SESSION_LOST and not request.is_full:
                continue
            raise
        except BaseException:
            session.failed()
            raise
        session.answered(answer)
        return answer
