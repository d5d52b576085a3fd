"""Invalid requests of Metadata, Produce, Fetch, ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

import functools
import itertools
import struct
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from local_cluster.records.batch import NewRecord, encode_batch
from local_cluster.records.header import compute_crc
from local_cluster.wire import fetch
from local_cluster.wire.api import ApiKey
from tests.compat.same_answers.asking import UNKNOWN_ID, Ask, Side
from tests.compat.same_answers.case import Case, case

INT64_MAX = (1 << 63) - 1


def metadata(version: int, topics: Any, **fields: Any) -> Ask:
    def body(side: Side) -> dict[str, Any]:
        asked = topics(side) if callable(topics) else topics
        return {
            "topics": asked,
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
            **fields,
        }

    return Ask(ApiKey.METADATA, version, body)


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "topic_id": None} for name in names]


def metadata_cases() -> Iterator[Case]:
    for version in range(14):
        yield case(f"metadata v{version} known", metadata(version, named("t")))
        yield case(f"metadata v{version} unknown", metadata(version, named("absent")))
        yield case(f"metadata v{version} repeated", metadata(version, named("t", "t", "x", "x")))
        yield case(
            f"metadata v{version} invalid names",
            metadata(version, named("", ".", "..", "a b", "x" * 250, "h\u00f6", "x" * 249)),
        )
        if version >= 1:
            yield case(f"metadata v{version} empty", metadata(version, []))
        else:
            yield case("metadata v0 null", Ask(ApiKey.METADATA, 0, b"\xff\xff\xff\xff"))
        if version >= 8:
            yield case(
                f"metadata v{version} operations",
                metadata(
                    version,
                    named("t", "absent"),
                    include_cluster_authorized_operations=True,
                    include_topic_authorized_operations=True,
                ),
            )
        if version >= 10:
            yield case(
                f"metadata v{version} by id",
                metadata(version, lambda side: [{"name": None, "topic_id": side.ids["t"]}]),
            )
            yield case(
                f"metadata v{version} by unknown id",
                metadata(version, [{"name": None, "topic_id": UNKNOWN_ID}]),
            )
            yield case(
                f"metadata v{version} by zero id",
                metadata(version, [{"name": None, "topic_id": None}]),
            )
            yield case(
                f"metadata v{version} by name and id",
                metadata(version, lambda side: [{"name": "t", "topic_id": side.ids["t"]}]),
            )
            yield case(
                f"metadata v{version} by another's id",
                metadata(version, lambda side: [{"name": "t", "topic_id": side.ids["empty"]}]),
            )
    one = b"\0\0\0\1\0\1t"
    yield case("metadata v1 trailing bytes", Ask(ApiKey.METADATA, 1, one + b"xyz"))
    yield case("metadata v1 null name", Ask(ApiKey.METADATA, 1, b"\0\0\0\1\xff\xff"))
    yield case("metadata v1 negative name", Ask(ApiKey.METADATA, 1, b"\0\0\0\1\xff\xfe"))
    yield case("metadata v1 negative array", Ask(ApiKey.METADATA, 1, b"\xff\xff\xff\xfe"))
    yield case("metadata v1 huge array", Ask(ApiKey.METADATA, 1, b"\x7f\xff\xff\xff"))
    yield case("metadata v1 not UTF-8", Ask(ApiKey.METADATA, 1, b"\0\0\0\1\0\1\xff"))
    yield case("metadata v9 huge array", Ask(ApiKey.METADATA, 9, b"\xff\xff\xff\xff\x0f\0\0\0\0"))
    yield case("metadata v9 long varint", Ask(ApiKey.METADATA, 9, b"\xff\xff\xff\xff\xff\1\0\0\0"))
    tagged = b"\2\2t\1\7\3abc\1\0\0\1\5\2xy"
    yield case("metadata v9 unknown tags", Ask(ApiKey.METADATA, 9, tagged))
    cut = b"\2\2t\1\7\x70abc\1\0\0\0"
    yield case("metadata v9 tag cut short", Ask(ApiKey.METADATA, 9, cut))


# -- ApiVersions ------------------------------------------------------------------------------


def software(name: str, version: str) -> dict[str, str]:
    return {"client_software_name": name, "client_software_version": version}


def api_versions_cases() -> Iterator[Case]:
    names = ("", "-", "a-", "-a", "a b", "h\u00f6", "a_b", "a\n")
    for version in (3, 4, 5):
        for name in names:
            asks = (
                Ask(ApiKey.API_VERSIONS, version, software(name, "1")),
                Ask(ApiKey.API_VERSIONS, version, software("a", name)),
            )
            yield case(f"api versions v{version} {name!r}", *asks)
    for cluster, node in itertools.product((None, "", "another"), (-1, 0, 1, 77)):
        if (cluster, node) == (None, -1):
            continue  # that is answered with what each serves
        meant = {**software("a", "1"), "cluster_id": cluster, "node_id": node}
        yield case(
            f"api versions v5 cluster {cluster} node {node}", Ask(ApiKey.API_VERSIONS, 5, meant)
        )


# -- Produce ----------------------------------------------------------------------------------


def batch(*values: bytes | None, key: bytes | None = b"k", **options: Any) -> bytes:
    now_ms = int(time.time() * 1000)
    timestamp_ms = options.pop("timestamp_ms", now_ms)
    return bytes(encode_batch([NewRecord(timestamp_ms, key, v) for v in values], **options))


def with_crc(records: bytearray) -> bytes:
    """Recompute the CRC of a batch after a change of its header."""
    struct.pack_into(">I", records, 17, compute_crc(records, 0, len(records)))
    return bytes(records)


def changed(offset: int, layout: str, value: int) -> bytes:
    records = bytearray(batch(b"a", b"b"))
    struct.pack_into(layout, records, offset, value)
    return with_crc(records)


def produce_ask(
    version: int,
    *entries: tuple[str, int, bytes | None],
    acks: int = 1,
    timeout_ms: int = 5_000,
    transactional_id: str | None = None,
) -> Ask:
    return Ask(
        ApiKey.PRODUCE,
        version,
        functools.partial(
            produce_body,
            version=version,
            entries=entries,
            acks=acks,
            timeout_ms=timeout_ms,
            transactional_id=transactional_id,
        ),
    )


def produce_body(
    side: Side,
    *,
    version: int,
    entries: Sequence[tuple[str, int, bytes | None]],
    acks: int,
    timeout_ms: int,
    transactional_id: str | None,
) -> bytes | dict[str, Any]:
    by_id = version >= 13
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout": timeout_ms,
        "topic_data": [
            {
                "name": topic,
                "topic_id": side.ids.get(topic, UNKNOWN_ID) if by_id else None,
                "partition_data": [{"index": index, "records": records}],
            }
            for topic, index, records in entries
        ],
    }


def broken_crc() -> bytes:
    records = bytearray(batch(b"a"))
    records[-1] ^= 1
    return bytes(records)


def transactional(records: bytes, producer_id: int = 4_000) -> bytes:
    out = bytearray(records)
    struct.pack_into(">h", out, 21, 0x10)
    struct.pack_into(">qhi", out, 43, producer_id, 0, 0)
    return with_crc(out)


HOUR_MS = 3_600_000
PRODUCED: dict[str, Callable[[], bytes | None]] = {
    "no bytes": lambda: b"",
    "one byte": lambda: b"\0",
    "header cut short": lambda: batch(b"a")[:40],
    "records cut short": lambda: batch(b"a")[:-1],
    "a byte too many": lambda: batch(b"a") + b"\0",
    "two batches": lambda: batch(b"a") + batch(b"b"),
    "broken crc": broken_crc,
    "magic 0": lambda: bytes(bytearray(batch(b"a")[:16]) + b"\0" + batch(b"a")[17:]),
    "magic 1": lambda: bytes(bytearray(batch(b"a")[:16]) + b"\1" + batch(b"a")[17:]),
    "magic 3": lambda: bytes(bytearray(batch(b"a")[:16]) + b"\3" + batch(b"a")[17:]),
    "control batch": lambda: changed(21, ">h", 0x20),
    "unknown codec": lambda: changed(21, ">h", 5),
    "unknown attributes": lambda: changed(21, ">h", 0x80),
    "log append time": lambda: changed(21, ">h", 0x08),
    "last offset delta too large": lambda: changed(23, ">i", 5),
    "last offset delta too small": lambda: changed(23, ">i", 0),
    "last offset delta negative": lambda: changed(23, ">i", -1),
    "count too large": lambda: changed(57, ">i", 3),
    "count zero": lambda: changed(57, ">i", 0),
    "count negative": lambda: changed(57, ">i", -1),
    "length too small": lambda: batch(b"a")[:8] + b"\0\0\0\1" + batch(b"a")[12:],
    "length negative": lambda: batch(b"a")[:8] + b"\xff\xff\xff\xff" + batch(b"a")[12:],
    "length too large": lambda: batch(b"a")[:8] + b"\0\0\1\0" + batch(b"a")[12:],
    "base offset of its own": lambda: b"\0\0\0\0\0\0\1\0" + batch(b"a")[8:],
    "too large": lambda: batch(b"x" * 2_000_000),
    "in two hours": lambda: batch(b"a", timestamp_ms=int(time.time() * 1000) + 2 * HOUR_MS),
    "long ago": lambda: batch(b"a", timestamp_ms=5),
    "no timestamp": lambda: changed(35, ">q", -1),
    "epoch without producer": lambda: changed(51, ">h", 0),
    "sequence without producer": lambda: changed(53, ">i", 0),
    "producer without sequence": lambda: changed(43, ">q", 5),
    "producer of nobody": lambda: batch(
        b"a", producer_id=999_999, producer_epoch=0, base_sequence=7
    ),
    "transactional without id": lambda: transactional(batch(b"a")),
}


def produce_cases(versions: Sequence[int]) -> Iterator[Case]:
    for version in versions:
        at = f"produce v{version}"
        for name, make in PRODUCED.items():
            for acks in (1, -1) if name == "broken crc" else (1,):
                yield case(
                    f"{at} acks={acks} {name}",
                    produce_ask(version, ("written", 0, make()), acks=acks),
                )
        yield case(f"{at} good", produce_ask(version, ("good", 0, batch(b"a", b"b")), acks=-1))
        for acks in (2, -2, 32_767):
            yield case(f"{at} acks={acks}", produce_ask(version, ("t", 0, batch(b"a")), acks=acks))
        yield case(f"{at} nothing", produce_ask(version))
        yield case(f"{at} nothing acks=0", produce_ask(version, acks=0))
        yield case(f"{at} acks=0", produce_ask(version, ("good", 1, batch(b"a")), acks=0))
        refused = produce_ask(version, ("absent", 0, batch(b"a")), acks=0)
        yield case(f"{at} acks=0 refused", refused)
        for name, (topic, index) in {
            "unknown topic": ("absent", 0),
            "unknown partition": ("t", 99),
            "negative partition": ("t", -1),
            "internal topic": ("__consumer_offsets", 0),
            "empty topic name": ("", 0),
            "invalid topic name": ("a b", 0),
        }.items():
            if version < 13 or topic in ("absent", "t"):
                yield case(f"{at} {name}", produce_ask(version, (topic, index, batch(b"a"))))
        twice = (("good", 2, batch(b"a")), ("good", 2, batch(b"b")))
        yield case(f"{at} partition twice", produce_ask(version, *twice))
        mixed = (("good", 0, batch(b"a")), ("absent", 0, batch(b"b")), ("t", 9, batch(b"c")))
        yield case(f"{at} good and bad", produce_ask(version, *mixed))
        keyless = batch(b"a", key=None)
        yield case(f"{at} keyless", produce_ask(version, ("compacted", 0, keyless)))
        yield case(f"{at} topic's limit", produce_ask(version, ("small", 0, batch(b"x" * 900))))
        yield case(f"{at} negative timeout", produce_ask(version, ("good", 0, batch(b"a")), acks=-1,
                                                         timeout_ms=-1))  # fmt: skip
        if version >= 3:
            zstd = batch(b"a" * 500, codec=4)
            yield case(f"{at} zstd", produce_ask(version, ("good", 3, zstd)))


# -- Fetch ------------------------------------------------------------------------------------


def fetch_ask(
    version: int,
    *entries: tuple[str, int, int],
    epoch: int = -1,
    last_epoch: int = -1,
    bytes_max: int = 1 << 20,
    partition_bytes_max: int = 1 << 20,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    forgotten: Sequence[tuple[str, int]] = (),
    bytes_min: int = 0,
    wait_ms: int = 0,
    replica_id: int = -1,
) -> Ask:
    def body(side: Side) -> bytes:
        by_id = version >= 13

        def topic(name: str) -> tuple[str, uuid.UUID | None]:
            return ("", side.ids.get(name, UNKNOWN_ID)) if by_id else (name, None)

        asked = [
            fetch.FetchPartition(
                topic(name)[0], index, epoch, offset, last_epoch, -1, partition_bytes_max,
                topic(name)[1],
            )
            for name, index, offset in entries
        ]  # fmt: skip
        gone = [
            fetch.ForgottenPartition(topic(name)[0], index, topic(name)[1])
            for name, index in forgotten
        ]
        request = fetch.FetchRequest(
            replica_id, wait_ms, bytes_min, bytes_max, isolation_level, *session, asked, gone, ""
        )
        return fetch.encode_request(version, request)

    return Ask(ApiKey.FETCH, version, body)


def fetch_cases(versions: Sequence[int]) -> Iterator[Case]:
    for version in versions:
        at = f"fetch v{version}"

        def one(name: str, *entries: tuple[str, int, int], v: int = version, **given: Any) -> Case:
            return case(f"fetch v{v} {name}", fetch_ask(v, *entries, **given))

        yield one("from the start", ("t", 0, 0))
        yield one("from the middle", ("t", 0, 2))
        yield one("at the end", ("t", 0, 5))
        yield one("beyond the end", ("t", 0, 6))
        yield one("far beyond", ("t", 0, INT64_MAX))
        yield one("negative offset", ("t", 0, -1))
        yield one("very negative offset", ("t", 0, -(1 << 62)))
        yield one("empty partition", ("empty", 0, 0))
        yield one("beyond an empty partition", ("empty", 0, 1))
        yield one("unknown topic", ("absent", 0, 0))
        yield one("unknown partition", ("t", 99, 0))
        yield one("negative partition", ("t", -1, 0))
        yield one("good and bad", ("t", 0, 0), ("t", 9, 0), ("t", 1, 7), ("absent", 0, 0))
        yield one("partition twice", ("t", 0, 0), ("t", 0, 2))
        yield one("nothing")
        yield one("isolation 1", ("t", 0, 0), isolation_level=1)
        yield one("isolation 7", ("t", 0, 0), isolation_level=7)
        yield one("isolation -1", ("t", 0, 0), isolation_level=-1)
        yield one("no bytes", ("t", 0, 0), bytes_max=0)
        yield one("negative bytes", ("t", 0, 0), bytes_max=-1)
        yield one("no bytes of a partition", ("t", 0, 0), partition_bytes_max=0)
        yield one("negative bytes of a partition", ("t", 0, 0), partition_bytes_max=-1)
        yield one("more bytes than there are", ("t", 0, 0), bytes_min=1 << 20, wait_ms=10)
        yield one("negative wait", ("t", 0, 5), bytes_min=1, wait_ms=-1)
        yield one("replica 5", ("t", 0, 0), replica_id=5)
        yield one("replica -2", ("t", 0, 0), replica_id=-2)
        if version >= 9:
            yield one("epoch to come", ("t", 0, 0), epoch=77)
            yield one("epoch -2", ("t", 0, 0), epoch=-2)
        if version >= 12:
            yield one("last epoch to come", ("t", 0, 3), last_epoch=77)
            yield one("last epoch negative", ("t", 0, 3), last_epoch=-2)
        if version >= 7:
            yield one("forgets without a session", ("t", 0, 0), forgotten=[("t", 1)])
            yield one("unknown session", ("t", 0, 0), session=(12_345, 1))
            yield one("session id with epoch 0", ("t", 0, 0), session=(12_345, 0))
            yield one("session id with epoch -1", ("t", 0, 0), session=(12_345, -1))
            yield one("epoch without a session", ("t", 0, 0), session=(0, 1))
            yield one("negative epoch", ("t", 0, 0), session=(0, -2))
            yield one("new session", ("t", 0, 0), ("t", 1, 0), session=(0, 0))
            yield one("new session of nothing", session=(0, 0))
            yield one("new session of bad ones", ("absent", 0, 0), ("t", 9, 0), session=(0, 0))
            yield case(f"{at} session ended twice", fetch_ask(version, session=(5, -1)))


# -- ListOffsets, OffsetForLeaderEpoch --------------------------------------------------------


def list_offsets_ask(version: int, *entries: tuple[str, int, int, int], **given: Any) -> Ask:
    """Entries are (topic, partition, timestamp, leader epoch)."""
    return Ask(
        ApiKey.LIST_OFFSETS,
        version,
        {
            "replica_id": -1,
            "isolation_level": 0,
            "timeout": 1_000,
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": index,
                            "timestamp": timestamp,
                            "current_leader_epoch": epoch,
                        }
                    ],
                }
                for topic, index, timestamp, epoch in entries
            ],
            **given,
        },
    )


def list_offsets_cases() -> Iterator[Case]:
    for version in range(1, 12):
        at = f"list offsets v{version}"
        for timestamp in (*range(-9, 1), 1_001, 1_500, 99_999_999_999_999, INT64_MAX, -(1 << 63)):
            yield case(f"{at} at {timestamp}", list_offsets_ask(version, ("t", 0, timestamp, -1)))
        for timestamp in (-1, -2, -3, 0):
            yield case(
                f"{at} empty at {timestamp}", list_offsets_ask(version, ("empty", 0, timestamp, -1))
            )
        yield case(f"{at} unknown topic", list_offsets_ask(version, ("absent", 0, -1, -1)))
        yield case(f"{at} unknown partition", list_offsets_ask(version, ("t", 99, -1, -1)))
        yield case(f"{at} negative partition", list_offsets_ask(version, ("t", -1, -1, -1)))
        twice = (("t", 0, -1, -1), ("t", 0, -2, -1))
        yield case(f"{at} partition twice", list_offsets_ask(version, *twice))
        yield case(f"{at} nothing", list_offsets_ask(version))
        for level in (1, 7, -1):
            yield case(
                f"{at} isolation {level}",
                list_offsets_ask(version, ("t", 0, -1, -1), isolation_level=level),
            )
        for replica in (-2, 5):
            yield case(
                f"{at} replica {replica}",
                list_offsets_ask(version, ("t", 0, -1, -1), replica_id=replica),
            )
        if version >= 4:
            yield case(f"{at} epoch to come", list_offsets_ask(version, ("t", 0, -1, 77)))
            yield case(f"{at} epoch -2", list_offsets_ask(version, ("t", 0, -1, -2)))


def epoch_cases() -> Iterator[Case]:
    def ask(version: int, topic: str, index: int, current: int, epoch: int) -> Ask:
        entry = {"partition": index, "current_leader_epoch": current, "leader_epoch": epoch}
        topics = [{"topic": topic, "partitions": [entry]}]
        fields = {"replica_id": -1, "topics": topics}
        return Ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, fields)

    for version in range(2, 5):
        at = f"epochs v{version}"
        for name, given in {
            "this": ("t", 0, -1, 0),
            "to come": ("t", 0, -1, 1),
            "none": ("t", 0, -1, -1),
            "negative": ("t", 0, -1, -5),
            "of an empty partition": ("empty", 0, -1, 0),
            "leader to come": ("t", 0, 9, 0),
            "leader negative": ("t", 0, -7, 0),
            "unknown topic": ("absent", 0, -1, 0),
            "unknown partition": ("t", 9, -1, 0),
            "empty topic name": ("", 0, -1, 0),
        }.items():
            yield case(f"{at} {name}", ask(version, *given))
        nothing = {"replica_id": -1, "topics": []}
        yield case(f"{at} nothing", Ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, nothing))
