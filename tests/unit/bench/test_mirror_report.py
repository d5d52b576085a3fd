"""The table of the mirror's bench: verdicts, what is merged, and how MirrorMaker 2 is tuned."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench.bench_mirror import is_asked, works
from tests.bench.delaying_proxy import Accepting
from tests.bench.mirror_load import make_batches
from tests.bench.mirror_model import FIRST_RECORD_SECONDS, MIRRORS, MM2, MM2_TUNED
from tests.bench.mirrors import MM2_TUNING, Ends, Route, mm2_properties
from tests.bench.model import CPU_PER_GB, MB_PER_SECOND, OURS, Figures, Row, Sample, Side, Wanted
from tests.bench.report import Report
from tests.bench.table import lines_of

ROUTE = Route("s1", "t", Ends("near:1", "near:2"))


def report(*samples: tuple[str, Side, Figures], command: str = "bench") -> Report:
    rows = [row for row, _ in works()]
    made = [Sample(row, side, figures) for row, side, figures in samples]
    return Report("Mirrors", [command], {"cores": "2"}, {"repeats": "1"}, rows, made, MIRRORS)


def rate(value: float) -> Figures:
    return {MB_PER_SECOND: value}


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([150.0], [50.0], "yes"),
        ([140.0], [50.0], "no"),
        ([140.0, 149.0, 151.0], [50.0], "even"),
        ([], [50.0], "not measured"),
        ([150.0], [], "not measured"),
    ],
)
def test_a_rate_against_three_times_the_tuned_one(
    ours: list[float], theirs: list[float], expected: str
) -> None:
    samples = [
        Sample("row", side, rate(value))
        for side, values in ((OURS, ours), (MM2_TUNED, theirs))
        for value in values
    ]
    row = Row(name="row", title="Row", wanted={MB_PER_SECOND: [Wanted(3.0)]})
    (line,) = lines_of([row], samples, MIRRORS)
    assert line.verdicts == [expected]


def test_a_cost_and_an_absolute_bound() -> None:
    wanted = [Wanted(0.125), Wanted(0.1), Wanted(2.9, "absolute")]
    samples = [Sample("row", OURS, {CPU_PER_GB: 3.0}), Sample("row", MM2_TUNED, {CPU_PER_GB: 25.0})]
    row = Row(name="row", title="Row", wanted={CPU_PER_GB: wanted})
    (line,) = lines_of([row], samples, MIRRORS)
    assert (line.ratio, line.verdicts) == (0.12, ["yes", "no", "no"])


def test_an_earlier_run_keeps_what_was_not_measured_again() -> None:
    earlier = report(("near-16k", MM2, rate(10)), ("near-16k", OURS, rate(90)), command="one")
    later = report(("near-16k", OURS, rate(100)), ("far-16k", OURS, rate(70)), command="two")
    merged = later.added_to(json.loads(json.dumps(earlier.json())))
    assert merged.commands == ["one", "two"]
    assert {(each.row, each.side): each.figures for each in merged.samples} == {
        ("near-16k", MM2): rate(10),
        ("near-16k", OURS): rate(100),
        ("far-16k", OURS): rate(70),
    }


def test_the_table_has_every_row_that_was_measured_and_no_other() -> None:
    table = report(("start", OURS, {FIRST_RECORD_SECONDS: 0.7})).markdown()
    (line,) = [line for line in table.splitlines() if line.startswith("| Start")]
    assert "| 0.70 |" in line
    assert "| yes |" in line
    assert "Catch up" not in table


def test_mirror_maker_2_is_tuned_only_where_it_says_so() -> None:
    plain, tuned = mm2_properties(MM2, ROUTE), mm2_properties(MM2_TUNED, ROUTE)
    assert plain["s1->s1t.enabled"] == "true"
    added = {name: tuned[name] for name in tuned.keys() - plain.keys()}
    assert added == {
        "tasks.max": MM2_TUNING["tasks.max"],
        "s1t.producer.compression.type": "lz4",
        "s1t.producer.batch.size": "262144",
        "s1.consumer.max.poll.records": "5000",
    }


def test_mirror_maker_2_is_told_of_tls_on_both_sides() -> None:
    plain = mm2_properties(MM2, ROUTE)
    secured = mm2_properties(MM2, replace(ROUTE, ends=replace(ROUTE.ends, ca_file=Path("ca.pem"))))
    assert {name: secured[name] for name in secured.keys() - plain.keys()} == {
        f"{alias}.{name}": value
        for alias in ("s1", "s1t")
        for name, value in (
            ("security.protocol", "SSL"),
            ("ssl.truststore.type", "PEM"),
            ("ssl.truststore.location", "ca.pem"),
        )
    }


def test_rows_with_tls_are_only_measured_where_tls_is_asked_for() -> None:
    names = [row.name for row, _ in works()]

    def asked(*parts: str) -> list[str]:
        return [name for name in names if is_asked(name, parts)]

    kinds = ("256k", "16k", "single", "latency")
    assert asked() == names
    assert asked("near") == [f"near-{kind}" for kind in kinds]
    assert asked("tls") == [f"tls-{far}-{kind}" for far in ("near", "far") for kind in kinds]
    assert asked("start", "tls-far-16k") == ["start", "tls-far-16k"]


def test_batches_are_of_the_sizes_they_are_named_after() -> None:
    for kind, wanted in (("256k", 262_144), ("16k", 16_384)):
        for batch, records in make_batches(kind):  # type: ignore[arg-type]
            assert 0.8 * wanted < len(batch) < 1.2 * wanted
            assert records > 1
    assert {records for _, records in make_batches("single")} == {1}


async def test_the_proxy_passes_everything_on_in_order() -> None:
    sent = bytes(range(256)) * 4_000

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()

    loop = asyncio.get_running_loop()
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as behind:
        port = behind.sockets[0].getsockname()[1]
        proxy = await loop.create_server(lambda: Accepting(port, 0.002), "127.0.0.1", 0)
        async with proxy:
            reader, writer = await asyncio.open_connection(*proxy.sockets[0].getsockname()[:2])
            writer.write(sent)
            assert await reader.readexactly(len(sent)) == sent
            writer.close()
            await writer.wait_closed()
