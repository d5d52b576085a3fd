"""What records look like, and how one is known again wherever it is read. Pure."""

from __future__ import annotations

import random
from typing import Final

from tests.referee.history import Content
from tests.referee.modes import State

IDENTITY_HEADER: Final = "referee-id"
"""Holds the identity of a tombstone, which has no value."""
IMPATIENT: Final = "impatient"
"""Part of the identity of records whose producer gives up early."""
SEPARATOR: Final = b"|"
"""Ends the identity in a value."""
KEYS: Final = 25
"""Of a compacted topic, for each producing cluster."""
COLD_KEYS: Final = 1_000
COLD_SHARE: Final = 0.3
"""Of its records: their keys hardly come again, so that cleaned tombstones stay for a while."""
TOMBSTONE_SHARE: Final = 0.2
LARGE_BYTES_MAX: Final = 40_000
COMPACTED: Final = (State.COMPACTED, State.KEPT)
TIMES_OF_NOW: Final = (State.COMPACTED, State.KEPT, State.RETENTION)
"""Topics whose segments follow the times of their records."""
OLDER_MS_MAX: Final = 3 * 60 * 60 * 1000
NEWER_MS_MAX: Final = 5 * 60 * 1000


def make_content(
    state: State, cluster: str, identity: str, now_ms: int, randomly: random.Random
) -> Content:
    """A record with this identity for a topic, produced in a cluster."""
    key: bytes | None
    if state in COMPACTED:
        is_cold = randomly.random() < COLD_SHARE
        number = KEYS + randomly.randrange(COLD_KEYS) if is_cold else randomly.randrange(KEYS)
        key = f"{cluster}-{number}".encode()
    else:
        key = randomly.choice((None, b"", b"some key", randomly.randbytes(8)))
    headers = _headers(randomly)
    timestamp_ms = now_ms
    if state not in TIMES_OF_NOW and randomly.random() < 0.2:
        timestamp_ms += randomly.randint(-OLDER_MS_MAX, NEWER_MS_MAX)
    if state in COMPACTED and randomly.random() < TOMBSTONE_SHARE:
        at = randomly.randint(0, len(headers))
        headers.insert(at, (IDENTITY_HEADER, identity.encode()))
        return Content(key, None, tuple(headers), timestamp_ms)
    value = identity.encode() + SEPARATOR + _padding(randomly)
    return Content(key, value, tuple(headers), timestamp_ms)


def may_be_doubled(identity: str) -> bool:
    """Whether the producer of a record gives up early.

    librdkafka then continues at a new epoch, and may write again what an unanswered request has
    written already.
    """
    return identity.split(".")[2:3] == [IMPATIENT]


def identity_of(content: Content) -> str | None:
    """The identity of a record that `make_content` made; None for any other."""
    if content.value is None:
        found = next((value for name, value in content.headers if name == IDENTITY_HEADER), None)
    else:
        found = content.value.partition(SEPARATOR)[0] if SEPARATOR in content.value else None
    try:
        return found.decode("ascii") if found is not None else None
    except UnicodeDecodeError:
        return None


def _headers(randomly: random.Random) -> list[tuple[str, bytes | None]]:
    if randomly.random() < 0.6:
        return []
    values = (None, b"", b"x", randomly.randbytes(20))
    names = ("trace", "trace", "", "\N{GREEK SMALL LETTER ALPHA}")
    return [
        (randomly.choice(names), randomly.choice(values)) for _ in range(randomly.randint(1, 4))
    ]


def _padding(randomly: random.Random) -> bytes:
    size = randomly.choice((0, 10, 100, 100, 400, 1_500))
    if randomly.random() < 0.01:
        size = randomly.randint(1_500, LARGE_BYTES_MAX)
    return randomly.randbytes(size) if randomly.random() < 0.5 else b"heliograph " * (size // 11)
