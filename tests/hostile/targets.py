"""What reads bytes of peers, of ZooKeeper and of files: valid inputs, and the refusals allowed."""

from __future__ import annotations

import base64
from functools import lru_cache
from pathlib import Path
from typing import Final

from joserfc.jwk import KeySet

import local_cluster.handlers.all  # noqa: F401  (registers what is served)
from local_cluster.coordinator_runtime.outcome import UnreadableRecordError
from local_cluster.groups import records as group_records
from local_cluster.groups.consumer import records as consumer_records
from local_cluster.handlers.registry import advertised_apis, find_handler
from local_cluster.log.partition.batch_checks import check_produced
from local_cluster.log.partition.record_checks import check_records
from local_cluster.records import header as h
from local_cluster.security.authentication.exchanges import (
    AuthenticationError,
    Exchange,
    PlainExchange,
    ScramExchange,
)
from local_cluster.security.authentication.oauth.bearer_exchange import BearerExchange
from local_cluster.security.authentication.oauth.settings import OauthSettings
from local_cluster.security.authentication.oauth.token_rules import verify_token
from local_cluster.security.authentication.scram_credentials import credential_of
from local_cluster.transactions import records as transaction_records
from local_cluster.wire import fetch, list_offsets, messages, offset_commit, produce
from local_cluster.wire.api import ApiKey
from local_cluster.wire.errors import KafkaError, PeerError
from local_cluster.wire.frame import FrameReceiver, frame_size_prefix
from local_cluster.wire.header import read_request_header
from local_cluster.wire.request_memory import RequestMemory
from tests.golden.frames import golden
from tests.hostile.http_ports import HTTP_TARGETS
from tests.hostile.log_files import LOG_TARGETS
from tests.hostile.mirror_records import MIRROR_TARGETS
from tests.hostile.target import Target, joined, split
from tests.hostile.znodes import ZNODES
from tests.support.issuer import Issuer
from topology.file.load import parse_topology
from topology.problems import InvalidTopology

ROOT: Final = Path(__file__).parents[2]
GOLDEN: Final = ROOT / "tests" / "golden"
BY_HAND: Final = {
    ApiKey.PRODUCE: produce.decode_request,
    ApiKey.FETCH: fetch.decode_request,
    ApiKey.LIST_OFFSETS: list_offsets.decode_request,
    ApiKey.OFFSET_COMMIT: offset_commit.decode_request,
}
FRAME_BYTES_MAX: Final = 100_000
DECOMPRESSED_BYTES_MAX: Final = 1 << 20
CREDENTIAL: Final = credential_of("SCRAM-SHA-256", "pencil", b"salt")


@lru_cache
def _requests() -> tuple[bytes, ...]:
    return tuple(
        line.frame
        for handler in advertised_apis()
        for line in golden(handler.api_key)
        if line.kind == "request" and handler.min_version <= line.version <= handler.max_version
    )


def read_request(frame: bytes) -> object:
    """Read a frame as a connection does before it calls the handler."""
    view = memoryview(bytearray(frame))
    header = read_request_header(view)
    handler = find_handler(header.api_key)
    if handler is None or not handler.min_version <= header.api_version <= handler.max_version:
        raise PeerError("not served")
    by_hand = BY_HAND.get(ApiKey(header.api_key))
    if by_hand is not None:
        return by_hand(header.api_version, view, header.body_position)
    if handler.raw:
        return None
    return messages.decode_request(header.api_key, header.api_version, view, header.body_position)


@lru_cache
def _streams() -> tuple[bytes, ...]:
    frames = _requests()
    return tuple(
        b"".join(frame_size_prefix(len(frame)) + frame for frame in frames[at : at + 3])
        for at in range(0, len(frames), 7)
    )


def read_stream(stream: bytes) -> object:
    """Read frames as a connection does that waits for memory, and is not read now and then."""
    receiver = FrameReceiver(FRAME_BYTES_MAX)
    memory = receiver.memory = RequestMemory(1, lambda: 1)
    frames = 0
    while stream:
        if receiver.wanted:
            memory.take_anyway(receiver.wanted)
            receiver.begin_waiting()
        window = receiver.writable()
        count = min(len(window), len(stream), 1 + stream[-1])
        window[:count] = stream[:count]
        stream = stream[count:]
        frames += len(receiver.received(count))
        if count % 3 == 0:
            receiver.suspend()
        receiver.settle(count % 5)
    receiver.drop()
    assert memory.used == 0
    return frames


@lru_cache
def _batches() -> tuple[bytes, ...]:
    """Return batches as a producer sends them: from offset 0, and no marker."""
    batches = (
        bytes.fromhex("".join(path.read_text().split()))
        for path in sorted(GOLDEN.glob("record_batch_*.hex"))
        if "marker" not in path.name
    )
    return tuple(bytes(8) + batch[8:] for batch in batches)


def read_batch(batch: bytes) -> object:
    """Check a batch as Produce does, with a valid CRC so that the records are looked at."""
    buffer = bytearray(batch)
    if len(buffer) >= h.HEADER_BYTES <= h.peek_size_bytes(buffer, 0) <= len(buffer):
        h.patch_crc(buffer, 0)
    headers = check_produced(buffer, allow_transactional=True)
    check_records(buffer, headers, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
    return headers


def _logins() -> tuple[bytes, ...]:
    proof = base64.b64encode(bytes(32))
    return (
        b"\0user\0wrong",
        b"user\0user\0wrong",
        b"n,,n=user,r=ours\nc=biws,r=ourstheirs,p=" + proof,
        b"n,a=user,n=user,r=ours\nc=bixhPXVzZXIs,r=ourstheirs,p=" + proof,
        b"n,,n=us=2Cer,r=ours\nc=biws,r=ourstheirs,p=" + proof,
    )


def read_login(login: bytes) -> object:
    """Play the messages, one a line, to PLAIN and to SCRAM; nobody may get in."""
    exchanges: tuple[Exchange, ...] = (
        PlainExchange({"user": "pencil"}.get),
        ScramExchange("SCRAM-SHA-256", "theirs", lambda name: CREDENTIAL),
    )
    refusal: AuthenticationError | None = None
    for exchange in exchanges:
        try:
            for message in login.split(b"\n"):
                exchange.respond(message)
        except AuthenticationError as error:
            refusal = error
        assert exchange.username is None, "a login without the password"
    if refusal is not None:
        raise refusal
    return None


@lru_cache
def _issuer() -> Issuer:
    return Issuer()


@lru_cache
def _key_set() -> KeySet:
    return _issuer().key_set()


@lru_cache
def _tokens() -> tuple[bytes, ...]:
    """Return first messages of OAUTHBEARER whose tokens have expired."""
    issuer = _issuer()
    tokens = [issuer.token("user", exp=1), issuer.token("user", exp=1, aud=["a"], nbf=0)]
    return tuple(
        f"n,{name},\x01auth=Bearer {token}\x01\x01".encode()
        for name in ("", "a=user")
        for token in tokens
    )


def read_token(message: bytes) -> object:
    settings = OauthSettings(keys_file="of-the-issuer", clock_skew_seconds=0)
    exchange = BearerExchange(lambda token: verify_token(token, _key_set(), settings, 2_000))
    exchange.respond(message)
    assert exchange.username is None, "a login without a valid token"
    return None


def _pairs(name: str) -> tuple[bytes, ...]:
    """Return keys and values of a golden file, each as key size (uint16), key, value."""
    lines = (line.split() for line in (GOLDEN / name).read_text().splitlines())
    pairs = [
        (bytes.fromhex(line[1]), bytes.fromhex(line[2]))
        for line in lines
        if len(line) == 3 and line[0] != "hash" and "-" not in line[1:]
    ]
    return tuple(joined(key, value) for key, value in pairs)


def read_group_record(pair: bytes) -> object:
    key, value = split(pair)
    match group_records.decode_key(key):
        case group_records.OffsetKey():
            return group_records.decode_offset_value(value)
        case group_records.GroupKey():
            return group_records.decode_group_value(value)
        case None:
            return None
        case other:
            return consumer_records.decode_value(other, value)


def read_transaction_record(pair: bytes) -> object:
    key, value = split(pair)
    transactional_id = transaction_records.decode_key(key)
    return transactional_id and transaction_records.decode_value(transactional_id, value)


@lru_cache
def _topologies() -> tuple[bytes, ...]:
    return tuple(
        (ROOT / "configs" / name).read_bytes() for name in ("quickstart.yaml", "secure.yaml")
    )


def read_topology(document: bytes) -> object:
    return parse_topology(document.decode("utf-8", "replace"), file="hostile.yaml")


TARGETS: Final = (
    Target("requests", _requests, read_request, (PeerError,), 50),
    Target("frames", _streams, read_stream, (PeerError,)),
    Target("batches", _batches, read_batch, (KafkaError,), 20),
    Target("logins", _logins, read_login, (AuthenticationError,)),
    Target("tokens", _tokens, read_token, (AuthenticationError,)),
    Target(
        "group-records",
        lambda: _pairs("group_records.txt") + _pairs("consumer_group_records.txt"),
        read_group_record,
        (UnreadableRecordError,),
    ),
    Target(
        "transaction-records",
        lambda: _pairs("transaction_records.txt"),
        read_transaction_record,
        (UnreadableRecordError,),
    ),
    Target("topology", _topologies, read_topology, (InvalidTopology,), 1),
    ZNODES,
    *MIRROR_TARGETS,
    *HTTP_TARGETS,
    *LOG_TARGETS,
)
