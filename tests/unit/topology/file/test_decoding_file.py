"""The file of `--decoding`: absolute paths, and every problem with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from local_cluster.client.auth.security import Secret
from spark_global.values.declaring import PartDecoding, Registry
from topology.file.load import load_decoding
from topology.problems import InvalidTopology

GOOD = """\
registries:
  ewr:
    url: https://ewr:8081
    username: ann
    password: {file: secrets/ann}
    ca_file: /etc/ca.pem
  "*": {url: "http://others:8081"}
topics:
  flights:
    value: {format: avro, schema: flights.avsc}
    key: {format: json, schema: /schemas/key.json, framed: false}
"""
BAD = """\
registries:
  ewr: {url: "http://ann:hush@ewr"}
  jfk: {url: "http://jfk", username: ann, password: hush}
  lga: hush
topics:
  flights:
    value: {format: avr, schema: flights.avsc}
  weather:
    values: {format: json, schema: weather.json}
  planes: {}
"""


def test_paths_begin_at_the_file(tmp_path: Path) -> None:
    file = tmp_path / "decoding.yaml"
    file.write_text(GOOD)
    decoding = load_decoding(file)
    assert decoding.topics["flights"].parts == {
        "key": PartDecoding(format="json", schema="/schemas/key.json", framed=False),
        "value": PartDecoding(format="avro", schema=str(tmp_path / "flights.avsc")),
    }
    assert decoding.registries == {
        "ewr": Registry(
            url="https://ewr:8081",
            username="ann",
            password=Secret(file=str(tmp_path / "secrets/ann")),
            ca_file="/etc/ca.pem",
        ),
        "*": Registry(url="http://others:8081"),
    }


def test_every_problem_has_its_line_and_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "decoding.yaml"
    file.write_text(BAD)
    with pytest.raises(InvalidTopology) as invalid:
        load_decoding(file)
    lines = invalid.value.lines()
    text = "\n".join(lines)
    assert "hush" not in text
    for expected in (
        "decoding.registries.ewr",
        "use `username` and `password`",
        "decoding.registries.jfk.password",
        "decoding.registries.lga",
        "decoding.topics.flights.value.format: one of json, avro, protobuf",
        "did you mean 'avro'",
        "decoding.topics.weather.values: unknown key; expected one of key, value; did you mean",
        "name the format of `value`, of `key`, or of both",
    ):
        assert expected in text, text
    assert [line.split(":")[1] for line in lines] == ["2", "3", "4", "7", "9", "10"]
