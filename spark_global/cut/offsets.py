"""The cut of a read as of a time T: per partition, the aggregate's offsets that hold it. Pure.

The cut of a partition is its source offsets [start, end): `end` is where its source ended at T, and
`start` where it ended at an earlier time, or 0. Both are samples that the mirror has published, see
`mirror_maker/formats/completeness/cut.py`. The offset map translates them exactly. So the cut has
the same rows whenever it is read, or it is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from local_cluster.client.model import TopicPartition
from mirror_maker.formats.completeness.cut import (
    READ_BACK_MS,
    SAMPLE_AGE_MS_MAX,
    CutRefusal,
    PartitionCut,
)

NAMED_MAX: Final = 5
"""Partitions that an error names."""

_WORDS: Final[Mapping[CutRefusal, str]] = {
    CutRefusal.NO_SAMPLE: (
        f"its source gave no sample in the {SAMPLE_AGE_MS_MAX // 1000} s before this time"
    ),
    CutRefusal.NOT_SETTLED: "its source has given no sample after this time yet",
    CutRefusal.EPOCH: "a new leader epoch has withdrawn the sample of this time",
    CutRefusal.TRUNCATED: "its source was truncated by a new leader epoch",
    CutRefusal.OLD_TOPIC_ID: "its source topic was deleted and re-created: an old topic id",
    CutRefusal.STARTED_OVER: "its copy was started over",
    CutRefusal.NOT_LISTED: "its mirror has not listed the partitions of its source since",
}


class CutRefusedError(ValueError):
    """A partition has no cut at T, or its log does not hold it any more."""


class CutKey(NamedTuple):
    """One partition of the aggregate, as far as one link fills it."""

    link: str
    aggregate_topic: str
    partition: int

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.aggregate_topic, self.partition)


class CutOffsets(NamedTuple):
    """Offsets [start, end) of the aggregate."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutPartition:
    """The cut of one partition."""

    key: CutKey
    datacenter: str | None
    source_topic: str
    sampled_ms: int
    """T, rounded down to a sample."""
    source_end: int
    is_proved: bool
    """Whether only a truncation can still withdraw the sample."""
    offsets: CutOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A partition without a cut."""

    datacenter: str | None
    source_topic: str
    partition: int
    why: str

    def __str__(self) -> str:
        return f"{self.datacenter} {self.source_topic}-{self.partition}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The cut of a read."""

    as_of_ms: int
    partitions: tuple[CutPartition, ...]
    left_out: tuple[LeftOut, ...]

    def offsets(self) -> dict[CutKey, CutOffsets]:
        """Return the offsets to read."""
        return {each.key: each.offsets for each in self.partitions}

    def check_whole(self) -> None:
        """Raise CutRefusedError if a partition is left out."""
        if self.left_out:
            named = "; ".join(map(str, self.left_out[:NAMED_MAX]))
            more = len(self.left_out) - NAMED_MAX
            raise CutRefusedError(
                f"no answer as of {time_text(self.as_of_ms)}: {named}"
                + (f"; {more} more partitions" if more > 0 else "")
                + "; allow_missing leaves such partitions out"
            )


def why_refused(cut: PartitionCut) -> str:
    """Return why a partition has no sample at T, in words."""
    assert cut.refusal is not None, cut
    why = _WORDS[cut.refusal]
    if cut.earlier is not None:
        why += f"; the sample before is of {time_text(cut.earlier.sampled_ms)}"
    return why


def why_unknown(topic: str | None) -> str:
    """Return why nothing is known of a partition; `topic` has the samples of its link, if any."""
    if topic is None:
        return "no link copies it, so no mirror publishes where its source ended"
    return f"{topic} has nothing of it since {READ_BACK_MS // 60_000} minutes before this time"


def time_text(time_ms: int) -> str:
    """Return a time as ISO 8601, in UTC, with milliseconds."""
    found = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return found.replace("+00:00", "Z")


def encode_offsets(offsets: Mapping[CutKey, CutOffsets]) -> str:
    """Return offsets as the text of an option."""
    return json.dumps([[*key, *found] for key, found in sorted(offsets.items())])


def decode_offsets(text: str) -> dict[CutKey, CutOffsets]:
    """Return offsets from the text of an option. Raises ValueError."""
    try:
        return {
            CutKey(str(link), str(topic), int(partition)): CutOffsets(int(start), int(end))
            for link, topic, partition, start, end in json.loads(text)
        }
    except TypeError as error:
        raise ValueError(f"{text!r} is no list of partitions and offsets") from error


def describe(cut: Cut) -> list[str]:
    """Return what the rows of a cut are, one line per datacenter and one per missing partition."""
    lines = [f"as of {time_text(cut.as_of_ms)}:"]
    by_origin: dict[tuple[str, str], list[CutPartition]] = {}
    for each in cut.partitions:
        by_origin.setdefault((str(each.datacenter), each.source_topic), []).append(each)
    for (datacenter, topic), found in sorted(by_origin.items()):
        lines.append(f"  {datacenter} {topic}: {_samples(found)}")
    return lines + [f"  left out: {each}" for each in cut.left_out]


def cut_document(cut: Cut) -> dict[str, object]:
    """Return a cut as JSON."""
    return {
        "as_of_ms": cut.as_of_ms,
        "partitions": [
            {
                "datacenter": each.datacenter,
                "topic": each.source_topic,
                "partition": each.key.partition,
                "sampled_ms": each.sampled_ms,
                "source_end": each.source_end,
                "is_proved": each.is_proved,
            }
            for each in cut.partitions
        ],
        "left_out": [
            {
                "datacenter": each.datacenter,
                "topic": each.source_topic,
                "partition": each.partition,
                "reason": each.why,
            }
            for each in cut.left_out
        ],
    }


def united(cuts: Sequence[Cut], as_of_ms: int) -> Cut:
    """Return the cuts of several topics as one."""
    return Cut(
        as_of_ms=as_of_ms,
        partitions=tuple(each for cut in cuts for each in cut.partitions),
        left_out=tuple(each for cut in cuts for each in cut.left_out),
    )


def _samples(found: Sequence[CutPartition]) -> str:
    times = [each.sampled_ms for each in found]
    least, last = time_text(min(times)), time_text(max(times))
    in_doubt = sum(not each.is_proved for each in found)
    return (
        f"{len(found)} partition{'s' if len(found) > 1 else ''}, sampled at {least}"
        + (f" to {last}" if last != least else "")
        + (f"; a new leader epoch may still withdraw {in_doubt}" if in_doubt else "")
    )
