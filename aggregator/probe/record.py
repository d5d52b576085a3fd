"""The record that probes a link, as bytes. Pure.

    heliograph-probe/1 jfk-nyc 9f86d081884c7d65 17 1700000000123 5c3b2a19

are the format version, the link, the run of the prober, the sequence number, the time of sending in
milliseconds, and the CRC-32C of everything before the last space in hexadecimal digits. Every
version has the CRC at its end, so a reader of another version knows an intact record. The key is
the link's name, there are no headers, and the timestamp is the time of sending.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

FORMAT_VERSION: Final = 1
_MAGIC: Final = b"heliograph-probe/"
_SEALED: Final = re.compile(rb"(?P<text>heliograph-probe/[0-9]+ .*) (?P<crc>[0-9a-f]{8})", re.ASCII)
_FIELDS: Final = re.compile(
    rb"[^ ]+ (?P<link>[a-zA-Z0-9._\-]+) (?P<run_id>[0-9a-f]+) (?P<sequence>[0-9]{1,18}) "
    rb"(?P<sent_at_ms>[0-9]{1,18}) [^ ]*",
    re.ASCII,
)


class ProbeRecord(NamedTuple):
    """What a probe record says."""

    link: str
    run_id: str
    """Hexadecimal digits; another one for each start of a prober."""
    sequence: int
    sent_at_ms: int
    """Unix time."""


class Arrived(NamedTuple):
    """What was read from a copy."""

    record: ProbeRecord | None
    """None where it does not tell, and where it is of another version."""
    is_intact: bool


def encode_probe_record(record: ProbeRecord) -> bytes:
    """The value of a record; its key is `link` as ASCII."""
    text = (
        f"{_MAGIC.decode()}{FORMAT_VERSION} {record.link} {record.run_id} {record.sequence}"
        f" {record.sent_at_ms}"
    ).encode()
    return b"%s %08x" % (text, crc32c(text))


def decode_probe_record(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes]],
    create_time_ms: int | None,
) -> Arrived:
    """Read a record back, and compare it with what was sent.

    `create_time_ms` is its timestamp; None where the topic replaces timestamps. An altered record
    tells whose it is if its fields can still be read.
    """
    sealed = _SEALED.fullmatch(value or b"")
    is_sealed = sealed is not None and int(sealed["crc"], 16) == crc32c(sealed["text"])
    is_ours = (value or b"").startswith(b"%s%d " % (_MAGIC, FORMAT_VERSION))
    if is_sealed and not is_ours:
        return Arrived(None, is_intact=True)
    fields = _FIELDS.fullmatch(value or b"")
    if fields is None:
        return Arrived(None, is_intact=False)
    record = ProbeRecord(
        fields["link"].decode(),
        fields["run_id"].decode(),
        int(fields["sequence"]),
        int(fields["sent_at_ms"]),
    )
    is_intact = (
        is_sealed
        and key == record.link.encode()
        and not headers
        and create_time_ms in (None, record.sent_at_ms)
    )
    return Arrived(record, is_intact)
