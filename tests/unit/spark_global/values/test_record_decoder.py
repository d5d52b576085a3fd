"""Values of confluent-kafka's serializers decode, by the registry of their datacenter."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from spark_global.values.declaring import PinnedPart, Registry
from spark_global.values.fetched import Fetched
from spark_global.values.header import HEADER_BYTES, read_schema_id
from spark_global.values.not_decodable import NotDecodable, UnusableSchema
from spark_global.values.record_decoder import PartDecoder, part_decoder, part_shape

GOLDEN = json.loads((Path(__file__).parents[3] / "golden" / "registry_values.json").read_text())
AVRO = json.dumps(GOLDEN["avro"]["schema"])
AVRO_VALUES = [bytes.fromhex(each) for each in GOLDEN["avro"]["values"]]
PROTOBUF_VALUES = {name: bytes.fromhex(each) for name, each in GOLDEN["protobuf"]["values"].items()}
DESCRIPTOR = GOLDEN["protobuf"]["descriptor"]
DESCRIPTOR_SET = FileDescriptorSet(
    file=[FileDescriptorProto.FromString(base64.b64decode(DESCRIPTOR))]
).SerializeToString()
EWR, JFK = Registry(url="http://ewr"), Registry(url="http://jfk")
REGISTRIES = {"ewr": EWR, "jfk": JFK}
FULL = {
    "flight": 1545,
    "dest": "IAH",
    "delay": 2.5,
    "left": datetime(2013, 1, 1, 5, 17, 0, 250_000, tzinfo=UTC),
    "day": date(2013, 1, 1),
    "fare": Decimal("199.99"),
    "class": "FIRST",
    "stops": ["BNA", "DFW"],
    "seats": [("12A", 1)],
    "tail": b"\x00N1",
}
EMPTY = {
    **FULL,
    "dest": None,
    "delay": None,
    "stops": [],
    "seats": [],
    "fare": Decimal("-0.01"),
    "class": "ECONOMY",
}


class Fetching:
    """Registries without HTTP."""

    def __init__(self, schemas: dict[tuple[str, int], Fetched]) -> None:
        self._schemas = schemas
        self.asked: list[tuple[str, int]] = []

    def __call__(self, registry: Registry, schema_id: int) -> Fetched:
        at = (registry.url, schema_id)
        self.asked.append(at)
        if at not in self._schemas:
            raise NotDecodable(f"schema id {schema_id} is not in the registry {registry.url}")
        return self._schemas[at]


def avro(text: str) -> Fetched:
    return Fetched("AVRO", (("", text),))


def with_id(value: bytes, schema_id: int) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + value[HEADER_BYTES:]


def avro_part(schema: str = AVRO, *, is_framed: bool = True) -> PinnedPart:
    return PinnedPart(format="avro", schema=schema.encode(), is_framed=is_framed)


def protobuf_part(message: str | None = None, *, is_framed: bool = True) -> PinnedPart:
    return PinnedPart(
        format="protobuf", schema=DESCRIPTOR_SET, is_framed=is_framed, message=message
    )


def decode(
    decoder: PartDecoder, *records: tuple[str | None, bytes | None]
) -> tuple[list[Any], dict[int, str]]:
    datacenters: Sequence[str | None] = [each[0] for each in records]
    column, reasons = decoder.decode(datacenters, [each[1] for each in records])
    column.validate(full=True)
    return column.to_pylist(), reasons


def test_avro_values_of_another_implementation() -> None:
    fetching = Fetching({("http://ewr", read_schema_id(AVRO_VALUES[0])): avro(AVRO)})
    decoder = part_decoder(avro_part(), REGISTRIES, fetching)
    rows, reasons = decode(decoder, *[("ewr", each) for each in AVRO_VALUES], ("ewr", None))
    assert not reasons
    assert rows == [FULL, EMPTY, None]
    assert len(fetching.asked) == 1
    bare = part_decoder(avro_part(is_framed=False), {})
    assert decode(bare, *[(None, each[HEADER_BYTES:]) for each in AVRO_VALUES]) == (
        [FULL, EMPTY],
        {},
    )


def test_the_datacenter_of_a_record_picks_the_registry_of_its_id() -> None:
    """Id 7 is another schema in each registry, and both resolve to the pinned one."""
    new = json.loads(AVRO)
    new["fields"] = [
        {"name": "gate", "type": "string"},
        *(field for field in new["fields"] if field["name"] in ("flight", "dest")),
    ]
    pinned = json.loads(AVRO)
    pinned["fields"] = [
        *(field for field in pinned["fields"] if field["name"] in ("flight", "dest")),
        {"name": "gate", "type": ["null", "string"], "default": None},
    ]
    fetching = Fetching({("http://ewr", 7): avro(AVRO), ("http://jfk", 7): avro(json.dumps(new))})
    decoder = part_decoder(avro_part(json.dumps(pinned)), REGISTRIES, fetching)
    of_jfk = b"\x00\x00\x00\x00\x07\x04B7\x02\x00"
    rows, reasons = decode(
        decoder,
        ("ewr", with_id(AVRO_VALUES[0], 7)),
        ("jfk", of_jfk),
        ("ewr", of_jfk),
        ("jfk", with_id(of_jfk, 8)),
        ("lga", of_jfk),
        (None, of_jfk),
        ("jfk", of_jfk + b"!"),
        ("jfk", of_jfk),
    )
    jfk_row = {"flight": 1, "dest": None, "gate": "B7"}
    assert rows[:2] == [{"flight": 1545, "dest": "IAH", "gate": None}, jfk_row]
    assert rows[2:] == [None, None, None, None, None, jfk_row]
    assert reasons.keys() == {2, 3, 4, 5, 6}
    assert reasons[3] == "schema id 8 is not in the registry http://jfk"
    assert reasons[4] == "datacenter lga has no registry"
    assert reasons[5] == "datacenter unknown has no registry"
    # Also a schema that is not there is asked for once.
    assert sorted(fetching.asked) == [("http://ewr", 7), ("http://jfk", 7), ("http://jfk", 8)]


def test_a_value_that_ends_early_or_late_takes_no_other_value_with_it() -> None:
    decoder = part_decoder(avro_part(is_framed=False), {})
    full, empty = (each[HEADER_BYTES:] for each in AVRO_VALUES)
    values = [full, full[:-1], empty, full + b"\x00", b"", full]
    rows, reasons = decode(decoder, *[(None, each) for each in values])
    assert rows == [FULL, None, EMPTY, None, None, FULL]
    assert reasons.keys() == {1, 3, 4}


def test_what_a_registry_has_may_be_of_no_use() -> None:
    other = json.dumps(
        {"type": "record", "name": "Other", "fields": [{"name": "a", "type": "int"}]}
    )
    fetching = Fetching(
        {
            ("http://any", 1): Fetched("JSON", (("", "{}"),)),
            ("http://any", 2): avro("{"),
            ("http://any", 3): avro(other),
        }
    )
    decoder = part_decoder(avro_part(), {"*": Registry(url="http://any")}, fetching)
    values = [("lga", with_id(AVRO_VALUES[0], schema_id)) for schema_id in (1, 2, 3)]
    rows, reasons = decode(decoder, *values)
    assert rows == [None, None, None]
    assert reasons[0] == "its schema is JSON and not AVRO"
    assert reasons[1].startswith("schema id 2: no Avro schema")
    assert "does not" in reasons[2]


def test_protobuf_values_of_another_implementation() -> None:
    schema_id = read_schema_id(PROTOBUF_VALUES["full"])
    fetching = Fetching({("http://ewr", schema_id): Fetched("PROTOBUF", (("", DESCRIPTOR),))})
    decoder = part_decoder(protobuf_part(), REGISTRIES, fetching)
    broken = PROTOBUF_VALUES["full"][:-3]
    names = ("full", "absent", "crew", "airport")
    rows, reasons = decode(
        decoder, *[("ewr", PROTOBUF_VALUES[name]) for name in names], ("ewr", broken), ("ewr", None)
    )
    assert rows == [
        {
            "flight": 1545,
            "dest": "IAH",
            "delay": 2.5,
            "left": FULL["left"],
            "stops": ["BNA", "DFW"],
            "seats": [("12A", 1)],
            "class": "FIRST",
            "crew": [{"name": "Ann"}],
            "miles": Decimal(2**64 - 1),
        },
        {
            "flight": 7,
            "dest": None,
            "delay": 0.0,
            "left": None,
            "stops": [],
            "seats": [],
            "class": "ECONOMY",
            "crew": [],
            "miles": Decimal(0),
        },
        None,
        None,
        None,
        None,
    ]
    assert reasons == {
        2: "message nyc.Flight.Crew, expected nyc.Flight",
        3: "message nyc.Airport, expected nyc.Flight",
        4: "no message of its Protobuf schema",
    }
    of_crew = part_decoder(protobuf_part("nyc.Flight.Crew"), REGISTRIES, fetching)
    assert decode(of_crew, ("ewr", PROTOBUF_VALUES["crew"])) == ([{"name": "Ann"}], {})
    bare = part_decoder(protobuf_part("nyc.Airport", is_framed=False), {})
    assert decode(bare, (None, b"\x0a\x03EWR"), (None, b"\x0a")) == (
        [{"code": "EWR"}, None],
        {1: "no message of its Protobuf schema"},
    )


def test_json_values_of_another_implementation() -> None:
    schema = json.dumps(GOLDEN["json"]["schema"]).encode()
    decoder = part_decoder(PinnedPart(format="json", schema=schema, is_framed=True), {})
    value = bytes.fromhex(GOLDEN["json"]["values"][0])
    row = {"flight": 1545, "dest": "IAH", "delay": 2.5}
    assert decode(decoder, ("ewr", value), ("ewr", value[HEADER_BYTES:])) == ([row, row], {})


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([{"name": "a", "type": ["int", "string"]}], "field a: a union of several types"),
        ([{"name": "a", "type": "null"}], "field a: type null has no column"),
        ([{"name": "a", "type": ["null", "R"]}], "field a: type R contains itself"),
        ([], "record R has no fields"),
        ([{"name": "a", "type": {"type": "bytes", "logicalType": "decimal"}}], "without precision"),
        ([{"name": "a", "type": "text"}], "no Avro schema"),
    ],
)
def test_an_avro_schema_without_columns(fields: list[Any], why: str) -> None:
    with pytest.raises(UnusableSchema, match=why):
        part_shape(avro_part(json.dumps({"type": "record", "name": "R", "fields": fields})))


def test_a_protobuf_schema_without_columns() -> None:
    with pytest.raises(UnusableSchema, match=r"has no message nyc\.Plane"):
        part_shape(protobuf_part("nyc.Plane"))
    with pytest.raises(UnusableSchema, match="no Protobuf descriptor set"):
        part_shape(PinnedPart(format="protobuf", schema=b"syntax", is_framed=False))
