"""The link to which a record of a copy belongs, and the names of the copies."""

from __future__ import annotations

from dataclasses import replace

from aggregator.probe.link_probe import LinkProbe, link_probes, take_in
from aggregator.probe.record import ProbeRecord, encode_probe_record
from mirror_maker.formats.naming import TopicNames
from mirror_maker.formats.probe import MERGED_PROBE_COPY
from tests.unit.aggregator.fakes import settings_of


def merged_probes() -> dict[str, LinkProbe]:
    settings = settings_of("east", "west")
    links = tuple(
        replace(link, probe=True, names=TopicNames(merge=("orders",))) for link in settings.links
    )
    return link_probes(replace(settings, links=links), run_id="5eed", now_ms=0.0)


def prefixed_probes() -> dict[str, LinkProbe]:
    settings = settings_of("east", "west")
    links = tuple(replace(link, probe=True) for link in settings.links)
    return link_probes(replace(settings, links=links), run_id="5eed", now_ms=0.0)


def take(
    probes: dict[str, LinkProbe], offset: int, record: ProbeRecord, *, alter: bool = False
) -> dict[str, float]:
    value = encode_probe_record(record)
    latencies = take_in(
        probes.values(),
        offset,
        10.0,
        key=record.link.encode(),
        value=value[:-1] + b"!" if alter else value,
        headers=(),
        create_time_ms=record.sent_at_ms,
    )
    return dict(latencies)


def test_links_that_merge_share_a_copy_and_keep_their_records_apart() -> None:
    probes = merged_probes()
    east, west = probes["east-nyc"], probes["west-nyc"]
    assert (east.copy, west.copy) == (MERGED_PROBE_COPY, MERGED_PROBE_COPY)
    records = [probe.next_record(0.0, 1) for probe in (east, west, east)]
    assert [record.sequence for record in records] == [0, 0, 1]
    for offset, record in enumerate(records):
        assert take(probes, offset, record) == {record.link: 10.0}
    take(probes, 3, records[1])
    assert (east.ledger.received, west.ledger.received) == (2, 1)
    assert [probe.verdict(10.0).reason for probe in (east, west)] == [
        None,
        "1 record doubled (sequence number 0)",
    ]


def test_what_nobody_can_attribute_may_be_any_links() -> None:
    probes = merged_probes()
    for key in (b"east-nyc", b"who?"):
        offset = 0 if key == b"east-nyc" else 1
        take_in(probes.values(), offset, 0.0, key=key, value=b"?", headers=(), create_time_ms=None)
    counts = {
        name: sum(each.count for each in probe.ledger.faults.values())
        for name, probe in probes.items()
    }
    assert counts == {"east-nyc": 2, "west-nyc": 1}


def test_an_altered_run_id_is_an_alteration() -> None:
    probes = merged_probes()
    record = probes["east-nyc"].next_record(0.0, 1)._replace(run_id="5eee")
    take(probes, 0, record, alter=True)
    assert probes["east-nyc"].verdict(0.0).reason == "1 record altered"


def test_only_links_that_say_so_are_probed() -> None:
    settings = settings_of("east", "west")
    east, west = settings.links
    probes = link_probes(
        replace(settings, links=(replace(east, probe=True), west)), run_id="5eed", now_ms=0.0
    )
    assert list(probes) == ["east-nyc"]
    assert probes["east-nyc"].copy == "east.heliograph-probe.east-nyc.internal"


def test_a_link_that_stays_as_it_is_keeps_its_probe_and_a_changed_one_begins_another() -> None:
    settings = settings_of("east", "west")
    east, west = (replace(link, probe=True) for link in settings.links)
    settings = replace(settings, links=(east, west))
    before = link_probes(settings, run_id="1", now_ms=0.0)
    changed = replace(west, names=TopicNames(merge=("orders",)))
    settings = replace(settings, links=(east, changed))
    after = link_probes(settings, run_id="2", now_ms=0.0, kept=before)
    assert after["east-nyc"] is before["east-nyc"]
    assert (after["west-nyc"].run_id, after["west-nyc"].copy) == ("2", MERGED_PROBE_COPY)
