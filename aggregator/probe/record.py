"""The format of probe records. Pure.

    heliograph-probe/1 jfk-nyc 9f86d081884c7d65 17 1700000000123 5c3b2a19

The fields are the format version, the link, the run id of the prober and the sequence number. Then
come the time of sending in milliseconds, and the CRC-32C of everything before the last space, in
hexadecimal digits. Every version ends with the CRC, so a reader of another version recognizes an
intact record. The key is the link's name, there are no headers, and the timestamp is the time of
sending.
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
    """The fields of a probe record."""

    link: str
    run_id: str
    """Hexadecimal digits, which differ at each start of a prober."""
    sequence: int
    sent_at_ms: int
    """Unix time in milliseconds."""


class Arrived(NamedTuple):
    """A record that was read from a copy."""

    record: ProbeRecord | None
    """None if it cannot be decoded, or has another version."""
    is_intact: bool


def encode_probe_record(record: ProbeRecord) -> bytes:
    """Return the value of a record; its key is `link` as ASCII."""
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
    """Decode a record, and check that it is intact.

    `create_time_ms` is its timestamp; None if the topic replaces timestamps. An altered record is
    decoded if its fields can still be read.
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
