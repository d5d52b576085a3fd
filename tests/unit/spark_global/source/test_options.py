"""Options: valid values, and the errors of invalid ones."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import pytest

from local_cluster.client.auth.security import PLAINTEXT, ClientSecurity, Secret
from local_cluster.client.model import TopicPartition
from spark_global.addresses import ClusterAddress, encode_security
from spark_global.links import MirrorLink, decode_links, encode_links
from spark_global.source.options import check_streamable, parse_options
from spark_global.source.pruning import Interval

LINK = MirrorLink(name="jfk-nyc", source="jfk", datacenter="JFK", bootstrap="127.0.0.1:1")
SECURITY = ClientSecurity(
    protocol="SASL_SSL",
    mechanism="SCRAM-SHA-512",
    username="analyst",
    password=Secret(file="/run/secrets/analyst"),
    ca_file="/etc/ca.pem",
)


def test_everything_given() -> None:
    options = parse_options(
        {
            "bootstrap": "127.0.0.1:1",
            "TABLE": "fingerprints",
            "links": encode_links([LINK]),
            "topics": "a, b",
            "partitions": "0,3",
            "source_topics": "c",
            "aggregateTopics": "x.c,y.c",
            "offset_first": "5",
            "timestamp_first": "2013-01-01T00:00:00+01:00",
        }
    )
    assert options.table == "fingerprints"
    assert options.links == (LINK,)
    assert options.topics == ("a", "b")
    assert options.bounds.partitions == {0, 3}
    assert options.bounds.source_topics == {"c"}
    assert options.bounds.aggregate_topics == {"x.c", "y.c"}
    assert options.bounds.offsets == Interval(5, None)
    assert options.bounds.timestamp_ms_first == 1_356_994_800_000


def test_a_timestamp_without_zone_is_utc() -> None:
    options = parse_options({"bootstrap": "h:1", "timestamp_first": "1970-01-01 00:00:01"})
    assert options.timestamp_first == 1_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "bootstrap is missing"),
        ({"bootstrap": "h:1", "topicz": "x"}, "unknown option topicz; did you mean topic"),
        ({"bootstrap": "h:1", "table": "rows"}, "option table: 'rows' is none of records"),
        ({"bootstrap": "h:1", "partitions": "one"}, "option partitions: "),
        ({"bootstrap": "h:1", "startingSourceOffsets": '{"c": {"0": 5}}'}, "is not JSON such as"),
        (
            {"bootstrap": "h:1", "startingSourceOffsets": '{"JFK": {"c": {"0": -1}}}'},
            "option starting_source_offsets: JFK c-0: -1 is no offset of a source",
        ),
        ({"bootstrap": "h:1", "startingGroups": "readers"}, "'readers' is not JSON such as"),
        ({"bootstrap": "h:1", "startingGroups": '{"JFK": 1}'}, "is not JSON such as"),
        (
            {"bootstrap": "h:1", "startingGroups": "{}", "startingOffsets": "latest"},
            "options starting_offsets and starting_groups: a stream begins by one of them",
        ),
        ({"bootstrap": "h:1", "columns": "key,valu"}, "no column valu; did you mean value"),
        ({"bootstrap": "h:1", "columns": "key", "table": "groups"}, "option columns: it is for"),
        ({"bootstrap": "h:1", "split_records_max": "0"}, "option split_records_max: 0"),
        ({"bootstrap": "h:1", "timestamp_first": "soon"}, "option timestamp_first: "),
        ({"bootstrap": "h:1", "links": "jfk"}, "option links: .*a JSON array"),
        ({"bootstrap": "h:1", "links": '[{"name": "x"}]'}, "option links: .*a JSON array"),
        ({"bootstrap": "h:1", "startingOffsets": "now"}, "starting_offsets: 'now' is neither"),
        ({"bootstrap": "h:1", "startingOffsets": "[1]"}, "option starting_offsets: "),
        ({"bootstrap": "h:1", "wait_for_map": "yes"}, "wait_for_map: 'yes' is neither true"),
        ({"bootstrap": "h:1", "path": "/x"}, "loads no path"),
        ({"bootstrap": "h:1", "security": "TLS"}, "option security: Invalid JSON"),
        ({"bootstrap": "h:1", "security": '{"protocol": "TLS"}'}, "option security: protocol: "),
        ({"bootstrap": "h:1", "security": '{"protocol": "SASL_SSL"}'}, "SASL_SSL needs `mechan"),
        (
            {"bootstrap": "h:1", "links": '[{"source": "a", "security": {"ca": "b"}}]'},
            "option links: ca: Unexpected keyword",
        ),
    ],
)
def test_wrong_options_say_what_is_wrong(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_options(options)


def test_names_in_the_way_of_spark_are_the_same_names() -> None:
    options = parse_options(
        {
            "bootstrap": "h:1",
            "maxRecordsPerTrigger": "10",
            "startingOffsets": '{"jfk.a": {"0": 5, "1": -2}}',
            "discoverLinks": "False",
        }
    )
    assert options.max_records_per_trigger == 10
    assert options.starting_offsets == {
        TopicPartition("jfk.a", 0): 5,
        TopicPartition("jfk.a", 1): -2,
    }
    assert not options.discover_links


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "offset_map"}, "option table: 'offset_map' is not a stream"),
        ({"timestamp_first": "1970-01-01"}, "option timestamp_first is for batch reads"),
    ],
)
def test_options_that_no_stream_can_have(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_streamable(parse_options({"bootstrap": "h:1", **options}))


def test_options_and_links_travel_to_other_processes() -> None:
    options = parse_options({"bootstrap": "h:1", "links": encode_links([LINK])})
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - our own bytes
    assert decode_links(encode_links([])) == ()


def test_how_clusters_are_talked_to_travels_too() -> None:
    links = (LINK, replace(LINK, name="ewr-nyc", security=SECURITY))
    options = parse_options(
        {
            "bootstrap": "h:1",
            "security": encode_security(SECURITY),
            "links": encode_links(links),
            "maps_bootstrap": "m:1",
        }
    )
    assert options.cluster == ClusterAddress("h:1", SECURITY)
    assert options.maps == ClusterAddress("m:1", PLAINTEXT)
    assert options.links == links
    assert replace(options, maps_bootstrap=None).maps == options.cluster
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - our own bytes
    assert json.loads(encode_security(PLAINTEXT)) == {}


@pytest.mark.parametrize("where", ["password", "key_password", "sasl.jaas.config"])
def test_a_secret_in_the_wrong_place_is_refused_and_not_repeated(where: str) -> None:
    given = json.loads(encode_security(SECURITY)) | {where: "hunter2"}
    link = {"source": "jfk", "datacenter": "JFK", "security": given}
    for option in ({"security": json.dumps(given)}, {"links": json.dumps([link])}):
        with pytest.raises(ValueError, match=where) as caught:
            parse_options({"bootstrap": "h:1", **option})
        assert "hunter2" not in str(caught.value)
