"""Why one record has no copy, or where its copy is. Pure."""

from __future__ import annotations

from typing import Final

from topology.why.facts import Cause, Fate, LinkFacts, RecordFacts
from topology.why.link_causes import REMEDIES
from topology.why.topic_causes import explain_topic

LEFT_OUT: Final = (
    "it is a marker or belongs to an aborted transaction, `filter` leaves it out, compaction took"
    " it before it was copied, or `origin: local` leaves it out because a mirror wrote it"
)


def explain_record(link: LinkFacts, record: RecordFacts) -> list[Cause]:
    """Return the fate of a record of the source."""
    at = f"{record.topic}-{record.partition}, offset {record.offset}"
    doubt = []
    if record.finding is not None:
        doubt = [
            Cause("doubted", f"the audit found {record.finding}", "`heliograph audit --records`")
        ]
    if record.fate is Fate.COPIED:
        return [*doubt, _copied(link, record, at)]
    if record.gap is not None:
        reason = str(record.gap["reason"])
        return [
            *doubt,
            Cause(
                "in_gap",
                f"{at} is in a gap of link {link.name} ({reason}): {record.gap['detail']}",
                REMEDIES.get(reason),
            ),
        ]
    source = link.source.topics.get(record.topic)
    part = None if source is None else source.partitions.get(record.partition)
    if source is not None and not source.error and part is None:
        count = len(source.partitions)
        return [Cause("unknown_partition", f"{record.topic} has {count} partitions")]
    if part is not None and part.end is not None and record.offset >= part.end:
        return [
            Cause(
                "not_written_yet",
                f"{at} does not exist: the partition ends at {part.end}, open transactions aside",
            )
        ]
    if record.fate is Fate.BEFORE_START:
        return [
            Cause(
                "before_start",
                f"link {link.name} copies {record.topic}-{record.partition} from offset"
                f" {record.starts_at} on (`start: {link.settings.start}`)",
                "its start is decided once per partition; `mirror repair --how fresh` starts over",
            )
        ]
    if record.fate is Fate.LEFT_OUT:
        return [*doubt, Cause("left_out", f"{at} was not copied: {LEFT_OUT}", is_fault=False)]
    if record.fate is Fate.TRIMMED:
        what = f"{at}: {link.target.name} no longer has the copies of that time"
        return [Cause("copy_deleted", what, "lengthen the retention of the copy")]
    if record.fate is Fate.UNKNOWN:
        return [*doubt, Cause("unknown", f"{at}: the offset map is incomplete there")]
    if part is not None and part.start is not None and record.offset < part.start:
        return [
            Cause(
                "deleted_at_source",
                f"{at} was deleted at {link.source.name} before it was copied: the partition begins"
                f" at {part.start}",
                REMEDIES["out_of_range"],
            )
        ]
    causes = [cause for cause in explain_topic(link, record.topic) if cause.is_fault]
    if causes:
        return causes
    behind = "" if record.mapped_to is None else f": copied up to {record.mapped_to}"
    return [
        Cause(
            "pending", f"{at} is not copied yet{behind}", "wait; `heliograph link list` has the lag"
        )
    ]


def _copied(link: LinkFacts, record: RecordFacts, at: str) -> Cause:
    place = f"{record.target_topic}-{record.partition}, offset {record.target_offset}"
    copy = link.target.topics.get(record.target_topic or "")
    part = None if copy is None else copy.partitions.get(record.partition)
    start = None if part is None else part.start
    if start is not None and record.target_offset is not None and record.target_offset < start:
        return Cause(
            "copy_deleted",
            f"{at} was copied to {place}; {link.target.name} has deleted it since: the copy begins"
            f" at {start}",
            "lengthen the retention of the copy",
        )
    return Cause("copied", f"{at} was copied to {place} of {link.target.name}", is_fault=False)
