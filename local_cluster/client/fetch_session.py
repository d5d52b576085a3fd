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
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from local_cluster.wire.errors import ErrorCode, KafkaError
from local_cluster.wire.fetch import INITIAL_EPOCH, NO_SESSION, next_session_epoch

from .model import FetchPosition, SessionAnswer, TopicPartition

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
    forgotten: Sequence[TopicPartition]

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

    def next_request(self) -> SessionRequest:
        """What to send now."""
        changed, self._changed = self._changed, {}
        if self._epoch == INITIAL_EPOCH:
            self._named = dict(self._wanted)
            self._ends.clear()
            return SessionRequest(self._id, self._epoch, self._named, ())
        asked: dict[TopicPartition, FetchPosition] = {}
        forgotten: list[TopicPartition] = []
        for at in changed:
            wanted, named = self._wanted.get(at), self._named.get(at)
            if wanted == named:
                continue
            if wanted is None:
                del self._named[at]
                self._ends.pop(at, None)
                forgotten.append(at)
            else:
                self._named[at] = asked[at] = wanted
        return SessionRequest(self._id, self._epoch, asked, forgotten)

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
