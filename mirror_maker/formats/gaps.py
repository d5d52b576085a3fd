"""The journal of gaps of one link: what was not copied, why, and where it is missing.

Topic: `heliograph-gaps.<link>.internal` on the target, one partition, compacted. Key and value are
JSON objects; both carry `"version": 1`.

    key    source_topic, partition, source_topic_id, target_topic_id, producer_epoch,
           source_from, nonce, kind
    value  link, target_topic, source_to, records_count, reason, detail, target_offset,
           noticed_at_ms, worker_id, minor_version, copied_count, target_to, source_next

`minor_version` counts the fields that readers of the same `version` may ignore. An absent one is 0;
then `kind` and the fields behind it are absent too. Version 1 has them.

Meaning, by `kind`:

- `lost` (the default): the source offsets [source_from, source_to) are not copied. `records_count`
  is how many copyable records they held, null if unknown. `source_to` is null if the gap has no end
  of its own: the topic was deleted, or its log was truncated, and the copy started over. Copies of
  records before the gap lie below `target_offset`, copies of later records at or above it.
- `copied`: nothing is lost. A worker was killed after it had copied records and before it had
  written where they are. When the next worker came, the source had lost `copied_count` of them.
  Every copy of the source offsets [source_from, source_to) lies at target offsets [target_offset,
  target_to). Copies of records that the source still had are not counted. The copied records were
  the first copyable ones there, except for those of earlier `lost` entries. `source_to` is null if
  the whole topic is gone. A `lost` entry may cover offsets of the same range: it is unknown which
  of them were copied before their records went.
- `foreign`: nothing is lost. Target offsets [target_offset, target_to) hold records that are no
  copies known to the map: others wrote them, or they are duplicated, altered or unexplained. They
  stay, and copying continues. `source_next` of the value is the source offset that came next when
  they were noticed. `source_from` and `source_to` are both -1 - `target_offset`. Versions that do
  not know `kind` take that for an empty gap of its own and ignore it.

`reason` is one of the mirror's troubles (`out_of_range`, `too_large`, ...), `source_lost`,
`source_deleted`, or an operator's order: `repair_recopy`, `repair_fresh`, `repair_skip`. `detail`
is a sentence. `producer_epoch` is that of the opening under which the flow was copied: an entry
holds under it alone.

A `lost` entry without `source_to` is an order too: the worker that copies the flow under that
`producer_epoch` opens the next one at `source_from`. With the reason `repair_fresh` it then deletes
everything below that opening's target offset from the copy (DeleteRecords).

Of several entries of one kind and opening at the same `source_from` (`foreign`: at the same
`target_offset`), the first in log order holds: two workers may have met the same gap. Of several
`copied` ones the largest holds, by `copied_count` and then `source_to`: it is the newest. An entry
without `source_to` and one with it do not exclude each other. The nonce keeps the entries of
different writers apart, so compaction cannot replace one by the other. Nothing beyond a gap is
copied before its entry was written and read back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from local_cluster.foreign_json import integer, string
from mirror_maker.formats.fields import (
    MapFormatError,
    check_range,
    optional_integer,
    versioned_object,
)
from mirror_maker.formats.records import FlowKey, flow_of

GAPS_VERSION: Final = 1
MINOR_VERSION: Final = 1
SOURCE_LOST_REASON: Final = "source_lost"
"""Reason of `copied` entries."""
REPAIR_RECOPY_REASON: Final = "repair_recopy"
REPAIR_FRESH_REASON: Final = "repair_fresh"
REPAIR_SKIP_REASON: Final = "repair_skip"
REPAIR_REASONS: Final = frozenset({REPAIR_RECOPY_REASON, REPAIR_FRESH_REASON, REPAIR_SKIP_REASON})
"""Reasons of entries that an operator ordered."""


class GapKind(StrEnum):
    """What an entry of the journal states."""

    LOST = "lost"
    """Source offsets are not copied."""
    COPIED = "copied"
    """Copies exist, but the source offset of each of them is unknown."""
    FOREIGN = "foreign"
    """The target has records that the link did not write."""


def gaps_topic_name(link: str) -> str:
    """Return the link's journal topic; MirrorMaker 2's pattern for internal topics excludes it."""
    return f"heliograph-gaps.{link}.internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """An entry of the journal, by default about source offsets that were not copied."""

    flow: FlowKey
    producer_epoch: int
    nonce: int
    link: str
    target_topic: str
    source_from: int
    """With FOREIGN, the source offset that came next, like `source_to`."""
    source_to: int | None
    records_count: int | None
    reason: str
    detail: str
    target_offset: int
    noticed_at_ms: int
    worker_id: str
    kind: GapKind = GapKind.LOST
    copied_count: int | None = None
    """With COPIED: how many records."""
    target_to: int | None = None
    """With COPIED and FOREIGN: the target offset behind the last of the records."""

    @property
    def place(self) -> tuple[FlowKey, int, GapKind, int, bool]:
        """Return the place; of several entries with the same place one holds."""
        begin = self.target_offset if self.kind is GapKind.FOREIGN else self.source_from
        return self.flow, self.producer_epoch, self.kind, begin, self.source_to is None

    @property
    def extent(self) -> tuple[int, int]:
        """Return the size of a `copied` entry. Of two at one place the larger was noted later."""
        return self.copied_count or 0, self.source_to or 0


def encode_gap(gap: Gap) -> tuple[bytes, bytes]:
    """Return key and value of an entry."""
    value = {
        "version": GAPS_VERSION,
        "link": gap.link,
        "target_topic": gap.target_topic,
        "source_to": gap.source_to,
        "records_count": gap.records_count,
        "reason": gap.reason,
        "detail": gap.detail,
        "target_offset": gap.target_offset,
        "noticed_at_ms": gap.noticed_at_ms,
        "worker_id": gap.worker_id,
    }
    if gap.kind is not GapKind.LOST:
        value |= {
            "minor_version": MINOR_VERSION,
            "copied_count": gap.copied_count,
            "target_to": gap.target_to,
        }
    if gap.kind is GapKind.FOREIGN:
        value |= {"source_to": _foreign_key(gap.target_offset), "source_next": gap.source_from}
    return encode_gap_key(gap), json.dumps(value).encode()


def encode_gap_key(gap: Gap) -> bytes:
    """Return the key; a null value under it deletes the entry."""
    key = {
        "version": GAPS_VERSION,
        "source_topic": gap.flow.source_topic,
        "partition": gap.flow.partition,
        "source_topic_id": str(gap.flow.source_topic_id),
        "target_topic_id": str(gap.flow.target_topic_id),
        "producer_epoch": gap.producer_epoch,
        "source_from": gap.source_from,
        "nonce": gap.nonce,
    }
    if gap.kind is GapKind.FOREIGN:
        key["source_from"] = _foreign_key(gap.target_offset)
    if gap.kind is not GapKind.LOST:
        key["kind"] = gap.kind.value
    return json.dumps(key).encode()


def decode_gap(key: bytes, value: bytes) -> Gap:
    """Read an entry. Raises MapFormatError."""
    try:
        k = versioned_object(key, "journal", GAPS_VERSION)
        v = versioned_object(value, "journal", GAPS_VERSION)
        return _decode(k, v)
    except (KeyError, TypeError, ValueError) as error:
        raise MapFormatError(f"not a journal entry: {error}") from error


def _decode(k: dict[str, Any], v: dict[str, Any]) -> Gap:
    """Raises KeyError, TypeError, ValueError."""
    kind = GapKind(string(k.get("kind", GapKind.LOST.value)))
    target_offset = integer(v["target_offset"], 0)
    source_from, source_to = integer(k["source_from"]), optional_integer(v["source_to"])
    if kind is GapKind.FOREIGN:
        if (source_from, source_to) != (_foreign_key(target_offset),) * 2:
            raise MapFormatError("a foreign entry whose key is of another target offset")
        source_from = source_to = integer(v["source_next"], 0)
    records_count = optional_integer(v["records_count"], 0)
    gap = Gap(
        flow=flow_of(k),
        producer_epoch=integer(k["producer_epoch"]),
        nonce=integer(k["nonce"]),
        link=string(v["link"]),
        target_topic=string(v["target_topic"]),
        source_from=source_from,
        source_to=source_to,
        records_count=records_count,
        reason=string(v["reason"]),
        detail=string(v["detail"]),
        target_offset=target_offset,
        noticed_at_ms=integer(v["noticed_at_ms"]),
        worker_id=string(v["worker_id"]),
        kind=kind,
        copied_count=integer(v["copied_count"], 0) if kind is GapKind.COPIED else None,
        target_to=None if kind is GapKind.LOST else integer(v["target_to"], 0),
    )
    check_range(gap.target_offset, gap.target_to)
    check_range(source_from, source_to)
    if kind is GapKind.LOST and source_to is not None and records_count is not None:
        check_range(source_from + records_count, source_to)
    return gap


def _foreign_key(target_offset: int) -> int:
    """Return what stands for the source offset of a FOREIGN entry; no other entry has it."""
    return -1 - target_offset


def gap_as_json(gap: Gap) -> dict[str, Any]:
    """Return a gap as `/status` and `heliograph gaps` show it."""
    return {
        "kind": gap.kind.value,
        "topic": gap.flow.source_topic,
        "partition": gap.flow.partition,
        "source_from": gap.source_from,
        "source_to": gap.source_to,
        "records_count": gap.records_count,
        "reason": gap.reason,
        "detail": gap.detail,
        "target_topic": gap.target_topic,
        "target_offset": gap.target_offset,
        "target_to": gap.target_to,
        "copied_count": gap.copied_count,
        "noticed_at_ms": gap.noticed_at_ms,
    }


class GapJournal:
    """A journal topic, replayed: feed every record in log order, query at any time."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], dict[bytes, Gap]] = {}
        """By source partition, then by key, in log order."""
        self._ordered: set[tuple[str, int]] = set()

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Take in the next record of the topic; a null value deletes. Raises MapFormatError."""
        if key is None:
            raise MapFormatError("a record without a key")
        if value is None:
            for entries in self._entries.values():
                entries.pop(key, None)
            return
        gap = decode_gap(key, value)
        # A repeated entry keeps its place, because of equals the first in log order holds.
        at = gap.flow.source_topic, gap.flow.partition
        self._entries.setdefault(at, {}).setdefault(key, gap)
        if gap.reason in REPAIR_REASONS:
            self._ordered.add(at)

    def take_ordered(self) -> set[tuple[str, int]]:
        """Return the source partitions with an operator's order since the last call."""
        taken, self._ordered = self._ordered, set()
        return taken

    def partition_entries(self, source_topic: str, partition: int) -> list[Gap]:
        """Return the entries of a source partition that hold, sorted by target offset."""
        holding: dict[tuple[FlowKey, int, GapKind, int, bool], Gap] = {}
        for gap in self._entries.get((source_topic, partition), {}).values():
            known = holding.setdefault(gap.place, gap)
            if gap.kind is GapKind.COPIED and gap.extent > known.extent:
                holding[gap.place] = gap
        return sorted(holding.values(), key=lambda gap: (gap.target_offset, gap.source_from))

    def partition_gaps(self, source_topic: str, partition: int) -> list[Gap]:
        """Return what of a source partition was not copied, sorted by place on the target."""
        entries = self.partition_entries(source_topic, partition)
        return [entry for entry in entries if entry.kind is GapKind.LOST]

    def entries(self, flow: FlowKey, producer_epoch: int, kind: GapKind) -> list[Gap]:
        """Return the entries that hold, of one kind and opening of a flow."""
        return [
            entry
            for entry in self.partition_entries(flow.source_topic, flow.partition)
            if (entry.flow, entry.producer_epoch, entry.kind) == (flow, producer_epoch, kind)
        ]

    def gaps(self, flow: FlowKey, producer_epoch: int) -> list[Gap]:
        """Return what was not copied under an opening of a flow."""
        return self.entries(flow, producer_epoch, GapKind.LOST)

    def all_entries(self) -> Iterator[Gap]:
        """Yield every entry that holds, by source partition."""
        for at in sorted(self._entries):
            yield from self.partition_entries(*at)
