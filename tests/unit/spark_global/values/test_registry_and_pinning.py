"""A schema registry over HTTP, and schema files that are written once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local_cluster.client.auth.security import Secret
from spark_global.values import registry as registries
from spark_global.values.declaring import Decoding, PartDecoding, Registry, TopicDecoding
from spark_global.values.not_decodable import NotDecodable, SchemaFileError
from spark_global.values.pinning import pin_topic
from spark_global.values.registry import RegistryError, fetch_schema
from tests.support.schema_registry import running_registry
from tests.unit.spark_global.values.test_record_decoder import AVRO, DESCRIPTOR

AVRO_SCHEMA = {"schema": AVRO}
PROTOBUF_SCHEMA = {"schemaType": "PROTOBUF", "schema": DESCRIPTOR}
CITY = {"schema": '{"type": "record", "name": "City", "fields": [{"name": "x", "type": "int"}]}'}
TRIP = {
    "schema": '{"type": "record", "name": "Trip", "fields": [{"name": "to", "type": "City"}]}',
    "references": [{"name": "City", "subject": "city", "version": 1}],
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "RETRY_WAIT_MS", 1)
    monkeypatch.setattr(registries, "RETRY_WAIT_MS_MAX", 2)


def test_a_schema_is_fetched_once_with_what_it_refers_to() -> None:
    with running_registry({1: TRIP, 2: CITY}, {"city": 2}) as running:
        registry = Registry(url=running.url)
        for _ in range(3):
            assert fetch_schema(registry, 1, serialized=False).texts == (
                CITY["schema"],
                TRIP["schema"],
            )
        assert len(running.asked) == 2
        with pytest.raises(NotDecodable, match="schema id 3 is not in the registry http"):
            fetch_schema(registry, 3, serialized=False)


def test_a_registry_that_refuses_is_an_error_and_no_reject(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hush")
    with running_registry({}) as running:
        registry = Registry(url=running.url, username="ann", password=Secret(file=str(secret)))
        for status in (401, 404, 500):
            running.refuses_with = status
            with pytest.raises(RegistryError, match=f"status code {status}") as refused:
                fetch_schema(registry, 1, serialized=False)
            assert "hush" not in str(refused.value)
    with pytest.raises(RegistryError, match="does not answer"):
        fetch_schema(registry, 1, serialized=False)


def test_a_url_with_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="no user") as refused:
        Registry(url="http://ann:hush@registry")
    assert "hush" not in str(refused.value)


def declared(part: PartDecoding, **each: Registry) -> Decoding:
    return Decoding(topics={"flights": TopicDecoding(value=part)}, registries=each)


def test_a_json_schema_is_inferred_once(tmp_path: Path) -> None:
    file = tmp_path / "flights.json"
    decoding = declared(PartDecoding(format="json", schema=str(file)))
    with pytest.raises(SchemaFileError, match=r"flights\.json of flights, value: there is no JSON"):
        pin_topic(decoding, "flights", lambda _: [b"no"])
    assert not file.exists()
    pinned = pin_topic(decoding, "flights", lambda _: [b'{"id": 1}', b"no"])
    assert json.loads(pinned.parts["value"].schema)["properties"] == {"id": {"type": "integer"}}
    again = pin_topic(decoding, "flights", lambda _: [b'{"other": 1}'])
    assert again == pinned
    assert [each.name for each in tmp_path.iterdir()] == ["flights.json"]


def test_schemas_come_from_the_registry_once(tmp_path: Path) -> None:
    schemas = {1: AVRO_SCHEMA, 2: PROTOBUF_SCHEMA, 3: TRIP, 4: CITY}
    with running_registry(schemas, {"flights-value": 1, "city": 4}) as running:
        ewr = Registry(url=running.url)
        part = PartDecoding(format="avro", schema=str(tmp_path / "flights.avsc"))
        pinned = pin_topic(declared(part, ewr=ewr), "flights", lambda _: [])
        assert json.loads(pinned.parts["value"].schema) == json.loads(AVRO)
        asked = len(running.asked)
        assert pin_topic(declared(part, ewr=ewr), "flights", lambda _: []) == pinned
        assert len(running.asked) == asked
        wrong = PartDecoding(format="protobuf", schema=str(tmp_path / "flights.desc"))
        with pytest.raises(SchemaFileError, match="flights-value is AVRO and not PROTOBUF"):
            pin_topic(declared(wrong, ewr=ewr), "flights", lambda _: [])
    with running_registry(schemas, {"flights-value": 2}) as running:
        lga = Registry(url=running.url)
        pinned = pin_topic(declared(wrong, lga=lga), "flights", lambda _: [])
        assert pinned.parts["value"].is_framed
        assert all("format=serialized" in each for each in running.asked)
    assert (tmp_path / "flights.desc").read_bytes() == pinned.parts["value"].schema


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    missing = PartDecoding(format="avro", schema=str(tmp_path / "none.avsc"))
    with pytest.raises(SchemaFileError, match=r"none\.avsc of flights, value: the file does not"):
        pin_topic(declared(missing), "flights", lambda _: [])
    (tmp_path / "none.avsc").write_text('{"type": "record", "name": "R", "fields": []}')
    with pytest.raises(SchemaFileError, match="record R has no fields"):
        pin_topic(declared(missing), "flights", lambda _: [])
