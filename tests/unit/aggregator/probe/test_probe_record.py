"""The bytes of a probe record, and the decoding of altered bytes."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from aggregator.probe.record import Arrived, ProbeRecord, decode_probe_record, encode_probe_record

RECORD = ProbeRecord("jfk-nyc", "9f86d081884c7d65", 17, 1_700_000_000_123)
VALUE = b"heliograph-probe/1 jfk-nyc 9f86d081884c7d65 17 1700000000123 69bb0160"


def read(value: bytes | None, key: bytes | None = b"jfk-nyc", **more: object) -> Arrived:
    given = {"headers": (), "create_time_ms": RECORD.sent_at_ms, **more}
    return decode_probe_record(key, value, **given)  # type: ignore[arg-type]


def test_the_layout() -> None:
    assert encode_probe_record(RECORD) == VALUE
    assert read(VALUE) == Arrived(RECORD, is_intact=True)
    assert read(VALUE, create_time_ms=None) == Arrived(RECORD, is_intact=True)


@pytest.mark.parametrize("at", range(len(VALUE)))
def test_every_changed_byte_is_noticed(at: int) -> None:
    changed = bytes(byte ^ (index == at) for index, byte in enumerate(VALUE))
    assert not read(changed).is_intact


@pytest.mark.parametrize("end", range(len(VALUE)))
def test_a_value_that_was_cut_is_noticed(end: int) -> None:
    assert not read(VALUE[:end]).is_intact


@pytest.mark.parametrize(
    "changed",
    [
        {"key": b"jfk"},
        {"key": None},
        {"headers": (("from", b"jfk"),)},
        {"create_time_ms": RECORD.sent_at_ms + 1},
    ],
)
def test_key_headers_and_timestamp_belong_to_the_record(changed: dict[str, object]) -> None:
    assert read(VALUE, **changed) == Arrived(RECORD, is_intact=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, b"", b"something else"])
def test_what_is_no_probe_record_tells_nothing(value: bytes | None) -> None:
    assert read(value) == Arrived(None, is_intact=False)


def test_an_altered_record_tells_whose_it_is() -> None:
    assert read(VALUE.replace(b" 17 ", b" 18 ")) == Arrived(
        RECORD._replace(sequence=18), is_intact=False
    )


def test_an_intact_record_of_another_version_is_nobodys_and_no_fault() -> None:
    text = b"heliograph-probe/2 whatever it holds"
    value = b"%s %08x" % (text, crc32c(text))
    assert read(value) == Arrived(None, is_intact=True)
    assert read(value[:-1] + b"!") == Arrived(None, is_intact=False)
