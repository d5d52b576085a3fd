"""Requests that Kafka's Java classes wrote, changed at random places: each is read or refused.

For each API at each served version a decoder returns a value or raises PeerError, nothing else. The
value is no larger than the frame can hold.
"""

from __future__ import annotations

import contextlib
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.handlers.registry import advertised_apis, find_handler
from local_cluster.wire import fetch, list_offsets, messages, offset_commit, produce
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import PeerError
from local_cluster.wire.header import read_request_header
from tests.golden.frames import Golden, golden

BY_HAND: Final = {
    ApiKey.PRODUCE: produce.decode_request,
    ApiKey.FETCH: fetch.decode_request,
    ApiKey.LIST_OFFSETS: list_offsets.decode_request,
    ApiKey.OFFSET_COMMIT: offset_commit.decode_request,
}
EXTREMES: Final = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff",
    b"\x00\x00",
    b"\xff\xfe",
)

REQUESTS: Final = [
    line
    for handler in advertised_apis()
    for line in golden(handler.api_key)
    if line.kind == "request" and handler.min_version <= line.version <= handler.max_version
]


def read(frame: bytes) -> None:
    """Read a frame as the connection does before it calls the handler."""
    view = memoryview(bytearray(frame))
    header = read_request_header(view)
    handler = find_handler(header.api_key)
    if handler is None or not handler.min_version <= header.api_version <= handler.max_version:
        raise PeerError("not served")
    by_hand = BY_HAND.get(ApiKey(header.api_key))
    if by_hand is not None:
        by_hand(header.api_version, view, header.body_position)
    elif not handler.raw:
        messages.decode_request(header.api_key, header.api_version, view, header.body_position)


@pytest.mark.parametrize("line", REQUESTS, ids=str)
def test_unchanged_requests_are_read(line: Golden) -> None:
    read(line.frame)


@pytest.mark.parametrize("line", [each for each in REQUESTS if each.variant == "full"], ids=str)
def test_every_cut_is_refused(line: Golden) -> None:
    for size in range(len(line.frame)):
        with pytest.raises(PeerError):
            read(line.frame[:size])


@settings(max_examples=1500)
@given(st.sampled_from(REQUESTS), st.data())
def test_changed_requests_are_read_or_refused(line: Golden, data: st.DataObject) -> None:
    frame = bytearray(line.frame)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(8, max(8, len(frame))))
        match data.draw(st.integers(0, 3)):
            case 0 if at < len(frame):
                frame[at] ^= data.draw(st.integers(1, 255))
            case 1:
                extreme = data.draw(st.sampled_from(EXTREMES))
                frame[at : at + len(extreme)] = extreme
            case 2:
                frame[at:at] = data.draw(st.binary(max_size=8))
            case _:
                del frame[at : at + data.draw(st.integers(1, 16))]
    with contextlib.suppress(PeerError):
        read(bytes(frame))
