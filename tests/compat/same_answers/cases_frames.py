"""Broken frames, headers and bodies, of each API that both serve."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.handlers.registry import Handler, advertised_apis
from local_cluster.wire.api import ApiKey, is_flexible
from tests.compat.same_answers.asking import Ask
from tests.compat.same_answers.case import Case, case
from tests.golden.frames import golden


class RawStream(NamedTuple):
    """Bytes that are not a frame; both sides must treat the connection alike."""

    name: str
    data: bytes

    def __str__(self) -> str:
        return self.name


STREAMS = [
    RawStream("negative frame size", b"\xff\xff\xff\xff"),
    RawStream("smallest frame size", b"\x80\x00\x00\x00"),
    RawStream("empty frame", b"\0\0\0\0"),
    RawStream("frame above the cap", struct.pack(">i", 100 * 1024 * 1024 + 1)),
    RawStream("largest frame size", b"\x7f\xff\xff\xff"),
    RawStream("http", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    RawStream("tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    RawStream("frame of one byte", b"\0\0\0\1\0"),
    RawStream("header cut short", b"\0\0\0\7" + bytes(7)),
    RawStream("client id cut short", b"\0\0\0\x0c" + struct.pack(">hhih", 3, 1, 1, 99) + b"ab"),
    RawStream("no client id length", b"\0\0\0\x08" + struct.pack(">hhi", 3, 1, 1)),
    RawStream("negative client id length", b"\0\0\0\x0a" + struct.pack(">hhih", 3, 1, 1, -7)),
    RawStream(
        "header without its tagged fields", b"\0\0\0\x0a" + struct.pack(">hhih", 3, 12, 1, -1)
    ),
]


def unserved() -> Iterator[Case]:
    for key in (-1, 4, 5, 6, 7, 1000, 9999, 32_767):
        yield case(f"api key {key}", Ask(key, 0, bytes(20)))
    for handler in advertised_apis():
        if handler.api_key == ApiKey.API_VERSIONS:
            continue
        name = ApiKey(handler.api_key).name
        for version in (-1, 99, 32_767):
            yield case(f"{name} v{version}", Ask(handler.api_key, version, bytes(20)))
        if handler.min_version:
            below = handler.min_version - 1
            yield case(f"{name} v{below}", Ask(handler.api_key, below, bytes(20)))
    for version in (-1, 6, 99, 32_767):
        yield case(f"API_VERSIONS v{version}", Ask(ApiKey.API_VERSIONS, version, bytes(20)))
    yield case("API_VERSIONS v99 without a body", Ask(ApiKey.API_VERSIONS, 99))


def broken_bodies(left_out: frozenset[int]) -> Iterator[Case]:
    """Kafka's own bytes of every request, cut and lengthened; only what does not change state.

    A cut body is never understood. One with a byte too many is: the byte is not looked at.
    """
    for handler in advertised_apis():
        if handler.api_key in left_out:
            continue
        name = ApiKey(handler.api_key).name
        for version in ends(handler):
            body = request_body(handler.api_key, version)
            if len(body) < 2:
                continue
            cuts = {0, 1, len(body) // 2, len(body) - 1}
            for size in sorted(cuts):
                yield case(
                    f"{name} v{version} cut to {size} of {len(body)} bytes",
                    Ask(handler.api_key, version, body[:size]),
                )


def ends(handler: Handler) -> list[int]:
    """Return the oldest version, the newest, and the first flexible one."""
    versions = range(handler.min_version, handler.max_version + 1)
    flexible = [version for version in versions if is_flexible(handler.api_key, version)]
    return sorted({versions[0], versions[-1], *flexible[:1]})


def request_body(api_key: int, version: int) -> bytes:
    (line,) = (
        line
        for line in golden(api_key)
        if line.kind == "request" and line.version == version and line.variant == "full"
    )
    frame = memoryview(bytearray(line.frame))
    from tests.golden.frames import check_header

    return bytes(frame[check_header(line, frame) :])
