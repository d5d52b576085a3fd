"""Writes `registry_values.json`: values as Confluent's serializers write them.

In an environment with `pip install "confluent-kafka[avro,json,protobuf]==2.16.1"`:

    python tests/golden/generate/registry_values.py tests/golden/registry_values.json

The client's mock registry gives the ids; the test reads them from the bytes.
"""

import base64
import datetime
import decimal
import json
import sys
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.timestamp_pb2 import Timestamp

REGISTRY = SchemaRegistryClient.new_client({"url": "mock://golden"})
LEFT = datetime.datetime(2013, 1, 1, 5, 17, 0, 250_000, tzinfo=datetime.UTC)
AVRO = {
    "type": "record",
    "name": "Flight",
    "namespace": "nyc",
    "fields": [
        {"name": "flight", "type": "int"},
        {"name": "dest", "type": ["null", "string"], "default": None},
        {"name": "delay", "type": ["null", "double"], "default": None},
        {"name": "left", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "fare",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2},
        },
        {
            "name": "class",
            "type": {"type": "enum", "name": "Class", "symbols": ["ECONOMY", "FIRST"]},
        },
        {"name": "stops", "type": {"type": "array", "items": "string"}},
        {"name": "seats", "type": {"type": "map", "values": "int"}},
        {"name": "tail", "type": {"type": "fixed", "name": "Tail", "size": 3}},
    ],
}
FULL = {
    "flight": 1545,
    "dest": "IAH",
    "delay": 2.5,
    "left": LEFT,
    "day": datetime.date(2013, 1, 1),
    "fare": decimal.Decimal("199.99"),
    "class": "FIRST",
    "stops": ["BNA", "DFW"],
    "seats": {"12A": 1},
    "tail": b"\x00N1",
}
EMPTY = {
    **FULL,
    "dest": None,
    "delay": None,
    "stops": [],
    "seats": {},
    "fare": decimal.Decimal("-0.01"),
    "class": "ECONOMY",
}
JSON = {
    "title": "Flight",
    "type": "object",
    "properties": {
        "flight": {"type": "integer"},
        "dest": {"type": ["string", "null"]},
        "delay": {"type": "number"},
    },
}


def context(topic: str) -> Any:
    return SerializationContext(topic, MessageField.VALUE)


def add(
    message: Any,
    name: str,
    number: int,
    kind: Any,
    label: Any = Field.LABEL_OPTIONAL,
    type_name: str | None = None,
    optional: bool = False,
) -> None:
    field = message.field.add(name=name, number=number, type=kind, label=label)
    if type_name is not None:
        field.type_name = type_name
    if optional:
        message.oneof_decl.add(name="_" + name)
        field.oneof_index = len(message.oneof_decl) - 1
        field.proto3_optional = True


def flight_file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="flight.proto",
        package="nyc",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
    )
    flight = file.message_type.add(name="Flight")
    add(flight, "flight", 1, Field.TYPE_INT32)
    add(flight, "dest", 2, Field.TYPE_STRING, optional=True)
    add(flight, "delay", 3, Field.TYPE_DOUBLE)
    add(flight, "left", 4, Field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp")
    add(flight, "stops", 5, Field.TYPE_STRING, Field.LABEL_REPEATED)
    add(flight, "seats", 6, Field.TYPE_MESSAGE, Field.LABEL_REPEATED, ".nyc.Flight.SeatsEntry")
    add(flight, "class", 7, Field.TYPE_ENUM, type_name=".nyc.Flight.Class")
    add(flight, "crew", 8, Field.TYPE_MESSAGE, Field.LABEL_REPEATED, ".nyc.Flight.Crew")
    add(flight, "miles", 9, Field.TYPE_UINT64)
    seats = flight.nested_type.add(name="SeatsEntry")
    seats.options.map_entry = True
    add(seats, "key", 1, Field.TYPE_STRING)
    add(seats, "value", 2, Field.TYPE_INT32)
    add(flight.nested_type.add(name="Crew"), "name", 1, Field.TYPE_STRING)
    cabin = flight.enum_type.add(name="Class")
    cabin.value.add(name="ECONOMY", number=0)
    cabin.value.add(name="FIRST", number=1)
    add(file.message_type.add(name="Airport"), "code", 1, Field.TYPE_STRING)
    return file


def messages(file: Any) -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(Timestamp.DESCRIPTOR.file.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    flight, crew, airport = (
        message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        for name in ("nyc.Flight", "nyc.Flight.Crew", "nyc.Airport")
    )
    full = flight(
        flight=1545, dest="IAH", delay=2.5, stops=["BNA", "DFW"], seats={"12A": 1}, miles=2**64 - 1
    )
    setattr(full, "class", 1)
    full.left.FromDatetime(LEFT.replace(tzinfo=None))
    full.crew.add(name="Ann")
    return {
        "full": full,
        "absent": flight(flight=7),
        "crew": crew(name="Ann"),
        "airport": airport(code="EWR"),
    }


def protobuf_value(message: Any) -> str:
    serializer = ProtobufSerializer(type(message), REGISTRY, {"use.deprecated.format": False})
    return str(serializer(message, context("protobuf")).hex())


def main(path: str) -> None:
    avro = AvroSerializer(REGISTRY, json.dumps(AVRO))
    text = JSONSerializer(json.dumps(JSON), REGISTRY)
    file = flight_file()
    document = {
        "avro": {
            "schema": AVRO,
            "values": [avro(each, context("avro")).hex() for each in (FULL, EMPTY)],
        },
        "json": {
            "schema": JSON,
            "values": [text({"flight": 1545, "dest": "IAH", "delay": 2.5}, context("json")).hex()],
        },
        "protobuf": {
            "descriptor": base64.b64encode(file.SerializeToString()).decode(),
            "values": {name: protobuf_value(each) for name, each in messages(file).items()},
        },
    }
    Path(path).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
